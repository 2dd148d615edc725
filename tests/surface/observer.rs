//! An observer is told of every change of a lease, and once of the end of every acquisition.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use lockkeeper::{
    AcquisitionEvent, AcquisitionOutcome, Client, ClientEvent, FairLock, LeaseEvent, LossReason,
    MultiLock, Mutex, Observed, Observer, Once, Redlock, RwLock,
};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::{Fate, FaultyStore};
use parking_lot::Mutex as Cell;

const TTL: Duration = Duration::from_secs(6);

/// All events about names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Acquisition(AcquisitionEvent),
    Lease(LeaseEvent),
}

use Entry::{Acquisition, Lease};

#[derive(Debug, Default)]
struct Diary(Cell<Vec<(String, Entry)>>);

impl Observer for Diary {
    fn on_acquisition(&self, of: &Observed<'_>, event: AcquisitionEvent) {
        self.0.lock().push((of.name.to_owned(), Acquisition(event)));
    }

    fn on_lease(&self, of: &Observed<'_>, _: &str, event: LeaseEvent) {
        self.0.lock().push((of.name.to_owned(), Lease(event)));
    }
}

impl Diary {
    /// The lease events since the last call.
    fn leases(&self) -> Vec<LeaseEvent> {
        let lease = |(_, entry)| match entry {
            Lease(event) => Some(event),
            Acquisition(_) => None,
        };
        self.take().into_iter().filter_map(lease).collect()
    }

    fn take(&self) -> Vec<(String, Entry)> {
        std::mem::take(&mut *self.0.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn every_turn_of_a_lease_is_told_with_its_figures() -> Result<()> {
    let diary = Arc::new(Diary::default());
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>);
    let (client, store) = FaultyStore::client(&MemoryStore::new(), settings)?;
    let lock = Mutex::new(&client, "name");

    let guard = lock.acquire().await?;
    let told = diary.leases();
    ensure!(
        matches!(told[..], [LeaseEvent::Granted { token, waited, .. }] if token == guard.fencing_token() && waited.is_zero()),
        "{told:?}"
    );

    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let told = diary.leases();
    let slack = TTL - TTL / 3 - Duration::from_millis(65);
    ensure!(
        matches!(told[..], [LeaseEvent::Renewed { slack: left, .. }] if left.abs_diff(slack) < Duration::from_millis(5)),
        "{told:?}"
    );

    store.plan(&lock::RENEW, Fate::LoseRequest);
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    let told = diary.leases();
    ensure!(
        matches!(
            told[..],
            [LeaseEvent::Uncertain, LeaseEvent::Renewed { .. }]
        ),
        "{told:?}"
    );

    let waiting = tokio::spawn(async move { lock.acquire().no_renewal().await });
    tokio::time::sleep(Duration::from_millis(400)).await;
    ensure!(diary.leases().is_empty(), "it has no lease yet");
    guard.release().await?;
    let guard = waiting.await??;
    // The script that answers the release also notifies the waiter.
    let mut told = diary.leases();
    told.sort_by_key(|event| matches!(event, LeaseEvent::Granted { .. }));
    ensure!(
        matches!(told[..], [LeaseEvent::Released { held, .. }, LeaseEvent::Granted { waited, .. }]
            if held == Duration::from_secs(6) && waited == Duration::from_millis(400)),
        "{told:?}"
    );

    guard.lost().await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    let told = diary.leases();
    ensure!(
        matches!(told[..], [LeaseEvent::Lost { reason: LossReason::Expired, held, .. }] if held.abs_diff(TTL) < Duration::from_millis(100)),
        "{told:?}"
    );
    drop(guard);
    client.close().await;
    let told = diary.leases();
    ensure!(told.is_empty(), "what was lost is not released: {told:?}");
    Ok(())
}

/// The observed claims.
#[derive(Debug, Default)]
struct Claims(Cell<Vec<String>>);

impl Observer for Claims {
    fn on_lease(&self, _: &Observed<'_>, claim: &str, _: LeaseEvent) {
        self.0.lock().push(claim.to_owned());
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
        // Once for its grant and once for its release.
        shown.extend([claim.clone(), claim.clone()]);
        guard.release().await?;
    }
    let told = claims.0.lock();
    ensure!(*told == shown, "{told:?}, not {shown:?}");
    ensure!(told[0] != told[2]);
    Ok(())
}

/// An observer with a bug of its own.
#[derive(Debug)]
struct Panicking;

impl Observer for Panicking {
    fn on_acquisition(&self, _: &Observed<'_>, _: AcquisitionEvent) {
        std::panic::resume_unwind(Box::new("an observer's own defect"));
    }

    fn on_lease(&self, _: &Observed<'_>, _: &str, _: LeaseEvent) {
        std::panic::resume_unwind(Box::new("an observer's own defect"));
    }

    fn on_client(&self, _: ClientEvent) {
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
    // The client's own tasks renew and send heartbeats, and they notify observers too.
    tokio::time::sleep(TTL * 3).await;
    guard.verify().await?;
    client.revoke("name").await?;
    guard.lost().await;
    drop(guard);
    waiting.await??.release().await?;
    Ok(())
}

/// How the acquisitions of a name since the last call ended, and for each whether it was reported as waiting.
///
/// # Errors
///
/// If one did not begin first, waited after its end, or ended more than once.
fn ends(diary: &Diary, name: &str) -> Result<Vec<(AcquisitionOutcome, bool)>> {
    let (mut begun, mut waiting, mut ends) = (0, 0, Vec::new());
    let told = diary.take();
    for (_, entry) in told.iter().filter(|(of, _)| of == name) {
        match entry {
            Acquisition(AcquisitionEvent::Began) => begun += 1,
            Acquisition(AcquisitionEvent::Waiting) => waiting += 1,
            Acquisition(AcquisitionEvent::Ended {
                outcome, waited, ..
            }) => {
                begun -= 1;
                waiting -= i32::from(*waited);
                ends.push((*outcome, *waited));
            }
            _ => {}
        }
        ensure!(begun >= 0 && waiting >= 0, "{told:?}");
    }
    ensure!(begun == 0 && waiting == 0, "{told:?}");
    Ok(ends)
}

#[tokio::test(start_paused = true)]
async fn every_acquisition_that_begins_is_told_to_end_in_one_way() -> Result<()> {
    use AcquisitionOutcome as By;
    let diary = Arc::new(Diary::default());
    let server = MemoryStore::new();
    let settings = || {
        let observer = Arc::clone(&diary) as Arc<dyn Observer>;
        Client::builder().ttl(TTL).observer(observer)
    };
    let client = settings().build(Arc::new(server.sibling()))?;
    let mutex = Mutex::new(&client, "name");
    let second = Duration::from_secs(1);

    let guard = mutex.acquire().await?;
    ensure!(ends(&diary, "name")? == [(By::Granted, false)]);
    ensure!(mutex.try_acquire().await?.is_none());
    ensure!(ends(&diary, "name")? == [(By::Refused, false)]);
    ensure!(mutex.acquire().wait_for(Duration::ZERO).await.is_err());
    ensure!(ends(&diary, "name")? == [(By::TimedOut, false)]);
    ensure!(mutex.acquire().wait_for(second).await.is_err());
    ensure!(ends(&diary, "name")? == [(By::TimedOut, true)]);
    let dropped = tokio::time::timeout(second, mutex.acquire().into_future());
    ensure!(dropped.await.is_err());
    ensure!(ends(&diary, "name")? == [(By::Abandoned, true)]);
    let wrong_kind = RwLock::new(&client, "name");
    ensure!(wrong_kind.read().await.is_err());
    ensure!(ends(&diary, "name")? == [(By::Failed, false)]);
    // With several names, each is reported, however the whole ends.
    let both = MultiLock::new([&mutex, &Mutex::new(&client, "other")])?;
    ensure!(both.acquire().wait_for(second).await.is_err());
    let told = diary.0.lock().clone();
    ensure!(ends(&diary, "name")? == [(By::TimedOut, true)], "{told:?}");
    *diary.0.lock() = told;
    ensure!(ends(&diary, "other")? == [(By::TimedOut, false)]);
    guard.release().await?;
    both.acquire().await?.release().await?;
    ensure!(ends(&diary, "name")? == [(By::Granted, false)]);

    let fair = FairLock::new(&client, "queue");
    let _held = fair.acquire().await?;
    let waiting = tokio::spawn(fair.acquire().into_future());
    tokio::time::sleep(second).await;
    ensure!(fair.acquire().max_queue(1).await.is_err());
    client.close().await;
    ensure!(waiting.await?.is_err());
    ensure!(
        ends(&diary, "queue")?
            == [
                (By::Granted, false),
                (By::QueueFull, false),
                (By::Closed, true)
            ]
    );
    ensure!(fair.acquire().await.is_err());
    ensure!(ends(&diary, "queue")?.is_empty(), "it did not begin");

    // Of several servers' clients, the first one reports.
    let servers: Vec<_> = (0..3).map(|_| MemoryStore::new()).collect();
    let clients = servers
        .iter()
        .map(|server| settings().build(Arc::new(server.sibling())));
    let clients: Vec<_> = clients.collect::<lockkeeper::Result<_>>()?;
    let redlock = Redlock::new(&clients, "majority")?;
    let guard = redlock.acquire().await?;
    ensure!(redlock.acquire().wait_for(second).await.is_err());
    let ended = ends(&diary, "majority")?;
    ensure!(
        ended == [(By::Granted, false), (By::TimedOut, true)],
        "{ended:?}"
    );
    guard.release().await?;

    let once = Once::new(&clients[0], "work");
    once.get_or_run(async |_| Ok::<_, std::io::Error>(Vec::new()))
        .await?;
    once.get_or_run(async |_| Ok::<_, std::io::Error>(Vec::new()))
        .await?;
    ensure!(ends(&diary, "work")? == [(By::Granted, false), (By::Done, false)]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_lease_that_is_granted_is_told_to_end_in_one_way() -> Result<()> {
    let diary = Arc::new(Diary::default());
    let server = MemoryStore::new();
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>);
    let (client, store) = FaultyStore::client(&server, settings)?;
    let other = Client::builder().build(Arc::new(server.sibling()))?;
    let lock = Mutex::new(&client, "name");
    // The end of the one hold since the last call, as it is reported after a while, and how long it was held.
    let ended = async || {
        tokio::time::sleep(TTL * 2).await;
        let mut told = diary.leases();
        told.retain(|it| !matches!(it, LeaseEvent::Renewed { .. }));
        match told[..] {
            [LeaseEvent::Granted { .. }, end] => match end {
                LeaseEvent::Released { held, .. } => Ok(("released", held)),
                LeaseEvent::Unconfirmed { held, .. } => Ok(("unconfirmed", held)),
                LeaseEvent::Lost { reason, held, .. } => Ok((reason.as_str(), held)),
                _ => Err(anyhow!("{end:?} is no end")),
            },
            _ => Err(anyhow!("{told:?}")),
        }
    };
    lock.acquire().await?.release().await?;
    ensure!(ended().await?.0 == "released");
    drop(lock.acquire().await?);
    ensure!(ended().await?.0 == "released");
    let guard = lock.acquire().no_renewal().await?;
    ensure!(ended().await?.0 == "expired");
    drop(guard);
    let guard = lock.acquire().await?;
    other.revoke("name").await?;
    ensure!(ended().await?.0 == "revoked");
    drop(guard);
    // The server had forgotten the claim, which only the release finds out.
    let guard = lock.acquire().await?;
    server.execute(&["DEL", "lockkeeper:name"])?;
    ensure!(guard.release().await.is_err());
    ensure!(ended().await?.0 == "gone");
    // No release is ever answered.
    let guard = lock.acquire().await?;
    store.silence("lockkeeper:name");
    drop(guard);
    let (end, held) = ended().await?;
    ensure!(end == "unconfirmed" && held > TTL, "{end} after {held:?}");
    // Or the client is closed first.
    let guard = Mutex::new(&client, "second").acquire().await?;
    store.silence("lockkeeper:second");
    drop(guard);
    client.close().await;
    ensure!(ended().await?.0 == "unconfirmed");
    Ok(())
}
