//! Another mode takes a claim's place.

use super::*;

vectors! { Rw:
    a_downgrade_lets_the_readers_in_front_in_and_not_the_writer_behind
    an_upgrade_is_for_the_only_reader_and_passes_the_queue
    a_refused_upgrade_changes_nothing
    a_downgrade_inside_another_write_reads_within_that
    a_conversion_run_twice_has_the_effect_of_once
    a_late_conversion_does_nothing
    a_mark_against_the_old_claim_stops_a_late_acquire
    a_revoked_writer_is_not_converted
    a_lease_is_not_shortened_by_a_conversion
}

async fn a_downgrade_lets_the_readers_in_front_in_and_not_the_writer_behind(it: &Rw) -> Result<()> {
    let written = token(&it.write(A).await?)?;
    for (claim, mode) in [(B, READ), (C, READ), (D, WRITE), (E, READ)] {
        waiting(&it.ask(claim, mode, USUAL).await?)?;
    }
    let told = it.told(async |_| {
        ensure!(token(&it.convert(A2, READ, A, "0").await?)? > written);
        Ok(())
    });
    let told = told.await?;
    ensure!(
        told.len() == 2 && told[0].contains(B) && told[1].contains(C),
        "{told:?}"
    );
    let read = it.read(A2).await?;
    ensure!(it.heartbeat(&[(B, READ), (C, READ)]).await? == [read.clone(), read.clone()]);
    ensure!(it.heartbeat(&[(D, WRITE), (E, READ)]).await? == ["WAITING 1", "WAITING 2"]);
    for claim in [A2, B, C] {
        ensure!(it.leave(claim, READ).await? == "RELEASED 1 0");
    }
    token(&it.heartbeat(&[(D, WRITE)]).await?[0])?;
    Ok(())
}

async fn an_upgrade_is_for_the_only_reader_and_passes_the_queue(it: &Rw) -> Result<()> {
    let read = token(&it.read(A).await?)?;
    ensure!(waiting(&it.write(B).await?)? == 1);
    ensure!(token(&it.convert(A2, WRITE, A, "0").await?)? > read);
    ensure!(it.do_command(&["EXISTS", READERS]).await? == "0");
    ensure!(it.heartbeat(&[(B, WRITE)]).await? == ["WAITING 1"]);
    ensure!(it.leave(A2, WRITE).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[(B, WRITE)]).await?[0])?;
    Ok(())
}

async fn a_refused_upgrade_changes_nothing(it: &Rw) -> Result<()> {
    let read = token(&it.read(A).await?)?;
    token(&it.read(B).await?)?;
    for _ in 0..2 {
        let left = number(&it.convert(A2, WRITE, A, "5000").await?, "BUSY", 1)?;
        ensure!((29_000..=30_000).contains(&left), "{left}");
    }
    ensure!(it.keys().await? == [FENCE, READERS]);
    ensure!(token(&it.read(A).await?)? == read);
    // Who has left keeps writers out as well.
    number(&it.leave_with(B, READ, "4000", "0").await?, "COOLDOWN", 2)?;
    number(&it.convert(A2, WRITE, A, "0").await?, "BUSY", 1)?;
    it.shift(4_001).await?;
    ensure!(token(&it.convert(A2, WRITE, A, "0").await?)? > read);
    Ok(())
}

async fn a_downgrade_inside_another_write_reads_within_that(it: &Rw) -> Result<()> {
    let written = token(&it.write(A).await?)?;
    ensure!(token(&it.write(A2).await?)? == written);
    ensure!(waiting(&it.read(B).await?)? == 1);
    ensure!(token(&it.convert(A3, READ, A2, "0").await?)? == written);
    ensure!(it.heartbeat(&[(B, READ)]).await? == ["WAITING 1"]);
    // And back.
    ensure!(token(&it.convert(A2, WRITE, A3, "0").await?)? == written);
    ensure!(it.leave(A, WRITE).await? == "RELEASED 1 1");
    ensure!(it.leave(A2, WRITE).await? == "RELEASED 1 0");
    ensure!(token(&it.heartbeat(&[(B, READ)]).await?[0])? > written);
    Ok(())
}

async fn a_conversion_run_twice_has_the_effect_of_once(it: &Rw) -> Result<()> {
    token(&it.write(A).await?)?;
    let read = it.convert(A2, READ, A, "0").await?;
    ensure!(it.convert(A2, READ, A, "0").await? == read);
    let written = it.convert(A3, WRITE, A2, "0").await?;
    ensure!(it.convert(A3, WRITE, A2, "0").await? == written);
    ensure!(token(&written)? > token(&read)?);
    // A late copy of the first finds neither of its claims.
    ensure!(it.convert(A2, READ, A, "0").await? == "GONE");
    ensure!(it.leave(A3, WRITE).await? == "RELEASED 1 0");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_late_conversion_does_nothing(it: &Rw) -> Result<()> {
    for (from, to) in [(WRITE, READ), (READ, WRITE)] {
        // The leave of the new claim overtakes it, before that of the old one.
        token(&it.ask(A, from, USUAL).await?)?;
        ensure!(
            it.leave_with(A2, to, "0", "5000")
                .await?
                .starts_with("NOT_HELD ")
        );
        ensure!(it.convert(A2, to, A, "0").await? == "GONE");
        ensure!(it.leave(A, from).await? == "RELEASED 1 0");
        // And without a mark, behind both.
        ensure!(it.convert(A3, to, A, "0").await? == "GONE");
        ensure!(it.keys().await? == [FENCE, &gone_key(A2)]);
        it.do_command(&["DEL", &gone_key(A2)]).await?;
    }
    Ok(())
}

async fn a_mark_against_the_old_claim_stops_a_late_acquire(it: &Rw) -> Result<()> {
    for (from, to) in [(WRITE, READ), (READ, WRITE)] {
        token(&it.ask(A, from, USUAL).await?)?;
        token(&it.convert(A2, to, A, "5000").await?)?;
        let left = it.pttl(&gone_key(A)).await?;
        ensure!((4_000..=5_000).contains(&left), "{left}");
        ensure!(it.ask(A, from, USUAL).await? == "GONE");
        ensure!(it.leave_with(B, READ, "0", "5000").await? == "NOT_HELD 0");
        ensure!(it.leave(A2, to).await? == "RELEASED 1 0");
        ensure!(it.ask(A, from, USUAL).await? == "GONE");
        ensure!(it.read(B).await? == "GONE");
        it.do_command(&["DEL", &gone_key(A), &gone_key(B)]).await?;
    }
    Ok(())
}

async fn a_revoked_writer_is_not_converted(it: &Rw) -> Result<()> {
    token(&it.write(A).await?)?;
    ensure!(it.run(&name::REVOKE, &[MAIN, READERS], &[]).await? == "TOLD 1");
    ensure!(it.write(A).await? == "REVOKED");
    ensure!(it.convert(A2, READ, A, "0").await? == "REVOKED");
    number(&it.ask(A2, READ, TRY).await?, "BUSY", 1)?;
    ensure!(it.leave(A, WRITE).await? == "RELEASED 1 0");
    Ok(())
}

async fn a_lease_is_not_shortened_by_a_conversion(it: &Rw) -> Result<()> {
    let long = How {
        ttl: "600000",
        ..USUAL
    };
    token(&it.ask(A, WRITE, long).await?)?;
    token(&it.convert(A2, READ, A, "0").await?)?;
    ensure!(number(&it.verify(A2).await?, "HELD", 1)? > 599_000);
    token(&it.convert(A3, WRITE, A2, "0").await?)?;
    let left = it.run(&reentrant::VERIFY, &[MAIN], &[A3]).await?;
    ensure!(number(&left, "HELD", 1)? > 599_000);
    Ok(())
}
