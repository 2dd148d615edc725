//! Which claims wait, and which is next.

use lockkeeper_core::protocol::ScriptCall;

use super::*;

vectors! { [thin inflated] [rwlock] {
    claims_are_granted_in_the_order_in_which_they_came
    a_repeated_acquire_keeps_its_place
    a_heartbeat_of_a_waiter_never_shortens
    the_next_holder_is_told_its_token_and_its_last_request
    a_waiter_is_granted_for_as_long_as_it_was_alive
    items_about_one_name_share_its_keys
    claims_of_one_batch_are_alive_for_their_own_waiter_ttls
    claims_that_are_alive_until_the_same_moment_keep_their_own_waiter_ttls
    a_try_never_passes_those_who_wait
    a_full_queue_takes_nobody_more
    a_full_queue_remembers_whom_it_let_in
    holders_that_the_marker_does_not_count_end_nobodys_hold
    a_waiter_leaves_its_place_to_the_next
    a_waiter_that_leaves_twice_leaves_once
    a_heartbeat_after_the_release_creates_nothing
    a_tombstone_keeps_a_waiter_from_coming_back
    an_owner_that_holds_is_let_in_past_the_queue
}}

async fn claims_are_granted_in_the_order_in_which_they_came(it: &Lock) -> Result<()> {
    let mut last = line_up(it, &[D, C, B]).await?;
    ensure!(it.heartbeat(&[B, C, D]).await? == ["WAITING 3", "WAITING 2", "WAITING 1"]);
    let mut holder = A;
    for next in [D, C, B] {
        ensure!(it.release(holder).await? == "RELEASED 1 0");
        let granted = token(&it.heartbeat(&[next]).await?[0])?;
        ensure!(granted > last);
        (holder, last) = (next, granted);
    }
    ensure!(it.release(B).await? == "RELEASED 1 0");
    ensure!(it.keys().await?.is_empty());
    Ok(())
}

async fn a_repeated_acquire_keeps_its_place(it: &Lock) -> Result<()> {
    line_up(it, &[B, C]).await?;
    let reply = it.acquire(B).await?;
    ensure!(waiting(&reply)? == 1);
    ensure!(is_nearly(number(&reply, "WAITING", 1)?, HOUR), "{reply}");
    ensure!(waiting(&it.acquire(C).await?)? == 2);
    let (_, rest) = it.entry(C).await?.context("C waits")?;
    ensure!(rest == format!(":{WAITER_TTL}:{}", it.last_request()));
    ensure!(it.place(C).await? == "QUEUED 2 2");
    Ok(())
}

async fn a_heartbeat_of_a_waiter_never_shortens(it: &Lock) -> Result<()> {
    line_up(it, &[B]).await?;
    let (seen, _) = it.entry("seen").await?.context("seen")?;
    let far = seen + 1_000_000;
    let entry = ["HSET", &it.state(), B, &format!("{far}:100000:3")];
    it.command(&entry).await?;
    ensure!(it.heartbeat(&[B]).await? == ["WAITING 1"]);
    let (ends, _) = it.entry(B).await?.context("B waits")?;
    ensure!(ends == far);
    // It then holds for as long as its client assumes.
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.end(B).await? == far);
    Ok(())
}

async fn the_next_holder_is_told_its_token_and_its_last_request(it: &Lock) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.heartbeat(&[B]).await?;
    let last = it.last_request();
    let told = it.told(async {
        ensure!(it.release(A).await? == "RELEASED 1 0");
        Ok(())
    });
    let told = told.await?;
    let token = it.command(&["GET", &it.name.counter()]).await?;
    ensure!(told == [format!("G {B} {token} {last}")], "{told:?}");
    ensure!(it.counts().await? == "1 1 0");
    ensure!(is_nearly(it.left(B).await?, WAITER_TTL));
    ensure!(it.heartbeat(&[B, C]).await? == [format!("GRANTED {token}"), "WAITING 1".into()]);
    Ok(())
}

/// Whatever the waiter ttl of the client that hands over.
async fn a_waiter_is_granted_for_as_long_as_it_was_alive(it: &Lock) -> Result<()> {
    line_up(it, &[B, C]).await?;
    let (alive, _) = it.entry(B).await?.context("B waits")?;
    it.pass(WAITER_TTL / 3).await?;
    ensure!(it.heartbeat(&[C]).await? == ["WAITING 2"]);
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.end(B).await? == alive - WAITER_TTL / 3);
    Ok(())
}

async fn items_about_one_name_share_its_keys(it: &Lock) -> Result<()> {
    let other = it.named("other")?;
    line_up(it, &[B, C]).await?;
    line_up(&other, &[D]).await?;
    let of_another_kind = Lock {
        kind: "election",
        ..it.clone()
    };
    let items = [
        it.beat(B),
        it.beat(C),
        it.beat(E),
        other.beat(D),
        it.beat(C),
        of_another_kind.beat(C),
        it.beat(B),
    ];
    let joined = ScriptCall::batch(items.clone()).context("a batch")?;
    ensure!(joined.keys.len() == 5 * 5 && joined.args.len() == 7 * 8);
    let places = |outcomes: Vec<String>| {
        let place = |outcome: &String| outcome.split(' ').take(2).collect::<Vec<_>>().join(" ");
        outcomes.iter().map(place).collect::<Vec<_>>()
    };
    let (first, second, gone) = ("WAITING 1", "WAITING 2", "GONE");
    let expected = [first, second, gone, first, second, gone, first];
    ensure!(places(it.batch(items).await?) == expected);
    ensure!(it.release(A).await? == "RELEASED 1 0");
    let outcomes = it.batch([it.beat(C), it.beat(B), other.beat(D)]).await?;
    token(&outcomes[1])?;
    ensure!(outcomes[0].starts_with(first) && outcomes[2].starts_with(first));
    Ok(())
}

/// Claims of one client may have different ones: its client counts on that of the claim.
async fn claims_of_one_batch_are_alive_for_their_own_waiter_ttls(it: &Lock) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.batch([it.beat_with(C, "500000"), it.beat_with(B, "1000")])
        .await?;
    it.batch([it.beat_with(B, "1000"), it.beat_with(C, "500000")])
        .await?;
    let (seen, _) = it.entry("seen").await?.context("seen")?;
    let alive = async |claim| anyhow::Ok(it.entry(claim).await?.context("it waits")?.0 - seen);
    // B was alive for longer by its acquire.
    ensure!(is_nearly(alive(B).await?, WAITER_TTL));
    ensure!(alive(C).await? == 500_000);
    Ok(())
}

async fn claims_that_are_alive_until_the_same_moment_keep_their_own_waiter_ttls(
    it: &Lock,
) -> Result<()> {
    it.hold(A).await?;
    it.inflate().await?;
    it.line([writer(B), writer(C)], "9000000000000:100000:7")
        .await?;
    it.batch([it.beat_with(C, "500000"), it.beat_with(B, "1000")])
        .await?;
    for (claim, waiter_ttl) in [(C, ":500000:"), (B, ":1000:")] {
        let (ends, rest) = it.entry(claim).await?.context("it waits")?;
        ensure!(
            ends == 9_000_000_000_000 && rest.starts_with(waiter_ttl),
            "{rest}"
        );
    }
    Ok(())
}

async fn a_try_never_passes_those_who_wait(it: &Lock) -> Result<()> {
    line_up(it, &[B]).await?;
    for of in it.shares() {
        let busy = it.ask(of(C), TRY).await?;
        ensure!(is_nearly(number(&busy, "BUSY", 1)?, HOUR), "{busy}");
    }
    it.release(A).await?;
    let busy = it.ask(C, TRY).await?;
    ensure!(number(&busy, "BUSY", 1)? <= WAITER_TTL, "{busy}");
    ensure!(it.place(C).await? == "QUEUED 0 0");
    Ok(())
}

async fn a_full_queue_takes_nobody_more(it: &Lock) -> Result<()> {
    for of in it.shares() {
        line_up(it, &[B]).await?;
        let two = How {
            limit: "2",
            ..USUAL
        };
        ensure!(waiting(&it.ask(of(C), two).await?)? == 2);
        ensure!(it.ask(of(D), two).await? == "QUEUE_FULL 2");
        ensure!(waiting(&it.ask(of(C), two).await?)? == 2);
        ensure!(it.heartbeat(&[of(D)]).await? == ["GONE"]);
        it.release(B).await?;
        ensure!(waiting(&it.ask(of(D), two).await?)? == 2);
        for claim in [of(D), of(C), writer(A)] {
            ensure!(it.release(claim).await? == "RELEASED 1 0");
        }
    }
    Ok(())
}

/// The run that finds the queue full may have granted a waiter.
async fn a_full_queue_remembers_whom_it_let_in(it: &Lock) -> Result<()> {
    it.hold_with(A, USUAL).await?;
    for claim in [B, C] {
        waiting(&it.acquire(claim).await?)?;
    }
    it.pass(60_001).await?;
    let one = How {
        limit: "1",
        ..USUAL
    };
    ensure!(it.ask(D, one).await? == "QUEUE_FULL 1");
    ensure!(it.counts().await? == "1 1 0");
    ensure!(
        it.heartbeat(&[C]).await? == ["WAITING 1"],
        "C holds beside B"
    );
    ensure!(it.left(B).await? > 0);
    Ok(())
}

async fn a_waiter_leaves_its_place_to_the_next(it: &Lock) -> Result<()> {
    line_up(it, &[B, C, D]).await?;
    ensure!(it.release(B).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[C, D]).await? == ["WAITING 1", "WAITING 2"]);
    // The name is taken from its holder by force; the next request advances the queue.
    ensure!(it.free(A).await? == "RELEASED 1 0");
    ensure!(it.release(C).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[D]).await?[0])?;
    Ok(())
}

async fn a_waiter_that_leaves_twice_leaves_once(it: &Lock) -> Result<()> {
    line_up(it, &[B, C]).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.release(A).await? == "NOT_HELD 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    for claim in [C, B] {
        ensure!(it.release(claim).await? == "RELEASED 1 0");
        ensure!(it.release(claim).await? == "NOT_HELD 0");
    }
    ensure!(it.keys().await?.is_empty());
    Ok(())
}

async fn a_heartbeat_after_the_release_creates_nothing(it: &Lock) -> Result<()> {
    line_up(it, &[B]).await?;
    it.release(B).await?;
    ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
    it.release(A).await?;
    ensure!(it.heartbeat(&[A, B]).await? == ["GONE", "GONE"]);
    ensure!(it.keys().await?.is_empty());
    Ok(())
}

async fn a_tombstone_keeps_a_waiter_from_coming_back(it: &Lock) -> Result<()> {
    line_up(it, &[B]).await?;
    ensure!(it.release_with(B, "0", "50000").await? == "RELEASED 1 0");
    ensure!(is_nearly(it.pttl(&it.tombstone(B)).await?, 50_000));
    ensure!(it.acquire(B).await? == "GONE");
    ensure!(it.place(B).await? == "QUEUED 0 0");
    Ok(())
}

async fn an_owner_that_holds_is_let_in_past_the_queue(it: &Lock) -> Result<()> {
    let first = line_up(it, &[B, C]).await?;
    ensure!(token(&it.ask(A2, TRY).await?)? == first);
    ensure!(it.release(A).await? == "RELEASED 1 1");
    ensure!(it.heartbeat(&[B]).await? == ["WAITING 1"]);
    ensure!(it.release(A2).await? == "RELEASED 1 0");

    // Both claims of an owner wait, and are granted together.
    ensure!(waiting(&it.acquire(A).await?)? == 2);
    ensure!(waiting(&it.acquire(D).await?)? == 3);
    ensure!(waiting(&it.acquire(A2).await?)? == 4);
    it.release(B).await?;
    it.release(C).await?;
    let granted = it.heartbeat(&[A, D, A2]).await?;
    ensure!(
        granted[0] == granted[2] && granted[1] == "WAITING 1",
        "{granted:?}"
    );
    token(&granted[0])?;
    ensure!(it.place(A2).await? == "QUEUED 1 0");
    Ok(())
}

/// A node that gets a slot back may still have old holders, while the name arrived without any.
async fn holders_that_the_marker_does_not_count_end_nobodys_hold(it: &Lock) -> Result<()> {
    let marker = format!("{} * 0 0 0 0 -e -", it.kind);
    it.command(&["RPUSH", &it.main(), &marker]).await?;
    it.command(&["PEXPIRE", &it.main(), "600000"]).await?;
    it.line([writer(A)], "9000000000000:100000:7").await?;
    let of_before = format!("x:{C}");
    it.command(&["ZADD", &it.holders(), "8999999999999", &of_before])
        .await?;
    token(&it.heartbeat(&[A]).await?[0])?;
    ensure!(it.command(&["ZCARD", &it.holders()]).await? == "1");
    ensure!(waiting(&it.acquire(B).await?)? == 1);
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.release(B).await? == "RELEASED 1 0");
    ensure!(it.keys().await?.is_empty());
    Ok(())
}
