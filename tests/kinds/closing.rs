//! Closing a client: requests in progress finish, what is given up is counted, and nothing continues afterwards.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use lockkeeper::{Client, Error, LeaseState, LossReason, Mutex};
use lockkeeper_core::store::Store;
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::{Fate, FaultyStore};
use lockkeeper_testkit::gated::GatedStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::{faulty, patient};
use tokio::time::{Instant, timeout};

const MAIN: &str = "lockkeeper:name";
const TTL: Duration = Duration::from_secs(6);

fn gated(server: &MemoryStore) -> Client {
    let store = GatedStore(Arc::new(server.sibling()));
    Client::builder().ttl(TTL).build(Arc::new(store)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_release_under_way_is_waited_for() {
    let server = MemoryStore::new();
    let client = gated(&server);
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    let releasing = tokio::spawn(guard.release());
    tokio::task::yield_now().await;
    let report = client.close().await;
    releasing.await.unwrap().unwrap();
    assert_eq!((report.expiring, report.unconfirmed), (0, 0));
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_not_polled_is_counted() {
    let server = MemoryStore::new();
    let client = gated(&server);
    let mut idle = Box::pin(Mutex::new(&client, "name").acquire().into_future());
    while server.command(&["EXISTS", MAIN]).await.unwrap() == "0" {
        let mut context = Context::from_waker(Waker::noop());
        assert!(idle.as_mut().poll(&mut context).is_pending());
    }
    let report = client.close().await;
    assert_eq!(
        (report.confirmed, report.expiring, report.unconfirmed),
        (0, 0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_on_after_closing() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let guard = Mutex::new(&client, "name")
        .acquire()
        .ttl(TTL * 600)
        .await
        .unwrap();
    for _ in 0..8 {
        store.plan(&lock::DROP, Fate::LoseRequest);
    }
    drop(guard);
    assert_eq!(client.close().await.unconfirmed, 1);
    drop(client);
    let before = store.sent(&lock::DROP);
    tokio::time::sleep(TTL * 100).await;
    assert_eq!(store.sent(&lock::DROP), before);
    assert_eq!(
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_only_dropped_leaves_and_ends_its_tasks() {
    let server = MemoryStore::new();
    let (client, _) = faulty(&server, TTL).unwrap();
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    drop(client);
    tokio::time::sleep(TTL * 2).await;
    guard.verify().await.unwrap();
    drop(guard);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
    assert_eq!(
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn closing_twice_and_from_two_tasks_is_harmless() {
    let server = MemoryStore::new();
    let (client, _) = faulty(&server, TTL).unwrap();
    let _guard = Mutex::new(&client, "name").acquire().await.unwrap();
    let (one, other) = tokio::join!(client.close(), client.close());
    assert_eq!(one.expiring + other.expiring, 1);
    assert_eq!(client.close().await.expiring, 0);
}

#[tokio::test(start_paused = true)]
async fn leaves_for_a_dead_node_do_not_hold_up_the_others() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let mut dead = Vec::new();
    for number in 0..1_000 {
        dead.push(
            Mutex::new(&client, &format!("dead {number}"))
                .acquire()
                .await
                .unwrap(),
        );
    }
    let alive = Mutex::new(&client, "name").acquire().await.unwrap();
    store.silence("dead");
    drop(dead);
    // The first attempts for the dead: four rounds of 256, of a second each.
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(alive);
    let begun = Instant::now();
    drop(
        Mutex::new(&faulty(&server, TTL).unwrap().0, "name")
            .acquire()
            .await
            .unwrap(),
    );
    assert!(
        begun.elapsed() < Duration::from_millis(100),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_takes_no_longer_than_the_release_timeout() {
    let server = MemoryStore::new();
    let settings = Client::builder().release_timeout(Duration::from_millis(100));
    let (client, store) = FaultyStore::client(&server, settings).unwrap();
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    store.plan(&lock::DROP, Fate::LoseRequest);
    let begun = Instant::now();
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, Error::Backend { .. }), "{error}");
    assert!(
        begun.elapsed() <= Duration::from_millis(102),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_client_whose_runtime_is_gone_says_closed_and_closes_at_once() {
    let server = MemoryStore::new();
    let [first, second] = two_runtimes();
    // Nobody would wait for so long.
    let settings = patient().release_timeout(2 * PATIENCE);
    let made = first.block_on(async { FaultyStore::client(&server, settings) });
    let (client, store) = made.unwrap();
    let guard = second.block_on(async { Mutex::new(&client, "dead").acquire().await.unwrap() });
    store.silence("dead");
    drop(guard);
    second.block_on(store.wait_sent(&lock::DROP, 1));
    drop(first);
    second.block_on(async {
        let refused = Mutex::new(&client, "name").acquire().await.map(drop);
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
        let report = timeout(PATIENCE, client.close()).await;
        assert_eq!(report.expect("closing hangs").unconfirmed, 1);
    });
}

/// A runtime for the tasks of a client, and one for its user.
fn two_runtimes() -> [tokio::runtime::Runtime; 2] {
    [(); 2].map(|()| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    })
}

#[test]
fn a_lease_is_lost_when_the_runtime_of_its_client_is_shut_down() {
    let server = MemoryStore::new();
    let [first, second] = two_runtimes();
    let settings = patient().release_timeout(2 * PATIENCE);
    let made = first.block_on(async { FaultyStore::client(&server, settings) });
    let (client, store) = made.unwrap();
    let [guard, other] = ["name", "other"]
        .map(|name| second.block_on(async { Mutex::new(&client, name).acquire().await.unwrap() }));
    assert_eq!(guard.state(), LeaseState::Held);
    drop(first);
    let lost = LeaseState::Lost(LossReason::ClientClosed);
    assert_eq!((guard.state(), other.state()), (lost, lost));
    let released = second.block_on(async { timeout(PATIENCE, guard.release()).await });
    let error = released.expect("the release hangs").unwrap_err();
    assert!(
        error.to_string().contains("its runtime was shut down"),
        "{error}"
    );
    assert_eq!(store.sent(&lock::DROP), 0);
    let report = second.block_on(async { timeout(PATIENCE, client.close()).await });
    assert_eq!(report.expect("closing hangs").expiring, 2);
}

#[test]
fn a_release_under_way_ends_when_the_runtime_of_its_client_is_shut_down() {
    let server = MemoryStore::new();
    let [first, second] = two_runtimes();
    let settings = patient()
        .release_timeout(2 * PATIENCE)
        .request_timeout(Duration::from_millis(1));
    let made = first.block_on(async { FaultyStore::client(&server, settings) });
    let (client, store) = made.unwrap();
    let guard = second.block_on(async { Mutex::new(&client, "name").acquire().await.unwrap() });
    store.silence("name");
    let releasing = second.spawn(guard.release());
    second.block_on(store.wait_sent(&lock::DROP, 2));
    drop(first);
    let released = second.block_on(async { timeout(PATIENCE, releasing).await });
    let error = released.expect("the release goes on").unwrap().unwrap_err();
    assert!(matches!(error, Error::Backend { .. }), "{error}");
}

#[tokio::test]
async fn a_store_serves_one_client() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let _client = Client::builder().build(Arc::clone(&store)).unwrap();
    let second = Client::builder().build(store);
    assert!(matches!(second, Err(Error::Config { .. })), "{second:?}");
}

/// The client's tasks belong to a runtime that exists but is not driven, as in a test harness or behind a foreign interface.
#[test]
fn closing_does_not_wait_for_a_runtime_that_nobody_drives() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let (here, idle) = (runtime(), runtime());
    let server = here.block_on(Server::start()).unwrap();
    let url = server.url();
    let client = idle.block_on(async { lockkeeper::connect(&url).await.unwrap() });
    let closing = async { timeout(PATIENCE, client.close()).await };
    let report = here.block_on(closing).expect("closing hangs");
    assert_eq!((report.expiring, report.unconfirmed), (0, 0));
}
