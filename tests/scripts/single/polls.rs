//! Pollers of a name ask to be notified by a sign in its value, and are notified.

use super::*;

vectors! { Scripts in [thin inflated reentrant_thin reentrant_inflated]:
    a_release_tells_those_who_poll_once
    a_release_that_nobody_waits_for_tells_nobody
    a_claim_that_does_not_wait_leaves_no_sign
    a_grant_to_a_client_that_polls_has_the_sign
    the_sign_survives_inflation_revocation_and_renewal
    a_release_before_its_time_keeps_the_name
    the_sign_survives_a_cooldown
    the_sign_outlives_the_dead
}

async fn a_release_tells_those_who_poll_once(it: &Scripts) -> Result<()> {
    let mut poller = it.poller().await?;
    it.hold(A).await?;
    for claim in [B, C, B] {
        number(&it.acquire(claim).await?, "BUSY", 1)?;
        ensure!(it.is_polled().await?);
    }
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.release(A).await? == "NOT_HELD 0");
    it.release_in_doubt(B).await?;
    ensure!(poller.heard(it).await? == ["free"]);
    Ok(())
}

async fn a_release_that_nobody_waits_for_tells_nobody(it: &Scripts) -> Result<()> {
    let mut poller = it.poller().await?;
    it.hold(A).await?;
    ensure!(!it.is_polled().await?);
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(poller.heard(it).await?.is_empty());
    Ok(())
}

async fn a_claim_that_does_not_wait_leaves_no_sign(it: &Scripts) -> Result<()> {
    it.hold(A).await?;
    let before = it.dump().await?;
    let tried = it.acquire_with(B, |ask| ask.queue_limit = Some(0)).await?;
    number(&tried, "BUSY", 1)?;
    ensure!(it.dump().await? == before);
    Ok(())
}

async fn a_grant_to_a_client_that_polls_has_the_sign(it: &Scripts) -> Result<()> {
    let mut poller = it.poller().await?;
    it.is_free().await?;
    token(&it.acquire_with(A, |ask| ask.polled = true).await?)?;
    ensure!(it.is_polled().await?);
    it.come_to(A).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(poller.heard(it).await? == ["free"]);
    Ok(())
}

async fn the_sign_survives_inflation_revocation_and_renewal(it: &Scripts) -> Result<()> {
    let mut poller = it.poller().await?;
    token(&it.acquire(A).await?)?;
    number(&it.acquire(B).await?, "BUSY", 1)?;
    it.come_to(A).await?;
    ensure!(it.is_polled().await?, "inflated");
    ensure!(it.renew_for(A, 2 * TTL).await? == "RENEWED");
    token(&it.acquire(A).await?)?;
    ensure!(it.is_polled().await?, "armed");
    ensure!(it.revoke().await? == "TOLD 1");
    ensure!(it.is_polled().await?, "revoked");
    ensure!(poller.heard(it).await?.is_empty());
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(poller.heard(it).await? == ["free"]);
    Ok(())
}

async fn a_release_before_its_time_keeps_the_name(it: &Scripts) -> Result<()> {
    let (first, mut poller) = (it.hold(A).await?, it.poller().await?);
    number(&it.acquire(B).await?, "BUSY", 1)?;
    let early = Duration::from_secs(40);
    ensure!(it.release_with(A, early).await? == "COOLDOWN 1 40000");
    ensure!(
        poller.heard(it).await? == ["kept"],
        "of another end those who poll were not told"
    );
    for late in [it.release_with(A, early).await?, it.release(A).await?] {
        ensure!(is_nearly(number(&late, "COOLDOWN", 2)?, 40_000), "{late}");
    }
    ensure!(poller.heard(it).await?.is_empty(), "they were told twice");
    for claim in [A2, B] {
        let left = number(&it.acquire(claim).await?, "BUSY", 1)?;
        ensure!(is_nearly(left, 40_000), "{left} ms");
    }
    ensure!(it.repeat(A, first).await? == "GONE");
    ensure!(it.renew(A).await? == "GONE" && it.verify(A).await? == "GONE");
    ensure!(it.standing().await? == [format!("cx:{}", A.text()?)]);
    it.every_key_ends().await
}

async fn the_sign_survives_a_cooldown(it: &Scripts) -> Result<()> {
    it.hold(A).await?;
    number(&it.acquire(B).await?, "BUSY", 1)?;
    ensure!(it.release_with(A, TTL).await? == "COOLDOWN 1 30000");
    ensure!(it.is_polled().await?);
    Ok(())
}

/// The end of a lease sends no message: pollers then poll by themselves. One of them holds, and the others must be notified of
/// its release.
async fn the_sign_outlives_the_dead(it: &Scripts) -> Result<()> {
    let mut poller = it.poller().await?;
    it.hold(A).await?;
    number(&it.acquire(B).await?, "BUSY", 1)?;
    if it.inflates {
        it.lease_ends_in(A, -1).await?;
        token(&it.acquire(C).await?)?;
        ensure!(it.is_polled().await?);
    } else {
        // The sign ended with the value; the next poller sets it again.
        it.command(&["DEL", MAIN]).await?;
        token(&it.acquire_with(C, |ask| ask.polled = true).await?)?;
    }
    ensure!(it.release(C).await? == "RELEASED 1 0");
    ensure!(poller.heard(it).await? == ["free"]);
    Ok(())
}
