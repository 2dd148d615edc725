//! Who waits, and who is next.

use super::*;

vectors! { Rw:
    waiters_are_served_in_the_order_in_which_they_came
    a_try_passes_nobody_who_waits
    a_full_queue_takes_nobody_more
    a_crowd_of_readers_is_let_in_by_several_runs
    a_heartbeat_goes_on_where_the_caller_died
    the_dead_between_readers_are_passed_over
    a_dead_writer_in_front_keeps_nobody_out
    many_dead_take_a_bounded_number_of_runs
}

async fn waiters_are_served_in_the_order_in_which_they_came(it: &Rw) -> Result<()> {
    token(&it.read(A).await?)?;
    for (claim, mode) in [(B, WRITE), (C, READ), (D, READ), (E, WRITE)] {
        waiting(&it.ask(claim, mode, USUAL).await?)?;
    }
    ensure!(waiting(&it.ask(C, READ, USUAL).await?)? == 2);
    it.leave(A, READ).await?;
    let written = token(&it.heartbeat(&[(B, WRITE)]).await?[0])?;
    it.leave(B, WRITE).await?;
    let read = it.heartbeat(&[(C, READ), (D, READ), (E, WRITE)]).await?;
    ensure!(token(&read[0])? > written && read[0] == read[1] && read[2] == "WAITING 1");
    // The writer gives its place up: who comes behind it joins those who read.
    ensure!(waiting(&it.read(A).await?)? == 2);
    ensure!(it.leave(E, WRITE).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[(A, READ)]).await?[0] == read[0]);
    Ok(())
}

async fn a_try_passes_nobody_who_waits(it: &Rw) -> Result<()> {
    token(&it.read(A).await?)?;
    ensure!(waiting(&it.write(B).await?)? == 1);
    let left = number(&it.ask(C, READ, TRY).await?, "BUSY", 1)?;
    ensure!((29_000..=30_000).contains(&left), "{left}");
    number(&it.ask(C, WRITE, TRY).await?, "BUSY", 1)?;
    ensure!(waiting(&it.read(C).await?)? == 2);
    Ok(())
}

async fn a_full_queue_takes_nobody_more(it: &Rw) -> Result<()> {
    token(&it.write(A).await?)?;
    let two = How {
        limit: "2",
        ..USUAL
    };
    ensure!(waiting(&it.ask(B, READ, two).await?)? == 1);
    ensure!(waiting(&it.ask(C, WRITE, two).await?)? == 2);
    ensure!(it.ask(D, READ, two).await? == "QUEUE_FULL 2");
    ensure!(waiting(&it.ask(C, WRITE, two).await?)? == 2);
    ensure!(it.heartbeat(&[(D, READ)]).await? == ["GONE"]);
    Ok(())
}

async fn a_crowd_of_readers_is_let_in_by_several_runs(it: &Rw) -> Result<()> {
    token(&it.write(A).await?)?;
    it.crowd(300).await?;
    for (status, readers) in [("MORE", 128), ("MORE", 256), ("NOT_HELD 0", 300)] {
        ensure!(it.leave(A, WRITE).await? == status);
        ensure!(it.readers().await? == readers);
    }
    let heartbeat = it
        .heartbeat(&[(&crowded(1), READ), (&crowded(300), READ)])
        .await?;
    token(&heartbeat[0])?;
    ensure!(heartbeat[0] == heartbeat[1]);
    Ok(())
}

async fn a_heartbeat_goes_on_where_the_caller_died(it: &Rw) -> Result<()> {
    token(&it.write(A).await?)?;
    it.crowd(300).await?;
    ensure!(it.convert(A2, READ, A, "0").await? == "MORE");
    ensure!(it.readers().await? == 129);
    // Who comes now waits behind them.
    ensure!(it.ask(B, READ, USUAL).await? == "MORE");
    ensure!(it.heartbeat(&[(&crowded(300), READ)]).await? == [it.read(A2).await?]);
    ensure!(it.readers().await? == 301);
    Ok(())
}

async fn the_dead_between_readers_are_passed_over(it: &Rw) -> Result<()> {
    token(&it.write(A).await?)?;
    for claim in [B, C, D, E] {
        waiting(&it.read(claim).await?)?;
    }
    it.dies(C).await?;
    it.dies(E).await?;
    ensure!(it.leave(A, WRITE).await? == "RELEASED 1 0");
    ensure!(it.readers().await? == 2);
    let heartbeat = it
        .heartbeat(&[(B, READ), (C, READ), (D, READ), (E, READ)])
        .await?;
    ensure!(
        heartbeat[0] == heartbeat[2] && heartbeat[1] == "GONE" && heartbeat[3] == "GONE",
        "{heartbeat:?}"
    );
    Ok(())
}

async fn a_dead_writer_in_front_keeps_nobody_out(it: &Rw) -> Result<()> {
    let read = token(&it.read(A).await?)?;
    ensure!(waiting(&it.write(B).await?)? == 1);
    ensure!(waiting(&it.read(C).await?)? == 2);
    it.dies(B).await?;
    ensure!(token(&it.heartbeat(&[(C, READ)]).await?[0])? == read);
    Ok(())
}

async fn many_dead_take_a_bounded_number_of_runs(it: &Rw) -> Result<()> {
    for mode in [READ, WRITE] {
        it.bury(&Fair::name()?, 600).await?;
        for _ in 0..2 {
            ensure!(it.ask(A, mode, USUAL).await? == "MORE");
        }
        token(&it.ask(A, mode, USUAL).await?)?;
        it.bury(&Fair::name()?, 600).await?;
        for status in ["MORE", "MORE", "NOT_HELD 0"] {
            ensure!(it.leave(A, mode).await? == status);
        }
        ensure!(it.keys().await? == [FENCE]);
    }
    Ok(())
}
