//! How waiting ends.

use super::shared::*;

pub async fn waiting_ends_with_a_timeout<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    let guard = S::over(&client, "name").acquire().await?;
    let lock = S::Contender::over(&client, "name");
    for wait in [Duration::ZERO, Duration::from_millis(50)] {
        let begun = tokio::time::Instant::now();
        let error = lock.acquire().wait_for(wait).await.err();
        ensure!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
        ensure!(begun.elapsed() >= wait);
    }
    let instant = (tokio::time::Instant::now() + Duration::from_millis(50)).into_std();
    let error = lock.acquire().wait_until(instant).await.err();
    ensure!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
    ensure!(
        guard.state() == LeaseState::Held,
        "a waiter disturbed the holder"
    );
    Guard::release(guard).await?;
    expect_free::<S>(&client, "name").await
}

pub async fn a_waiter_is_woken_by_a_message_long_before_the_ttl<S: Common>(
    site: &dyn Site,
) -> Result<()> {
    let (one, other) = (clients(site).await?, clients(site).await?);
    for _ in 0..5 {
        beyond_stalls(site, Duration::from_secs(2), async |limit| {
            let guard = S::over(&one, "name").acquire().await?;
            let contender = S::Contender::over(&other, "name");
            let waiting = tokio::spawn(async move { contender.acquire().wait_for(PATIENCE).await });
            // By then the waiter has usually subscribed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let released = tokio::time::Instant::now();
            Guard::release(guard).await?;
            Guard::release(waiting.await??).await?;
            let woken = released.elapsed();
            ensure!(woken < limit, "woken after {woken:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
