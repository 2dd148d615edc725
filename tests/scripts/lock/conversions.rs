//! A claim with another share replaces a claim.

use super::*;

vectors! { [thin inflated] [rwlock] {
    a_conversion_of_the_only_claim_keeps_the_name_and_draws_a_token
    a_downgrade_lets_the_readers_in_front_in_and_not_the_writer_behind
    an_upgrade_is_for_the_only_reader_and_passes_the_queue
    a_refused_upgrade_changes_nothing
    a_downgrade_inside_another_write_reads_within_that
    a_conversion_run_twice_has_the_effect_of_once
    a_late_conversion_does_nothing
    a_tombstone_of_the_old_claim_stops_a_late_acquire
    a_revoked_claim_is_not_converted
    a_lease_is_not_shortened_by_a_conversion
}}

/// From each mode to the other.
const WAYS: [[Of; 2]; 2] = [[writer, reader], [reader, writer]];

async fn a_conversion_of_the_only_claim_keeps_the_name_and_draws_a_token(it: &Lock) -> Result<()> {
    for [from, to] in WAYS {
        let first = it.hold(from(A)).await?;
        let second = token(&it.convert(to(A2), from(A), "0").await?)?;
        ensure!(second > first);
        ensure!(it.value().await?.contains(" * ") == it.inflated);
        ensure!(it.verify(from(A)).await? == "GONE");
        ensure!(is_nearly(it.left(to(A2)).await?, HOUR));
        ensure!(token(&it.acquire(to(A2)).await?)? == second);
        ensure!(it.renew(to(A2), "60000").await? == "DONE RENEWED");
        ensure!(it.release(from(A)).await?.starts_with("NOT_HELD "));
        ensure!(it.release(to(A2)).await? == "RELEASED 1 0");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn a_downgrade_lets_the_readers_in_front_in_and_not_the_writer_behind(
    it: &Lock,
) -> Result<()> {
    let written = it.hold(A).await?;
    for claim in [reader(B), reader(C), writer(D), reader(E)] {
        waiting(&it.acquire(claim).await?)?;
    }
    let told = it.told(async {
        ensure!(token(&it.convert(reader(A2), A, "0").await?)? > written);
        Ok(())
    });
    let told = told.await?;
    ensure!(
        told.len() == 2 && told[0].contains(B) && told[1].contains(C),
        "{told:?}"
    );
    let read = it.acquire(reader(A2)).await?;
    let readers = [B, C].map(reader);
    ensure!(it.heartbeat(&readers).await? == [read.clone(), read]);
    ensure!(it.heartbeat(&[writer(D), reader(E)]).await? == ["WAITING 1", "WAITING 2"]);
    for claim in [A2, B, C].map(reader) {
        ensure!(it.release(claim).await? == "RELEASED 1 0");
    }
    token(&it.heartbeat(&[D]).await?[0])?;
    Ok(())
}

async fn an_upgrade_is_for_the_only_reader_and_passes_the_queue(it: &Lock) -> Result<()> {
    let read = it.hold(reader(A)).await?;
    ensure!(waiting(&it.acquire(B).await?)? == 1);
    ensure!(token(&it.convert(A2, reader(A), "0").await?)? > read);
    ensure!(it.counts().await? == "1 1 0");
    ensure!(it.heartbeat(&[B]).await? == ["WAITING 1"]);
    ensure!(it.release(A2).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}

async fn a_refused_upgrade_changes_nothing(it: &Lock) -> Result<()> {
    let read = it.hold(reader(A)).await?;
    token(&it.acquire(reader(B)).await?)?;
    let (value, keys) = (it.value().await?, it.keys().await?);
    for _ in 0..2 {
        let reply = it.convert(A2, reader(A), "50000").await?;
        ensure!(is_nearly(number(&reply, "BUSY", 1)?, HOUR), "{reply}");
    }
    ensure!(it.value().await? == value && it.keys().await? == keys);
    ensure!(token(&it.acquire(reader(A)).await?)? == read);
    // A reader in cooldown excludes writers too.
    number(
        &it.release_with(reader(B), "40000", "0").await?,
        "COOLDOWN",
        2,
    )?;
    number(&it.convert(A2, reader(A), "0").await?, "BUSY", 1)?;
    it.pass(40_001).await?;
    ensure!(token(&it.convert(A2, reader(A), "0").await?)? > read);
    Ok(())
}

async fn a_downgrade_inside_another_write_reads_within_that(it: &Lock) -> Result<()> {
    let written = it.hold(A).await?;
    ensure!(token(&it.acquire(A2).await?)? == written);
    ensure!(waiting(&it.acquire(reader(B)).await?)? == 1);
    ensure!(token(&it.convert(reader(A3), A2, "0").await?)? == written);
    ensure!(it.counted(A).await? == format!("1 {written}"));
    ensure!(it.heartbeat(&[reader(B)]).await? == ["WAITING 1"]);
    // And back.
    ensure!(token(&it.convert(A2, reader(A3), "0").await?)? == written);
    ensure!(it.counted(A).await?.is_empty());
    ensure!(it.release(A).await? == "RELEASED 1 1");
    ensure!(it.release(A2).await? == "RELEASED 1 0");
    ensure!(token(&it.heartbeat(&[reader(B)]).await?[0])? > written);
    Ok(())
}

async fn a_conversion_run_twice_has_the_effect_of_once(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    let read = it.convert(reader(A2), A, "0").await?;
    ensure!(it.convert(reader(A2), A, "0").await? == read);
    let written = it.convert(A3, reader(A2), "0").await?;
    ensure!(it.convert(A3, reader(A2), "0").await? == written);
    ensure!(token(&written)? > token(&read)?);
    // A late copy of the first request finds neither of its claims.
    ensure!(it.convert(reader(A2), A, "0").await? == "GONE");
    ensure!(it.release(A3).await? == "RELEASED 1 0");
    ensure!(it.keys().await?.is_empty());
    Ok(())
}

async fn a_late_conversion_does_nothing(it: &Lock) -> Result<()> {
    for [from, to] in WAYS {
        // The release of the new claim overtakes the conversion; the release of the old one comes later.
        it.hold(from(A)).await?;
        ensure!(it.release_with(to(A2), "0", "50000").await? == "NOT_HELD 1");
        ensure!(it.convert(to(A2), from(A), "0").await? == "GONE");
        ensure!(it.release(from(A)).await? == "RELEASED 1 0");
        // The same without a tombstone, after both.
        ensure!(it.convert(to(A3), from(A), "0").await? == "GONE");
        ensure!(it.keys().await? == [it.tombstone(A2)]);
        it.command(&["DEL", &it.tombstone(A2)]).await?;
    }
    Ok(())
}

async fn a_tombstone_of_the_old_claim_stops_a_late_acquire(it: &Lock) -> Result<()> {
    for [from, to] in WAYS {
        it.hold(from(A)).await?;
        token(&it.convert(to(A2), from(A), "50000").await?)?;
        ensure!(is_nearly(it.pttl(&it.tombstone(A)).await?, 50_000));
        ensure!(it.acquire(from(A)).await? == "GONE");
        ensure!(it.release(to(A2)).await? == "RELEASED 1 0");
        ensure!(it.acquire(from(A)).await? == "GONE");
        it.command(&["DEL", &it.tombstone(A)]).await?;
    }
    Ok(())
}

async fn a_revoked_claim_is_not_converted(it: &Lock) -> Result<()> {
    for [from, to] in WAYS {
        it.hold(from(A)).await?;
        ensure!(it.revoke().await? == "TOLD 1");
        ensure!(it.acquire(from(A)).await? == "REVOKED");
        ensure!(it.convert(to(A2), from(A), "50000").await? == "REVOKED");
        ensure!(it.command(&["EXISTS", &it.tombstone(A)]).await? == "0");
        number(&it.ask(reader(A2), TRY).await?, "BUSY", 1)?;
        ensure!(it.release(from(A)).await? == "RELEASED 1 0");
        // The same for the new claim, whose reply was lost.
        it.hold(from(A)).await?;
        token(&it.convert(to(A2), from(A), "0").await?)?;
        ensure!(it.revoke().await? == "TOLD 1");
        ensure!(it.convert(to(A2), from(A), "0").await? == "REVOKED");
        ensure!(it.release(to(A2)).await? == "RELEASED 1 0");
    }
    Ok(())
}

async fn a_lease_is_not_shortened_by_a_conversion(it: &Lock) -> Result<()> {
    for [from, to] in WAYS {
        it.hold(from(A)).await?;
        token(&it.convert(to(A2), from(A), "0").await?)?;
        ensure!(is_nearly(it.left(to(A2)).await?, HOUR));
        it.pass(HOUR - 30_000).await?;
        token(&it.convert(from(A3), to(A2), "0").await?)?;
        ensure!(is_nearly(it.left(from(A3)).await?, 60_000));
        ensure!(it.release(from(A3)).await? == "RELEASED 1 0");
    }
    Ok(())
}
