//! Orders of events and odd neighbours that are meant to break what is done to a lock from outside.

use std::sync::{Arc, Mutex as Cell, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, End, Error, HolderState, LeaseEvent, LossReason, Mutex, Observation, Observer,
    ReentrantLock, Released,
};
use lockkeeper_core::protocol::Item;
use lockkeeper_core::store::{Call, Form, Store, Value};
use lockkeeper_lua::{mutex, name, reentrant};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::unruly::{Fate, Unruly};
use tokio::time::{Instant, sleep, timeout};

const SOON: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(6);
const MOMENT: Duration = Duration::from_millis(1);

async fn client(server: &MemoryStore) -> Result<Client> {
    server.client(Client::builder().ttl(TTL)).await
}

fn unruly(server: &MemoryStore) -> Result<(Client, Arc<Unruly>)> {
    let store = Unruly::new(Arc::new(server.sibling()));
    let settings = Client::builder().ttl(TTL);
    let client = settings.build(Arc::clone(&store) as Arc<dyn Store>)?;
    Ok((client, store))
}

/// Counts the leases that are lost.
#[derive(Debug, Default)]
struct Losses(Cell<Vec<LossReason>>);

impl Observer for Losses {
    fn observe(&self, observation: &Observation<'_>) {
        if let LeaseEvent::Lost(reason) = observation.event {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(reason);
        }
    }
}

impl Losses {
    fn so_far(&self) -> Vec<LossReason> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_listen_does_not_ask_for_it_all_the_time() -> Result<()> {
    let (client, store) = unruly(&MemoryStore::new())?;
    store.refuse_subscriptions("NOPERM no permissions to access the channel");
    let guard = Mutex::new(&client, "name").acquire().await?;
    sleep(Duration::from_secs(600)).await;
    guard.verify().await?;
    let asked = store.subscriptions();
    ensure!(
        (1..=20).contains(&asked),
        "asked {asked} times in ten minutes"
    );
    // Whoever waits is told at once that nobody can.
    let waited = Instant::now();
    let waiting = Mutex::new(&client, "name").acquire().await.err();
    ensure!(
        matches!(waiting, Some(Error::Backend { .. })),
        "{waiting:?}"
    );
    ensure!(waited.elapsed() < Duration::from_secs(1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_verify_found_is_told_once() -> Result<()> {
    let server = MemoryStore::new();
    let losses = Arc::new(Losses::default());
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&losses) as Arc<dyn Observer>);
    let client = server.client(settings).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    let nested = ReentrantLock::new(&client, "nested");
    let nested = nested.acquire(&client.new_owner()).await?;
    sleep(MOMENT).await;
    server.mute(true);
    server.execute(&["DEL", "lockkeeper:name"])?;
    ensure!(client.revoke("nested").await? == 1);
    let (one, other) = tokio::join!(guard.verify(), guard.verify());
    ensure!(one.is_err() && other.is_err());
    ensure!(nested.verify().await.is_err());
    sleep(3 * TTL).await;
    let told = losses.so_far();
    ensure!(told == [LossReason::Gone, LossReason::Revoked], "{told:?}");
    drop((guard, nested));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_revoked_holder_is_told_once_however_often_and_whichever_way_it_hears() -> Result<()> {
    let server = MemoryStore::new();
    let losses = Arc::new(Losses::default());
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&losses) as Arc<dyn Observer>);
    let (client, other) = (server.client(settings).await?, client(&server).await?);
    let guard = Mutex::new(&client, "name").acquire().await?;
    sleep(MOMENT).await;
    for _ in 0..3 {
        ensure!(other.revoke("name").await? == 1);
        sleep(MOMENT).await;
    }
    ensure!(guard.verify().await.is_err());
    sleep(3 * TTL).await;
    drop(guard);
    client.close().await;
    ensure!(losses.so_far() == [LossReason::Revoked]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_value_is_no_text_can_be_inspected() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    let write = "return redis.call('SET', KEYS[1], '\\255\\000\\254', 'PX', 5000)";
    server.command(&["EVAL", write, "1", "job"]).await.ok();
    let seen = client.inspect("job").await?;
    ensure!(seen.kind.as_deref() == Some("mutex"), "{seen:?}");
    ensure!(seen.holders.len() == 1 && seen.holders[0].owner.is_none());
    // It is not taken for another one.
    ensure!(!client.force_release("job", "").await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_looks_like_a_word_of_ours_in_anothers_value_excludes_and_is_left_alone() -> Result<()>
{
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    for value in ["kept:x", "revoked:x", "kept:", "revoked:kept:y", ""] {
        server.execute(&["SET", "job", value, "PX", "5000"])?;
        ensure!(Mutex::new(&client, "job").try_acquire().await?.is_none());
        let error = client.revoke("job").await.err();
        ensure!(matches!(error, Some(Error::WrongKind { .. })), "{error:?}");
        ensure!(server.command(&["GET", "job"]).await? == value);
        let shown = client.inspect("job").await?.holders[0].claim.clone();
        ensure!(!client.force_release("job", "another").await?);
        ensure!(client.force_release("job", &shown).await?, "{value}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_whose_answer_was_lost_is_not_reported_as_none() -> Result<()> {
    let server = MemoryStore::new();
    let holder = client(&server).await?;
    let (other, store) = unruly(&server)?;
    // Teaches the server the script.
    ensure!(!other.force_release("name", "nobody").await?);
    let guard = Mutex::new(&holder, "name").acquire().await?;
    let claim = other.inspect("name").await?.holders[0].claim.clone();
    store.plan(&name::FREE, Fate::LoseReply);
    let outcome = other.force_release("name", &claim).await;
    ensure!(other.inspect("name").await?.kind.is_none());
    ensure!(!matches!(outcome, Ok(false)), "it was released by force");
    drop(guard);

    // One that never went out is no doubt.
    store.plan(&name::FREE, Fate::NotSent);
    ensure!(!other.force_release("name", &claim).await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_no_inspection_and_counts_none() -> Result<()> {
    let server = MemoryStore::new();
    let store = Unruly::new(Arc::new(server.sibling()));
    let client = Client::builder()
        .request_timeout(Duration::from_secs(60))
        .build(Arc::clone(&store) as Arc<dyn Store>)?;
    store.silence("lockkeeper:name");
    let looking = tokio::spawn({
        let client = client.clone();
        async move { client.inspect("name").await }
    });
    store.wait_sent(&name::INSPECT, 1).await;
    let report = client.close().await;
    ensure!(report.unconfirmed == 0, "{report:?}");
    let error = timeout(Duration::from_secs(1), looking).await??.err();
    ensure!(matches!(error, Some(Error::Closed)), "{error:?}");
    Ok(())
}

/// The message and the answer come by different connections.
#[tokio::test(start_paused = true)]
async fn a_word_that_overtakes_the_answer_of_the_grant_is_not_lost() -> Result<()> {
    for forced in [false, true] {
        let server = MemoryStore::new();
        let other = client(&server).await?;
        let (holder, store) = unruly(&server)?;
        // From here on the client listens and the server knows the script.
        Mutex::new(&holder, "first")
            .acquire()
            .await?
            .release()
            .await?;
        sleep(MOMENT).await;
        store.slow_down(&mutex::ACQUIRE, Duration::from_millis(500));
        let acquiring = tokio::spawn({
            let lock = Mutex::new(&holder, "name");
            async move { lock.acquire().no_renewal().await }
        });
        sleep(Duration::from_millis(100)).await;
        let claim = other.inspect("name").await?.holders[0].claim.clone();
        let reason = if forced {
            ensure!(other.force_release("name", &claim).await?);
            LossReason::Gone
        } else {
            ensure!(other.revoke("name").await? == 1);
            LossReason::Revoked
        };
        let guard = acquiring.await??;
        let end = timeout(Duration::from_secs(1), guard.ended()).await;
        ensure!(end == Ok(End::Lost(reason)), "{end:?}");
        drop(guard);
        sleep(MOMENT).await;
        ensure!(Mutex::new(&other, "name").try_acquire().await?.is_some());
    }
    Ok(())
}

