//! The embedded engine beside a real server: the same commands and the same shipped scripts, in random sequences, must
//! answer the same and send the same messages. Clocks are compared roughly, everything else exactly.

#![cfg(unix)] // the server listens on a unix socket
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

mod embedded;
mod server;
mod snippets;
mod step;

use std::collections::HashSet;

use fastrand::Rng;
use lockkeeper_core::store::Value;
use lockkeeper_lua::Status;

use crate::embedded::Embedded;
use crate::server::Server;
use crate::step::Step;

/// Every sequence has a seed of its own, this one plus its number, so that one that failed can be run alone.
const SEED: u64 = 0x10C4;
const SEQUENCES: u64 = 2_000;
const STEPS: usize = 25;

/// A reply, or the text of an error reply.
type Reply = Result<Value, String>;

/// What can be asked of either side.
trait Side {
    fn execute(&mut self, words: &[String]) -> Reply;
    fn flush_scripts(&mut self);
    /// The messages on [`step::CHANNEL`] since the last asking.
    fn messages(&mut self) -> Vec<Vec<u8>>;
}

#[test]
fn random_sequences_do_the_same_as_on_a_server() {
    let mut server = Server::start();
    let version = server.version();
    println!("server {version}, seed {SEED}, {SEQUENCES} sequences of {STEPS} steps");
    let mut executed = 0;
    let mut seen = HashSet::new();
    for number in 0..SEQUENCES {
        server.empty();
        let mut embedded = Embedded::new();
        let mut random = Rng::with_seed(SEED + number);
        let mut before: Vec<Step> = Vec::new();
        for _ in 0..STEPS {
            let kind = match number % 8 {
                0 | 4 => Some("fair/"),
                1 | 5 => Some("rwlock/"),
                2 => Some("multi/"),
                _ => None,
            };
            let step = Step::random(&mut random, kind);
            let (ours, theirs) = (step.run(&mut embedded), step.run(&mut server));
            assert!(
                alike(&ours, &theirs),
                "seed {SEED} + {number}: {step:?}\nembedded {ours:?}\nserver   {theirs:?}\nafter {before:#?}"
            );
            // Whatever lies under its keys, this kind and every batch have an answer to it.
            if let (Some(script), Err(error)) = (step.script(), &theirs) {
                let queues = ["fair/", "rwlock/"].iter();
                let answers =
                    script.batch || queues.clone().any(|kind| script.name.starts_with(kind));
                assert!(
                    !answers || error.starts_with("NOSCRIPT"),
                    "seed {SEED} + {number}: {step:?}: {error}\nafter {before:#?}"
                );
            }
            if let Ok(Value::List(fields)) = &theirs {
                // The status, and behind that of a batch one for each item, maybe with fields of its own.
                let outcome = |field: &Value| match field {
                    Value::List(item) => {
                        item.first().and_then(Value::as_str).and_then(Status::parse)
                    }
                    word => word.as_str().and_then(Status::parse),
                };
                seen.extend(fields.iter().skip(1).filter_map(outcome));
            }
            before.push(step);
            executed += 1;
        }
        for step in Step::looks() {
            let (ours, theirs) = (step.run(&mut embedded), step.run(&mut server));
            assert!(
                alike(&ours, &theirs),
                "seed {SEED} + {number}: at the end {step:?}\nembedded {ours:?}\nserver   {theirs:?}\nafter {before:#?}"
            );
        }
        let (ours, theirs) = (embedded.messages(), server.messages());
        let same = |(ours, theirs): (&Vec<u8>, &Vec<u8>)| texts_alike(ours, theirs);
        assert!(
            ours.len() == theirs.len() && ours.iter().zip(&theirs).all(same),
            "seed {SEED} + {number}: messages\nembedded {ours:?}\nserver   {theirs:?}\nafter {before:#?}"
        );
    }
    println!("{executed} replies agree");
    for status in lockkeeper_lua::ALL.iter().flat_map(|script| script.replies) {
        // What a server says of itself is not compared, nor for how long it has been up.
        let of_itself = matches!(status, Status::Server | Status::Out);
        assert!(
            seen.contains(status) || of_itself,
            "no script ever answered {status:?}"
        );
    }
}

#[test]
fn lua_itself_is_the_same_as_on_a_server() {
    let mut server = Server::start();
    let mut differences = Vec::new();
    for source in snippets::SNIPPETS {
        server.empty();
        let words = ["EVAL", source, "1", "k", "arg"].map(str::to_owned);
        let (ours, theirs) = (Embedded::new().execute(&words), server.execute(&words));
        if !alike(&ours, &theirs) {
            differences.push(format!(
                "{source}\n  embedded {ours:?}\n  server   {theirs:?}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn alike(ours: &Reply, theirs: &Reply) -> bool {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => values_alike(ours, theirs),
        (Err(ours), Err(theirs)) => ours == theirs,
        _ => false,
    }
}

/// Equal, but for clocks.
fn values_alike(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::List(ours), Value::List(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(theirs)
                    .all(|(ours, theirs)| values_alike(ours, theirs))
        }
        (Value::Integer(ours), Value::Integer(theirs)) => {
            ours == theirs || clocks_alike(*ours, *theirs)
        }
        (Value::Bytes(ours), Value::Bytes(theirs)) => texts_alike(ours, theirs),
        _ => ours == theirs,
    }
}

/// Equal, but for clocks among what blanks and colons part: a message has a token, a waiter's entry a time.
fn texts_alike(ours: &[u8], theirs: &[u8]) -> bool {
    let parts = |text: &[u8]| -> Vec<Vec<u8>> {
        let parts = text.split(|byte| b" :".contains(byte));
        parts.map(<[u8]>::to_vec).collect()
    };
    let number = |part: Vec<u8>| Value::Bytes(part).as_i64();
    ours == theirs
        || parts(ours).len() == parts(theirs).len()
            && parts(ours)
                .into_iter()
                .zip(parts(theirs))
                .all(|(ours, theirs)| {
                    ours == theirs
                        || number(ours)
                            .zip(number(theirs))
                            .is_some_and(|(ours, theirs)| clocks_alike(ours, theirs))
                })
}

/// Ten seconds apart at most, in ms from the shortest ttl that a step uses on, and in µs for a token that is a time; negated, as
/// the token of those who read together.
fn clocks_alike(ours: i64, theirs: i64) -> bool {
    if ours < 0 && theirs < 0 {
        return clocks_alike(-ours, -theirs);
    }
    const TOKENS: i64 = 1_000_000_000_000_000;
    let apart = ours.abs_diff(theirs);
    match ours.min(theirs) {
        TOKENS.. => apart <= 10_000_000,
        ..TOKENS => ours.min(theirs) > step::SHORTEST_TTL - 10_000 && apart <= 10_000,
    }
}
