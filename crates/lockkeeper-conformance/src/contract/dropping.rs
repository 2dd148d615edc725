//! Futures and guards that are dropped anywhere leave nothing behind.

use lockkeeper_core::store::Store;

use super::shared::*;

pub async fn dropping_an_acquisition_after_any_poll_leaves_nothing<S: Common>(
    site: &dyn Site,
) -> Result<()> {
    let gated = connect(site, settings(), gated).await?;
    let other = clients(site).await?;
    for polls in 0.. {
        let name = format!("name {polls}");
        let acquired = drop_after(S::over(&gated, &name).acquire().into_future(), polls).await;
        let done = acquired.is_some();
        drop(acquired);
        expect_free::<S>(&other, &name).await?;
        if done {
            ensure!(polls > 2, "the acquisition was never in the middle");
            return Ok(());
        }
    }
    Ok(())
}

pub async fn dropping_a_contended_acquisition_after_any_poll_leaves_nothing<S: Common>(
    site: &dyn Site,
) -> Result<()> {
    let gated = connect(site, settings(), gated).await?;
    let other = clients(site).await?;
    for polls in 0..40 {
        let name = format!("name {polls}");
        let guard = S::Contender::over(&other, &name).acquire().await?;
        let lock = S::over(&gated, &name);
        let waiter = tokio::spawn(drop_after(lock.acquire().into_future(), polls));
        let behind = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().wait_for(PATIENCE).await }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        Guard::release(guard).await?;
        // The waiter after the dropped one is not forgotten: it got its wake.
        let behind = tokio::spawn(async move {
            Guard::release(behind.await??)
                .await
                .map_err(anyhow::Error::from)
        });
        if let Some(acquired) = tokio::time::timeout(PATIENCE, waiter).await?? {
            Guard::release(acquired?).await?;
        }
        behind.await??;
        expect_free::<S>(&other, &name).await?;
    }
    Ok(())
}

pub async fn dropping_a_release_after_any_poll_frees_the_lock<S: Common>(
    site: &dyn Site,
) -> Result<()> {
    let gated = connect(site, settings(), gated).await?;
    let other = clients(site).await?;
    for polls in 0.. {
        let name = format!("name {polls}");
        let guard = S::over(&gated, &name).acquire().await?;
        let lease = (*guard).clone();
        let released = drop_after(Guard::release(guard), polls).await;
        ensure!(
            lease.state() == LeaseState::Released,
            "validity must end first"
        );
        expect_free::<S>(&other, &name).await?;
        if released.transpose()?.is_some() {
            ensure!(polls > 1, "the release was never in the middle");
            return Ok(());
        }
    }
    Ok(())
}

pub async fn a_guard_dropped_in_a_runtime_frees_the_lock<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    let lock = S::over(&client, "name");
    let guard = lock.acquire().await?;
    let lease = (*guard).clone();
    drop(guard);
    ensure!(lease.state() == LeaseState::Released);
    expect_free::<S>(&client, "name").await
}

pub async fn a_guard_dropped_outside_of_a_runtime_frees_the_lock<S: Common>(
    site: &dyn Site,
) -> Result<()> {
    let client = clients(site).await?;
    let lock = S::over(&client, "name");
    let guard = lock.acquire().await?;
    let dropped = std::thread::spawn(move || drop(guard)).join();
    ensure!(
        dropped.is_ok(),
        "dropping a guard outside of a runtime panicked"
    );
    expect_free::<S>(&client, "name").await
}

/// A store on which a request is dropped halfway if its caller is.
fn gated(store: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(GatedStore(store))
}
