//! A claim is released: at once, in doubt, before its time.

use super::*;

vectors! { Scripts in [thin inflated reentrant_thin reentrant_inflated]:
    a_release_of_the_last_claim_leaves_the_counter_alone
    a_release_by_another_claim_changes_nothing
    a_release_run_twice_has_the_effect_of_once
    a_release_in_doubt_stops_a_late_acquire
    a_release_in_doubt_removes_the_claim_and_touches_no_other
    a_release_before_its_time_keeps_the_name
    the_time_for_which_a_name_is_kept_ends
}

async fn a_release_of_the_last_claim_leaves_the_counter_alone(it: &Scripts) -> Result<()> {
    it.hold(A).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.keys().await? == [name_of("name")?.counter()]);
    Ok(())
}

async fn a_release_by_another_claim_changes_nothing(it: &Scripts) -> Result<()> {
    it.hold(A).await?;
    let before = it.dump().await?;
    ensure!(it.release(B).await? == "NOT_HELD 0");
    ensure!(it.release_with(B, TTL).await? == "NOT_HELD 0");
    ensure!(it.dump().await? == before);
    Ok(())
}

async fn a_release_run_twice_has_the_effect_of_once(it: &Scripts) -> Result<()> {
    let first = it.hold(A).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.hold(B).await? > first);
    ensure!(it.release(A).await? == "NOT_HELD 0");
    let standing = it.standing().await?;
    ensure!(
        standing == [format!("x:{}", B.text()?)],
        "the second release took another's lock away"
    );
    Ok(())
}

async fn a_release_in_doubt_stops_a_late_acquire(it: &Scripts) -> Result<()> {
    it.is_free().await?;
    ensure!(it.release_in_doubt(B).await? == "NOT_HELD 0");
    let left = it.pttl(&name_of("name")?.tombstone(&B.id()?)).await?;
    ensure!(
        (29_000..=30_000).contains(&left),
        "the tombstone lives for {left} ms"
    );
    ensure!(it.acquire(B).await? == "GONE");
    ensure!(it.standing().await?.is_empty());
    token(&it.acquire(C).await?)?;
    Ok(())
}

async fn a_release_in_doubt_removes_the_claim_and_touches_no_other(it: &Scripts) -> Result<()> {
    it.hold(A).await?;
    ensure!(it.release_in_doubt(B).await? == "NOT_HELD 0");
    ensure!(it.standing().await? == [format!("x:{}", A.text()?)]);
    ensure!(it.release_in_doubt(A).await? == "RELEASED 1 0");
    ensure!(it.command(&["EXISTS", MAIN]).await? == "0");
    ensure!(it.release_in_doubt(A).await? == "NOT_HELD 0", "run twice");
    ensure!(it.acquire(A).await? == "GONE");
    Ok(())
}

async fn a_release_before_its_time_keeps_the_name(it: &Scripts) -> Result<()> {
    let (first, mut poller) = (it.hold(A).await?, it.poller().await?);
    number(&it.acquire(B).await?, "BUSY", 1)?;
    let second = Duration::from_secs(9);
    ensure!(it.release_with(A, second).await? == "COOLDOWN 1 9000");
    ensure!(
        poller.heard(it).await? == ["kept"],
        "of another end those who poll were not told"
    );
    for late in [it.release_with(A, second).await?, it.release(A).await?] {
        ensure!(
            (8_000..=9_000).contains(&number(&late, "COOLDOWN", 2)?),
            "{late}"
        );
    }
    ensure!(poller.heard(it).await?.is_empty(), "they were told twice");
    for claim in [A2, B] {
        let left = number(&it.acquire(claim).await?, "BUSY", 1)?;
        ensure!((8_000..=9_000).contains(&left), "{left} ms");
    }
    ensure!(it.repeat(A, first).await? == "GONE");
    ensure!(it.renew(A).await? == "GONE" && it.verify(A).await? == "GONE");
    ensure!(it.standing().await? == [format!("cx:{}", A.text()?)]);
    it.every_key_ends().await
}

async fn the_time_for_which_a_name_is_kept_ends(it: &Scripts) -> Result<()> {
    let first = it.hold(A).await?;
    ensure!(it.release_with(A, Duration::from_millis(1)).await? == "COOLDOWN 1 1");
    let mut next = it.acquire(B).await?;
    while next.starts_with("BUSY") {
        tokio::task::yield_now().await;
        next = it.acquire(B).await?;
    }
    ensure!(token(&next)? > first);
    Ok(())
}
