//! Claims of one client hand a mutex over among themselves: the cost, and the possible failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper::{Client, Error, FencingToken, Mutex, MutexGuard, Released};
use lockkeeper_lua::{Script, lock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::{Fate, FaultyStore};
use lockkeeper_tests::faulty;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(6);

/// Longer than any request takes, and shorter than any wait.
const MOMENT: Duration = Duration::from_millis(20);

fn another(server: &MemoryStore) -> Client {
    faulty(server, TTL).unwrap().0
}

/// How often this script was sent, without the requests that the server did not know it by.
fn asked(store: &FaultyStore, script: &Script) -> usize {
    store.sent(script) - store.sent_by_source(script)
}

/// Makes the server load the scripts.
async fn teach(client: &Client) {
    let lock = Mutex::new(client, "another");
    let (guard, waiting) = held_with_a_waiter(&lock).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}

/// A waiter that holds for a moment and returns its token.
fn waiter(lock: &Mutex) -> JoinHandle<FencingToken> {
    let lock = lock.clone();
    tokio::spawn(async move {
        let guard = lock.acquire().await.unwrap();
        let token = guard.fencing_token();
        guard.release().await.unwrap();
        token
    })
}

/// Acquires, and queues one waiter of the same client behind it.
async fn held_with_a_waiter(lock: &Mutex) -> (MutexGuard, JoinHandle<MutexGuard>) {
    let guard = lock.acquire().await.unwrap();
    let lock = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    tokio::time::sleep(MOMENT).await;
    (guard, waiting)
}

#[tokio::test(start_paused = true)]
async fn a_handover_within_a_client_is_one_request() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().await.unwrap();
    let mut tokens = vec![guard.fencing_token()];
    let waiting: Vec<_> = (0..8).map(|_| waiter(&lock)).collect();
    tokio::time::sleep(MOMENT).await;
    guard.release().await.unwrap();
    for waiting in waiting {
        tokens.push(waiting.await.unwrap());
    }
    assert!(tokens.is_sorted_by(|one, other| one < other), "{tokens:?}");
    assert_eq!(asked(&store, &lock::CONVERT), 8);
    assert_eq!(asked(&store, &lock::ACQUIRE), 1);
    let releases = asked(&store, &lock::RELEASE) + asked(&store, &lock::DROP);
    assert_eq!(releases, 1, "of the last one");
    assert!(server.keys().iter().all(|key| !key.contains("name")));
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_keep_the_name_from_others() {
    let server = MemoryStore::new();
    let (client, other) = (another(&server), another(&server));
    let lock = Mutex::new(&client, "name");
    let grants = Arc::new(AtomicU32::new(0));
    let guard = lock.acquire().await.unwrap();
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let (lock, grants) = (lock.clone(), Arc::clone(&grants));
            tokio::spawn(async move {
                for _ in 0..200 {
                    let guard = lock.acquire().await.unwrap();
                    grants.fetch_add(1, Ordering::Relaxed);
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    let theirs = Mutex::new(&other, "name");
    let waiting = tokio::spawn(async move { theirs.acquire().await.unwrap() });
    tokio::time::sleep(MOMENT).await;
    guard.release().await.unwrap();
    let theirs = waiting.await.unwrap();
    let passed = grants.load(Ordering::Relaxed);
    assert!(
        (1..=33).contains(&passed),
        "{passed} grants before its turn"
    );
    theirs.release().await.unwrap();
    for busy in busy {
        busy.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_who_holds_for_long_hands_over_once_in_a_row() {
    let server = MemoryStore::new();
    let (client, other) = (another(&server), another(&server));
    let (lock, theirs) = (Mutex::new(&client, "name"), Mutex::new(&other, "name"));
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hold = |lock: &Mutex, whose: &'static str| {
        let (lock, order) = (lock.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(whose);
            tokio::time::sleep(Duration::from_millis(200)).await;
            guard.release().await.unwrap();
        })
    };
    let mut all = Vec::new();
    for whose in ["ours", "ours", "ours", "ours", "theirs"] {
        let lock = if whose == "ours" { &lock } else { &theirs };
        all.push(hold(lock, whose));
        tokio::time::sleep(MOMENT).await;
    }
    for one in all {
        one.await.unwrap();
    }
    let order = order.lock().unwrap().clone();
    assert_eq!(order, ["ours", "ours", "theirs", "ours", "ours"]);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_hands_over_too() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let lock = Mutex::new(&client, "name");
    let (guard, waiting) = held_with_a_waiter(&lock).await;
    drop(guard);
    drop(waiting.await.unwrap());
    assert_eq!(asked(&store, &lock::CONVERT), 1);
    assert_eq!(asked(&store, &lock::ACQUIRE), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_from_others_is_not_handed_over() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let lock = Mutex::new(&client, "name");
    let shortest = Duration::from_secs(30);
    let guard = lock.acquire().min_hold(shortest).await.unwrap();
    let begun = Instant::now();
    let waiting = waiter(&lock);
    tokio::time::sleep(MOMENT).await;
    let released = guard.release().await.unwrap();
    assert!(matches!(released, Released::Kept(_)), "{released:?}");
    waiting.await.unwrap();
    assert!(begun.elapsed() >= shortest && asked(&store, &lock::CONVERT) == 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_stands_behind_a_lease_that_ends_asks_at_once() {
    let server = MemoryStore::new();
    let lock = Mutex::new(&another(&server), "name");
    let ttl = Duration::from_secs(2);
    let guard = lock.acquire().ttl(ttl).no_renewal().await.unwrap();
    let begun = Instant::now();
    let waiting = waiter(&lock);
    waiting.await.unwrap();
    let took = begun.elapsed();
    assert!(took <= ttl + MOMENT, "{took:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_handover_that_fails_is_a_release_and_the_next_one_asks() {
    for fate in [
        Fate::LoseReply,
        Fate::LoseRequest,
        Fate::NotSent,
        Fate::Refuse("TRYAGAIN a slot on its way"),
    ] {
        let server = MemoryStore::new();
        let (client, store) = faulty(&server, TTL).unwrap();
        let lock = Mutex::new(&client, "name");
        let (guard, waiting) = held_with_a_waiter(&lock).await;
        let third = waiter(&lock);
        tokio::time::sleep(MOMENT).await;
        teach(&client).await;
        store.plan(&lock::CONVERT, fate);
        let begun = Instant::now();
        assert_eq!(guard.release().await.unwrap(), Released::Free, "{fate:?}");
        let next = waiting.await.unwrap();
        next.ensure_held().unwrap();
        assert!(!third.is_finished());
        next.release().await.unwrap();
        third.await.unwrap();
        let took = begun.elapsed();
        assert!(took <= Duration::from_secs(2), "{fate:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_while_the_name_is_handed_over_leaves_nothing() {
    for fate in [Fate::LoseReply, Fate::LoseRequest, Fate::Keep] {
        let server = MemoryStore::new();
        let (client, store) = faulty(&server, TTL).unwrap();
        let lock = Mutex::new(&client, "name");
        let (guard, waiting) = held_with_a_waiter(&lock).await;
        let third = waiter(&lock);
        tokio::time::sleep(MOMENT).await;
        teach(&client).await;
        store.plan(&lock::CONVERT, fate);
        let releasing = tokio::spawn(guard.release());
        tokio::time::sleep(MOMENT).await;
        waiting.abort();
        assert!(waiting.await.is_err());
        third.await.unwrap();
        releasing.await.unwrap().unwrap();
        drop(store.deliver(&server).await);
        tokio::time::sleep(TTL).await;
        let left = Mutex::new(&another(&server), "name").try_acquire().await;
        assert!(left.unwrap().is_some(), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_given_up_in_a_handover_still_brings_the_name_to_somebody() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let lock = Mutex::new(&client, "name");
    let (guard, waiting) = held_with_a_waiter(&lock).await;
    teach(&client).await;
    store.plan(&lock::CONVERT, Fate::LoseReply);
    let releasing = tokio::time::timeout(MOMENT, guard.release()).await;
    assert!(releasing.is_err());
    let begun = Instant::now();
    drop(waiting.await.unwrap());
    assert!(
        begun.elapsed() <= Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn one_in_line_that_is_not_polled_delays_the_others_by_one_waiter_ttl() {
    let server = MemoryStore::new();
    let (client, _) = faulty(&server, TTL).unwrap();
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().await.unwrap();
    let mut idle = Box::pin(lock.acquire().into_future());
    assert!(tokio::time::timeout(MOMENT, &mut idle).await.is_err());
    let behind = waiter(&lock);
    tokio::time::sleep(MOMENT).await;
    guard.release().await.unwrap();
    let begun = Instant::now();
    behind.await.unwrap();
    let took = begun.elapsed();
    assert!(took <= Duration::from_secs(11), "{took:?}");
    // It has lost its place, but not its claim.
    drop(tokio::time::timeout(TTL, idle).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_whose_wait_is_over_is_passed() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().await.unwrap();
    let short = lock.acquire().wait_for(Duration::from_millis(100));
    let mut idle = Box::pin(short.into_future());
    assert!(tokio::time::timeout(MOMENT, &mut idle).await.is_err());
    let behind = waiter(&lock);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    guard.release().await.unwrap();
    behind.await.unwrap();
    assert!(begun.elapsed() <= MOMENT, "{:?}", begun.elapsed());
    assert!(matches!(idle.await, Err(Error::Timeout { .. })));
    assert_eq!(asked(&store, &lock::CONVERT), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_stands_in_line_for_long_asks_the_server() {
    let server = MemoryStore::new();
    let (client, _) = faulty(&server, TTL).unwrap();
    let lock = Mutex::new(&client, "name");
    let (guard, waiting) = held_with_a_waiter(&lock).await;
    assert!(client.waiters("name", 10).await.unwrap().is_empty());
    tokio::time::sleep(2 * TTL).await;
    assert_eq!(client.waiters("name", 10).await.unwrap().len(), 1);
    guard.release().await.unwrap();
    drop(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_wait_in_line() {
    let server = MemoryStore::new();
    let (client, _) = faulty(&server, TTL).unwrap();
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(lock.acquire().into_future());
    tokio::time::sleep(MOMENT).await;
    client.close().await;
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    drop(guard);
}
