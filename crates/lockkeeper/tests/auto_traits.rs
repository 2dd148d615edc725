//! Which public types are `Send`, `Sync` and `Unpin`, where a change breaks users.

use std::panic::{RefUnwindSafe, UnwindSafe};

use lockkeeper::{
    Acquire, Client, ClientBuilder, CloseReport, End, Error, FencingToken, Kind, Lease, LeaseState,
    LossReason, Lost, MultiGuard, MultiLock, Mutex, MutexGuard, Names, Owner, Redlock,
    RedlockGuard, Released, ServerFacts, Target, TryAcquire, Until, Waiter,
};

fn send_sync_unpin<T: Send + Sync + Unpin>() {}
fn send_unpin<T: Send + Unpin>() {}
fn plain<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + Copy + 'static>() {}
fn send_future<F: Future + Send + 'static>(_: F) {}

#[test]
fn handles_guards_and_leases_are_send_and_sync() {
    send_sync_unpin::<Client>();
    send_sync_unpin::<ClientBuilder>();
    send_sync_unpin::<Error>();
    send_sync_unpin::<Lease>();
    send_sync_unpin::<Mutex>();
    send_sync_unpin::<MutexGuard>();
    send_sync_unpin::<Acquire<MutexGuard>>();
    send_sync_unpin::<Acquire<MultiGuard>>();
    send_sync_unpin::<End>();
    send_sync_unpin::<Lost>();
    send_sync_unpin::<Target>();
    send_sync_unpin::<MultiGuard>();
    send_sync_unpin::<MultiLock>();
    send_sync_unpin::<TryAcquire<MultiGuard>>();
    send_sync_unpin::<TryAcquire<MutexGuard>>();
    send_sync_unpin::<Names>();
    send_sync_unpin::<ServerFacts>();
    send_sync_unpin::<Waiter>();
    send_unpin::<Until<Lost>>();
    send_unpin::<Until<End>>();
}

#[test]
fn values_are_plain() {
    plain::<CloseReport>();
    plain::<FencingToken>();
    plain::<Kind>();
    plain::<LeaseState>();
    plain::<LossReason>();
    plain::<Owner>();
    plain::<Released>();
}

#[tokio::test]
async fn every_future_can_be_spawned() {
    let client = lockkeeper::connect("memory://").await.unwrap();
    let mutex = Mutex::new(&client, "name");
    send_future(mutex.acquire().into_future());
    send_future(mutex.try_acquire().into_future());
    send_future({
        let mutex = mutex.clone();
        async move {
            mutex
                .acquire()
                .hold(async |lease| lease.run(std::future::ready(())).await)
                .await
        }
    });
    let guard = mutex.acquire().await.unwrap();
    let lease = guard.clone();
    send_future(async move { lease.verify().await });
    send_future(guard.release());
    let mut names = client.names("*");
    send_future(async move { names.next_page().await });
    send_future({
        let client = client.clone();
        async move { (client.waiters("name", 1).await, client.server_facts().await) }
    });
    send_future(async move { client.close().await });
}

#[tokio::test]
async fn every_future_of_a_redlock_can_be_spawned() {
    send_sync_unpin::<Redlock>();
    send_sync_unpin::<RedlockGuard>();
    send_sync_unpin::<Lease>();
    send_sync_unpin::<Acquire<RedlockGuard>>();
    send_sync_unpin::<TryAcquire<RedlockGuard>>();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(lockkeeper::connect("memory://").await.unwrap());
    }
    let redlock = Redlock::new(&clients, "name").unwrap();
    send_future(redlock.acquire().into_future());
    send_future(redlock.try_acquire().into_future());
    send_future({
        let redlock = redlock.clone();
        async move {
            redlock
                .acquire()
                .hold(async |lease| lease.run(std::future::ready(())).await)
                .await
        }
    });
    let guard = redlock.acquire().await.unwrap();
    let lease = guard.clone();
    send_future(async move { lease.verify().await });
    send_future(guard.lost());
    send_future(guard.release());
}
