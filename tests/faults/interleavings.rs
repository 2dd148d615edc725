//! Orders of events that broke earlier drafts; each test is named after its order. They run for every kind, on the embedded
//! engine with paused time and a store whose faults are planned, so each order happens exactly, and at once.

use std::time::Duration;

use lockkeeper::{
    Error, FairLock, Guard, LeaseState, LossReason, Mutex, ReentrantLock, Released, Semaphore,
    Writer,
};
use lockkeeper_core::store::Value;
use lockkeeper_lua::{Status, lock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::subject::Subject;
use lockkeeper_tests::{counter, faulty, faulty_polling};

/// Makes a test of each interleaving for each kind.
macro_rules! interleavings {
    ($($test:ident)*) => {
        interleavings!(@kind mutex, Mutex, $($test)*);
        interleavings!(@kind reentrant, ReentrantLock, $($test)*);
        interleavings!(@kind fair, FairLock, $($test)*);
        interleavings!(@kind writers, Writer, $($test)*);
        interleavings!(@kind semaphore, Semaphore, $($test)*);
    };
    (@kind $module:ident, $subject:ty, $($test:ident)*) => {
        mod $module {
            use super::*;
            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                super::$test::<$subject>().await;
            })*
        }
    };
}

// Kinds with a queue have no pollers: every waiter has its own place in the queue.
interleavings!(@kind mutex_poller, Mutex, a_woken_poller_whose_attempt_errs_hands_the_wake_on);
interleavings!(@kind reentrant_poller, ReentrantLock, a_woken_poller_whose_attempt_errs_hands_the_wake_on);

interleavings! {
    an_acquire_whose_reply_was_lost_is_repeated_and_gets_the_same_token
    an_acquire_that_arrives_after_its_leave_was_answered_creates_nothing
    an_acquire_in_doubt_finds_the_tombstone_of_the_release_that_overtook_it
    noscript_never_sends_an_acquire_behind_its_leave
    a_server_that_forgot_the_scripts_is_taught_them_again
    a_lost_renewal_makes_the_lease_uncertain_and_the_next_one_certain_again
    a_lease_whose_renewals_are_all_lost_ends_for_its_holder_before_it_ends_on_the_server
    a_leave_whose_reply_was_lost_is_repeated_and_the_lock_is_free
    a_release_without_any_answer_fails_and_goes_on_in_the_background
    without_messages_waiters_find_out_by_the_end_of_the_lease
    a_renewal_never_outlives_its_leave
    an_unreachable_server_is_told_after_one_ttl_and_to_who_tries_at_once
    one_foreign_key_in_a_batch_is_lost_alone
    two_acquisitions_of_one_owner_never_share_a_claim
}

const MAIN: &str = "lockkeeper:name";
const TTL: Duration = Duration::from_secs(6);

async fn pttl(server: &MemoryStore) -> Duration {
    let left = server
        .command(&["PTTL", MAIN])
        .await
        .unwrap()
        .parse()
        .unwrap();
    Duration::from_millis(left)
}

async fn an_acquire_whose_reply_was_lost_is_repeated_and_gets_the_same_token<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    // The first call loads the script on the server; only after that can a reply be lost.
    let first = S::new(&client, "other").acquire().await.unwrap();
    Guard::release(first).await.unwrap();
    let before = store.sent(&lock::ACQUIRE);

    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    let guard = S::new(&client, "name").acquire().await.unwrap();
    // A take, and then an acquire, which the server does not have yet.
    assert_eq!(store.sent(&lock::ACQUIRE) - before, 3);
    let fence = server
        .command(&["GET", &counter("name").unwrap()])
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

    assert_eq!(Guard::release(guard).await.unwrap(), Released::Free);
    assert_eq!(
        store.sent_by_source(&lock::RELEASE),
        1,
        "the first copy may still be on its way"
    );
}

async fn an_acquire_that_arrives_after_its_leave_was_answered_creates_nothing<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    store.plan(&lock::ACQUIRE, Fate::Keep);
    let lock = S::new(&client, "name");
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    store.wait_sent(&lock::ACQUIRE, 1).await;
    acquiring.abort();
    store.wait_sent(&lock::RELEASE, 1).await;
    let report = client.close().await;
    assert_eq!((report.confirmed, report.unconfirmed), (1, 0));

    let late = store.deliver(&server).await.remove(0).unwrap();
    assert_eq!(late.status(), Status::Inflated);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

async fn an_acquire_in_doubt_finds_the_tombstone_of_the_release_that_overtook_it<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let lock = S::new(&client, "name");
    store.plan(&lock::ACQUIRE, Fate::Keep);
    let guard = lock.acquire().await.unwrap();
    Guard::release(guard).await.unwrap();
    // The delayed copy arrives over another connection, after the release was answered.
    let late = store.deliver(&server).await.remove(0).unwrap();
    assert_eq!(late.status(), Status::Inflated);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

async fn noscript_never_sends_an_acquire_behind_its_leave<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    // The server's NOSCRIPT is in flight when the caller gives up.
    store.plan(&lock::ACQUIRE, Fate::LoseRequest);
    let lock = S::new(&client, "name");
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    store.wait_sent(&lock::ACQUIRE, 1).await;
    acquiring.abort();
    store.wait_sent(&lock::RELEASE, 1).await;
    client.close().await;
    assert_eq!(store.sent_by_source(&lock::ACQUIRE), 0);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

async fn a_server_that_forgot_the_scripts_is_taught_them_again<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    for round in 1..=3 {
        server.flush_scripts();
        let first = S::new(&client, "name").acquire().await.unwrap();
        Guard::release(first).await.unwrap();
        assert_eq!(store.sent_by_source(&lock::ACQUIRE), round);
    }
}

async fn a_lost_renewal_makes_the_lease_uncertain_and_the_next_one_certain_again<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let guard = S::new(&client, "name").acquire().await.unwrap();
    store.plan(&lock::RENEW, Fate::LoseRequest);
    // Sent at ttl/3 = 2.0 s, given up ttl/6 later, repeated at once.
    tokio::time::sleep(Duration::from_millis(2_900)).await;
    assert_eq!(
        guard.state(),
        LeaseState::Held,
        "on its way is not yet unanswered"
    );
    tokio::time::sleep(Duration::from_millis(99)).await;
    guard.ensure_held().unwrap();
    store.plan(&lock::RENEW, Fate::LoseRequest);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(guard.state(), LeaseState::Uncertain);
    guard.ensure_held().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(guard.state(), LeaseState::Held);
    tokio::time::sleep(TTL * 3).await;
    Guard::release(guard).await.unwrap();
}

async fn a_lease_whose_renewals_are_all_lost_ends_for_its_holder_before_it_ends_on_the_server<
    S: Subject,
>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let guard = S::new(&client, "name").acquire().await.unwrap();
    for _ in 0..10 {
        store.plan(&lock::RENEW, Fate::LoseRequest);
    }
    let begun = tokio::time::Instant::now();
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
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
        Guard::release(guard).await,
        Err(Error::Lost {
            reason: LossReason::Expired,
            ..
        })
    ));
}

async fn a_leave_whose_reply_was_lost_is_repeated_and_the_lock_is_free<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let guard = S::new(&client, "name").acquire().await.unwrap();
    store.plan(&lock::DROP, Fate::Pass); // by its SHA-1, not known yet
    store.plan(&lock::DROP, Fate::LoseReply);
    assert_eq!(
        Guard::release(guard).await.unwrap(),
        Released::Free,
        "not held after an unanswered leave of one's own"
    );
    assert_eq!(store.sent(&lock::DROP), 3);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

async fn a_release_without_any_answer_fails_and_goes_on_in_the_background<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let guard = S::new(&client, "name").acquire().await.unwrap();
    for _ in 0..6 {
        store.plan(&lock::DROP, Fate::LoseRequest);
    }
    let error = Guard::release(guard).await.unwrap_err();
    assert!(
        matches!(error, Error::Backend { .. }) && error.is_transient(),
        "{error}"
    );
    assert_eq!(client.close().await.unconfirmed, 0);
    assert_eq!(server.command(&["EXISTS", MAIN]).await.unwrap(), "0");
}

async fn a_woken_poller_whose_attempt_errs_hands_the_wake_on<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty_polling(&server, TTL).unwrap();
    let lock = S::new(&client, "name");
    let guard = lock.acquire().await.unwrap();
    let poller = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    // Its first attempt and the one after its subscription, both busy.
    let before = store.sent(&lock::ACQUIRE);
    store.wait_sent(&lock::ACQUIRE, before + 2).await;
    let second = tokio::spawn(async move { lock.acquire().wait_for(Duration::from_secs(1)).await });
    tokio::task::yield_now().await;

    store.plan(&lock::ACQUIRE, Fate::Refuse("NOPERM of a sudden"));
    Guard::release(guard).await.unwrap();
    assert!(matches!(poller.await.unwrap(), Err(Error::Backend { .. })));
    let second = second.await.unwrap();
    assert!(
        second.is_ok(),
        "the second waiter was woken in its place: {second:?}"
    );
}

async fn without_messages_waiters_find_out_by_the_end_of_the_lease<S: Subject>() {
    let server = MemoryStore::new();
    server.mute(true);
    let (one, other) = (
        faulty(&server, TTL).unwrap().0,
        faulty(&server, TTL).unwrap().0,
    );
    let guard = S::new(&one, "name").acquire().no_renewal().await.unwrap();
    let begun = tokio::time::Instant::now();
    let waiting = tokio::spawn(async move { S::new(&other, "name").acquire().await });
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
    assert!(
        begun.elapsed() <= TTL + Duration::from_millis(60),
        "{:?}",
        begun.elapsed()
    );
}

async fn a_renewal_never_outlives_its_leave<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let guard = S::new(&client, "name").acquire().await.unwrap();
    store.plan(&lock::RENEW, Fate::Keep);
    store.wait_sent(&lock::RENEW, 1).await;
    Guard::release(guard).await.unwrap();
    let sent = store.sent(&lock::RENEW);
    let late = store.deliver(&server).await.remove(0).unwrap();
    assert_eq!(
        late.field(0).and_then(Value::as_str),
        Some("GONE"),
        "a late renewal creates nothing"
    );
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(store.sent(&lock::RENEW), sent);
}

async fn an_unreachable_server_is_told_after_one_ttl_and_to_who_tries_at_once<S: Subject>() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    for _ in 0..200 {
        store.plan(&lock::ACQUIRE, Fate::NotSent);
    }
    let lock = S::new(&client, "name");
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

async fn one_foreign_key_in_a_batch_is_lost_alone<S: Subject>() {
    // A type that no kind uses there, and a value of another library.
    for foreign in [
        &["HSET", MAIN, "field", "value"][..],
        &["SET", MAIN, "value"],
    ] {
        is_lost_alone_to::<S>(foreign).await;
    }
}

async fn is_lost_alone_to<S: Subject>(foreign: &[&str]) {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    let (victim, other) = (
        S::new(&client, "name").acquire().await.unwrap(),
        S::new(&client, "other").acquire().await.unwrap(),
    );
    // Once the client is subscribed, and has asked whether it holds.
    tokio::time::sleep(Duration::from_millis(1)).await;
    server.command(&["DEL", MAIN]).await.unwrap();
    server.command(foreign).await.unwrap();
    assert_eq!(victim.lost().await.reason, LossReason::Gone);
    assert_eq!(
        store.sent(&lock::RENEW),
        2,
        "one batch, by SHA-1 and by text"
    );
    assert_eq!(other.state(), LeaseState::Held);
    other.verify().await.unwrap();
}

async fn two_acquisitions_of_one_owner_never_share_a_claim<S: Subject>() {
    let server = MemoryStore::new();
    let (client, _) = faulty(&server, TTL).unwrap();
    let owner = client.new_owner();
    let claim = async || {
        client.inspect("name").await.unwrap().holders[0]
            .claim
            .clone()
    };
    let first = S::new(&client, "name")
        .acquire()
        .owner(&owner)
        .await
        .unwrap();
    let before = claim().await;
    Guard::release(first).await.unwrap();
    let second = S::new(&client, "name")
        .acquire()
        .owner(&owner)
        .await
        .unwrap();
    assert_ne!(claim().await, before);
    assert_eq!(second.owner(), owner);
}
