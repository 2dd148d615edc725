//! What each fault does to the store. `docs/testing.md` and `examples/testing_your_code.rs` show the effect on a client.

use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Event, Form, Reply, Store as _};
use lockkeeper_lua::{Script, Status, lock};
use tokio::time::Instant;

use crate::MemoryStore;

use super::*;

const CHANNEL: &str = "wake";
const TIMEOUT: Duration = Duration::from_secs(2);

fn call(script: &'static Script, form: Form, args: &[&str]) -> Call {
    let keys = match script.name {
        "lock/verify" => &["main"][..],
        _ => &["main", "counter", "tombstone", "holders", "queue", "state"],
    };
    let owned = |words: &[&str]| -> Vec<String> { words.iter().map(|&word| word.into()).collect() };
    Call::new(
        ScriptCall::new(script, owned(keys), owned(args)),
        7,
        form,
        TIMEOUT,
    )
}

async fn acquire(store: &MemoryStore) -> Result<Reply, StoreError> {
    let args = [
        "a", "60000", "0", "0", "mutex", "x", "1", "0", CHANNEL, "poll", "0",
    ];
    store.call(call(&lock::ACQUIRE, Form::Source, &args)).await
}

async fn verify(store: &MemoryStore, form: Form) -> Result<Reply, StoreError> {
    store.call(call(&lock::VERIFY, form, &["a"])).await
}

fn outcome(answer: Result<Reply, StoreError>) -> Outcome {
    answer.expect_err("it was answered").outcome()
}

#[tokio::test]
async fn the_request_of_a_lost_reply_is_executed() {
    let store = MemoryStore::new();
    let faults = store.faults();
    faults.lose_reply();
    assert_eq!(outcome(acquire(&store).await), Outcome::Unknown);
    assert_eq!(
        verify(&store, Form::Source).await.unwrap().status(),
        Status::Held
    );
}

#[tokio::test]
async fn an_answer_that_nothing_was_executed_is_not_lost() {
    let store = MemoryStore::new();
    store.faults().lose_reply();
    let unknown_script = verify(&store, Form::Sha).await.unwrap_err();
    assert!(unknown_script.is_noscript());
    assert_eq!(
        outcome(verify(&store, Form::Source).await),
        Outcome::Unknown
    );
}

#[tokio::test]
async fn what_is_refused_is_not_executed_and_faults_come_in_order() {
    let store = MemoryStore::new();
    let faults = store.faults();
    faults.refuse("READONLY You can't write against a read only replica.");
    faults.lose_reply();
    faults.clone().refuse("OOM command not allowed");
    let refused = acquire(&store).await.unwrap_err();
    assert_eq!(refused.code(), Some("READONLY"));
    assert!(store.keys().is_empty(), "it was executed");
    assert_eq!(outcome(acquire(&store).await), Outcome::Unknown);
    assert_eq!(acquire(&store).await.unwrap_err().code(), Some("OOM"));
    assert!(acquire(&store).await.is_ok());
}

#[tokio::test]
async fn a_client_that_is_disconnected_sends_nothing_and_misses_messages() {
    let store = MemoryStore::new();
    let (faults, mut events) = (store.faults(), store.events().unwrap());
    store.subscribe(CHANNEL).await.unwrap();
    faults.disconnect();
    faults.disconnect();
    assert_eq!(outcome(acquire(&store).await), Outcome::NotSent);
    let refused = store.subscribe("other").await.unwrap_err();
    assert_eq!(refused.outcome(), Outcome::NotSent);
    let other = store.sibling();
    assert!(
        acquire(&other).await.is_ok(),
        "another client has the fault"
    );
    let heard = other.execute(&["PUBLISH", CHANNEL, "missed"]).unwrap();
    assert_eq!(heard.as_i64(), Some(0));

    faults.reconnect();
    faults.reconnect();
    other.execute(&["PUBLISH", CHANNEL, "heard"]).unwrap();
    let expected = [
        Event::Disconnected,
        Event::Reconnected,
        Event::message(CHANNEL, "heard"),
    ];
    for event in expected {
        assert_eq!(events.try_recv().unwrap(), event);
    }
    assert!(events.try_recv().is_err());
    assert!(acquire(&store).await.is_ok());
}

#[tokio::test]
async fn an_outage_uses_up_no_other_fault() {
    let store = MemoryStore::new();
    let faults = store.faults();
    faults.refuse("OOM command not allowed");
    faults.disconnect();
    assert_eq!(outcome(acquire(&store).await), Outcome::NotSent);
    faults.reconnect();
    assert_eq!(outcome(acquire(&store).await), Outcome::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_comes_late_or_not_at_all() {
    let store = MemoryStore::new();
    let faults = store.faults();
    for (delay, answered) in [(TIMEOUT / 2, true), (TIMEOUT, false), (3 * TIMEOUT, false)] {
        faults.delay(delay);
        let asked = Instant::now();
        let answer = acquire(&store).await;
        assert_eq!(asked.elapsed(), delay.min(TIMEOUT));
        assert_eq!(answer.is_ok(), answered, "{delay:?}");
    }
    faults.delay(Duration::ZERO);
    let asked = Instant::now();
    acquire(&store).await.unwrap();
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_under_way_when_the_connection_breaks_is_lost() {
    let store = MemoryStore::new();
    let faults = store.faults();
    faults.delay(TIMEOUT / 2);
    let outage = async {
        tokio::time::sleep(TIMEOUT / 4).await;
        faults.disconnect();
    };
    let (answer, ()) = tokio::join!(acquire(&store), outage);
    assert_eq!(outcome(answer), Outcome::Unknown);
    assert!(store.keys().contains(&"main".to_owned()));
}

#[test]
fn all_keys_of_a_name_are_evicted_and_no_others() {
    let store = MemoryStore::new();
    let others = [
        "lockkeeper.fence:{lockkeeper:000001}",
        "lockkeeper.queue:{lockkeeper:b:report}",
        "lockkeeper:b:report",
        "lockkeeper:report:1",
        "prereport",
    ];
    let tagged = Name::new("", "{customer}:report").unwrap();
    let name = Name::new("lockkeeper", "report").unwrap();
    let elsewhere = Name::new("billing", "report").unwrap();
    for key in others {
        store.execute(&["SET", key, "v"]).unwrap();
    }
    for name in [&tagged, &name, &elsewhere] {
        let keys = PARTS.map(|part| name.part(part));
        for key in [name.main()].into_iter().chain(keys.iter().map(|it| &**it)) {
            store.execute(&["SET", key, "v"]).unwrap();
        }
    }
    let faults = store.faults();
    assert!(faults.evict("report"));
    assert!(!faults.evict("report"));
    assert!(faults.evict("{customer}:report"));
    assert!(!faults.evict("unknown"));
    assert!(!faults.evict(""));
    assert_eq!(store.keys(), others);
}
