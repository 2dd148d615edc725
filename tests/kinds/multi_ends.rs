//! The end of a multi-lock: released, dropped, lost by one of its members, or refused in part.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, End, Error, FairLock, Lease, LossReason, MultiLock, Mutex, ReentrantLock, Released,
    RwLock,
};
use lockkeeper_core::clock::{Clock, Moment};
use lockkeeper_core::store::Store;
use lockkeeper_lua::{lock, multi};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::FaultyStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use tokio::time::{Instant, sleep, timeout};

use crate::kinds::multi::{TTL, all_free, held, mutexes};
use lockkeeper_tests::{client, faulty, patient, until};

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_given_up_is_one_request_too() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = mutexes(&client, 0..16)?;
    lock.acquire().await?.release().await?;
    let before = store.sent(&multi::RELEASE);
    store.slow_down(&multi::ACQUIRE, Duration::from_millis(50));
    let late = timeout(Duration::from_millis(20), lock.acquire().into_future()).await;
    ensure!(late.is_err(), "it was answered");
    all_free(&server).await?;
    ensure!(store.sent(&multi::RELEASE) == before + 1);
    ensure!(store.sent(&lock::RELEASE) == 0);
    Ok(())
}

#[tokio::test]
async fn a_dropped_guard_is_one_command_of_a_server() -> Result<()> {
    let server = Server::start().await?;
    let client = server.client(patient().label("")).await?;
    let lock = mutexes(&client, 0..128)?;
    lock.acquire().await?.release().await?;
    server.command(&["CONFIG", "RESETSTAT"]).await?;
    let guard = lock.acquire().await?;
    ensure!(server.commandstats("evalsha").await? == 1);
    drop(guard);
    until(async || Ok(held(&server).await?.is_empty())).await?;
    ensure!(server.commandstats("evalsha").await? == 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_is_not_done_if_a_member_was_gone_when_it_left() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let lock = mutexes(&client, ["a", "b"])?;
    let done = lock
        .acquire()
        .hold(async |_| server.command(&["DEL", "lockkeeper:b"]).await)
        .await;
    ensure!(
        matches!(&done, Err(Error::Lost { name, reason: LossReason::Gone, .. }) if name == "b"),
        "{done:?}"
    );
    all_free(&server).await
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_one_member_hands_out_is_known_to_the_others() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let prices = RwLock::new(&client, "prices");
    let members = [Mutex::new(&client, "a").target(), prices.writer().target()];
    let guard = MultiLock::new(members)?.acquire().await?;
    let owner = guard.part("a").context("a lease")?.owner();
    let inside = prices.read().owner(&owner).await?;
    ensure!(guard.release().await? == Released::StillHeld(1));
    inside.release().await?;
    all_free(&server).await
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_leaves_the_whole_to_expire() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let guard = mutexes(&client, ["a", "b", "c"])?.acquire().await?;
    let report = client.close().await;
    ensure!(report.expiring == 3 && report.confirmed == 0, "{report:?}");
    ensure!(held(&server).await?.len() == 3, "some were let go");
    let End::Lost(lost) = guard.ended().await else {
        anyhow::bail!("it was released");
    };
    ensure!(lost.reason == LossReason::ClientClosed, "{lost:?}");
    drop(guard);
    ensure!(held(&server).await?.len() == 3, "some were let go");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn fixed_leases_end_the_whole_with_the_first_of_them() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let queue = FairLock::new(&client, "f");
    let busy = queue.acquire().await?;
    let lock = MultiLock::new([Mutex::new(&client, "a").target(), queue.target()])?;
    let waiting = tokio::spawn(lock.acquire().no_renewal().into_future());
    sleep(TTL / 2).await;
    busy.release().await?;
    let guard = waiting.await??;
    let begun = Instant::now();
    let lost = guard.lost().await;
    ensure!(
        lost.name == "a" && lost.reason == LossReason::Expired,
        "{lost:?}"
    );
    ensure!(begun.elapsed() < TTL / 2, "{:?}", begun.elapsed());
    // The other one has half of its lease left.
    ensure!(held(&server).await?.contains(&"lockkeeper:f".to_owned()));
    drop(guard);
    timeout(TTL / 6, server.vanished("lockkeeper:f")).await??;
    Ok(())
}

/// A server may allow the script of several releases and forbid a command in the middle of it.
#[tokio::test]
async fn who_left_in_a_script_that_failed_half_way_is_released_and_not_lost() -> Result<()> {
    let server = Server::start().await?;
    let words = "ACL SETUSER clerk on >secret ~* &* +@all -zrem";
    server
        .command(&words.split(' ').collect::<Vec<_>>())
        .await?;
    let url = server.url().replace("//", "//clerk:secret@");
    let client = lockkeeper::connect(&url).await?;
    let lock = MultiLock::new([
        Mutex::new(&client, "a").target(),
        ReentrantLock::new(&client, "b").target(),
    ])?;
    let guard = lock.acquire().await?;
    // A name that is held twice is stored in other keys.
    let again = ReentrantLock::new(&client, "b")
        .acquire()
        .owner(&guard.owner());
    let _again = std::mem::ManuallyDrop::new(again.await?);
    let error = guard.release().await.err();
    let Some(Error::Partial { failures, .. }) = &error else {
        anyhow::bail!("{error:?}");
    };
    let names: Vec<&str> = failures.iter().map(|(name, _)| &**name).collect();
    ensure!(names == ["b"], "{error:?}");
    ensure!(held(&server).await? == ["lockkeeper:b"]);
    Ok(())
}

/// A clock that runs an action at a chosen reading.
struct Tripped {
    inner: Arc<dyn Clock>,
    /// Readings left until then.
    readings: AtomicUsize,
    deed: StdMutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Tripped {
    fn new(inner: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            readings: AtomicUsize::new(0),
            deed: StdMutex::default(),
        })
    }

    /// Runs `deed` at the reading that follows this many others.
    fn set(&self, readings: usize, deed: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut place = self.deed.lock().ok().context("poisoned")?;
        *place = Some(Box::new(deed));
        self.readings.store(readings, Ordering::SeqCst);
        Ok(())
    }
}

impl fmt::Debug for Tripped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tripped")
    }
}

impl Clock for Tripped {
    fn now(&self) -> Moment {
        let before = self.readings.load(Ordering::SeqCst);
        if before > 0 {
            self.readings.store(before - 1, Ordering::SeqCst);
        } else if let Some(deed) = self.deed.lock().ok().and_then(|mut deed| deed.take()) {
            deed();
        }
        self.inner.now()
    }
}

/// While a guard checks its members one after the other, a checked member is lost, and an unchecked one is therefore released.
/// On a runtime with several threads this happens by itself now and then.
#[tokio::test(start_paused = true)]
async fn a_loss_between_two_looks_at_the_members_is_no_release() -> Result<()> {
    let server = MemoryStore::new();
    let clock = Tripped::new(server.clock());
    let own = Arc::clone(&clock) as Arc<dyn Clock>;
    let store = FaultyStore::by_clock(Arc::new(server.sibling()), own);
    let client = Client::builder().ttl(TTL).build(store)?;
    let lock = mutexes(&client, ["a", "b"])?;
    for readings in 0..4 {
        let guard = lock.acquire().await?;
        server.command(&["DEL", "lockkeeper:a"]).await?;
        let first: Lease = guard.parts()[0].clone();
        // The embedded engine answers at once.
        clock.set(readings, move || {
            let mut asking = std::pin::pin!(first.verify());
            let _ = asking
                .as_mut()
                .poll(&mut TaskContext::from_waker(Waker::noop()));
        })?;
        // A check reads the clock once per member; the next check finds a loss that comes later.
        let mut looks = (0..3).map(|_| guard.ensure_held());
        let seen = looks.find(Result::is_err).unwrap_or(Ok(()));
        ensure!(
            matches!(&seen, Err(Error::Lost { name, .. }) if name == "a"),
            "at reading {readings}: {seen:?}"
        );
        let End::Lost(lost) = guard.ended().await else {
            anyhow::bail!("at reading {readings} it was released");
        };
        ensure!(lost.name == "a");
        drop(guard);
        all_free(&server).await?;
    }
    Ok(())
}
