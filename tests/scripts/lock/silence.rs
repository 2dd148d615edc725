//! Dead waiters, and waiters that the server could not hear.

use super::*;

vectors! { [thin inflated] [rwlock] {
    dead_waiters_are_dropped_and_the_first_alive_is_granted
    a_waiter_past_its_time_is_never_granted
    a_waiter_past_its_time_has_lost_its_place_whoever_notices
    five_thousand_dead_waiters_take_a_bounded_number_of_runs
    the_budget_is_for_the_run_and_not_for_each_name
    a_release_that_meets_many_dead_is_run_again
    the_dead_behind_a_live_waiter_do_not_fill_a_queue
    a_long_queue_that_is_full_of_the_dead_is_looked_at_in_parts
    waiters_keep_their_order_when_nobody_could_be_heard
    waiters_keep_their_order_over_two_gaps_in_a_row
    a_gap_is_measured_by_the_first_waiter_and_the_grace_by_each
    a_grace_ends_and_the_silent_lose_their_places
    the_dead_are_not_given_grace_for_ever_when_hardly_anybody_asks
}}

async fn dead_waiters_are_dropped_and_the_first_alive_is_granted(it: &Lock) -> Result<()> {
    line_up(it, &[B, C, D, E]).await?;
    it.dies(B).await?;
    it.dies(C).await?;
    ensure!(it.heartbeat(&[E]).await? == ["WAITING 2"]);
    it.dies(D).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[E]).await?[0])?;
    ensure!(it.keys().await? == [it.holders(), it.main()]);
    Ok(())
}

async fn a_waiter_past_its_time_is_never_granted(it: &Lock) -> Result<()> {
    line_up(it, &[B]).await?;
    it.dies(B).await?;
    let told = it.told(async {
        ensure!(it.release(A).await? == "RELEASED 1 0");
        Ok(())
    });
    ensure!(told.await?.is_empty());
    ensure!(it.keys().await?.is_empty());
    ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
    token(&it.acquire(C).await?)?;
    Ok(())
}

async fn a_waiter_past_its_time_has_lost_its_place_whoever_notices(it: &Lock) -> Result<()> {
    line_up(it, &[B, C, D, E]).await?;
    it.dies(C).await?;
    ensure!(it.heartbeat(&[C, D]).await? == ["GONE", "WAITING 2"]);
    it.dies(D).await?;
    ensure!(waiting(&it.acquire(D).await?)? == 3);
    ensure!(it.heartbeat(&[B, E, D]).await? == ["WAITING 1", "WAITING 2", "WAITING 3"]);
    Ok(())
}

async fn five_thousand_dead_waiters_take_a_bounded_number_of_runs(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold_with(A, USUAL).await?;
        it.inflate().await?;
        it.bury(5_000).await?;
        it.pass(60_001).await?;
        for run in 1..=39 {
            ensure!(it.acquire(of(B)).await? == "MORE");
            ensure!(it.counts().await? == "0 0 0");
            ensure!(it.cardinality(&it.queue()).await? == 5_000 - 128 * run);
        }
        token(&it.acquire(of(B)).await?)?;
        ensure!(it.cardinality(&it.queue()).await? == 0);
        ensure!(it.release(of(B)).await? == "RELEASED 1 0");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn the_budget_is_for_the_run_and_not_for_each_name(it: &Lock) -> Result<()> {
    let names = [it.clone(), it.named("other")?];
    for name in &names {
        name.hold(A).await?;
        name.inflate().await?;
        name.bury(150).await?;
        let member = format!("x:{B}");
        let place = ["ZADD", &name.queue(), "151", &member];
        name.command(&place).await?;
        let entry = ["HSET", &name.state(), B, "9000000000000:100000:1"];
        name.command(&entry).await?;
    }
    let heartbeat = async || it.batch(names.iter().map(|name| name.beat(B))).await;
    ensure!(heartbeat().await? == ["MORE", "MORE"]);
    // The heartbeat itself counts.
    let (_, rest) = it.entry(B).await?.context("B waits")?;
    ensure!(rest == format!(":{WAITER_TTL}:{}", it.last_request()));
    let waits = |outcome: &String| outcome.starts_with("WAITING 1 ");
    let outcomes = heartbeat().await?;
    ensure!(waits(&outcomes[0]) && outcomes[1] == "MORE", "{outcomes:?}");
    let outcomes = heartbeat().await?;
    ensure!(outcomes.iter().all(waits), "{outcomes:?}");
    Ok(())
}

async fn a_release_that_meets_many_dead_is_run_again(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold(of(A)).await?;
        it.inflate().await?;
        it.bury(300).await?;
        ensure!(it.release(of(A)).await? == "MORE");
        ensure!(it.cardinality(&it.holders()).await? == 0);
        ensure!(it.release(of(A)).await? == "MORE");
        ensure!(it.release(of(A)).await? == "NOT_HELD 0");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn the_dead_behind_a_live_waiter_do_not_fill_a_queue(it: &Lock) -> Result<()> {
    let four = How {
        limit: "4",
        ..USUAL
    };
    for of in it.shares() {
        line_up(it, &[B, C, D, E]).await?;
        ensure!(it.ask(of(F), four).await? == "QUEUE_FULL 4");
        it.dies(C).await?;
        it.dies(E).await?;
        ensure!(waiting(&it.ask(of(F), four).await?)? == 3);
        ensure!(it.heartbeat(&[B, D]).await? == ["WAITING 1", "WAITING 2"]);
        ensure!(it.heartbeat(&[C, E]).await? == ["GONE", "GONE"]);
        for claim in [writer(A), writer(B), writer(D), of(F)] {
            ensure!(it.release(claim).await? == "RELEASED 1 0");
        }
    }
    Ok(())
}

async fn a_long_queue_that_is_full_of_the_dead_is_looked_at_in_parts(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    it.inflate().await?;
    it.line([writer(B)], "9000000000000:100000:7").await?;
    it.bury(40).await?;
    let two = How {
        limit: "2",
        ..USUAL
    };
    let mut length = 41;
    for _ in 0..2 {
        let remain = number(&it.ask(C, two).await?, "QUEUE_FULL", 1)?;
        ensure!((15..=16).contains(&(length - remain)), "{remain} remain");
        length = remain;
    }
    ensure!(waiting(&it.ask(C, two).await?)? == 2);
    ensure!(it.ask(D, two).await? == "QUEUE_FULL 2");
    Ok(())
}

async fn waiters_keep_their_order_when_nobody_could_be_heard(it: &Lock) -> Result<()> {
    line_up(it, &[B, C, D, E, F]).await?;
    it.pass(GAP).await?;
    // The server hears from the last one first. The holder's lease has not ended.
    ensure!(it.heartbeat(&[F]).await? == ["WAITING 5"]);
    ensure!(it.heartbeat(&[E, D]).await? == ["WAITING 4", "WAITING 3"]);
    ensure!(it.release(A).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    ensure!(it.heartbeat(&[C]).await? == ["WAITING 1"]);
    Ok(())
}

async fn waiters_keep_their_order_over_two_gaps_in_a_row(it: &Lock) -> Result<()> {
    line_up(it, &[B, C, D]).await?;
    for _ in 0..2 {
        it.pass(GAP).await?;
        ensure!(it.heartbeat(&[D]).await? == ["WAITING 3"]);
    }
    ensure!(it.heartbeat(&[B, C, D]).await? == ["WAITING 1", "WAITING 2", "WAITING 3"]);
    Ok(())
}

/// A caller with a short waiter ttl, and a waiter with a shorter one than the first.
async fn a_gap_is_measured_by_the_first_waiter_and_the_grace_by_each(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    let (seconds, minute) = ("10000", "60000");
    for (claim, waiter_ttl) in [(B, WAITER_TTL_TEXT), (C, minute), (D, minute)] {
        waiting(&it.acquire(claim).await?)?;
        it.batch([it.beat_with(claim, waiter_ttl)]).await?;
    }
    it.pass(40_000).await?;
    // This is longer than half of its own waiter ttl, but not of that of the first.
    ensure!(it.batch([it.beat_with(E, seconds)]).await? == ["GONE"]);
    ensure!(it.entry("grace").await?.is_none());
    it.pass(110_000).await?;
    ensure!(it.heartbeat(&[D]).await? == ["WAITING 3"]);
    ensure!(it.entry("grace").await?.is_some());
    ensure!(it.release(B).await? == "RELEASED 1 0");
    // It holds for as long as it would have been alive.
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(
        is_nearly(it.left(C).await?, 60_000),
        "{}",
        it.left(C).await?
    );
    Ok(())
}

async fn a_grace_ends_and_the_silent_lose_their_places(it: &Lock) -> Result<()> {
    line_up(it, &[B, C, D]).await?;
    it.pass(GAP).await?;
    for place in [3, 3, 3, 1] {
        ensure!(it.heartbeat(&[D]).await? == [format!("WAITING {place}")]);
        it.pass(WAITER_TTL / 3 + 50).await?;
    }
    ensure!(it.heartbeat(&[B, C]).await? == ["GONE", "GONE"]);
    Ok(())
}

/// A job that tries once an hour leaves gaps too.
async fn the_dead_are_not_given_grace_for_ever_when_hardly_anybody_asks(it: &Lock) -> Result<()> {
    line_up(it, &[B, C]).await?;
    for waiters in [2, 2, 2, 0] {
        it.pass(GAP).await?;
        number(&it.ask(D, TRY).await?, "BUSY", 1)?;
        ensure!(it.cardinality(&it.queue()).await? == waiters);
    }
    Ok(())
}

/// The embedded server's clock really moves.
#[tokio::test]
async fn waiters_keep_their_order_when_the_server_slept() -> Result<()> {
    let server = MemoryStore::new();
    let it = Lock::on(server.sibling(), "fair", "thin").await?;
    line_up(&it, &[B, C, D, E, F]).await?;
    server.step_clock(GAP);
    ensure!(it.heartbeat(&[F, C]).await? == ["WAITING 5", "WAITING 2"]);
    ensure!(it.release(A).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}
