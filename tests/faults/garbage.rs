//! Replies and messages that a correct server never sends: whatever they contain, nothing panics or hangs, and errors are
//! reported as errors.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock, Once};
use std::thread::ThreadId;
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use fastrand::Rng;
use lockkeeper::{
    Client, FairLock, Guard, MultiLock, Mutex, Reader, Redlock, ReentrantLock, Semaphore, Writer,
};
use lockkeeper_core::clock::{Clock, TokioClock};
use lockkeeper_core::store::{BadReply, Call, Event, Reply, Store, StoreError, Value};
use lockkeeper_lua::{ALL, Status};
use lockkeeper_testkit::subject::Subject;
use parking_lot::Mutex as Guarded;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// The base seed; every run adds its number.
const SEED: u64 = 0x6A2B;
const RUNS: u64 = 1_000;
const TTL: Duration = Duration::from_secs(2);
/// The time for a whole run, in virtual time: every wait in it is bounded by seconds.
const PATIENCE: Duration = Duration::from_secs(900);

/// A server that replies with anything, usually with the right request number, and publishes anything on every channel.
struct Babbler {
    random: Guarded<Rng>,
    clock: Arc<TokioClock>,
    /// The channels that were subscribed to.
    channels: Guarded<Vec<String>>,
    events: Guarded<Option<mpsc::UnboundedReceiver<Event>>>,
    says: mpsc::UnboundedSender<Event>,
}

impl fmt::Debug for Babbler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Babbler")
    }
}

impl Babbler {
    fn new(seed: u64) -> Arc<Self> {
        let (says, events) = mpsc::unbounded_channel();
        Arc::new(Self {
            random: Guarded::new(Rng::with_seed(seed)),
            clock: Arc::new(TokioClock::new()),
            channels: Guarded::default(),
            events: Guarded::new(Some(events)),
            says,
        })
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.random.lock())
    }

    fn channels(&self) -> Vec<String> {
        let channels = self.channels.lock();
        channels.clone()
    }

    fn say(&self, channel: &str, claim: &str) {
        let event = self.draw(|random| match random.u8(0..12) {
            0 => Event::Reconnected,
            1 => Event::Disconnected,
            _ => Event::message(channel, message(random, claim)),
        });
        // The receiver is gone when the client is closed.
        let _ = self.says.send(event);
    }
}

#[async_trait]
impl Store for Babbler {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        // Never at once, or an immediate retry would keep virtual time from advancing.
        sleep(Duration::from_millis(
            self.draw(|random| random.u64(1..400)),
        ))
        .await;
        let claim = call.item.args.first().unwrap_or_default().to_owned();
        for channel in self.channels() {
            if self.draw(Rng::bool) {
                self.say(&channel, &claim);
            }
        }
        let fields = self.draw(|random| answer(random, &call, &claim));
        Reply::read(call.request, Value::List(fields)).map_err(|bad| match bad {
            BadReply::Malformed => StoreError::unknown("malformed"),
            bad => StoreError::unknown(bad.to_string()),
        })
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.say(channel, "");
        let mut channels = self.channels.lock();
        channels.push(channel.to_owned());
        drop(channels);
        match self.draw(|random| random.u8(0..6)) {
            0 => Err(StoreError::refused("NOPERM no channels")),
            1 => Err(StoreError::unknown("no answer in time")),
            _ => Ok(()),
        }
    }

    async fn unsubscribe(&self, _channel: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        let mut events = self.events.lock();
        events.take()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn close(&self) {}
}

/// A reply: usually with the request number and a status that the script may return, followed by anything.
fn answer(random: &mut Rng, call: &Call, claim: &str) -> Vec<Value> {
    let number = match random.u8(0..30) {
        0 => number(random).to_string(),
        _ => call.request.to_string(),
    };
    let mut fields = vec![Value::Bytes(number.into_bytes())];
    let status = match random.u8(0..12) {
        0 => {
            let script = random.choice(ALL).copied();
            script.and_then(|script| random.choice(script.replies))
        }
        _ => random.choice(call.item.script.replies),
    };
    fields.extend(status.map(word));
    for _ in 0..random.u8(0..6) {
        fields.push(value(random, claim, 3));
    }
    fields
}

fn word(status: &Status) -> Value {
    Value::Bytes(status.as_str().as_bytes().to_vec())
}

fn value(random: &mut Rng, claim: &str, depth: u8) -> Value {
    match random.u8(0..10) {
        0 => Value::Nil,
        1..=3 => Value::Integer(number(random)),
        4..=6 => Value::Bytes(number(random).to_string().into_bytes()),
        7 => Value::Bytes(text(random, claim)),
        _ if depth == 0 => Value::Bytes(text(random, claim)),
        _ => {
            let mut items = Vec::new();
            if random.bool() {
                let script = random.choice(ALL).copied();
                let status = script.and_then(|script| random.choice(script.replies));
                items.extend(status.map(word));
            }
            for _ in 0..random.u8(0..5) {
                items.push(value(random, claim, depth - 1));
            }
            Value::List(items)
        }
    }
}

fn number(random: &mut Rng) -> i64 {
    const NUMBERS: [i64; 12] = [
        0,
        1,
        -1,
        -2,
        100,
        2_000,
        1_700_000_000_000_000,
        4_503_599_627_370_496,
        9_007_199_254_740_993,
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
    ];
    match random.u8(0..4) {
        0 => random.i64(..),
        _ => NUMBERS[random.usize(..NUMBERS.len())],
    }
}

fn text(random: &mut Rng, claim: &str) -> Vec<u8> {
    const TEXTS: [&[u8]; 9] = [
        b"",
        b"held",
        b"revoked",
        b"kept",
        b"mutex",
        b"\xff\xfe",
        b"a/b",
        b"18446744073709551616",
        b"{}",
    ];
    match random.u8(0..3) {
        0 => claim.as_bytes().to_vec(),
        1 => TEXTS[random.usize(..TEXTS.len())].to_vec(),
        _ => (0..random.usize(0..40)).map(|_| random.u8(..)).collect(),
    }
}

fn message(random: &mut Rng, claim: &str) -> Vec<u8> {
    let number = number(random);
    let text = match random.u8(0..8) {
        0 => "free".to_owned(),
        1 => "kept".to_owned(),
        2 => format!("revoked {claim}"),
        3 => format!("gone {claim}"),
        4 => format!("G {claim} {number} {}", random.u8(0..9)),
        5 => format!("G {claim} {} {number}", random.u8(0..9)),
        6 => format!("G {number}"),
        _ => return text(random, claim),
    };
    text.into_bytes()
}

/// The threads that have panicked, including panics of tasks that are never joined.
static PANICKED: LazyLock<Guarded<HashSet<ThreadId>>> = LazyLock::new(Guarded::default);

fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let mut panicked = PANICKED.lock();
            panicked.insert(std::thread::current().id());
            drop(panicked);
            before(panic);
        }));
    });
}

fn has_panicked() -> bool {
    let panicked = PANICKED.lock();
    panicked.contains(&std::thread::current().id())
}

/// Runs one seed after the other on one thread with its own clock.
fn babble<F: Future<Output = Result<()>>>(run: impl Fn(u64) -> F) -> Result<()> {
    watch_for_panics();
    for seed in SEED..SEED + RUNS {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let done = runtime.block_on(async { timeout(PATIENCE, run(seed)).await });
        ensure!(!has_panicked(), "seed {seed}: a panic");
        ensure!(done.is_ok(), "seed {seed}: it hangs");
        done??;
    }
    Ok(())
}

fn client(seed: u64) -> Result<Client> {
    let settings = Client::builder().seed(seed).ttl(TTL).waiter_ttl(TTL);
    Ok(settings.build(Babbler::new(seed))?)
}

/// Both errors and grants are acceptable.
async fn use_it<S: Subject>(seed: u64) -> Result<()> {
    let client = client(seed)?;
    let lock = S::new(&client, "name");
    let _ = lock.try_acquire().await;
    let (one, other) = tokio::join!(
        lock.acquire().wait_for(TTL * 3),
        lock.acquire().wait_for(TTL * 2).max_hold(TTL),
    );
    for guard in [one, other].into_iter().flatten() {
        let _ = guard.verify().await;
        let _ = timeout(TTL * 2, guard.lost()).await;
        let _ = Guard::release(guard).await;
    }
    drop(lock.acquire().wait_for(TTL).await);
    client.close().await;
    Ok(())
}

#[test]
fn a_mutex_bears_any_answer_and_any_message() -> Result<()> {
    babble(use_it::<Mutex>)
}

#[test]
fn a_re_entrant_lock_bears_any_answer_and_any_message() -> Result<()> {
    babble(use_it::<ReentrantLock>)
}

#[test]
fn a_fair_lock_bears_any_answer_and_any_message() -> Result<()> {
    babble(use_it::<FairLock>)
}

#[test]
fn a_writer_bears_any_answer_and_any_message() -> Result<()> {
    babble(use_it::<Writer>)
}

#[test]
fn a_reader_bears_any_answer_and_any_message() -> Result<()> {
    babble(use_it::<Reader>)
}

#[test]
fn a_semaphore_bears_any_answer_and_any_message() -> Result<()> {
    babble(use_it::<Semaphore>)
}

#[test]
fn several_locks_at_once_bear_any_answer_and_any_message() -> Result<()> {
    babble(async |seed| {
        let client = client(seed)?;
        let members = [
            Mutex::new(&client, "a").target(),
            Mutex::new(&client, "b").target(),
            FairLock::new(&client, "c").target(),
        ];
        let lock = MultiLock::new(members)?;
        if let Ok(guard) = lock.acquire().wait_for(TTL * 3).await {
            let _ = timeout(TTL, guard.lost()).await;
            let _ = guard.release().await;
        }
        client.close().await;
        Ok(())
    })
}

#[test]
fn a_majority_bears_any_answer_and_any_message() -> Result<()> {
    babble(async |seed| {
        let clients: Vec<Client> = (0..3)
            .map(|part| client(seed + part))
            .collect::<Result<_>>()?;
        let lock = Redlock::new(&clients, "name")?;
        if let Ok(guard) = lock.acquire().wait_for(TTL * 3).await {
            let _ = timeout(TTL, guard.lost()).await;
            let _ = guard.release().await;
        }
        for client in clients {
            client.close().await;
        }
        Ok(())
    })
}

#[test]
fn looks_from_outside_bear_any_answer() -> Result<()> {
    babble(async |seed| {
        let client = client(seed)?;
        for _ in 0..20 {
            let _ = client.inspect("name").await;
            let _ = client.waiters("name", 10).await;
            let _ = client.server_facts().await;
            let _ = client.revoke("name").await;
            let _ = client.force_release("name", "claim").await;
            let _ = FairLock::new(&client, "name").queue_len().await;
            let mut names = client.names("*");
            for _ in 0..5 {
                let _ = names.next_page().await;
            }
        }
        client.close().await;
        Ok(())
    })
}
