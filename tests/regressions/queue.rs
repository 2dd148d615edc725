//! Sequences that once broke something where claims queue up or many read. Each test is named after what must hold.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Cell};
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{
    AcquisitionEvent, Client, Error, FairLock, Lease, LeaseEvent, LeaseState, LossReason, Observed,
    Observer, RwLock,
};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::{Fate, FaultyStore};
use lockkeeper_testkit::site::Site as _;
use lockkeeper_tests::{client, faulty, until};
use tokio::sync::mpsc;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(30);
const HOLDERS: &str = "lockkeeper.holders:{lockkeeper:name}";

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

async fn queued(lock: &FairLock, number: u64) -> Result<()> {
    until(async || Ok(lock.queue_len().await? == number)).await
}

async fn queued_for(lock: &RwLock, number: u64) -> Result<()> {
    until(async || Ok(lock.queue_len().await? == number)).await
}

/// A client with a waiter ttl of a second, and one with a minute, whose store can fail.
async fn of_two_waiter_ttls(server: &MemoryStore) -> Result<(Client, Client, Arc<FaultyStore>)> {
    let settings = |waiter_ttl| Client::builder().ttl(TTL).waiter_ttl(waiter_ttl);
    let short = server.client(settings(secs(1))).await?;
    let (long, store) = FaultyStore::client(server, settings(secs(60)))?;
    Ok((short, long, store))
}

#[tokio::test(start_paused = true)]
async fn a_grant_by_a_client_of_a_shorter_waiter_ttl_is_valid_no_longer_than_it_lasts() -> Result<()>
{
    let server = MemoryStore::new();
    let (short, long, store) = of_two_waiter_ttls(&server).await?;
    let (leaver, waiter) = (FairLock::new(&short, "name"), FairLock::new(&long, "name"));
    let guard = leaver.acquire().await?;
    let waiting = tokio::spawn(waiter.acquire().into_future());
    queued(&leaver, 1).await?;
    guard.release().await?;
    let granted = waiting.await??;
    store.silence("name");
    let next = leaver.acquire().await?;
    let left = granted.remaining();
    ensure!(granted.ensure_held().is_err(), "{left:?} left");
    ensure!(next.fencing_token() > granted.fencing_token());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_is_let_in_by_a_client_of_a_shorter_waiter_ttl_never_holds_beside_a_writer()
-> Result<()> {
    for writes in [false, true] {
        let server = MemoryStore::new();
        let (short, long, store) = of_two_waiter_ttls(&server).await?;
        let (leaver, waiter) = (RwLock::new(&short, "name"), RwLock::new(&long, "name"));
        let guard = leaver.write().await?;
        let waiting = tokio::spawn(async move {
            // The guards must not release when they are dropped.
            let lease = if writes {
                let guard = ManuallyDrop::new(waiter.write().await?);
                Lease::clone(&guard)
            } else {
                let guard = ManuallyDrop::new(waiter.read().await?);
                Lease::clone(&guard)
            };
            anyhow::Ok(lease)
        });
        queued_for(&leaver, 1).await?;
        guard.release().await?;
        let granted = waiting.await??;
        store.silence("name");
        let next = leaver.write().await?;
        let left = granted.remaining();
        ensure!(granted.ensure_held().is_err(), "{left:?} left");
        ensure!(next.fencing_token() > granted.fencing_token());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_word_that_overtakes_the_answer_to_a_heartbeat_is_heeded_when_that_comes() -> Result<()> {
    let server = MemoryStore::new();
    let (here, store) = faulty(&server, TTL)?;
    let lock = FairLock::new(&here, "name");
    // The client subscribes to its grants with its first grant.
    lock.acquire().await?.release().await?;
    let there = client(&server, TTL).await?;
    let holder = FairLock::new(&there, "name").acquire().await?;
    // A message does not grant a fixed lease: the client asks, and gets a late reply.
    let waiting = tokio::spawn(lock.acquire().no_renewal().into_future());
    queued(&lock, 1).await?;
    sleep(secs(1)).await;
    store.slow_down(&lock::HEARTBEAT, Duration::from_millis(500));
    let heartbeats = store.sent(&lock::HEARTBEAT);
    holder.release().await?;
    store.wait_sent(&lock::HEARTBEAT, heartbeats + 1).await;
    sleep(Duration::from_millis(100)).await;
    ensure!(there.revoke("name").await? == 1 && !waiting.is_finished());
    let guard = waiting.await??;
    ensure!(
        guard.state() == LeaseState::Lost(LossReason::Revoked),
        "{guard:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_reads_inside_a_write_and_converts_it_reenters_by_either_guard() -> Result<()>
{
    let server = MemoryStore::new();
    let lock = RwLock::new(&client(&server, TTL).await?, "name");
    let writing = lock.write().await?;
    let token = writing.fencing_token();
    let inside = writing.read().await?;
    let after = writing.downgrade().await?;
    // All claims of an owner that hold at one time share a token.
    ensure!(inside.fencing_token() == token && after.fencing_token() == token);
    for guard in [&inside, &after] {
        let again = guard.reenter().await?;
        again.verify().await?;
        ensure!(again.fencing_token() <= after.fencing_token());
    }
    // The claim is lost on the server, whatever else the owner holds there.
    server.command(&["DEL", HOLDERS]).await?;
    let other = lock.read().owner(&after.owner()).await?;
    let refused = after.reenter().await;
    ensure!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    drop(other);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn readers_that_died_inside_a_write_leave_no_token_behind() -> Result<()> {
    let server = MemoryStore::new();
    let (here, store) = faulty(&server, TTL)?;
    let lock = RwLock::new(&here, "name");
    let writing = lock.write().await?;
    let reading = writing.read().await?;
    for _ in 0..20 {
        let dead = writing.read().await?;
        // No release arrives in all the time in which it is repeated.
        for _ in 0..40 {
            store.plan(&lock::RELEASE, Fate::LoseRequest);
        }
        drop(dead);
        sleep(3 * TTL).await;
    }
    let last = reading.reenter().await?;
    let members = server.command(&["ZCARD", HOLDERS]).await?;
    ensure!(members == "3", "{members} claims in place of three");
    drop(last);
    Ok(())
}

/// Blocks the acquisition of one name when it is told to wait.
#[derive(Debug)]
struct Holding {
    armed: Arc<AtomicBool>,
    waits: mpsc::UnboundedSender<()>,
    go_on: Cell<std::sync::mpsc::Receiver<()>>,
    renewed: mpsc::UnboundedSender<Duration>,
}

impl Holding {
    fn is_about(&self, of: &Observed<'_>) -> bool {
        of.name == "held" && self.armed.load(Ordering::SeqCst)
    }
}

impl Observer for Holding {
    fn on_acquisition(&self, of: &Observed<'_>, event: AcquisitionEvent) {
        if event == AcquisitionEvent::Waiting && self.is_about(of) {
            let go_on = self.go_on.lock().unwrap();
            self.waits.send(()).unwrap();
            tokio::task::block_in_place(|| go_on.recv()).unwrap();
        }
    }

    fn on_lease(&self, of: &Observed<'_>, _: &str, event: LeaseEvent) {
        if let LeaseEvent::Renewed { slack, .. } = event
            && self.is_about(of)
        {
            let _ = self.renewed.send(slack);
        }
    }
}

/// Of leases and waiters in real time.
const LONG: Duration = Duration::from_secs(100);

/// Delivers the message of a grant after the reply that says to wait, and before the acquisition handles that reply. The
/// message does not grant a `fixed` lease. Returns how much of the lease was left at its first renewal.
async fn granted_while_the_answer_is_looked_at(fixed: bool) -> Result<Option<Duration>> {
    let server = MemoryStore::new();
    let (waits, mut waiting) = mpsc::unbounded_channel();
    let (renewed, mut renewals) = mpsc::unbounded_channel();
    let (go_on, receiver) = std::sync::mpsc::channel();
    let armed = Arc::<AtomicBool>::default();
    let observer = Holding {
        armed: Arc::clone(&armed),
        waits,
        go_on: Cell::new(receiver),
        renewed,
    };
    // A heartbeat comes after a third of it, a renewal after a hundredth.
    let settings = Client::builder().ttl(LONG).waiter_ttl(LONG);
    let settings = settings.renewal_fraction(100).observer(Arc::new(observer));
    let here = settings.build(Arc::new(server.sibling()))?;
    let there = client(&server, LONG).await?;
    let (ours, theirs) = (FairLock::new(&here, "held"), FairLock::new(&there, "held"));
    // From now on, for some seconds, this client is subscribed to its grants for the name.
    let guard = theirs.acquire().await?;
    let heard = tokio::spawn(ours.acquire().into_future());
    queued(&theirs, 1).await?;
    guard.release().await?;
    heard.await??.release().await?;
    // A later message, whose arrival shows that the earlier one has been read.
    let (our_other, their_other) = (
        FairLock::new(&here, "other"),
        FairLock::new(&there, "other"),
    );
    let other_guard = their_other.acquire().await?;
    let other = tokio::spawn(our_other.acquire().into_future());
    let id = here.new_owner().to_string();
    let id = id.split(':').next().unwrap_or_default();
    while server
        .listeners(&format!("lockkeeper.grant:{{lockkeeper:other}}:{id}"))
        .await?
        == 0
    {
        tokio::task::yield_now().await;
    }

    let guard = theirs.acquire().await?;
    armed.store(true, Ordering::SeqCst);
    let acquisition = ours.acquire();
    let acquisition = if fixed {
        acquisition.no_renewal()
    } else {
        acquisition
    };
    let acquiring = tokio::spawn(acquisition.into_future());
    waiting.recv().await;
    guard.release().await?;
    other_guard.release().await?;
    drop(other.await??);
    let begun = std::time::Instant::now();
    go_on.send(())?;
    let guard = acquiring.await??;
    let took = begun.elapsed();
    ensure!(took < LONG / 4, "the grant was noticed after {took:?}");
    if fixed {
        return Ok(None);
    }
    let slack = renewals.recv().await;
    guard.ensure_held()?;
    Ok(slack)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_grant_told_while_the_acquisition_is_busy_is_renewed_at_the_pace_of_its_lease()
-> Result<()> {
    let slack = granted_while_the_answer_is_looked_at(false).await?;
    // Renewed after a hundredth of the ttl, not after the time to a heartbeat.
    ensure!(slack.is_some_and(|slack| slack > LONG * 3 / 4), "{slack:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hint_told_while_the_acquisition_is_busy_makes_it_ask_at_once() -> Result<()> {
    granted_while_the_answer_is_looked_at(true).await.map(drop)
}
