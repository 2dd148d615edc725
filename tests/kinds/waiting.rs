//! Edge cases of waiting: futures that are not polled, wakers that drop tasks, silent servers, refused messages.

use std::pin::Pin;
use std::sync::{Arc, Mutex as Cell};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use anyhow::ensure;
use lockkeeper::{Client, Error, FairLock, MultiLock, Mutex};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use lockkeeper_tests::{faulty, faulty_polling, patient, polling};
use tokio::time::{Instant, timeout};

const TTL: Duration = Duration::from_secs(6);

fn plain(server: &MemoryStore) -> Client {
    faulty(server, TTL).unwrap().0
}

fn polls(server: &MemoryStore) -> Client {
    faulty_polling(server, TTL).unwrap().0
}

/// The end of another library's hold sends no message. One of a client's waiters polls, whatever their number, and they are
/// granted soon.
#[tokio::test(start_paused = true)]
async fn a_name_that_another_library_holds_is_asked_for_every_100_ms() {
    for expiry in [&[][..], &["PX", "600000"]] {
        let server = MemoryStore::new();
        let (client, store) = faulty_polling(&server, TTL).unwrap();
        let set = [&["SET", "name", "somebody"], expiry].concat();
        server.execute(&set).unwrap();
        let (lock, other) = (Mutex::new(&client, "name"), Mutex::new(&client, "other"));
        assert!(lock.try_acquire().await.unwrap().is_none());
        let waiting: Vec<_> = (0..8)
            .map(|_| tokio::spawn(lock.acquire().into_future()))
            .collect();
        let both = MultiLock::new([&other, &lock]).unwrap();
        let both = tokio::spawn(both.acquire().into_future());
        tokio::time::sleep(Duration::from_secs(10)).await;
        let looks = store.sent(&lock::ACQUIRE);
        assert!((60..=105).contains(&looks), "{looks} looks in 10 s");
        let begun = Instant::now();
        server.execute(&["DEL", "name"]).unwrap();
        for waiting in waiting {
            waiting.await.unwrap().unwrap().release().await.unwrap();
        }
        both.await.unwrap().unwrap().release().await.unwrap();
        let took = begun.elapsed();
        assert!(took <= Duration::from_millis(200), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn how_often_another_librarys_hold_is_asked_for_can_be_said() {
    let server = MemoryStore::new();
    let settings = polling().poll_every(Duration::from_secs(2));
    let client = settings.build(Arc::new(server.sibling())).unwrap();
    server.execute(&["SET", "name", "somebody"]).unwrap();
    let lock = Mutex::new(&client, "name");
    let waiting = tokio::spawn(lock.acquire().into_future());
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.execute(&["DEL", "name"]).unwrap();
    let begun = Instant::now();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let took = begun.elapsed();
    let expected = Duration::from_millis(1_400)..=Duration::from_millis(2_100);
    assert!(expected.contains(&took), "{took:?}");
    let never = Client::builder().poll_every(Duration::ZERO);
    let refused = never.build(Arc::new(server.sibling())).err();
    assert!(matches!(refused, Some(Error::Config { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_poller_that_is_not_polled_does_not_starve_the_others() {
    let server = MemoryStore::new();
    let client = polls(&server);
    let guard = Mutex::new(&polls(&server), "name").acquire().await.unwrap();
    let lock = Mutex::new(&client, "name");
    let mut idle = Box::pin(lock.acquire().into_future());
    let _ = timeout(Duration::from_millis(100), &mut idle).await;
    guard.release().await.unwrap();
    let begun = Instant::now();
    drop(lock.acquire().await.unwrap());
    assert!(
        begun.elapsed() <= Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    // It has lost its place, but not its claim.
    drop(timeout(TTL, idle).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_poller_that_is_not_polled_in_the_middle_of_a_look_does_not_starve_the_others() {
    let server = MemoryStore::new();
    let (client, store) = faulty_polling(&server, TTL).unwrap();
    let guard = Mutex::new(&polls(&server), "name").acquire().await.unwrap();
    let lock = Mutex::new(&client, "name");
    let mut idle = Box::pin(lock.acquire().into_future());
    store.plan(&lock::ACQUIRE, Fate::Pass);
    store.plan(&lock::ACQUIRE, Fate::Pass);
    store.plan(&lock::ACQUIRE, Fate::LoseRequest);
    // Two polls by itself and a third for the message; that request is in flight when it is polled no more.
    let _ = timeout(Duration::from_millis(50), &mut idle).await;
    guard.release().await.unwrap();
    let _ = timeout(Duration::from_millis(50), &mut idle).await;
    let begun = Instant::now();
    drop(lock.acquire().await.unwrap());
    assert!(
        begun.elapsed() <= Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

/// A task whose waker drops it, which a dead executor may do.
struct Dropping(Cell<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Wake for Dropping {
    fn wake(self: Arc<Self>) {
        let task = self.0.lock().unwrap().take();
        drop(task);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_drops_its_future_locks_nothing_up() {
    let server = MemoryStore::new();
    let client = polls(&server);
    let lock = Mutex::new(&client, "name");
    let guard = Mutex::new(&polls(&server), "name").acquire().await.unwrap();
    // Subscribes, so that the next wake-up comes by message.
    let _ = timeout(Duration::from_millis(50), lock.acquire()).await;
    let inner = lock.clone();
    let mut future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        drop(inner.acquire().await);
    });
    let task = Arc::new(Dropping(Cell::new(None)));
    let waker = Waker::from(Arc::clone(&task));
    assert!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    *task.0.lock().unwrap() = Some(future);
    guard.release().await.unwrap();
    drop(lock.acquire().wait_for(TTL).await.unwrap());
    assert!(task.0.lock().unwrap().is_none(), "it was not woken");
}

#[tokio::test(start_paused = true)]
async fn all_waiters_of_a_client_give_up_an_unreachable_server_together() {
    let server = MemoryStore::new();
    let (client, store) = faulty_polling(&server, TTL).unwrap();
    let _guard = Mutex::new(&polls(&server), "name").acquire().await.unwrap();
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let lock = Mutex::new(&client, "name");
            tokio::spawn(async move { (lock.acquire().await.is_err(), Instant::now()) })
        })
        .collect();
    store.wait_sent(&lock::ACQUIRE, 2).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    for _ in 0..10_000 {
        store.plan(&lock::ACQUIRE, Fate::NotSent);
    }
    let begun = Instant::now();
    for waiter in waiters {
        let (failed, at) = waiter.await.unwrap();
        // A safety poll (5 s) finds out that the server is gone; a second poller polls beside the first after that has polled
        // for 5 s in vain; one ttl later all give up.
        let after = at - begun;
        assert!(failed && after < Duration::from_secs(10) + TTL, "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bounded_wait_goes_on_while_the_server_is_out_of_reach() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let holder = plain(&server);
    let mutex = Mutex::new(&holder, "mutex").acquire().await.unwrap();
    let fair = FairLock::new(&holder, "fair").acquire().await.unwrap();
    let wait = TTL * 20;
    let for_mutex = Mutex::new(&client, "mutex").acquire().wait_for(wait);
    let for_fair = FairLock::new(&client, "fair").acquire().wait_for(wait);
    let both = ["mutex", "other"].map(|name| Mutex::new(&client, name).target());
    let for_both = MultiLock::new(both).unwrap().acquire().wait_for(wait);
    let for_mutex = tokio::spawn(for_mutex.into_future());
    let for_fair = tokio::spawn(for_fair.into_future());
    let for_both = tokio::spawn(for_both.into_future());
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.silence("lockkeeper");
    tokio::time::sleep(TTL * 10).await;
    assert!(!for_mutex.is_finished() && !for_fair.is_finished() && !for_both.is_finished());
    store.silence("nobody");
    mutex.release().await.unwrap();
    fair.release().await.unwrap();
    drop(for_fair.await.unwrap().unwrap());
    // One of them may be served before the other.
    tokio::try_join!(async { for_mutex.await.unwrap().map(drop) }, async {
        for_both.await.unwrap().map(drop)
    },)
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_on_a_silent_server_says_so() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    store.silence("lockkeeper");
    let (begun, wait) = (Instant::now(), TTL * 3);
    let lock = Mutex::new(&client, "name");
    let error = lock.acquire().wait_for(wait).await.unwrap_err();
    assert!(matches!(error, Error::Backend { .. }), "{error}");
    let took = begun.elapsed();
    assert!(
        took >= wait && took < wait + Duration::from_millis(10),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_for_zero_asks_once_even_if_others_wait() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let _guard = Mutex::new(&plain(&server), "name").acquire().await.unwrap();
    let lock = Mutex::new(&client, "name");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.map(drop) }
    });
    store.wait_sent(&lock::HEARTBEAT, 1).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let before = store.sent(&lock::ACQUIRE);
    let zero = lock.acquire().wait_for(Duration::ZERO).await;
    assert!(matches!(zero, Err(Error::Timeout { .. })), "{zero:?}");
    assert_eq!(store.sent(&lock::ACQUIRE) - before, 1);
    assert!(!waiter.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_on_a_silent_server() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    store.plan(&lock::ACQUIRE, Fate::LoseRequest);
    let begun = Instant::now();
    let wait = Duration::from_millis(10);
    let error = Mutex::new(&client, "name")
        .acquire()
        .wait_for(wait)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(
        begun.elapsed() <= Duration::from_millis(12),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn without_the_right_to_publish_a_release_still_wakes_who_waits_in_the_same_client() {
    let server = Server::start().await.unwrap();
    let user = [
        "ACL", "SETUSER", "mute", "on", ">pw", "~*", "&*", "+@all", "-publish",
    ];
    server.command(&user).await.unwrap();
    let url = format!("redis://mute:pw@127.0.0.1:{}", server.port());
    let client = lockkeeper::connect_with(&url, patient()).await.unwrap();
    let lock = Mutex::new(&client, "name");
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        timeout(PATIENCE, task).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_waiter_that_no_message_reaches_looks_when_the_lease_has_ended() {
    let server = Server::start().await.unwrap();
    let user = [
        "ACL", "SETUSER", "mute", "on", ">pw", "~*", "&*", "+@all", "-publish",
    ];
    server.command(&user).await.unwrap();
    let url = format!("redis://mute:pw@127.0.0.1:{}", server.port());
    let mute = lockkeeper::connect(&url).await.unwrap();
    let other = lockkeeper::connect_with(&server.url(), patient())
        .await
        .unwrap();
    let lock = Mutex::new(&mute, "name");
    beyond_stalls(&server, Duration::from_secs(1), async |ttl| {
        let guard = lock.acquire().ttl(ttl).no_renewal().await?;
        let held = Instant::now();
        let waiting = Mutex::new(&other, "name").acquire().into_future();
        let waiting = tokio::spawn(waiting);
        let channels = ["PUBSUB", "CHANNELS", "lockkeeper.grant:*"];
        while server.command(&channels).await?.into_texts()?.is_empty() {
            tokio::task::yield_now().await;
        }
        // The heartbeat after the subscription may still be in flight: it must find the lock held.
        tokio::time::sleep(ttl / 5).await;
        guard.release().await?;
        drop(timeout(PATIENCE, waiting).await???);
        let waited = held.elapsed();
        ensure!(waited > ttl / 2 && waited < ttl * 2, "{waited:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_cannot_subscribe_looks_when_the_lease_has_ended() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let ttl = Duration::from_secs(1);
    let holder = plain(&server);
    let _guard = Mutex::new(&holder, "name")
        .acquire()
        .ttl(ttl)
        .no_renewal()
        .await
        .unwrap();
    store.refuse_subscriptions("LOADING the data set");
    let begun = Instant::now();
    drop(Mutex::new(&client, "name").acquire().await.unwrap());
    let waited = begun.elapsed();
    assert!(waited <= ttl + Duration::from_millis(100), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_releases_and_acquires_in_one_task_starves_nobody_on_memory() {
    let server = MemoryStore::new();
    let (busy, waiter) = (plain(&server), plain(&server));
    let lock = Mutex::new(&busy, "name");
    let mut guard = lock.acquire().await.unwrap();
    let waiting =
        tokio::spawn(async move { Mutex::new(&waiter, "name").acquire().await.map(drop) });
    // It is subscribed by then.
    tokio::time::sleep(Duration::from_millis(10)).await;
    for _ in 0..4 {
        guard.release().await.unwrap();
        guard = lock.acquire().await.unwrap();
    }
    assert!(waiting.is_finished(), "the other waiter has not come in");
    waiting.await.unwrap().unwrap();
}
