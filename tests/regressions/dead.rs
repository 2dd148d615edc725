//! What waiters and holders that have died cost the others. Each test is named after what must hold.

use std::mem::ManuallyDrop;
use std::time::Duration;

use lockkeeper::{Client, FairLock, MultiLock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_tests::{faulty, until};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_millis(3_334);
const SOON: Duration = Duration::from_secs(3 * 60 * 60);

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

async fn client(server: &MemoryStore) -> Client {
    client_of(server, secs(10)).await
}

async fn client_of(server: &MemoryStore, waiter_ttl: Duration) -> Client {
    let settings = Client::builder().ttl(TTL).waiter_ttl(waiter_ttl);
    server.client(settings).await.unwrap()
}

async fn queued(lock: &FairLock, number: u64) {
    let queued = async || Ok(lock.queue_len().await? == number);
    until(queued).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_dead_behind_a_live_waiter_do_not_fill_the_queue() {
    let server = MemoryStore::new();
    let live = client(&server).await;
    let lock = FairLock::new(&live, "name");
    let _guard = lock.acquire().await.unwrap();
    let _first = tokio::spawn(lock.acquire().into_future());
    queued(&lock, 1).await;
    for number in 2..=5 {
        let (dying, store) = faulty(&server, TTL).unwrap();
        let dead = FairLock::new(&dying, "name");
        drop(tokio::spawn(async move { dead.acquire().await.map(drop) }));
        queued(&lock, number).await;
        store.silence("name");
    }
    sleep(secs(25)).await;
    let wait = lock.acquire().max_queue(5).wait_for(secs(1)).await;
    let error = wait.unwrap_err();
    assert!(
        matches!(error, lockkeeper::Error::Timeout { .. }),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_waiter_ttl_of_another_client_is_not_the_first_hold_of_a_waiter() {
    let server = MemoryStore::new();
    let (dying, store) = faulty(&server, TTL).unwrap();
    let (patient, next) = (client_of(&server, secs(3_600)).await, client(&server).await);
    let guard = FairLock::new(&patient, "name").acquire().await.unwrap();
    let dead = FairLock::new(&dying, "name");
    let _dead = tokio::spawn(dead.acquire().into_future());
    queued(&FairLock::new(&next, "name"), 1).await;
    store.silence("name");
    guard.release().await.unwrap();
    let released = Instant::now();
    let next = FairLock::new(&next, "name");
    drop(
        timeout(SOON, next.acquire().into_future())
            .await
            .unwrap()
            .unwrap(),
    );
    let held = released.elapsed();
    assert!(
        held <= secs(10) + HEARTBEAT,
        "a dead waiter held for {held:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn fixed_leases_granted_by_message_last_for_their_own_ttl_on_the_server() {
    let server = MemoryStore::new();
    let client = client(&server).await;
    let lock = FairLock::new(&client, "name");
    let begun = Instant::now();
    let mut guards = Vec::new();
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let acquire = lock.acquire().ttl(secs(1)).no_renewal();
            tokio::spawn(acquire.into_future())
        })
        .collect();
    for waiter in waiting {
        // No guard releases.
        guards.push(ManuallyDrop::new(waiter.await.unwrap().unwrap()));
    }
    let took = begun.elapsed();
    assert!(took <= secs(11), "eight leases of a second took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_dies_after_a_hand_over_frees_the_lock_after_its_own_ttl() {
    let server = MemoryStore::new();
    let (dying, store) = faulty(&server, secs(1)).unwrap();
    let other = client(&server).await;
    let guard = FairLock::new(&other, "name").acquire().await.unwrap();
    let dead = FairLock::new(&dying, "name");
    let dead = tokio::spawn(dead.acquire().into_future());
    let lock = FairLock::new(&other, "name");
    queued(&lock, 1).await;
    guard.release().await.unwrap();
    let _dead = ManuallyDrop::new(dead.await.unwrap().unwrap());
    store.silence("name");
    let died = Instant::now();
    drop(lock.acquire().await.unwrap());
    let free = died.elapsed();
    assert!(
        free <= secs(1) + HEARTBEAT,
        "the lock became free after {free:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_part_of_a_multi_lock_that_is_not_polled_is_not_kept_for_ever() {
    let server = MemoryStore::new();
    let (here, there) = (client(&server).await, client(&server).await);
    let _second = FairLock::new(&there, "second").acquire().await.unwrap();
    let members = ["first", "second"].map(|name| FairLock::new(&here, name).target());
    let lock = MultiLock::new(members).unwrap();
    let mut idle = Box::pin(lock.acquire().into_future());
    let _ = timeout(secs(1), &mut idle).await;
    let first = FairLock::new(&there, "first");
    drop(
        timeout(SOON, first.acquire().into_future())
            .await
            .unwrap()
            .unwrap(),
    );
}

#[tokio::test(start_paused = true)]
async fn a_multi_lock_that_waits_for_long_keeps_its_first_part() {
    let server = MemoryStore::new();
    let (here, there) = (client(&server).await, client(&server).await);
    let second = FairLock::new(&there, "second").acquire().await.unwrap();
    let members = ["first", "second"].map(|name| FairLock::new(&here, name).target());
    let lock = MultiLock::new(members).unwrap();
    let waiting = tokio::spawn(lock.acquire().into_future());
    let first = FairLock::new(&there, "first");
    for _ in 0..60 {
        sleep(secs(10)).await;
        assert!(first.try_acquire().await.unwrap().is_none());
    }
    drop(second);
    let both = waiting.await.unwrap().unwrap();
    sleep(secs(100)).await;
    both.ensure_held().unwrap();
}
