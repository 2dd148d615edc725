//! Compares the embedded engine with a real server: for random sequences of the same commands and the same shipped scripts, both
//! must give the same answers and send the same messages. Clocks are compared roughly. Everything else must be equal with a Redis
//! 7.0, the engine's model; with other versions, only the wording of errors may differ.
//!
//! Besides the server of all tests, the servers that `LOCKKEEPER_TEST_SERVERS` names are used.

#![cfg(unix)] // the server listens on a unix socket
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

mod compare;
mod embedded;
mod server;
mod snippets;
mod step;
mod words;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use lockkeeper_core::store::Value;
use lockkeeper_lua::Status;
use lockkeeper_testkit::server::others;

use crate::compare::{Version, texts_alike};
use crate::embedded::Embedded;
use crate::server::Server;
use crate::step::Step;

/// Every sequence has its own seed, this one plus its number, so that a failed one can be run alone.
const SEED: u64 = 0x10C4;
/// With the server of all tests alone, and where other servers are named.
const SEQUENCES: [u64; 2] = [1_250, 2_500];
const STEPS: usize = 25;

/// A sequence that differs and took longer is repeated: the two sides execute one after the other, and clocks may be twice this apart.
const STALL: Duration = Duration::from_secs(5);

/// A reply, or the text of an error reply.
type Reply = Result<Value, String>;

/// What both sides can do.
trait Side {
    fn execute(&mut self, words: &[String]) -> Reply;
    fn flush_scripts(&mut self);
    /// The messages on [`words::CHANNEL`] since the last call.
    fn messages(&mut self) -> Vec<Vec<u8>>;
}

/// What the test of random sequences has covered.
#[derive(Default)]
struct Seen {
    replies: u64,
    /// How many of them a script gave.
    scripts: u64,
    statuses: HashSet<Status>,
}

#[test]
fn random_sequences_do_the_same_as_on_a_server() {
    let programs = programs();
    std::thread::scope(|scope| {
        let number = SEQUENCES[usize::from(programs.len() > 1)];
        for program in &programs {
            scope.spawn(move || compare_sequences(program.as_ref(), number));
        }
    });
}

/// The server of all tests, and the others.
fn programs() -> Vec<Option<PathBuf>> {
    let others = others().into_iter().map(Some);
    std::iter::once(None).chain(others).collect()
}

fn compare_sequences(program: Option<&PathBuf>, sequences: u64) {
    let mut server = Server::start(program);
    let version = server.version();
    let shown = &version.0;
    println!("{shown}: seed {SEED}, {sequences} sequences of {STEPS} steps");
    let mut seen = Seen::default();
    for number in 0..sequences {
        loop {
            let begun = Instant::now();
            match compare_sequence(number, &mut server, &version, &mut seen) {
                Ok(()) => break,
                Err(difference) => assert!(begun.elapsed() > STALL, "{difference}"),
            }
        }
    }
    println!(
        "{shown}: {} replies agree, of them {} of scripts",
        seen.replies, seen.scripts
    );
    assert!(seen.scripts >= 20 * sequences, "{} scripts", seen.scripts);
    for status in lockkeeper_lua::ALL.iter().flat_map(|script| script.replies) {
        // What a server says about itself, and its uptime, are not compared.
        let of_itself = matches!(status, Status::Server | Status::Quarantined);
        assert!(
            seen.statuses.contains(status) || of_itself,
            "no script ever answered {status:?}"
        );
    }
}

/// Returns how the two sides differ, if they do.
fn compare_sequence(
    number: u64,
    server: &mut Server,
    version: &Version,
    seen: &mut Seen,
) -> Result<(), String> {
    server.empty();
    let mut embedded = Embedded::new();
    let mut random = Rng::with_seed(SEED + number);
    let mut before: Vec<Step> = Vec::new();
    let kind = match number % 12 {
        0 | 1 | 4 | 5 => Some("lock/"),
        2 => Some("multi/"),
        3 => Some("once/"),
        6 => Some("latch/"),
        7 => Some("election/"),
        // A name that is an RLock cannot be an RReadWriteLock, and the other way round.
        8 if number.is_multiple_of(2) => Some("redisson/rwlock"),
        8 => Some("redisson/"),
        9 => Some("redisson/permits/"),
        10 => Some("redlock/"),
        _ => None,
    };
    let random = (0..STEPS).map(|_| Step::random(&mut random, kind));
    for step in random.chain(Step::looks()) {
        let (ours, theirs) = (step.run(&mut embedded), step.run(server));
        if !version.replies_alike(&ours, &theirs) {
            return Err(format!(
                "{}, seed {SEED} + {number}: {step:?}\nembedded {ours:?}\nserver   {theirs:?}\nafter {before:#?}",
                version.0
            ));
        }
        if !answers_anything(&step, &theirs) {
            panic!("seed {SEED} + {number}: {step:?}: {theirs:?}\nafter {before:#?}");
        }
        if let Ok(Value::List(fields)) = &theirs {
            // The status, and in a batch one for each item after it, which may have its own fields.
            let outcome = |field: &Value| match field {
                Value::List(item) => item.first().and_then(Value::as_str).and_then(Status::parse),
                word => word.as_str().and_then(Status::parse),
            };
            seen.statuses
                .extend(fields.iter().skip(1).filter_map(outcome));
        }
        if let Ok(Value::Bytes(line)) = &theirs {
            let line = String::from_utf8_lossy(line);
            let status = line.split(' ').nth(1).and_then(Status::parse);
            seen.statuses.extend(status);
        }
        seen.replies += 1;
        seen.scripts += u64::from(step.is_script());
        before.push(step);
    }
    let (ours, theirs) = (embedded.messages(), server.messages());
    let same = |(ours, theirs): (&Vec<u8>, &Vec<u8>)| texts_alike(ours, theirs);
    if ours.len() == theirs.len() && ours.iter().zip(&theirs).all(same) {
        return Ok(());
    }
    Err(format!(
        "seed {SEED} + {number}: messages\nembedded {ours:?}\nserver   {theirs:?}\nafter {before:#?}"
    ))
}

/// Whatever is under their keys, the scripts of locks and batches have an answer.
fn answers_anything(step: &Step, reply: &Reply) -> bool {
    let (Some(script), Err(error)) = (step.script(), reply) else {
        return true;
    };
    let answers = script.batch || script.name.starts_with("lock/");
    !answers || error.starts_with("NOSCRIPT")
}

#[test]
fn lua_itself_is_the_same_as_on_a_server() {
    for program in programs() {
        let mut server = Server::start(program.as_ref());
        let version = server.version();
        let mut differences = Vec::new();
        for source in snippets::SNIPPETS {
            server.empty();
            let words = ["EVAL", source, "1", "k", "arg"].map(str::to_owned);
            let (ours, theirs) = (Embedded::new().execute(&words), server.execute(&words));
            let known = snippets::is_different(&version, source);
            if version.replies_alike(&ours, &theirs) == known {
                differences.push(format!(
                    "{source}\n  embedded {ours:?}\n  server   {theirs:?}"
                ));
            }
        }
        assert!(
            differences.is_empty(),
            "{}, known differences that are none included:\n{}",
            version.0,
            differences.join("\n")
        );
    }
}

/// How many patterns are compared, and with how many keys each.
const PATTERNS: usize = 2_000;
const KEYS: usize = 100;

#[test]
fn patterns_match_the_same_keys_as_on_a_server() {
    for program in programs() {
        let (mut server, mut embedded) = (Server::start(program.as_ref()), Embedded::new());
        let mut random = Rng::with_seed(SEED);
        let mut text = |longest: usize| -> String {
            let length = random.usize(1..=longest);
            (0..length)
                .map(|_| *random.choice(b"aabb*?[]^-\\").unwrap() as char)
                .collect()
        };
        for _ in 0..KEYS {
            let words = ["SET".to_owned(), text(8), "1".to_owned()];
            assert_eq!(embedded.execute(&words), server.execute(&words));
        }
        let mut matched = 0;
        for _ in 0..PATTERNS {
            let pattern = text(8);
            let words = ["SCAN", "0", "MATCH", &pattern, "COUNT", "1000"].map(str::to_owned);
            let [ours, theirs] = [embedded.execute(&words), server.execute(&words)].map(found);
            assert_eq!(ours, theirs, "{pattern}");
            matched += usize::from(!theirs.is_empty());
        }
        assert!(matched > PATTERNS / 10, "only {matched} matched anything");
    }
}

/// The keys of a page, in order.
fn found(page: Reply) -> Vec<String> {
    let Ok(Value::List(fields)) = &page else {
        panic!("no page: {page:?}");
    };
    let Some(Value::List(keys)) = fields.get(1) else {
        panic!("no keys: {page:?}");
    };
    let mut keys: Vec<String> = keys
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    keys.sort();
    keys
}
