//! An owner that holds a re-entrant lock may re-enter. The second claim inflates the name, unless something has before.

use super::*;

vectors! { Scripts in [reentrant_thin reentrant_inflated]:
    others_wait_for_the_last_of_its_leases
    a_claim_whose_lease_is_over_is_no_longer_counted
    a_release_says_how_many_claims_the_owner_still_has
    a_claim_that_cools_down_keeps_others_out_and_its_owner_in
    the_last_claim_cools_down_as_long_as_those_before_it
}

async fn others_wait_for_the_last_of_its_leases(it: &Scripts) -> Result<()> {
    it.hold(A).await?;
    token(&it.acquire_with(A2, |ask| ask.ttl = 2 * TTL).await?)?;
    let left = number(&it.acquire(B).await?, "BUSY", 1)?;
    ensure!(is_nearly(left, 60_000), "{left} ms");
    Ok(())
}

async fn a_claim_whose_lease_is_over_is_no_longer_counted(it: &Scripts) -> Result<()> {
    let first = it.hold(A).await?;
    token(&it.acquire(A2).await?)?;
    it.lease_ends_in(A, -1).await?;
    ensure!(it.renew(A).await? == "GONE" && it.verify(A).await? == "GONE");
    ensure!(it.release(A).await? == "NOT_HELD 1");
    // It re-enters like any claim of the owner.
    ensure!(token(&it.acquire(A).await?)? == first);
    ensure!(it.release(A).await? == "RELEASED 1 1");
    ensure!(it.release(A2).await? == "RELEASED 1 0");
    Ok(())
}

async fn a_release_says_how_many_claims_the_owner_still_has(it: &Scripts) -> Result<()> {
    let mut poller = it.poller().await?;
    it.hold(A).await?;
    ensure!(
        it.release_in_doubt(A2).await? == "NOT_HELD 1",
        "one that has not come"
    );
    token(&it.acquire(Who(1, 3)).await?)?;
    number(&it.acquire(B).await?, "BUSY", 1)?;
    ensure!(it.release(A).await? == "RELEASED 1 1");
    ensure!(it.release(A).await? == "NOT_HELD 1", "run twice");
    ensure!(it.release(B).await? == "NOT_HELD 0");
    ensure!(poller.heard(it).await?.is_empty(), "its owner still holds");
    ensure!(it.release(Who(1, 3)).await? == "RELEASED 1 0");
    ensure!(poller.heard(it).await? == ["free"]);
    ensure!(it.standing().await?.is_empty());
    Ok(())
}

async fn a_claim_that_cools_down_keeps_others_out_and_its_owner_in(it: &Scripts) -> Result<()> {
    let first = it.hold(A).await?;
    token(&it.acquire(A2).await?)?;
    ensure!(it.release_with(A, 2 * TTL).await? == "RELEASED 1 1");
    let left = number(&it.acquire(B).await?, "BUSY", 1)?;
    ensure!(is_nearly(left, 60_000), "{left} ms");
    ensure!(token(&it.acquire(Who(1, 3)).await?)? == first);
    it.every_key_ends().await
}

async fn the_last_claim_cools_down_as_long_as_those_before_it(it: &Scripts) -> Result<()> {
    let mut poller = it.poller().await?;
    it.hold(A).await?;
    token(&it.acquire(A2).await?)?;
    number(&it.acquire(B).await?, "BUSY", 1)?;
    ensure!(it.release_with(A, 2 * TTL).await? == "RELEASED 1 1");
    ensure!(poller.heard(it).await?.is_empty(), "its owner still holds");
    let left = number(&it.release(A2).await?, "COOLDOWN", 2)?;
    ensure!(is_nearly(left, 60_000), "{left} ms");
    ensure!(poller.heard(it).await? == ["kept"]);
    // Without a claim of its own inside, the owner is excluded too.
    for claim in [Who(1, 3), B] {
        number(&it.acquire(claim).await?, "BUSY", 1)?;
    }
    it.every_key_ends().await
}
