//! One holder at a time, with tokens that increase from grant to grant.

use lockkeeper_core::Name;

use super::shared::*;

pub async fn a_second_acquirer_waits_until_the_first_releases<S: Common>(
    site: &dyn Site,
) -> Result<()> {
    let (one, other) = (clients(site).await?, clients(site).await?);
    let guard = S::over(&one, "name").acquire().await?;
    let contender = S::Contender::over(&other, "name");
    let waiting = tokio::spawn(async move { contender.acquire().await });
    ensure!(
        S::Contender::over(&other, "name")
            .try_acquire()
            .await?
            .is_none()
    );
    ensure!(!waiting.is_finished());
    ensure!(guard.state() == LeaseState::Held);
    let first = guard.fencing_token();
    Guard::release(guard).await?;
    let next = waiting.await??;
    ensure!(next.fencing_token() > first);
    Guard::release(next).await?;
    Ok(())
}

pub async fn trying_never_waits<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    let (lock, contender) = (
        S::over(&client, "name"),
        S::Contender::over(&client, "name"),
    );
    let Some(guard) = lock.try_acquire().await? else {
        bail!("a free lock was refused")
    };
    ensure!(
        contender.try_acquire().await?.is_none(),
        "a held lock was given"
    );
    Guard::release(guard).await?;
    ensure!(
        lock.try_acquire().await?.is_some(),
        "a released lock was refused"
    );
    Ok(())
}

pub async fn every_waiter_of_many_clients_gets_its_turn<S: Common>(site: &dyn Site) -> Result<()> {
    let mut waiters = JoinSet::new();
    for _ in 0..4 {
        let client = clients(site).await?;
        for _ in 0..8 {
            let lock = S::over(&client, "name");
            waiters.spawn(async move { Guard::release(lock.acquire().await?).await });
        }
    }
    while let Some(waiter) = waiters.join_next().await {
        waiter??;
    }
    Ok(())
}

pub async fn holders_never_overlap_and_tokens_increase<S: Common>(site: &dyn Site) -> Result<()> {
    let history = Arc::new(History::default());
    let mut tasks = JoinSet::new();
    for client_number in 0..4 {
        let client = clients(site).await?;
        for task in 0..16 {
            let (lock, history) = (S::over(&client, "name"), Arc::clone(&history));
            tasks.spawn(async move {
                for _ in 0..5 {
                    let guard = lock.acquire().await?;
                    let from = now();
                    tokio::task::yield_now().await;
                    let holder = format!("client {client_number}, task {task}");
                    history.record(ValidSpan::until_now(from, &guard, S::SHARED, holder)?);
                    Guard::release(guard).await?;
                }
                anyhow::Ok(())
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let grants = history.check()?;
    ensure!(grants == 4 * 16 * 5, "{grants} grants");
    Ok(())
}

pub async fn tokens_increase_over_many_grants_and_lost_counters<S: Common>(
    site: &dyn Site,
) -> Result<()> {
    tokens_increase::<S>(site, 200).await
}

/// The same over ten thousand grants.
pub async fn tokens_increase_over_ten_thousand_grants<S: Common>(site: &dyn Site) -> Result<()> {
    tokens_increase::<S>(site, 10_000).await
}

/// Makes this many grants, while the counter is lost ten times.
async fn tokens_increase<S: Common>(site: &dyn Site, grants: u32) -> Result<()> {
    let client = clients(site).await?;
    let lock = S::over(&client, "name");
    let counter = Name::new("lockkeeper", "name")?.counter();
    let mut last = None;
    for grant in 1..=grants {
        // Deleting the counter is what its expiry does, and what a careless operator does.
        if grant % (grants / 10) == 0 {
            ensure!(site.command(&["DEL", &counter]).await? == "1");
        }
        let guard = lock.acquire().await?;
        let token = Some(guard.fencing_token());
        ensure!(token > last, "{token:?} after {last:?}");
        last = token;
        Guard::release(guard).await?;
    }
    // A lease that ends without a release.
    let guard = short_lease(&lock).await?;
    ensure!(Some(guard.fencing_token()) > last);
    while lock
        .inspect()
        .await?
        .iter()
        .any(|seen| !seen.holders.is_empty())
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ensure!(lock.acquire().await?.fencing_token() > guard.fencing_token());
    Ok(())
}
