//! A guard of a read-write lock changes its mode: what others see of it, and what happens when requests or replies are lost.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lockkeeper::{Error, LeaseState, ReadGuard, RwLock, Upgrade, WriteGuard};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_tests::{client, faulty};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(6);
const AT_ONCE: Duration = Duration::from_millis(100);

async fn queued(lock: &RwLock, number: u64) -> Result<()> {
    while lock.queue_len().await? != number {
        yield_now().await;
    }
    Ok(())
}

fn writes(upgrade: Upgrade) -> Result<WriteGuard> {
    match upgrade {
        Upgrade::Write(guard) => Ok(guard),
        Upgrade::Busy(_) => bail!("nobody else reads"),
    }
}

fn reads_on(upgrade: Upgrade) -> Result<ReadGuard> {
    match upgrade {
        Upgrade::Write(_) => bail!("others read"),
        Upgrade::Busy(guard) => Ok(guard),
    }
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_lets_the_waiting_readers_in_at_once_and_not_the_writer_behind_them()
-> Result<()> {
    let store = MemoryStore::new();
    let lock = RwLock::new(&client(&store, TTL).await?, "name");
    let writing = lock.write().await?;
    let (token, old) = (writing.fencing_token(), (*writing).clone());
    let reader = tokio::spawn(lock.read().into_future());
    queued(&lock, 1).await?;
    let writer = tokio::spawn(lock.write().into_future());
    queued(&lock, 2).await?;
    let reading = writing.downgrade().await?;
    ensure!(old.state() == LeaseState::Released, "the write is over");
    let other = timeout(AT_ONCE, reader).await???;
    ensure!(reading.fencing_token() > token && other.fencing_token() == reading.fencing_token());
    sleep(3 * TTL).await;
    ensure!(!writer.is_finished());
    reading.verify().await?;
    drop((reading, other));
    timeout(AT_ONCE, writer).await???.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_lets_more_readers_in_than_one_run_does() -> Result<()> {
    let store = MemoryStore::new();
    let lock = RwLock::new(&client(&store, TTL).await?, "name");
    let writing = lock.write().await?;
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..300 {
        readers.spawn(lock.read().into_future());
    }
    queued(&lock, 300).await?;
    let reading = writing.downgrade().await?;
    let guards = timeout(AT_ONCE, readers.join_all()).await?;
    for guard in guards {
        ensure!(guard?.fencing_token() == reading.fencing_token());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_only_reader_becomes_the_writer_past_those_who_wait() -> Result<()> {
    let store = MemoryStore::new();
    let lock = RwLock::new(&client(&store, TTL).await?, "name");
    let reading = lock.read().await?;
    let (token, old) = (reading.fencing_token(), (*reading).clone());
    let waiting = tokio::spawn(lock.write().into_future());
    queued(&lock, 1).await?;
    let writing = writes(reading.try_upgrade().await?)?;
    ensure!(writing.fencing_token() > token);
    ensure!(old.state() == LeaseState::Released);
    sleep(3 * TTL).await;
    writing.verify().await?;
    ensure!(!waiting.is_finished());
    writing.release().await?;
    timeout(AT_ONCE, waiting).await???.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn readers_that_are_not_alone_stay_readers_and_are_renewed_on() -> Result<()> {
    let store = MemoryStore::new();
    let lock = RwLock::new(&client(&store, TTL).await?, "name");
    let (one, other) = (lock.read().await?, lock.read().await?);
    let watched = (*one).clone();
    let one = reads_on(one.try_upgrade().await?)?;
    let other = reads_on(other.try_upgrade().await?)?;
    // Another guard of the same owner counts as another reader.
    let again = one.reenter().await?;
    drop(other);
    let one = reads_on(one.try_upgrade().await?)?;
    sleep(4 * TTL).await;
    one.verify().await?;
    ensure!(
        watched.state() == LeaseState::Held,
        "the hold goes on, and so does its lease"
    );
    drop(again);
    sleep(AT_ONCE).await;
    writes(one.try_upgrade().await?)?.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn whoever_was_lost_changes_nothing() -> Result<()> {
    let store = MemoryStore::new();
    let lock = RwLock::new(&client(&store, TTL).await?, "name");
    let writing = lock.write().no_renewal().await?;
    writing.lost().await;
    let refused = writing.downgrade().await;
    ensure!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    // The claim is lost only on the server.
    let writing = lock.write().await?;
    store.command(&["DEL", "lockkeeper:name"]).await?;
    let refused = writing.downgrade().await;
    ensure!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    let reading = lock.read().await?;
    store.command(&["DEL", "lockkeeper:name"]).await?;
    let refused = reading.try_upgrade().await;
    ensure!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    ensure!(lock.try_write().await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_conversion_without_an_answer_is_repeated_and_has_the_effect_of_one() -> Result<()> {
    for fate in [
        Fate::LoseReply,
        Fate::LoseRequest,
        Fate::NotSent,
        Fate::Keep,
    ] {
        let server = MemoryStore::new();
        let (client, store) = faulty(&server, TTL)?;
        let lock = RwLock::new(&client, "name");
        let writing = lock.write().await?;
        let mut last = writing.fencing_token();
        store.plan(&lock::CONVERT, fate);
        let reading = writing.downgrade().await?;
        ensure!(reading.fencing_token() > last, "{fate:?}");
        last = reading.fencing_token();
        let other = lock.read().await?;
        ensure!(other.fencing_token() == last, "{fate:?}");
        other.release().await?;
        store.plan(&lock::CONVERT, fate);
        let writing = writes(reading.try_upgrade().await?)?;
        ensure!(writing.fencing_token() > last, "{fate:?}");
        sleep(3 * TTL).await;
        writing.verify().await?;
        writing.release().await?;
        let late = server.store().await?;
        store.deliver(&*late).await;
        ensure!(lock.try_write().await?.is_some(), "{fate:?}");
    }
    Ok(())
}

/// The first request is late or its reply is lost, and the second one is refused. If the reader continued, the first request
/// could still make it a writer after the others have released, and that writer's release would let the next one in beside it.
#[tokio::test(start_paused = true)]
async fn an_upgrade_that_is_refused_after_a_request_without_an_answer_lets_go() -> Result<()> {
    for fate in [Fate::LoseReply, Fate::LoseRequest, Fate::Keep] {
        let server = MemoryStore::new();
        let (client, store) = faulty(&server, TTL)?;
        let lock = RwLock::new(&client, "name");
        let (reading, other) = (lock.read().await?, lock.read().await?);
        let lease = (*reading).clone();
        store.plan(&lock::CONVERT, fate);
        let refused = reading.try_upgrade().await;
        ensure!(
            matches!(refused, Err(Error::Backend { .. })),
            "{fate:?} {refused:?}"
        );
        ensure!(lease.ensure_held().is_err(), "{fate:?}: still valid");
        other.verify().await?;
        other.release().await?;
        let late = server.store().await?;
        store.deliver(&*late).await;
        // The releases are on their way.
        drop(timeout(AT_ONCE, lock.write().into_future()).await??);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_is_refused_after_a_request_that_was_not_sent_reads_on() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = RwLock::new(&client, "name");
    let (reading, other) = (lock.read().await?, lock.read().await?);
    store.plan(&lock::CONVERT, Fate::NotSent);
    let reading = reads_on(reading.try_upgrade().await?)?;
    sleep(3 * TTL).await;
    reading.verify().await?;
    other.verify().await?;
    Ok(())
}

/// The sequence in the test's name: a downgrade is late, its repeat is answered, the reader becomes a writer, and then the
/// first request arrives.
#[tokio::test(start_paused = true)]
async fn a_downgrade_that_arrives_after_the_upgrade_that_followed_it_changes_nothing() -> Result<()>
{
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = RwLock::new(&client, "name");
    let writing = lock.write().await?;
    store.plan(&lock::CONVERT, Fate::Keep);
    let reading = writing.downgrade().await?;
    let writing = writes(reading.try_upgrade().await?)?;
    let late = server.store().await?;
    store.deliver(&*late).await;
    let stranger = RwLock::new(&self::client(&server, TTL).await?, "name");
    ensure!(stranger.try_read().await?.is_none(), "the writer is alone");
    writing.verify().await?;
    writing.release().await?;
    ensure!(stranger.try_write().await?.is_some(), "nothing else holds");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_conversion_that_arrives_after_both_claims_were_given_up_creates_nothing() -> Result<()> {
    for upgrades in [false, true] {
        let server = MemoryStore::new();
        let (client, store) = faulty(&server, TTL)?;
        let lock = RwLock::new(&client, "name");
        store.plan(&lock::CONVERT, Fate::Keep);
        // Given up while the first request is in flight.
        if upgrades {
            let swapping = lock.read().await?.try_upgrade();
            ensure!(timeout(AT_ONCE, swapping).await.is_err());
        } else {
            let swapping = lock.write().await?.downgrade();
            ensure!(timeout(AT_ONCE, swapping).await.is_err());
        }
        store.wait_sent(&lock::RELEASE, 2).await;
        sleep(AT_ONCE).await;
        let late = server.store().await?;
        store.deliver(&*late).await;
        ensure!(lock.try_write().await?.is_some(), "upgrades: {upgrades}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_to_a_conversion_is_given_up_and_nothing_stays_held()
-> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = RwLock::new(&client, "name");
    let writing = lock.write().await?;
    let lease = (*writing).clone();
    store.silence("name");
    let refused = writing.downgrade().await;
    ensure!(matches!(refused, Err(Error::Backend { .. })), "{refused:?}");
    ensure!(lease.state() == LeaseState::Released);
    let stranger = RwLock::new(&self::client(&server, TTL).await?, "name");
    ensure!(stranger.try_read().await?.is_none());
    // The lease that is not renewed.
    sleep(TTL).await;
    ensure!(stranger.write().wait_for(TTL).await.is_ok());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_conversion_waits_for_the_renewal_on_its_way() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = RwLock::new(&client, "name");
    let writing = lock.write().await?;
    store.slow_down(&lock::RENEW, Duration::from_millis(500));
    store.wait_sent(&lock::RENEW, 1).await;
    let reading = writing.downgrade().await?;
    reading.verify().await?;
    sleep(3 * TTL).await;
    reading.verify().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_during_a_conversion_leaves_nothing_behind() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = RwLock::new(&client, "name");
    let writing = lock.write().await?;
    store.slow_down(&lock::CONVERT, Duration::from_millis(300));
    let swapping = tokio::spawn(writing.downgrade());
    store.wait_sent(&lock::CONVERT, 1).await;
    client.close().await;
    let refused = swapping.await?;
    ensure!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    let stranger = RwLock::new(&self::client(&server, TTL).await?, "name");
    ensure!(stranger.write().wait_for(2 * TTL).await.is_ok());
    Ok(())
}
