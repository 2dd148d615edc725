//! An observer is told of every turn of a lease.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, FairLock, LeaseEvent, LossReason, Mutex, Observation, Observer};
use lockkeeper_core::store::Store;
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::{Fate, FaultyStore};
use parking_lot::Mutex as Cell;

const TTL: Duration = Duration::from_secs(6);

#[derive(Debug, Default)]
struct Diary(Cell<Vec<(String, LeaseEvent)>>);

impl Observer for Diary {
    fn observe(&self, observation: &Observation<'_>) {
        let entry = (observation.name.to_owned(), observation.event);
        self.0.lock().push(entry);
    }
}

impl Diary {
    /// What was written since the last look.
    fn take(&self) -> Vec<(String, LeaseEvent)> {
        std::mem::take(&mut *self.0.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn every_turn_of_a_lease_is_told_with_its_figures() -> Result<()> {
    let (diary, store) = (
        Arc::new(Diary::default()),
        FaultyStore::new(Arc::new(MemoryStore::new())),
    );
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>);
    let client = settings.build(Arc::clone(&store) as Arc<dyn Store>)?;
    let lock = Mutex::new(&client, "name");

    let guard = lock.acquire().await?;
    let told = diary.take();
    ensure!(
        matches!(told[..], [(_, LeaseEvent::Granted { token, waited, .. })] if token == guard.fencing_token() && waited.is_zero()),
        "{told:?}"
    );

    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let told = diary.take();
    let slack = TTL - TTL / 3 - Duration::from_millis(65);
    ensure!(
        matches!(told[..], [(_, LeaseEvent::Renewed { slack: left, .. })] if left.abs_diff(slack) < Duration::from_millis(5)),
        "{told:?}"
    );

    store.plan(&lock::RENEW, Fate::LoseRequest);
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    let told = diary.take();
    ensure!(
        matches!(
            told[..],
            [(_, LeaseEvent::Uncertain), (_, LeaseEvent::Renewed { .. })]
        ),
        "{told:?}"
    );

    let waiting = tokio::spawn(async move { lock.acquire().no_renewal().await });
    tokio::time::sleep(Duration::from_millis(400)).await;
    ensure!(matches!(diary.take()[..], [(_, LeaseEvent::Waiting)]));
    guard.release().await?;
    let guard = waiting.await??;
    // The waiter is told by the same script that answers the release.
    let mut told = diary.take();
    told.sort_by_key(|(_, event)| matches!(event, LeaseEvent::Granted { .. }));
    ensure!(
        matches!(told[..], [(_, LeaseEvent::Released { held, .. }), (_, LeaseEvent::Granted { waited, .. })]
            if held == Duration::from_secs(6) && waited == Duration::from_millis(400)),
        "{told:?}"
    );

    guard.lost().await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    let told = diary.take();
    ensure!(
        matches!(told[..], [(_, LeaseEvent::Lost(LossReason::Expired))]),
        "{told:?}"
    );
    drop(guard);
    client.close().await;
    let told = diary.take();
    ensure!(told.is_empty(), "what was lost is not released: {told:?}");
    Ok(())
}

/// The claims of what was observed.
#[derive(Debug, Default)]
struct Claims(Cell<Vec<String>>);

impl Observer for Claims {
    fn observe(&self, observation: &Observation<'_>) {
        let claim = observation.claim.to_owned();
        self.0.lock().push(claim);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_the_claim_that_inspection_shows() -> Result<()> {
    let claims = Arc::new(Claims::default());
    let settings = Client::builder().observer(Arc::clone(&claims) as Arc<dyn Observer>);
    let client = settings.build(Arc::new(MemoryStore::new()))?;
    let lock = Mutex::new(&client, "name");
    let mut shown = Vec::new();
    for _ in 0..2 {
        let guard = lock.acquire().await?;
        let claim = &client.inspect("name").await?.holders[0].claim;
        // Once for its grant, once for its release.
        shown.extend([claim.clone(), claim.clone()]);
        guard.release().await?;
    }
    let told = claims.0.lock();
    ensure!(*told == shown, "{told:?}, not {shown:?}");
    ensure!(told[0] != told[2]);
    Ok(())
}

/// It has a defect of its own.
#[derive(Debug)]
struct Panicking;

impl Observer for Panicking {
    fn observe(&self, _: &Observation<'_>) {
        std::panic::resume_unwind(Box::new("an observer's own defect"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_observer_costs_its_observations_and_nothing_else() -> Result<()> {
    let settings = Client::builder().ttl(TTL).observer(Arc::new(Panicking));
    let client = settings.build(Arc::new(MemoryStore::new()))?;
    let lock = FairLock::new(&client, "name");
    let guard = lock.acquire().await?;
    let waiting = tokio::spawn(lock.acquire().into_future());
    // Renewed and beaten for by the client's own tasks, which observe too.
    tokio::time::sleep(TTL * 3).await;
    guard.verify().await?;
    client.revoke("name").await?;
    guard.lost().await;
    drop(guard);
    waiting.await??.release().await?;
    Ok(())
}
