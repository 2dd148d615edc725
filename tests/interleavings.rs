//! The orders of events that broke earlier drafts, each a test by its name. On the embedded engine with paused time and
//! a store whose every fault is planned, so each happens exactly so, and at once.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Client, Error, LeaseState, LossReason, Mutex, Released};
use lockkeeper_core::store::{Store, Value};
use lockkeeper_lua::{Status, mutex};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::unruly::{Fate, Unruly};

const MAIN: &str = "lockkeeper:name";
const TTL: Duration = Duration::from_secs(6);

/// A client whose requests meet their fate on the way to `server`.
fn unruly(server: &MemoryStore) -> (Client, Arc<Unruly>) {
    let store = Unruly::new(Arc::new(server.sibling()));
    let client = Client::builder()
        .ttl(TTL)
        .build(Arc::clone(&store) as Arc<dyn Store>)
        .unwrap();
    (client, store)
}

async fn pttl(server: &MemoryStore) -> Duration {
    let left = server
        .command(&["PTTL", MAIN])
        .await
        .unwrap()
        .parse()
        .unwrap();
    Duration::from_millis(left)
}

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_reply_was_lost_is_repeated_and_gets_the_same_token() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    // The very first call teaches the server the script; only then can a reply be lost.
    Mutex::new(&client, "other")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let before = store.sent(&mutex::ACQUIRE);

    store.plan(&mutex::ACQUIRE, Fate::LoseReply);
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    assert_eq!(store.sent(&mutex::ACQUIRE) - before, 2);
    let fence = server
        .command(&["GET", "lockkeeper.fence:{lockkeeper:name}"])
        .await
        .unwrap();
    assert_eq!(
        guard.fencing_token().to_string(),
        fence,
        "the repeat drew no second token"
    );
    assert!(
        pttl(&server).await > TTL - Duration::from_millis(10),
        "the repeat armed the ttl again"
    );
    assert!(
        guard.remaining() <= TTL - Duration::from_millis(65),
        "margin: 1 % + 5 ms"
    );

    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(
        store.sent_by_source(&mutex::LEAVE_MARKED),
        1,
        "the first copy may still be on its way"
    );
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_arrives_after_its_leave_was_answered_creates_nothing() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    store.plan(&mutex::ACQUIRE, Fate::Keep);
    let lock = Mutex::new(&client, "name");
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    store.wait_sent(&mutex::ACQUIRE, 1).await;
    acquiring.abort();
    store.wait_sent(&mutex::LEAVE_MARKED, 1).await;
    let report = client.close().await;
    assert_eq!((report.confirmed, report.unconfirmed), (1, 0));

    let late = store.deliver(&server).await.remove(0).unwrap();
    assert_eq!(late.status(), Status::Gone);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

#[tokio::test(start_paused = true)]
async fn a_stray_acquire_finds_the_mark_of_the_leave_that_overtook_it() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    let lock = Mutex::new(&client, "name");
    store.plan(&mutex::ACQUIRE, Fate::Keep);
    let guard = lock.acquire().await.unwrap();
    guard.release().await.unwrap();
    // The kept copy arrives by another connection, after the release was answered.
    let late = store.deliver(&server).await.remove(0).unwrap();
    assert_eq!(late.status(), Status::Gone);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

#[tokio::test(start_paused = true)]
async fn noscript_never_sends_an_acquire_behind_its_leave() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    // The server's NOSCRIPT is on its way when the caller gives up.
    store.plan(&mutex::ACQUIRE, Fate::LoseRequest);
    let lock = Mutex::new(&client, "name");
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    store.wait_sent(&mutex::ACQUIRE, 1).await;
    acquiring.abort();
    store.wait_sent(&mutex::LEAVE_MARKED, 1).await;
    client.close().await;
    assert_eq!(store.sent_by_source(&mutex::ACQUIRE), 0);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_the_scripts_is_taught_them_again() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    for round in 1..=3 {
        server.flush_scripts();
        Mutex::new(&client, "name")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        assert_eq!(store.sent_by_source(&mutex::ACQUIRE), round);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_renewal_makes_the_lease_uncertain_and_the_next_one_certain_again() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    store.plan(&mutex::RENEW, Fate::LoseRequest);
    // Sent at ttl/3 = 2.0 s, given up at ttl/6 later, repeated at once.
    tokio::time::sleep(Duration::from_millis(2_900)).await;
    assert_eq!(
        guard.state(),
        LeaseState::Held,
        "on its way is not yet unanswered"
    );
    tokio::time::sleep(Duration::from_millis(99)).await;
    guard.ensure_held().unwrap();
    store.plan(&mutex::RENEW, Fate::LoseRequest);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(guard.state(), LeaseState::Uncertain);
    guard.ensure_held().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(guard.state(), LeaseState::Held);
    tokio::time::sleep(TTL * 3).await;
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_renewals_are_all_lost_ends_for_its_holder_before_it_ends_on_the_server() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    for _ in 0..10 {
        store.plan(&mutex::RENEW, Fate::LoseRequest);
    }
    let begun = tokio::time::Instant::now();
    assert_eq!(guard.lost().await, LossReason::Expired);
    let margin = Duration::from_millis(65);
    let late = begun.elapsed().saturating_sub(TTL - margin);
    assert!(
        late <= Duration::from_millis(2),
        "noticed {late:?} after the deadline"
    );
    assert!(
        pttl(&server).await > Duration::from_millis(60),
        "the server still has it"
    );
    assert!(matches!(
        guard.release().await,
        Err(Error::Lost {
            reason: LossReason::Expired,
            ..
        })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_leave_whose_reply_was_lost_is_repeated_and_the_lock_is_free() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    store.plan(&mutex::LEAVE, Fate::Pass); // by its SHA-1, not known yet
    store.plan(&mutex::LEAVE, Fate::LoseReply);
    assert_eq!(
        guard.release().await.unwrap(),
        Released::Free,
        "not held after an unanswered leave of one's own"
    );
    assert_eq!(store.sent(&mutex::LEAVE), 3);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

#[tokio::test(start_paused = true)]
async fn a_release_without_any_answer_fails_and_goes_on_in_the_background() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    for _ in 0..6 {
        store.plan(&mutex::LEAVE, Fate::LoseRequest);
    }
    let error = guard.release().await.unwrap_err();
    assert!(
        matches!(error, Error::Backend { .. }) && error.is_transient(),
        "{error}"
    );
    assert_eq!(client.close().await.unconfirmed, 0);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

#[tokio::test(start_paused = true)]
async fn a_woken_scout_whose_attempt_errs_hands_the_wake_on() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().await.unwrap();
    let scout = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    // By its first try and by the one after it has subscribed, both busy.
    let before = store.sent(&mutex::ACQUIRE);
    store.wait_sent(&mutex::ACQUIRE, before + 2).await;
    let second = tokio::spawn(async move { lock.acquire().wait_for(Duration::from_secs(1)).await });
    tokio::task::yield_now().await;

    store.plan(&mutex::ACQUIRE, Fate::Refuse("NOPERM of a sudden"));
    guard.release().await.unwrap();
    assert!(matches!(scout.await.unwrap(), Err(Error::Backend { .. })));
    let second = second.await.unwrap();
    assert!(
        second.is_ok(),
        "the second waiter was woken in its place: {second:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_messages_waiters_find_out_by_the_end_of_the_lease() {
    let server = MemoryStore::new();
    server.mute(true);
    let (one, other) = (unruly(&server).0, unruly(&server).0);
    let guard = Mutex::new(&one, "name")
        .acquire()
        .no_renewal()
        .await
        .unwrap();
    let begun = tokio::time::Instant::now();
    let waiting = tokio::spawn(async move { Mutex::new(&other, "name").acquire().await });
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
    assert!(
        begun.elapsed() <= TTL + Duration::from_millis(60),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewal_never_outlives_its_leave() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    store.plan(&mutex::RENEW, Fate::Keep);
    store.wait_sent(&mutex::RENEW, 1).await;
    guard.release().await.unwrap();
    let sent = store.sent(&mutex::RENEW);
    let late = store.deliver(&server).await.remove(0).unwrap();
    assert_eq!(
        late.field(0).and_then(Value::as_str),
        Some("GONE"),
        "a late renewal creates nothing"
    );
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(store.sent(&mutex::RENEW), sent);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_told_after_one_ttl_and_to_who_tries_at_once() {
    let server = MemoryStore::new();
    let (client, store) = unruly(&server);
    for _ in 0..200 {
        store.plan(&mutex::ACQUIRE, Fate::NotSent);
    }
    let lock = Mutex::new(&client, "name");
    let begun = tokio::time::Instant::now();
    assert!(matches!(
        lock.try_acquire().await,
        Err(Error::Backend { .. })
    ));
    assert!(begun.elapsed() < Duration::from_millis(100));
    let error = lock.acquire().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(begun.elapsed() <= TTL + Duration::from_millis(100));
    assert_eq!(
        client.close().await.unconfirmed,
        0,
        "nothing was sent, so nothing is left for"
    );
}
