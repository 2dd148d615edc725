//! Waiters that died, and waiters that could not be heard.

use super::*;

vectors! { Fair:
    dead_waiters_are_dropped_and_the_first_alive_is_granted
    a_waiter_past_its_time_is_never_granted
    a_waiter_past_its_time_has_lost_its_place_whoever_notices
    five_thousand_dead_waiters_take_a_bounded_number_of_runs
    the_budget_is_for_the_run_and_not_for_each_name
    a_leave_that_meets_many_dead_is_run_again
    waiters_keep_their_order_when_nobody_could_be_heard
    waiters_keep_their_order_over_two_gaps_in_a_row
    a_grace_ends_and_the_silent_lose_their_places
    the_dead_are_not_given_grace_for_ever_when_hardly_anybody_asks
}

async fn dead_waiters_are_dropped_and_the_first_alive_is_granted(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D, E]).await?;
    it.dies(B).await?;
    it.dies(C).await?;
    ensure!(it.heartbeat(&[E]).await? == ["WAITING 2"]);
    it.dies(D).await?;
    ensure!(it.leave(A).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[E]).await?[0])?;
    ensure!(it.keys().await? == [FENCE, MAIN]);
    Ok(())
}

async fn a_waiter_past_its_time_is_never_granted(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    it.dies(B).await?;
    let told = it.told(async |it| {
        ensure!(it.leave(A).await? == "RELEASED 1 0");
        Ok(())
    });
    ensure!(told.await?.is_empty());
    ensure!(it.keys().await? == [FENCE]);
    ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
    token(&it.acquire(C).await?)?;
    Ok(())
}

async fn a_waiter_past_its_time_has_lost_its_place_whoever_notices(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D, E]).await?;
    it.dies(C).await?;
    ensure!(it.heartbeat(&[C, D]).await? == ["GONE", "WAITING 2"]);
    it.dies(D).await?;
    ensure!(waiting(&it.acquire(D).await?)? == 3);
    ensure!(it.heartbeat(&[B, E, D]).await? == ["WAITING 1", "WAITING 2", "WAITING 3"]);
    Ok(())
}

async fn five_thousand_dead_waiters_take_a_bounded_number_of_runs(it: &Fair) -> Result<()> {
    it.bury(&Fair::name()?, 5_000).await?;
    for _ in 0..19 {
        ensure!(it.acquire(A).await? == "MORE");
        ensure!(it.do_command(&["EXISTS", MAIN]).await? == "0");
    }
    token(&it.acquire(A).await?)?;
    ensure!(it.keys().await? == [FENCE, MAIN]);
    Ok(())
}

async fn the_budget_is_for_the_run_and_not_for_each_name(it: &Fair) -> Result<()> {
    let names = [Fair::name()?, Name::new("lockkeeper", "other")?];
    let items = [(names[0].clone(), B), (names[1].clone(), B)];
    for name in &names {
        it.bury(name, 300).await?;
        it.do_command(&["ZADD", &name.part("queue"), "301", B])
            .await?;
        it.do_command(&["HSET", &name.part("waiters"), B, "9000000000000:1"])
            .await?;
        it.do_command(&[
            "HSET",
            name.main(),
            "kind",
            "fair",
            "owner",
            "x:1",
            A,
            "9000000000000",
        ])
        .await?;
    }
    ensure!(it.heartbeat_names(&items).await? == ["MORE", "MORE"]);
    // The heartbeat itself has been heard.
    let heard = it.number(WAITERS, B).await?.context("B waits")?;
    ensure!(heard.1 == format!(":{}", it.last_request()));
    ensure!(it.heartbeat_names(&items).await? == ["WAITING 1", "MORE"]);
    ensure!(it.heartbeat_names(&items).await? == ["WAITING 1", "WAITING 1"]);
    Ok(())
}

async fn a_leave_that_meets_many_dead_is_run_again(it: &Fair) -> Result<()> {
    it.bury(&Fair::name()?, 600).await?;
    for _ in 0..2 {
        ensure!(it.acquire(A).await? == "MORE");
    }
    token(&it.acquire(A).await?)?;
    it.bury(&Fair::name()?, 600).await?;
    ensure!(it.leave(A).await? == "MORE");
    ensure!(it.do_command(&["EXISTS", MAIN]).await? == "0");
    ensure!(it.leave(A).await? == "MORE");
    ensure!(it.leave(A).await? == "NOT_HELD 0");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn waiters_keep_their_order_when_nobody_could_be_heard(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D, E, F]).await?;
    it.pass(GAP).await?;
    // The last is heard first. The holder's lease of ten minutes is not over.
    ensure!(it.heartbeat(&[F]).await? == ["WAITING 5"]);
    ensure!(it.heartbeat(&[E, D]).await? == ["WAITING 4", "WAITING 3"]);
    ensure!(it.leave(A).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    ensure!(it.heartbeat(&[C]).await? == ["WAITING 1"]);
    Ok(())
}

async fn waiters_keep_their_order_over_two_gaps_in_a_row(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D]).await?;
    for _ in 0..2 {
        it.pass(GAP).await?;
        ensure!(it.heartbeat(&[D]).await? == ["WAITING 3"]);
    }
    ensure!(it.heartbeat(&[B, C, D]).await? == ["WAITING 1", "WAITING 2", "WAITING 3"]);
    Ok(())
}

async fn a_grace_ends_and_the_silent_lose_their_places(it: &Fair) -> Result<()> {
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
async fn the_dead_are_not_given_grace_for_ever_when_hardly_anybody_asks(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    for waiters in ["2", "2", "2", "0"] {
        it.pass(GAP).await?;
        number(&it.acquire_with(D, "30000", "0", "0").await?, "BUSY", 1)?;
        ensure!(it.do_command(&["ZCARD", QUEUE]).await? == waiters);
    }
    Ok(())
}

/// The embedded server's clock really moves.
#[tokio::test]
async fn waiters_keep_their_order_when_the_server_slept() -> Result<()> {
    let server = MemoryStore::new();
    let it = Fair::on(server.sibling()).await?;
    line_up(&it, &[B, C, D, E, F]).await?;
    server.step_clock(GAP);
    ensure!(it.heartbeat(&[F, C]).await? == ["WAITING 5", "WAITING 2"]);
    ensure!(it.leave(A).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}
