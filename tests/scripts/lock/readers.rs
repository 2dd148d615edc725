//! The turns of readers: all readers at the front of the queue are granted together.

use super::*;

vectors! { [thin inflated] [rwlock] {
    waiters_are_served_in_the_order_in_which_they_came
    a_try_passes_nobody_who_waits
    the_dead_between_readers_are_passed_over
    a_dead_writer_in_front_keeps_nobody_out
    a_crowd_of_readers_is_let_in_by_several_runs
    a_heartbeat_goes_on_where_the_caller_died
    a_reader_that_waits_is_let_in_when_its_owner_reads
    a_claim_that_has_ended_comes_back_counted_once
    an_upgrade_that_has_happened_is_told_whatever_was_taken_out
}}

async fn waiters_are_served_in_the_order_in_which_they_came(it: &Lock) -> Result<()> {
    it.hold(reader(A)).await?;
    for claim in [writer(B), reader(C), reader(D), writer(E)] {
        waiting(&it.acquire(claim).await?)?;
    }
    ensure!(waiting(&it.acquire(reader(C)).await?)? == 2);
    it.release(reader(A)).await?;
    let written = token(&it.heartbeat(&[B]).await?[0])?;
    it.release(B).await?;
    let read = it.heartbeat(&[reader(C), reader(D), writer(E)]).await?;
    ensure!(token(&read[0])? > written && read[0] == read[1] && read[2] == "WAITING 1");
    // The writer withdraws: the reader behind it joins the present readers.
    ensure!(waiting(&it.acquire(reader(A)).await?)? == 2);
    ensure!(it.release(E).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[reader(A)]).await?[0] == read[0]);
    Ok(())
}

async fn a_try_passes_nobody_who_waits(it: &Lock) -> Result<()> {
    it.hold(reader(A)).await?;
    ensure!(waiting(&it.acquire(B).await?)? == 1);
    for claim in [reader(C), writer(C)] {
        let reply = it.ask(claim, TRY).await?;
        ensure!(is_nearly(number(&reply, "BUSY", 1)?, HOUR), "{reply}");
    }
    ensure!(waiting(&it.acquire(reader(C)).await?)? == 2);
    Ok(())
}

async fn the_dead_between_readers_are_passed_over(it: &Lock) -> Result<()> {
    let readers = [B, C, D, E].map(reader);
    it.hold(A).await?;
    for claim in readers {
        waiting(&it.acquire(claim).await?)?;
    }
    it.dies(C).await?;
    it.dies(E).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.counts().await? == "0 0 2");
    let heartbeat = it.heartbeat(&readers).await?;
    token(&heartbeat[0])?;
    ensure!(
        heartbeat[0] == heartbeat[2] && heartbeat[1] == "GONE" && heartbeat[3] == "GONE",
        "{heartbeat:?}"
    );
    Ok(())
}

async fn a_dead_writer_in_front_keeps_nobody_out(it: &Lock) -> Result<()> {
    let read = it.hold(reader(A)).await?;
    ensure!(waiting(&it.acquire(B).await?)? == 1);
    ensure!(waiting(&it.acquire(reader(C)).await?)? == 2);
    it.dies(B).await?;
    ensure!(it.heartbeat(&[reader(C)]).await? == [format!("GRANTED {read}")]);
    Ok(())
}

const ALIVE: &str = "9000000000000:100000:7";

async fn a_crowd_of_readers_is_let_in_by_several_runs(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    it.inflate().await?;
    let crowd = crowd(60);
    it.line(crowd.iter().map(|id| reader(id)), ALIVE).await?;
    for (status, readers) in [("MORE", 24), ("MORE", 48), ("NOT_HELD 0", 60)] {
        ensure!(it.release(A).await? == status);
        ensure!(it.cardinality(&it.holders()).await? == readers);
        ensure!(it.counts().await? == format!("0 0 {readers}"));
    }
    let both = [&*crowd[0], &crowd[59]].map(reader);
    let heartbeat = it.heartbeat(&both).await?;
    token(&heartbeat[0])?;
    ensure!(heartbeat[0] == heartbeat[1]);
    Ok(())
}

async fn a_heartbeat_goes_on_where_the_caller_died(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    it.inflate().await?;
    let crowd = crowd(60);
    it.line(crowd.iter().map(|id| reader(id)), ALIVE).await?;
    ensure!(it.convert(reader(A2), A, "0").await? == "MORE");
    ensure!(it.counts().await? == "0 0 25");
    // A new claim waits behind them.
    ensure!(it.acquire(reader(B)).await? == "MORE");
    ensure!(it.counts().await? == "0 0 49");
    let last = it.heartbeat(&[reader(&crowd[59])]).await?;
    ensure!(last == [it.acquire(reader(A2)).await?]);
    ensure!(it.counts().await? == "0 0 61");
    Ok(())
}

/// Otherwise it would wait for the writer, which waits for the reader's own owner.
async fn a_reader_that_waits_is_let_in_when_its_owner_reads(it: &Lock) -> Result<()> {
    it.hold(writer(B)).await?;
    for claim in [reader(A), writer(C), reader(A2)] {
        waiting(&it.acquire(claim).await?)?;
    }
    it.release(writer(B)).await?;
    let read = it.heartbeat(&[reader(A), reader(A2), writer(C)]).await?;
    ensure!(token(&read[0])? > 0 && read[0] == read[1], "{read:?}");
    ensure!(read[2] == "WAITING 1");
    Ok(())
}

/// Puts this many dead readers under the name, counted, in front of `last`, whose lease ends at `end`.
async fn dead(it: &Lock, number: usize, last: &str, end: &str) -> Result<()> {
    const DEAD: &str = "redis.call('DEL', KEYS[1], KEYS[2])
for i = 1, ARGV[1] do redis.call('ZADD', KEYS[2], i, '1:dead' .. i) end
redis.call('ZADD', KEYS[2], ARGV[3], '1:' .. ARGV[2])
redis.call('HSET', KEYS[3], 'o:' .. string.match(ARGV[2], '^(.*)/'), '1 7')
local marker = string.format('rwlock * 0 0 %d 0 -e -', ARGV[1] + 1)
redis.call('RPUSH', KEYS[1], marker)
return redis.call('PEXPIRE', KEYS[1], 600000)";
    let [main, holders, _, state] = it.all();
    let number = number.to_string();
    let words = [
        "EVAL", DEAD, "3", &main, &holders, &state, &number, last, end,
    ];
    it.command(&words).await?;
    Ok(())
}

/// More claims have died than one run removes; this one died before all are removed.
async fn a_claim_that_has_ended_comes_back_counted_once(it: &Lock) -> Result<()> {
    dead(it, 200, A, "1000").await?;
    while it.acquire(reader(A)).await? == "MORE" {}
    while it.acquire(reader(B)).await? == "MORE" {}
    let marker = it.command(&["LINDEX", &it.main(), "0"]).await?;
    let counted = marker.split(' ').nth(4).context("the parts")?;
    ensure!(it.command(&["ZCARD", &it.holders()]).await? == counted);
    for claim in [A, B] {
        it.release(reader(claim)).await?;
    }
    ensure!(it.keys().await?.is_empty(), "{:?}", it.keys().await?);
    Ok(())
}

/// As many claims have died as one run removes.
async fn an_upgrade_that_has_happened_is_told_whatever_was_taken_out(it: &Lock) -> Result<()> {
    dead(it, 64, A, "9007199254740991").await?;
    token(&it.convert(writer(A2), reader(A), "0").await?)?;
    ensure!(it.release(writer(A2)).await? == "RELEASED 1 0");
    Ok(())
}
