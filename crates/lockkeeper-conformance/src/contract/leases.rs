//! What a holder knows about its lease.

use super::shared::*;

pub async fn release_after_loss_says_lost<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    let guard = short_lease(&S::over(&client, "expired")).await?;
    ensure!(guard.lost().await.reason == LossReason::Expired);
    let error = Guard::release(guard).await.err();
    ensure!(lost(&error) == Some(LossReason::Expired), "{error:?}");

    let lock = S::over(&client, "deleted");
    let guard = lock.acquire().await?;
    site.command(&["DEL", &S::HELD.replace("name", "deleted")])
        .await?;
    let error = Guard::release(guard).await.err();
    ensure!(lost(&error) == Some(LossReason::Gone), "{error:?}");
    expect_free::<S>(&client, "deleted").await
}

pub async fn a_fixed_lease_ends_by_itself<S: Common>(site: &dyn Site) -> Result<()> {
    let (one, other) = (clients(site).await?, clients(site).await?);
    let guard = short_lease(&S::over(&one, "name")).await?;
    ensure!(guard.remaining() < SHORT);
    // Nobody releases: the holder is forgotten, and the waiter polls when the lease has ended.
    let next = S::Contender::over(&other, "name")
        .acquire()
        .wait_for(PATIENCE)
        .await?;
    ensure!(guard.state() == LeaseState::Lost(LossReason::Expired));
    ensure!(guard.ensure_held().is_err());
    ensure!(next.fencing_token() > guard.fencing_token());
    Ok(())
}

pub async fn a_renewed_lease_outlives_its_ttl<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    beyond_stalls(site, RENEWED, async |ttl| {
        let guard = S::over(&client, "name").acquire().ttl(ttl).await?;
        guard.run(tokio::time::sleep(ttl * 3)).await?;
        guard.verify().await?;
        Guard::release(guard).await?;
        Ok(())
    })
    .await
}

pub async fn a_deleted_key_is_noticed<S: Common>(site: &dyn Site) -> Result<()> {
    // Renewals every second of a lease that lasts for longer than a stall.
    let settings = settings().ttl(PATIENCE).renewal_fraction(100);
    let client = connect(site, settings, |store| store).await?;
    let guard = S::over(&client, "name").acquire().await?;
    site.command(&["DEL", S::HELD]).await?;
    ensure!(
        guard.lost().await.reason == LossReason::Gone,
        "the next renewal finds out"
    );
    ensure!(guard.state() == LeaseState::Lost(LossReason::Gone));
    Ok(())
}

pub async fn verify_asks_the_server<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    let gone = async || {
        let guard = S::over(&client, "name").acquire().await?;
        guard.verify().await?;
        site.command(&["DEL", S::HELD]).await?;
        anyhow::Ok(guard)
    };
    let mut guard = gone().await?;
    if guard.state() == LeaseState::Lost(LossReason::Gone) {
        // At its first grant a client checks by itself, once.
        drop(guard);
        guard = gone().await?;
    }
    ensure!(guard.state() == LeaseState::Held, "nobody has asked yet");
    let error = guard.verify().await.err();
    ensure!(lost(&error) == Some(LossReason::Gone), "{error:?}");
    ensure!(guard.state() == LeaseState::Lost(LossReason::Gone));
    Ok(())
}

pub async fn run_stops_its_future_when_the_lease_is_lost<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    let guard = short_lease(&S::over(&client, "name")).await?;
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let error = guard
        .run(async move {
            std::future::pending::<()>().await;
            drop(held);
        })
        .await
        .err();
    ensure!(matches!(error, Some(Error::Lost { .. })), "{error:?}");
    ensure!(Arc::strong_count(&alive) == 1, "the future lives on");
    Ok(())
}

pub async fn hold_acquires_runs_and_releases<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    let lock = S::over(&client, "name");
    let state = lock.acquire().hold(async |lease| lease.state()).await?;
    ensure!(state == LeaseState::Held);
    ensure!(
        S::Contender::over(&client, "name")
            .try_acquire()
            .await?
            .is_some()
    );
    Ok(())
}

pub async fn ended_resolves_for_released_and_for_lost<S: Common>(site: &dyn Site) -> Result<()> {
    use lockkeeper::End;
    let client = clients(site).await?;
    let lock = S::over(&client, "name");
    let guard = lock.acquire().await?;
    let watcher = tokio::spawn(guard.ended());
    tokio::task::yield_now().await;
    Guard::release(guard).await?;
    ensure!(watcher.await? == End::Released);

    let guard = short_lease(&lock).await?;
    ensure!(guard.ended().await.reason() == Some(LossReason::Expired));
    Ok(())
}

pub async fn max_hold_ends_validity_and_renewal<S: Common>(site: &dyn Site) -> Result<()> {
    let (one, other) = (clients(site).await?, clients(site).await?);
    let lock = S::over(&one, "name");
    let guard = beyond_stalls(site, RENEWED, async |ttl| {
        let begun = tokio::time::Instant::now();
        let guard = lock.acquire().ttl(ttl).max_hold(ttl * 3 / 2).await?;
        let reason = guard.lost().await.reason;
        ensure!(reason == LossReason::MaxHold, "{reason:?}");
        let held = begun.elapsed();
        ensure!(held > ttl && held < ttl * 5 / 2, "{held:?}");
        Ok(guard)
    })
    .await?;
    // Nobody drops the guard: the lock becomes free because its lease is no longer renewed.
    expect_free::<S>(&other, "name").await?;
    let error = Guard::release(guard).await.err();
    ensure!(lost(&error) == Some(LossReason::MaxHold), "{error:?}");
    let error = lock.acquire().max_hold(Duration::ZERO).await.err();
    ensure!(matches!(error, Some(Error::Config { .. })), "{error:?}");
    Ok(())
}
