//! Fencing tokens with clocks that step, keys that hold garbage, and claims that come back.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Client, FairLock, LeaseState, LossReason, MultiLock, Mutex, ReentrantLock};
use lockkeeper_lua::{Status, lock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_tests::{counter, faulty};

const TTL: Duration = Duration::from_secs(6);

fn client(server: &MemoryStore) -> Client {
    let store = Arc::new(server.sibling());
    Client::builder().ttl(TTL).build(store).unwrap()
}

/// The token of one grant, released at once.
async fn token(client: &Client, name: &str) -> u64 {
    let guard = Mutex::new(client, name).acquire().await.unwrap();
    let token = guard.fencing_token().get();
    guard.release().await.unwrap();
    token
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_back_a_second_keeps_tokens_increasing() {
    let server = MemoryStore::new();
    let client = client(&server);
    let mut last = 0;
    for step in [0, -1_000, 0, -1_000, 5_000, -1_000] {
        server.step_clock(step);
        if step == 5_000 {
            server
                .command(&["DEL", &counter("name").unwrap()])
                .await
                .unwrap();
        }
        let next = token(&client, "name").await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_never_accepts_a_token_below_one_it_has_seen() {
    let server = MemoryStore::new();
    let client = client(&server);
    let first = token(&client, "name").await;
    // A server that has lost everything, with a clock behind its predecessor's.
    server
        .command(&["DEL", &counter("name").unwrap()])
        .await
        .unwrap();
    server.step_clock(-60_000);
    assert!(
        token(&client, "name").await > first,
        "the client's floor travels with its requests"
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_lifted_by_a_floor_is_remembered_until_the_clock_has_caught_up() {
    let server = MemoryStore::new();
    let (one, other) = (client(&server), client(&server));
    server.step_clock(3_600_000);
    token(&one, "elsewhere").await;
    server.step_clock(-3_600_000);
    let first = token(&one, "name").await;
    tokio::time::sleep(Duration::from_secs(3_700)).await;
    let second = token(&other, "name").await;
    assert!(second > first, "{second} after {first}");
}

#[tokio::test(start_paused = true)]
async fn garbage_in_a_fence_stops_no_lock_and_spreads_to_no_other() {
    for garbage in ["nan", "inf", "1e300", "-1", "abc", "0x7f", "1.5", ""] {
        let server = MemoryStore::new();
        let client = client(&server);
        server
            .command(&["SET", &counter("name").unwrap(), garbage])
            .await
            .unwrap();
        let mut tokens = Vec::new();
        for name in ["name", "name", "innocent", "innocent"] {
            tokens.push(token(&client, name).await);
        }
        assert!(
            tokens[1] > tokens[0] && tokens[3] > tokens[2],
            "{garbage}: {tokens:?}"
        );
        assert!(tokens[2] < 1 << 52, "{garbage} has spread: {tokens:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_counter_at_its_end_is_refused_with_its_repair_and_never_starts_again() {
    for end in [
        "9007199254740987",
        "9007199254740990",
        "9007199254740991",
        "9007199254740992",
        "18446744073709551615",
        "99999999999999999999",
    ] {
        let server = MemoryStore::new();
        let client = client(&server);
        let counter = counter("name").unwrap();
        server.command(&["SET", &counter, end]).await.unwrap();
        let mut last = 0;
        let refused = loop {
            match Mutex::new(&client, "name").acquire().await {
                Ok(guard) => {
                    let token = guard.fencing_token().get();
                    assert!(token > last && token > 1 << 52, "{token} after {last}");
                    last = token;
                    guard.release().await.unwrap();
                }
                Err(refused) => break refused.to_string(),
            }
        };
        assert!(
            refused.contains(&counter) && refused.contains("delete"),
            "{refused}"
        );
        let members = [&Mutex::new(&client, "name"), &Mutex::new(&client, "other")];
        let multi = MultiLock::new(members).unwrap();
        let refused = multi.acquire().await.unwrap_err().to_string();
        assert!(refused.contains(&counter), "{refused}");
        let fair = FairLock::new(&client, "name").acquire().await;
        let refused = fair.unwrap_err().to_string();
        assert!(refused.contains(&counter), "{refused}");
        // Nothing stays held, and other names and new clients are as before.
        client.close().await;
        server.command(&["DEL", &counter]).await.unwrap();
        let next = self::client(&server);
        assert!(token(&next, "other").await < 1 << 52);
        assert!(token(&next, "name").await < 1 << 52);
    }
}

/// Another client's release grants, and knows of no token that this client has seen.
#[tokio::test(start_paused = true)]
async fn a_grant_from_the_queue_below_a_token_that_was_seen_is_not_taken() {
    let server = MemoryStore::new();
    let (one, other) = (client(&server), client(&server));
    server.step_clock(3_600_000);
    let seen = token(&other, "name").await;
    server.step_clock(-3_600_000);
    let counter = counter("name").unwrap();
    server.command(&["DEL", &counter]).await.unwrap();
    let guard = Mutex::new(&one, "name").acquire().await.unwrap();
    let lock = Mutex::new(&other, "name");
    let waiting = tokio::spawn(lock.acquire().into_future());
    tokio::time::sleep(Duration::from_secs(1)).await;
    guard.release().await.unwrap();
    // The claim joins the queue again, by a request that raises the counter.
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.fencing_token().get() > seen);
    guard.release().await.unwrap();
}

/// The same for an owner that could lock again, and whose first claim the server has lost.
#[tokio::test(start_paused = true)]
async fn a_second_claim_of_an_acquisition_is_not_granted_below_a_token_that_was_seen() {
    let server = MemoryStore::new();
    let (one, other) = (client(&server), client(&server));
    server.step_clock(3_600_000);
    let seen = token(&other, "name").await;
    server.step_clock(-3_600_000);
    let first = FairLock::new(&one, "name").acquire().await.unwrap();
    let waiting = tokio::spawn(FairLock::new(&other, "name").acquire().into_future());
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The server loses everything, and another client is the first to come again.
    for key in server.keys() {
        server.command(&["DEL", &key]).await.unwrap();
    }
    drop(first);
    let third = client(&server);
    let again = FairLock::new(&third, "name").acquire().await.unwrap();
    assert!(again.fencing_token().get() < seen);
    tokio::time::sleep(TTL).await;
    again.release().await.unwrap();
    // Its heartbeat was granted what the other client's release had drawn.
    let refused = waiting.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("has gone back; ask again"), "{refused}");
    let guard = FairLock::new(&other, "name").acquire().await.unwrap();
    assert!(guard.fencing_token().get() > seen);
    guard.release().await.unwrap();
}

/// What an acquisition of several locks has lost may still stand on the server when it starts again, for the same owner.
#[tokio::test(start_paused = true)]
async fn an_acquisition_that_starts_again_may_have_the_token_of_what_it_has_lost() {
    let server = MemoryStore::new();
    let (one, store) = faulty(&server, TTL).unwrap();
    let other = client(&server);
    let held = Mutex::new(&other, "b").acquire().await.unwrap();
    let (a, b) = (ReentrantLock::new(&one, "a"), Mutex::new(&one, "b"));
    let both = MultiLock::new([a.target(), b.target()]).unwrap();
    for _ in 0..50 {
        store.plan(&lock::RENEW, Fate::NotSent);
    }
    for script in [&lock::DROP, &lock::RELEASE, &lock::RELEASE] {
        store.plan(script, Fate::LoseRequest);
    }
    let acquiring = tokio::spawn(both.acquire().into_future());
    tokio::time::sleep(TTL / 2).await;
    let lost = other.inspect("a").await.unwrap().holders.remove(0);
    // Its lease is over here, and not yet on the server.
    tokio::time::sleep(TTL / 2 - Duration::from_millis(30)).await;
    let shown = other.inspect("a").await.unwrap();
    assert_eq!(shown.holders.len(), 2, "{lost:?} {shown:?}");
    assert!(shown.holders.iter().any(|it| it.claim == lost.claim));
    held.release().await.unwrap();
    acquiring.await.unwrap().unwrap().release().await.unwrap();
}

/// Whoever may publish and knows a claim can send what a script sends.
#[tokio::test(start_paused = true)]
async fn a_forged_grant_with_a_token_that_no_script_draws_grants_nothing() {
    let server = MemoryStore::new();
    let (one, other) = (client(&server), client(&server));
    let seen = token(&other, "name").await;
    let lock = FairLock::new(&other, "name");
    let held = FairLock::new(&one, "name").acquire().await.unwrap();
    let mut waiting = tokio::spawn(lock.acquire().into_future());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let claim = one.waiters("name", 1).await.unwrap().remove(0).claim;
    let (client, _) = claim.split_once(':').unwrap();
    let state = ["HGET", "lockkeeper.state:{lockkeeper:name}", &claim];
    let state = server.command(&state).await.unwrap();
    let request = state.rsplit(':').next().unwrap().to_owned();
    let channel = format!("lockkeeper.grant:{{lockkeeper:name}}:{client}");
    let year = held.fencing_token().get() + 31_536_000_000_000;
    for token in [u64::MAX, 1 << 53, (1 << 53) - 1, year, seen, 1, 0] {
        let message = format!("G {claim} {token} {request}");
        let heard = server.command(&["PUBLISH", &channel, &message]).await;
        assert_eq!(heard.unwrap(), "1", "nobody hears {channel}");
        let early = tokio::time::timeout(Duration::from_millis(500), &mut waiting).await;
        assert!(early.is_err(), "{token}: {early:?}");
    }
    let before = held.fencing_token();
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.fencing_token() > before && guard.fencing_token().get() < year);
    guard.release().await.unwrap();
}

/// Two copies of one acquire are in flight; the server loses its data between them.
#[tokio::test(start_paused = true)]
async fn an_acquire_in_doubt_does_not_bring_a_lost_lease_back() {
    let server = MemoryStore::new();
    let (held_by, store) = faulty(&server, TTL).unwrap();
    store.plan(&lock::ACQUIRE, Fate::Keep);
    let guard = Mutex::new(&held_by, "name").acquire().await.unwrap();
    server.command(&["DEL", "lockkeeper:name"]).await.unwrap();
    let newer = token(&client(&server), "name").await;
    let late = store.deliver(&server).await.remove(0).unwrap();
    assert_eq!(late.status(), Status::Granted, "the late copy was executed");

    let stale = guard.verify().await;
    assert!(
        guard.fencing_token().get() < newer && stale.is_err(),
        "{stale:?}"
    );
    assert_eq!(guard.state(), LeaseState::Lost(LossReason::Gone));
    drop(guard);
    held_by.close().await;
    assert_eq!(
        server
            .command(&["EXISTS", "lockkeeper:name"])
            .await
            .unwrap(),
        "0"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_with_an_acquire_in_doubt_is_renewed_for_as_long_as_its_token_is_the_one() {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL).unwrap();
    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    let guard = Mutex::new(&client, "name").acquire().await.unwrap();
    let outlived = guard.run(tokio::time::sleep(TTL * 5)).await;
    assert!(outlived.is_ok(), "{outlived:?}");
    guard.verify().await.unwrap();
    // Verified repeatedly, for longer than the fence of a grant is remembered.
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        guard.verify().await.unwrap();
    }
    assert_eq!(store.sent(&lock::RENEW), 0, "only the acquire is repeated");
    // The server loses it, and no request brings it back: the next repeat draws another token.
    server.command(&["DEL", "lockkeeper:name"]).await.unwrap();
    server
        .command(&["DEL", &counter("name").unwrap()])
        .await
        .unwrap();
    assert_eq!(guard.lost().await.reason, LossReason::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_counter_with_a_large_number_reaches_no_other() {
    const DAY: u64 = 86_400_000_000;
    let server = MemoryStore::new();
    let (one, other) = (client(&server), client(&server));
    let clean = token(&other, "clean").await;
    let poison = ["SET", &counter("bad").unwrap(), "9007199254740970"];
    server.command(&poison).await.unwrap();
    token(&one, "bad").await;
    let spread = token(&one, "clean").await;
    assert!(spread < clean + DAY, "the large token has spread");
    // The token does not spread through the name to another client either.
    assert!(token(&other, "clean").await > spread);
    assert!(token(&other, "third").await < clean + DAY);
}
