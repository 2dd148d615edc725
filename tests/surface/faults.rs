//! The faults that users inject in their own tests with `lockkeeper::memory::Faults`: the effect of each on a client.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::memory::{Faults, MemoryStore};
use lockkeeper::{
    Client, Error, FairLock, LeaseState, LossReason, Mutex, Outcome, Released, Semaphore,
};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// A client with faults, and another one of the same server.
fn clients() -> Result<(Faults, Client, Client)> {
    let server = MemoryStore::new();
    let store = server.sibling();
    let faults = store.faults();
    let client = Client::builder().build(Arc::new(store))?;
    Ok((faults, client, Client::builder().build(Arc::new(server))?))
}

#[tokio::test(start_paused = true)]
async fn acquisitions_and_releases_survive_lost_replies() -> Result<()> {
    let (faults, client, other) = clients()?;
    for round in 0..3 {
        let name = format!("report-{round}");
        faults.lose_reply();
        let guard = Mutex::new(&client, &name).acquire().await?;
        ensure!(guard.state() == LeaseState::Held);
        faults.lose_reply();
        ensure!(guard.release().await? == Released::Free);
        let next = FairLock::new(&other, &name).try_acquire().await?;
        next.context("a lost reply left something behind")?
            .release()
            .await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_the_caller_is_told_at_once() -> Result<()> {
    let (faults, client, other) = clients()?;
    let lock = Mutex::new(&client, "report");
    faults.refuse("NOPERM this user has no permissions to run the 'evalsha' command");
    let error = lock
        .acquire()
        .await
        .err()
        .context("refused, and it holds")?;
    let Error::Backend { cause, .. } = &error else {
        anyhow::bail!("another error: {error:?}");
    };
    ensure!((cause.outcome(), cause.code()) == (Outcome::Refused, Some("NOPERM")));
    ensure!(!error.is_transient(), "{error}");
    ensure!(Mutex::new(&other, "report").try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_outage_ends_a_lease_before_another_client_can_have_it() -> Result<()> {
    let (faults, client, other) = clients()?;
    let guard = Mutex::new(&client, "report")
        .acquire()
        .ttl(6 * SECOND)
        .await?;
    sleep(60 * SECOND).await;
    faults.disconnect();
    let next = Mutex::new(&other, "report").acquire().await?;
    ensure!(guard.state() == LeaseState::Lost(LossReason::Expired));
    ensure!(next.fencing_token() > guard.fencing_token());
    let error = client
        .inspect("report")
        .await
        .err()
        .context("it was answered")?;
    ensure!(error.is_transient(), "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_waits_through_an_outage_is_served_after_it() -> Result<()> {
    let (faults, client, other) = clients()?;
    let held = Mutex::new(&other, "report").acquire().await?;
    let lock = Mutex::new(&client, "report");
    let waiting = tokio::spawn(lock.acquire().into_future());
    sleep(SECOND).await;
    faults.disconnect();
    held.release().await?;
    sleep(SECOND).await;
    ensure!(!waiting.is_finished(), "it heard of a release in an outage");
    faults.reconnect();
    timeout(15 * SECOND, waiting).await???.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_lock_is_evicted_learns_of_it_with_its_next_renewal() -> Result<()> {
    let (faults, client, other) = clients()?;
    let ttl = 6 * SECOND;
    let semaphore = Semaphore::new(&client, "report", 2);
    let (one, two) = (
        semaphore.acquire().ttl(ttl).await?,
        semaphore.acquire().ttl(ttl).await?,
    );
    ensure!(faults.evict("report"));
    let next = Mutex::new(&other, "report").try_acquire().await?;
    let next = next.context("something is left of the lock")?;
    ensure!(next.fencing_token() > two.fencing_token());
    let evicted = Instant::now();
    for guard in [one, two] {
        ensure!(guard.lost().await.reason == LossReason::Gone);
    }
    ensure!(evicted.elapsed() < ttl / 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_waits_for_slow_answers_and_leaves_nothing_behind_when_they_are_too_slow()
-> Result<()> {
    let (faults, client, other) = clients()?;
    let lock = Mutex::new(&client, "report");
    faults.delay(SECOND / 2);
    let asked = Instant::now();
    let guard = lock.acquire().await?;
    ensure!(asked.elapsed() >= SECOND / 2);
    faults.delay(Duration::ZERO);
    guard.release().await?;

    faults.delay(60 * SECOND);
    let error = lock.acquire().wait_for(SECOND).await;
    let error = error.err().context("it was answered")?;
    ensure!(error.is_transient(), "{error}");
    faults.delay(Duration::ZERO);
    let freed = Mutex::new(&other, "report").acquire();
    let freed = timeout(10 * SECOND, freed.into_future()).await??;
    freed.release().await?;
    Ok(())
}
