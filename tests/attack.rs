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
async fn a_token_is_shown_for_our_holders_alone() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    let guard = Mutex::new(&client, "job").acquire().await?;
    let ours = guard.fencing_token();
    ensure!(client.inspect("job").await?.token == Some(ours));
    guard.release().await?;
    server.execute(&["SET", "job", "their token", "PX", "5000"])?;
    let seen = client.inspect("job").await?;
    ensure!(seen.token.is_none(), "of a hold that is over: {seen:?}");
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

#[tokio::test(start_paused = true)]
async fn a_name_that_was_kept_for_less_than_its_lease_is_free_for_every_kind() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server).await?;
    let lock = ReentrantLock::new(&client, "name");
    let second = Duration::from_secs(1);
    let guard = lock.acquire(&client.new_owner()).min_hold(second).await?;
    ensure!(matches!(guard.release().await?, Released::Kept(_)));
    sleep(second + MOMENT).await;
    ensure!(client.inspect("name").await?.kind.is_none());
    ensure!(Mutex::new(&client, "name").try_acquire().await?.is_some());
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

/// A stray acquire, a late renewal and a late leave all arrive after a kept, revoked or forced end.
#[tokio::test(start_paused = true)]
async fn whatever_arrives_late_after_a_leave_that_keeps_creates_and_shortens_nothing() -> Result<()>
{
    for reenters in [false, true] {
        let server = MemoryStore::new();
        let (client, store) = unruly(&server)?;
        let other = self::client(&server).await?;
        let (acquire, renew, marked) = if reenters {
            (
                &reentrant::ACQUIRE,
                &reentrant::RENEW,
                &reentrant::LEAVE_MARKED,
            )
        } else {
            (&mutex::ACQUIRE, &mutex::RENEW, &mutex::LEAVE_MARKED)
        };
        let shortest = Duration::from_secs(20);
        store.plan(acquire, Fate::Keep);
        store.plan(marked, Fate::Keep);
        let begun;
        if reenters {
            let lock = ReentrantLock::new(&client, "name");
            let guard = lock.acquire(&client.new_owner()).min_hold(shortest).await?;
            begun = Instant::now();
            store.plan(renew, Fate::Keep);
            sleep(3 * TTL / 2).await;
            ensure!(matches!(guard.release().await?, Released::Kept(_)));
        } else {
            let lock = Mutex::new(&client, "name");
            let guard = lock.acquire().min_hold(shortest).await?;
            begun = Instant::now();
            store.plan(renew, Fate::Keep);
            sleep(3 * TTL / 2).await;
            ensure!(matches!(guard.release().await?, Released::Kept(_)));
        }
        store.deliver(&server).await;
        let left = begun + shortest - Instant::now();
        let holder = other.inspect("name").await?.holders.remove(0);
        ensure!(holder.state == HolderState::Kept);
        let shown = holder.left.context("it ends")?;
        ensure!(
            shown + 2 * MOMENT >= left && shown <= left + 2 * MOMENT,
            "{shown:?} {left:?}"
        );
        sleep(left + 2 * MOMENT).await;
        ensure!(other.inspect("name").await?.kind.is_none());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kept_hold_that_was_revoked_does_not_revoke_the_next_one() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server).await?;
    let lock = ReentrantLock::new(&client, "name");
    let owner = client.new_owner();
    let second = Duration::from_secs(1);
    let (one, other) = (
        lock.acquire(&owner).min_hold(second).await?,
        lock.acquire(&owner).await?,
    );
    ensure!(client.revoke("name").await? == 2);
    drop(one);
    drop(other);
    let begun = Instant::now();
    let next = lock.acquire(&owner).wait_for(SOON).await?;
    ensure!(
        begun.elapsed() + 2 * MOMENT >= second,
        "{:?}",
        begun.elapsed()
    );
    sleep(3 * TTL).await;
    next.verify().await?;
    ensure!(next.reenter().await?.release().await? == Released::StillHeld(1));
    ensure!(next.release().await? == Released::Free);
    Ok(())
}

