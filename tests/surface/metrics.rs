//! What an exporter shows: every acquisition once, with its outcome, and gauges that return to zero.

mod exported;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use exported::{Exported, TTL, settings};
use lockkeeper::{
    AcquisitionEvent, AcquisitionOutcome, Client, Error, FairLock, LeaseEvent, LossReason,
    MultiLock, Mutex, Observed, Observer, Once, OnceOutcome, Redlock, ReentrantLock, RwLock,
    Upgrade,
};
use lockkeeper_core::store::Store;
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::{Fate, FaultyStore};
use lockkeeper_testkit::proxy::Proxy;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::PATIENCE;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// A store with planned faults, a client of it with exported metrics, and the exporter.
struct Shop {
    store: Arc<FaultyStore>,
    client: Client,
    exported: Exported,
}

impl Shop {
    fn open() -> Result<Self> {
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        let exported = Exported::new();
        let client = exported.client(Arc::clone(&store) as Arc<dyn Store>)?;
        Ok(Self {
            store,
            client,
            exported,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_and_released_is_counted_and_measured() -> Result<()> {
    let Shop {
        client, exported, ..
    } = Shop::open()?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    ensure!(exported.sum("lockkeeper_holders", "kind=\"mutex\"") == 1.0);
    ensure!(exported.sum("lockkeeper_acquiring", "") == 0.0);
    ensure!(exported.series("lockkeeper_connected") == [(String::new(), 1.0)]);
    sleep(Duration::from_secs(5)).await;
    guard.release().await?;
    exported.ensure_over(&[(AcquisitionOutcome::Granted, 1)])?;
    ensure!(exported.series("lockkeeper_hold_seconds_sum") == [("kind=\"mutex\"".to_owned(), 5.0)]);
    ensure!(exported.sum("lockkeeper_acquire_seconds_sum", "") == 0.0);

    // Renewed after each third of a ttl.
    ensure!(exported.sum("lockkeeper_renewals_total", "kind=\"mutex\"") == 2.0);
    ensure!(exported.sum("lockkeeper_renewal_slack_seconds_count", "") == 2.0);
    let work = "work=\"renewal\"";
    ensure!(exported.sum("lockkeeper_batch_claims_count", work) == 2.0);
    ensure!(exported.sum("lockkeeper_batch_lateness_seconds_count", work) == 2.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_waits_is_a_waiter_until_it_holds() -> Result<()> {
    let Shop {
        client, exported, ..
    } = Shop::open()?;
    let lock = FairLock::new(&client, "name");
    let guard = lock.acquire().await?;
    let waiting = tokio::spawn(lock.acquire().into_future());
    sleep(Duration::from_secs(4)).await;
    let fair = "kind=\"fair\"";
    ensure!(exported.sum("lockkeeper_waiters", fair) == 1.0);
    ensure!(exported.sum("lockkeeper_acquiring", fair) == 1.0);
    ensure!(exported.sum("lockkeeper_holders", fair) == 1.0);
    ensure!(exported.sum("lockkeeper_batch_claims_count", "work=\"heartbeat\"") >= 1.0);
    guard.release().await?;
    waiting.await??.release().await?;
    exported.ensure_over(&[(AcquisitionOutcome::Granted, 2)])?;
    let waited = exported.sum("lockkeeper_acquire_seconds_sum", fair);
    ensure!(waited == 4.0, "{waited} s");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_other_end_of_an_acquisition_is_counted_once_and_leaves_nobody_behind() -> Result<()>
{
    use AcquisitionOutcome::{
        Abandoned, Closed, Done, Failed, Granted, QueueFull, Refused, TimedOut,
    };
    let Shop {
        store,
        client,
        exported,
    } = Shop::open()?;
    let lock = FairLock::new(&client, "name");
    let guard = lock.acquire().await?;

    ensure!(lock.try_acquire().await?.is_none());
    let wait = Duration::from_secs(1);
    let error = lock.acquire().wait_for(wait).await.err();
    ensure!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
    let given_up = tokio::spawn(lock.acquire().into_future());
    sleep(wait).await;
    let error = lock.acquire().max_queue(1).await.err();
    ensure!(matches!(error, Some(Error::QueueFull { .. })), "{error:?}");
    given_up.abort();
    ensure!(given_up.await.is_err_and(|it| it.is_cancelled()));
    store.plan(&lock::ACQUIRE, Fate::Refuse("ERR not today"));
    ensure!(lock.try_acquire().await.is_err());
    guard.release().await?;

    let work = Once::new(&client, "work");
    for _ in 0..2 {
        let done = work.get_or_run(async |_| Ok::<_, Error>(b"done".to_vec()));
        ensure!(matches!(
            done.await,
            Ok(OnceOutcome::Ran(_) | OnceOutcome::Stored(_))
        ));
    }

    let lost = lock.acquire().await?;
    let waiting = tokio::spawn(lock.acquire().into_future());
    sleep(wait).await;
    ensure!(exported.sum("lockkeeper_waiters", "") == 1.0);
    client.close().await;
    let error = waiting.await?.err();
    ensure!(matches!(error, Some(Error::Closed)), "{error:?}");
    drop(lost);
    exported.ensure_over(&[
        (Granted, 3),
        (Refused, 1),
        (TimedOut, 1),
        (QueueFull, 1),
        (Done, 1),
        (Abandoned, 1),
        (Closed, 1),
        (Failed, 1),
    ])?;
    ensure!(exported.sum("lockkeeper_losses_total", "reason=\"client_closed\"") == 1.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_counted_by_its_reason_and_has_no_holder() -> Result<()> {
    let Shop {
        client, exported, ..
    } = Shop::open()?;
    let lock = Mutex::new(&client, "name");
    let losses = |reason: LossReason| {
        let label = format!("kind=\"mutex\",reason=\"{}\"", reason.as_str());
        exported.sum("lockkeeper_losses_total", &label)
    };
    let guard = lock.acquire().no_renewal().await?;
    ensure!(losses(LossReason::Expired) == 0.0);
    // The series exist before there is anything to count, so an alert sees the first loss.
    ensure!(exported.series("lockkeeper_losses_total").len() == 5);
    ensure!(guard.lost().await.reason == LossReason::Expired);
    sleep(Duration::from_secs(1)).await;
    ensure!(losses(LossReason::Expired) == 1.0);
    ensure!(exported.sum("lockkeeper_holders", "") == 0.0);
    drop(guard);

    let guard = lock.acquire().await?;
    client.revoke("name").await?;
    ensure!(guard.lost().await.reason == LossReason::Revoked);
    ensure!(exported.sum("lockkeeper_holders", "") == 0.0);
    drop(guard);
    client.close().await;
    ensure!(losses(LossReason::Revoked) == 1.0 && losses(LossReason::Expired) == 1.0);
    ensure!(exported.sum("lockkeeper_losses_total", "") == 2.0);
    ensure!(exported.sum("lockkeeper_hold_seconds_count", "") == 2.0);
    exported.ensure_over(&[(AcquisitionOutcome::Granted, 2)])
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_confirms_is_the_end_of_a_holder_too() -> Result<()> {
    let Shop {
        store,
        client,
        exported,
    } = Shop::open()?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    store.silence("name");
    drop(guard);
    sleep(TTL * 3).await;
    ensure!(exported.sum("lockkeeper_unconfirmed_releases_total", "kind=\"mutex\"") == 1.0);
    ensure!(exported.sum("lockkeeper_hold_seconds_count", "") == 1.0);
    exported.ensure_over(&[(AcquisitionOutcome::Granted, 1)])
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_uncertain() -> Result<()> {
    let Shop {
        store,
        client,
        exported,
    } = Shop::open()?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    store.plan(&lock::RENEW, Fate::LoseRequest);
    sleep(TTL).await;
    ensure!(exported.series("lockkeeper_uncertain_renewals_total") == [(String::new(), 1.0)]);
    guard.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_connection_that_is_down_and_back_is_seen() -> Result<()> {
    let server = Server::start().await?;
    let proxy = Proxy::in_front_of(&server).await?;
    let exported = Exported::new();
    let client = lockkeeper::connect_with(proxy.url(), settings(exported.metrics())).await?;
    ensure!(exported.series("lockkeeper_connected").is_empty());
    Mutex::new(&client, "name")
        .acquire()
        .await?
        .release()
        .await?;
    ensure!(exported.series("lockkeeper_connected") == [(String::new(), 1.0)]);
    ensure!(exported.series("lockkeeper_disconnects_total") == [(String::new(), 0.0)]);
    let becomes = async |value: f64| {
        while exported.series("lockkeeper_connected") != [(String::new(), value)] {
            sleep(Duration::from_millis(10)).await;
        }
    };
    proxy.refuse(true);
    proxy.cut_all();
    timeout(PATIENCE, becomes(0.0)).await?;
    ensure!(exported.sum("lockkeeper_disconnects_total", "") >= 1.0);
    proxy.refuse(false);
    timeout(PATIENCE, becomes(1.0)).await?;
    client.close().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn holders_of_every_sort_leave_no_trace_in_the_gauges() -> Result<()> {
    let Shop {
        client, exported, ..
    } = Shop::open()?;
    let holders = |kind: &str| exported.sum("lockkeeper_holders", &format!("kind=\"{kind}\""));

    let guard = ReentrantLock::new(&client, "nested").acquire().await?;
    let inner = guard.reenter().await?;
    ensure!(holders("reentrant") == 2.0);
    guard.release().await?;
    drop(inner);

    let lock = RwLock::new(&client, "document");
    let writing = lock.write().await?;
    let reading = writing.downgrade().await?;
    let also = lock.read().await?;
    ensure!(holders("rwlock") == 2.0);
    also.release().await?;
    let Upgrade::Write(writing) = reading.try_upgrade().await? else {
        bail!("one reader was left and could not write");
    };
    ensure!(holders("rwlock") == 1.0);
    drop(writing);

    // The waiters of one client hand a mutex over among themselves.
    let mutex = Mutex::new(&client, "name");
    let first = mutex.acquire().await?;
    let mut others = JoinSet::new();
    for _ in 0..5 {
        let mutex = mutex.clone();
        others.spawn(async move { mutex.acquire().await?.release().await });
    }
    sleep(Duration::from_secs(1)).await;
    ensure!(exported.sum("lockkeeper_waiters", "") == 5.0);
    first.release().await?;
    while let Some(other) = others.join_next().await {
        other??;
    }

    let both = MultiLock::new([&mutex, &Mutex::new(&client, "other")])?;
    let guard = both.acquire().await?;
    ensure!(holders("mutex") == 2.0);
    guard.release().await?;

    let mut clients = vec![client];
    for _ in 0..2 {
        clients.push(exported.client(Arc::new(MemoryStore::new()))?);
    }
    let guard = Redlock::new(&clients, "majority")?.acquire().await?;
    let held = holders("redlock");
    ensure!((2.0..=3.0).contains(&held), "{held}");
    guard.release().await?;
    for client in &clients {
        client.close().await;
    }
    exported.ensure_over(&[(AcquisitionOutcome::Granted, 13)])
}

/// Counts events.
#[derive(Debug, Clone, Default)]
struct Tally(Arc<AtomicU32>);

impl Observer for Tally {
    fn on_acquisition(&self, _: &Observed<'_>, _: AcquisitionEvent) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn on_lease(&self, _: &Observed<'_>, _: &str, _: LeaseEvent) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_of_ones_own_is_told_beside_the_metrics() -> Result<()> {
    let (exported, tally) = (Exported::new(), Tally::default());
    let pair = (exported.metrics(), tally.clone());
    let client = Client::builder().observer(Arc::new(pair));
    let client = client.build(Arc::new(MemoryStore::new()))?;
    Mutex::new(&client, "name")
        .acquire()
        .await?
        .release()
        .await?;
    exported.ensure_over(&[(AcquisitionOutcome::Granted, 1)])?;
    // Begun, granted, ended and released.
    ensure!(tally.0.load(Ordering::Relaxed) == 4);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn names_are_labels_only_as_the_user_says() -> Result<()> {
    let exported = Exported::new();
    let metrics = exported.metrics();
    let by_first_word = metrics.label_by(|name| match name.split_once(':') {
        Some(("order", _)) => "order",
        _ => "other",
    });
    let client = settings(by_first_word).build(Arc::new(MemoryStore::new()))?;
    for name in ["order:1", "order:2", "report:2026"] {
        Mutex::new(&client, name).acquire().await?.release().await?;
    }
    let granted = |labels: &str| {
        let labels = format!("outcome=\"granted\",{labels}");
        exported.sum("lockkeeper_acquisitions_total", &labels)
    };
    ensure!(granted("name=\"order\"") == 2.0 && granted("name=\"other\"") == 1.0);
    ensure!(exported.series("lockkeeper_holders").len() == 2);
    exported.ensure_over(&[(AcquisitionOutcome::Granted, 3)])
}

#[tokio::test(start_paused = true)]
async fn two_clients_are_told_apart_by_their_names() -> Result<()> {
    let exported = Exported::new();
    for (name, times) in [("orders", 1), ("reports", 2)] {
        let metrics = exported.metrics().client(name);
        let client = settings(metrics).build(Arc::new(MemoryStore::new()))?;
        for _ in 0..times {
            Mutex::new(&client, "name")
                .acquire()
                .await?
                .release()
                .await?;
        }
    }
    let granted = |client: &str| {
        let labels = format!("outcome=\"granted\",client=\"{client}\"");
        exported.sum("lockkeeper_acquisitions_total", &labels)
    };
    ensure!(granted("orders") == 1.0 && granted("reports") == 2.0);
    let connected = exported.series("lockkeeper_connected");
    let labels = ["orders", "reports"].map(|client| format!("client=\"{client}\""));
    ensure!(
        connected == labels.map(|label| (label, 1.0)),
        "{connected:?}"
    );
    exported.ensure_over(&[(AcquisitionOutcome::Granted, 3)])
}
