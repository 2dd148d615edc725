//! What a client gives up: futures that are not polled any more, dropped guards, waits that fail.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Error, FairLock, MultiLock, Mutex, Redlock, ReentrantLock, RwLock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_tests::{client, patient};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(6);
const WAITER_TTL: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(60);

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An acquisition that was polled for 100 ms and is then only kept.
async fn polled_for_a_while<F: Future>(acquisition: F) -> Pin<Box<F>> {
    let mut acquisition = Box::pin(acquisition);
    let _ = timeout(millis(100), &mut acquisition).await;
    acquisition
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_keeps_no_place_in_the_queue_though_its_future_is_not_polled()
-> Result<()> {
    let server = MemoryStore::new();
    let (here, there) = (client(&server, TTL).await?, client(&server, TTL).await?);
    let guard = FairLock::new(&there, "name").acquire().await?;
    let lock = FairLock::new(&here, "name");
    let wait = Duration::from_secs(5);
    let idle = polled_for_a_while(lock.acquire().wait_for(wait).into_future()).await;
    ensure!(lock.queue_len().await? == 1);
    sleep(wait).await;
    ensure!(lock.queue_len().await? == 0, "the place is still kept");
    guard.release().await?;
    ensure!(FairLock::new(&there, "name").try_acquire().await?.is_some());
    let late = idle.await;
    ensure!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_no_future_takes_is_handed_on_after_one_waiter_ttl() -> Result<()> {
    let server = MemoryStore::new();
    let (here, there) = (client(&server, TTL).await?, client(&server, TTL).await?);
    let (lock, other) = (FairLock::new(&here, "name"), FairLock::new(&there, "name"));
    let guard = other.acquire().await?;
    let idle = polled_for_a_while(lock.acquire().into_future()).await;
    guard.release().await?;
    let released = Instant::now();
    let next = timeout(SOON, other.acquire().into_future()).await??;
    let kept = released.elapsed();
    ensure!(kept <= WAITER_TTL, "kept for {kept:?}");
    // It has lost its place, and queues again when it is polled.
    next.release().await?;
    timeout(SOON, idle).await??.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_taken_by_a_future_that_is_polled_late_but_in_time() -> Result<()> {
    let server = MemoryStore::new();
    let (here, there) = (client(&server, TTL).await?, client(&server, TTL).await?);
    let (lock, other) = (FairLock::new(&here, "name"), FairLock::new(&there, "name"));
    let guard = other.acquire().await?;
    let idle = polled_for_a_while(lock.acquire().into_future()).await;
    guard.release().await?;
    sleep(WAITER_TTL / 2).await;
    let granted = timeout(millis(1), idle).await??;
    sleep(WAITER_TTL * 3).await;
    granted
        .ensure_held()
        .context("it is renewed once it is taken")?;
    Ok(())
}

/// A dropped guard on `site` is released in the background and does not delay the next acquisition of the same client.
async fn what_is_dropped_is_out_of_the_way(site: &impl Site) -> Result<()> {
    // The next acquisition waits for the release for up to one request timeout.
    let client = site.client(patient()).await?;
    for _ in 0..50 {
        drop(Mutex::new(&client, "mutex").acquire().await?);
        let again = Mutex::new(&client, "mutex").try_acquire().await?;
        drop(again.context("the mutex")?);
        let (one, other) = (client.new_owner(), client.new_owner());
        let lock = ReentrantLock::new(&client, "reentrant");
        drop(lock.acquire().owner(&one).await?);
        let again = lock.try_acquire().owner(&other).await?;
        drop(again.context("the re-entrant lock")?);
        drop(FairLock::new(&client, "fair").acquire().await?);
        let again = FairLock::new(&client, "fair").try_acquire().await?;
        drop(again.context("the fair lock")?);
        drop(RwLock::new(&client, "rwlock").read().await?);
        let again = RwLock::new(&client, "rwlock").try_write().await?;
        drop(again.context("the read-write lock")?);
        let both = ["one", "two"].map(|name| Mutex::new(&client, name).target());
        let both = MultiLock::new(both)?;
        drop(both.acquire().await?);
        drop(both.try_acquire().await?.context("the multi-lock")?);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_out_of_the_way_of_its_clients_next_try_on_memory() -> Result<()> {
    what_is_dropped_is_out_of_the_way(&MemoryStore::new()).await
}

#[tokio::test]
async fn a_dropped_guard_is_out_of_the_way_of_its_clients_next_try_on_a_server() -> Result<()> {
    what_is_dropped_is_out_of_the_way(&Server::start().await?).await
}

#[tokio::test(start_paused = true)]
async fn a_dropped_redlock_is_out_of_the_way_of_the_next_try_though_one_server_is_silent()
-> Result<()> {
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..2 {
        clients.push(client(&MemoryStore::new(), TTL).await?);
    }
    let (silenced, store) = lockkeeper_tests::faulty(&MemoryStore::new(), TTL)?;
    clients.push(silenced);
    let lock = Redlock::new(&clients, "name")?;
    for silent in [false, true] {
        if silent {
            store.silence("name");
        }
        let begun = Instant::now();
        drop(lock.acquire().await?);
        ensure!(lock.try_acquire().await?.is_some());
        let took = begun.elapsed();
        ensure!(took <= Duration::from_secs(5), "silent: {silent}, {took:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_read_guard_does_not_keep_its_owner_from_writing() -> Result<()> {
    let server = MemoryStore::new();
    let lock = RwLock::new(&client(&server, TTL).await?, "name");
    let reading = lock.read().await?;
    let owner = reading.owner();
    drop(reading);
    lock.write().owner(&owner).await?.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_cannot_leave_delays_a_try_for_no_longer_than_a_request() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = lockkeeper_tests::faulty(&server, TTL)?;
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().await?;
    store.silence("name");
    drop(guard);
    let begun = Instant::now();
    ensure!(lock.try_acquire().await.is_err());
    // One request's timeout, a sixth of the ttl, and two attempts.
    let took = begun.elapsed();
    ensure!(took <= TTL * 3 / 6 + Duration::from_secs(1), "{took:?}");
    let begun = Instant::now();
    let waited = lock.acquire().wait_for(millis(500)).await;
    ensure!(waited.is_err() && begun.elapsed() <= millis(700));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn when_a_timeout_is_told_the_place_in_the_queue_is_gone() -> Result<()> {
    let server = MemoryStore::new();
    let (here, there) = (client(&server, TTL).await?, client(&server, TTL).await?);
    let (lock, other) = (FairLock::new(&here, "name"), FairLock::new(&there, "name"));
    let guard = other.acquire().await?;
    let late = lock.acquire().wait_for(millis(300)).await;
    ensure!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    guard.release().await?;
    ensure!(
        other.try_acquire().await?.is_some(),
        "granted to a waiter that had given up"
    );
    Ok(())
}

/// The grant comes in reply to a heartbeat, because the message is lost or because a message does not grant a fixed lease.
#[tokio::test(start_paused = true)]
async fn a_long_lease_that_no_future_takes_is_kept_for_one_waiter_ttl_too() -> Result<()> {
    const HOUR: Duration = Duration::from_secs(3_600);
    for (renewed, muted) in [(true, true), (false, false)] {
        let server = MemoryStore::new();
        let (here, there) = (client(&server, TTL).await?, client(&server, TTL).await?);
        let (lock, other) = (FairLock::new(&here, "name"), FairLock::new(&there, "name"));
        let guard = other.acquire().await?;
        let acquisition = lock.acquire().ttl(HOUR).min_hold(HOUR / 2);
        let idle = match renewed {
            true => polled_for_a_while(acquisition.into_future()).await,
            false => polled_for_a_while(acquisition.no_renewal().into_future()).await,
        };
        server.mute(muted);
        guard.release().await?;
        let released = Instant::now();
        let next = timeout(HOUR, other.acquire().into_future()).await??;
        let kept = released.elapsed();
        // A heartbeat until its own grant, and one until the next waiter's.
        ensure!(
            kept <= WAITER_TTL * 5 / 3 + millis(100),
            "renewed: {renewed}, kept for {kept:?}"
        );
        drop((next, idle));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_while_a_dropped_guard_leaves_names_its_lock() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = lockkeeper_tests::faulty(&server, TTL)?;
    let lock = MultiLock::new(["name", "other"].map(|name| Mutex::new(&client, name).target()))?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    store.silence("name");
    drop(guard);
    let waited = lock.acquire().wait_for(millis(100)).await;
    ensure!(
        matches!(&waited, Err(Error::Timeout { name, .. }) if name == "name"),
        "{waited:?}"
    );
    Ok(())
}

/// Each embedded engine has its own clock, which starts with it.
#[tokio::test(start_paused = true)]
async fn the_wait_of_a_multi_lock_is_that_of_each_client_by_its_own_clock() -> Result<()> {
    let early = MemoryStore::new();
    let first = early
        .client(Client::builder().ttl(TTL).store_name("b"))
        .await?;
    sleep(SOON * 60).await;
    let late = MemoryStore::new();
    let second = late
        .client(Client::builder().ttl(TTL).store_name("a"))
        .await?;
    let members = [
        FairLock::new(&second, "name").target(),
        FairLock::new(&first, "name").target(),
    ];
    let lock = MultiLock::new(members)?;
    lock.acquire()
        .wait_for(Duration::from_secs(5))
        .await?
        .release()
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn closing_withdraws_what_no_future_has_taken() -> Result<()> {
    let server = MemoryStore::new();
    let (here, there) = (client(&server, TTL).await?, client(&server, TTL).await?);
    let (lock, other) = (FairLock::new(&here, "name"), FairLock::new(&there, "name"));
    let guard = other.acquire().await?;
    let idle = polled_for_a_while(lock.acquire().into_future()).await;
    guard.release().await?;
    sleep(millis(1)).await;
    let report = here.close().await;
    ensure!(report.expiring == 0, "{report:?}");
    ensure!(other.try_acquire().await?.is_some());
    let late = idle.await;
    ensure!(matches!(late, Err(Error::Closed)), "{late:?}");
    Ok(())
}
