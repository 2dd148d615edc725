//! What the store does beyond the contract of all stores, which `tests/kinds/contract.rs` runs, and what tests may do to the server.

use std::time::Duration;

use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_lua::{Script, Status, lock};
use tokio::time;

use super::*;

const CHANNEL: &str = "wake";

fn call(script: &'static Script, keys: &[&str], args: &[&str]) -> Call {
    let owned = |words: &[&str]| -> Vec<String> { words.iter().map(|&word| word.into()).collect() };
    let item = ScriptCall::new(script, owned(keys), owned(args));
    Call::new(item, 7, Form::Source, Duration::from_secs(1))
}

fn acquire(claim: &str) -> Call {
    acquire_for(claim, "1000")
}

fn acquire_for(claim: &str, ttl: &str) -> Call {
    let keys = ["main", "counter", "tombstone", "holders", "queue", "state"];
    let args = [
        claim, ttl, "0", "0", "mutex", "x", "1", "0", CHANNEL, "poll", "0",
    ];
    call(&lock::ACQUIRE, &keys, &args)
}

fn leave(claim: &str) -> Call {
    let keys = ["main", "counter", "tombstone", "holders", "queue", "state"];
    let args = [claim, "mutex", "x", CHANNEL, "0", "0", "0", "0", "0"];
    call(&lock::RELEASE, &keys, &args)
}

async fn status(store: &MemoryStore, call: Call) -> Status {
    store.call(call).await.unwrap().status()
}

fn integer(store: &MemoryStore, command: &[&str]) -> i64 {
    store.execute(command).unwrap().as_i64().unwrap()
}

#[tokio::test]
async fn a_message_is_there_before_the_reply() {
    let store = MemoryStore::new();
    let other = store.sibling();
    let mut events = other.events().unwrap();
    other.subscribe(CHANNEL).await.unwrap();
    other.subscribe(CHANNEL).await.unwrap();
    store.call(acquire("a")).await.unwrap();
    let left = store.run(&leave("a")).unwrap();
    assert_eq!(left.0.field(0).unwrap().as_str(), Some("1"));
    assert_eq!(events.try_recv().unwrap(), Event::message(CHANNEL, "free"));
    assert!(events.try_recv().is_err(), "delivered twice");
}

#[tokio::test]
async fn a_muted_server_loses_messages_and_counts_them() {
    let store = MemoryStore::new();
    let mut events = store.events().unwrap();
    store.subscribe(CHANNEL).await.unwrap();
    store.mute(true);
    assert_eq!(integer(&store, &["PUBLISH", CHANNEL, "lost"]), 1);
    store.mute(false);
    assert_eq!(integer(&store, &["PUBLISH", CHANNEL, "heard"]), 1);
    assert_eq!(events.recv().await, Some(Event::message(CHANNEL, "heard")));
}

#[tokio::test(start_paused = true)]
async fn paused_time_expires_keys_at_once_and_calls_do_not_move_it() {
    let store = MemoryStore::new();
    let before = store.clock().now();
    store.call(acquire("a")).await.unwrap();
    time::advance(Duration::from_millis(1000)).await;
    assert_eq!(integer(&store, &["PTTL", "main"]), 0, "alive at its expiry");
    assert_eq!(status(&store, acquire("b")).await, Status::Busy);
    time::advance(Duration::from_millis(1)).await;
    assert_eq!(status(&store, acquire("b")).await, Status::Granted);
    assert_eq!(
        store.clock().now().since(before),
        Duration::from_millis(1001)
    );
    time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(store.keys(), ["counter"]);
    time::sleep(Duration::from_secs(24 * 3600)).await;
    assert!(store.keys().is_empty());
}

#[tokio::test]
async fn time_stands_still_in_a_script() {
    let store = MemoryStore::new();
    let script = "
        redis.call('SET', KEYS[1], 'v', 'PX', 1)
        local first = redis.call('TIME')
        for _ = 1, 50000 do redis.call('EXISTS', KEYS[1]) end
        local last = redis.call('TIME')
        return { first[1] == last[1] and first[2] == last[2], redis.call('PTTL', KEYS[1]) }";
    let started = std::time::Instant::now();
    let reply = store.execute(&["EVAL", script, "1", "k"]).unwrap();
    assert!(
        started.elapsed() > Duration::from_millis(2),
        "too fast to tell"
    );
    assert_eq!(
        reply,
        Value::List(vec![Value::Integer(1), Value::Integer(1)])
    );
    assert!(store.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_servers_clock_moves_expiries_and_time_but_not_the_clients() {
    let store = MemoryStore::new();
    let seconds = || {
        let Value::List(parts) = store.execute(&["TIME"]).unwrap() else {
            panic!("TIME is no list");
        };
        parts[0].as_i64().unwrap()
    };
    let (before, here) = (seconds(), store.clock().now());
    store.call(acquire("a")).await.unwrap();
    store.step_clock(-60_000);
    assert_eq!(seconds(), before - 60);
    assert_eq!(integer(&store, &["PTTL", "main"]), 61_000);
    store.step_clock(61_001);
    assert_eq!(status(&store, acquire("b")).await, Status::Granted);
    assert_eq!(store.clock().now(), here);
}

#[tokio::test]
async fn a_shared_keyspace_lives_as_long_as_its_last_store() {
    let name = "a_shared_keyspace_lives_as_long_as_its_last_store";
    let first = MemoryStore::shared(name);
    assert_eq!(first.url(), format!("memory://{name}"));
    first.execute(&["SET", "k", "v"]).unwrap();
    let second = MemoryStore::shared(name);
    drop(first);
    assert_eq!(second.keys(), ["k"]);
    assert!(MemoryStore::shared("").keys().is_empty());
    drop(second);
    assert!(MemoryStore::shared(name).keys().is_empty());
}

#[test]
fn a_store_works_outside_a_runtime() {
    let store = MemoryStore::new();
    store.execute(&["SET", "k", "v", "PX", "900000"]).unwrap();
    assert!(integer(&store, &["PTTL", "k"]) > 700_000);
    assert_eq!(
        store.run(&acquire("a")).unwrap().0.status(),
        Status::Granted
    );
}

#[test]
fn a_panic_in_another_thread_does_not_poison_the_server() {
    let store = Arc::new(MemoryStore::new());
    let panicking = Arc::clone(&store);
    let thread = std::thread::spawn(move || {
        let _state = panicking.server.at_present();
        panic!("while the server is locked");
    });
    assert!(thread.join().is_err());
    assert_eq!(
        store.execute(&["SET", "k", "v"]).unwrap().as_str(),
        Some("OK")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_in_many_threads_exclude_one_another() {
    let store = Arc::new(MemoryStore::new());
    let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let (store, inside) = (Arc::clone(&store), Arc::clone(&inside));
            tokio::spawn(async move {
                let claim = number.to_string();
                let mut held = 0;
                while held < 50 {
                    if status(&store, acquire_for(&claim, "600000")).await == Status::Granted {
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(status(&store, leave(&claim)).await, Status::Released);
                        held += 1;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_loop_of_calls_lets_other_tasks_run() {
    let store = MemoryStore::new();
    let other = tokio::spawn(async {});
    let mut calls = 0;
    while !other.is_finished() {
        calls += 1;
        assert!(calls < 10_000, "the loop starves the runtime");
        store.call(acquire("a")).await.unwrap();
    }
}

#[test]
fn raw_commands_refuse_as_redis_does() {
    let store = MemoryStore::new();
    for (command, expected) in [
        (
            "NOPE a b",
            "ERR unknown command 'NOPE', with args beginning with: 'a' 'b' ",
        ),
        ("get", "ERR wrong number of arguments for 'get' command"),
        ("SET k", "ERR wrong number of arguments for 'set' command"),
        ("SET k v PX", "ERR syntax error"),
        ("SET k v NX XX", "ERR syntax error"),
        ("SET k v PX 9 KEEPTTL", "ERR syntax error"),
        ("SET k v PX 0", "ERR invalid expire time in 'set' command"),
        (
            "SET k v PX 01",
            "ERR value is not an integer or out of range",
        ),
        (
            "PEXPIRE k 9223372036854775807",
            "ERR invalid expire time in 'pexpire' command",
        ),
        ("PEXPIRE k 1 FOO", "ERR Unsupported option FOO"),
        (
            "EVAL return",
            "ERR wrong number of arguments for 'eval' command",
        ),
        ("EVAL return -1", "ERR Number of keys can't be negative"),
        (
            "EVAL return 2 k",
            "ERR Number of keys can't be greater than number of args",
        ),
        (
            "EVALSHA ffff 0",
            "NOSCRIPT No matching script. Please use EVAL.",
        ),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let error = store.execute(&words).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("the server refused: {expected}"),
            "{command}"
        );
    }
}
