//! What an acquire and a release of a free name cost their process. The figures may only fall: a test fails if one has grown,
//! and also if one has fallen, until the lower figure is recorded here.
//!
//! There is no server: the store answers at once, and its few allocations count too. A pair is complete after one poll, so no
//! other task runs meanwhile, and time is paused. So the figures depend neither on time nor on the machine, but on the code
//! and the compiler, for pointers of 64 bits; those of a release build are the same. What tokio locks inside, as for a
//! `Notify`, is not counted.
//!
//! These tests are a program of their own because counting slows every allocation down.

#![cfg(target_pointer_width = "64")]

use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::task::{Context, Poll, Waker};

use anyhow::{Result, bail};
use async_trait::async_trait;
use lockkeeper::{Client, FairLock, Guard, Lock, Mutex, ReentrantLock, RwLock, Semaphore};
use lockkeeper_core::clock::{Clock, TokioClock};
use lockkeeper_core::store::{Call, Event, Reply, Store, StoreError, Value};
use lockkeeper_core::{passes, size_of_request};
use lockkeeper_lua::Status;
use tokio::sync::mpsc;

/// What is counted for a pair of each kind.
const COUNTED: [&str; 4] = [
    "passes of client-wide mutexes",
    "passes of mutexes of one claim",
    "allocations",
    "allocated bytes",
];

const RECORDED: [(&str, [u64; 4]); 6] = [
    ("mutex", [11, 23, 49, 7_677]),
    ("re-entrant", [11, 23, 52, 7_754]),
    ("fair", [11, 23, 52, 7_754]),
    ("read", [11, 23, 52, 7_754]),
    ("write", [11, 23, 52, 7_754]),
    ("semaphore", [10, 23, 49, 7_677]),
];

/// The sizes of the futures of a mutex, in bytes: a waiter keeps the first for as long as it waits.
const RECORDED_SIZES: [(&str, u64); 3] = [
    ("acquire", 2_256),
    ("the request of an acquire", 1_256),
    ("release", 1_864),
];

/// What the mutexes of one claim guard. All others are the client's.
const OF_ONE_CLAIM: [&str; 2] = [
    "lockkeeper_core::claim::Claim",
    "alloc::sync::Weak<lockkeeper_core::engine::grant::Grant>",
];

/// How many pairs precede those that are counted: tables have grown by then.
const WARM_UP: u32 = 1_000;

#[tokio::test(start_paused = true)]
async fn pair_costs_what_is_recorded() -> Result<()> {
    let measured = [
        cost(|client| Mutex::new(client, "name")).await?,
        cost(|client| ReentrantLock::new(client, "name")).await?,
        cost(|client| FairLock::new(client, "name")).await?,
        cost(|client| RwLock::new(client, "name").reader()).await?,
        cost(|client| RwLock::new(client, "name").writer()).await?,
        cost(|client| Semaphore::new(client, "name", 4)).await?,
    ];
    let of_kinds = RECORDED.iter().zip(measured);
    compare(of_kinds.flat_map(|((kind, recorded), measured)| {
        let figures = COUNTED.iter().zip(recorded).zip(measured);
        figures.map(move |((what, recorded), measured)| {
            (format!("{kind}: {what}"), measured, *recorded)
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn futures_have_their_recorded_sizes() -> Result<()> {
    let client = Client::builder().build(Arc::new(AtOnce::new()))?;
    let mutex = Mutex::new(&client, "name");
    let acquire = size_of_val(&*mutex.acquire().into_future());
    let release = size_of_val(&mutex.acquire().await?.release());
    let measured = [acquire, size_of_request(), release];
    compare(
        RECORDED_SIZES
            .iter()
            .zip(measured)
            .map(|((future, recorded), measured)| {
                (
                    format!("size of the future: {future}"),
                    measured as u64,
                    *recorded,
                )
            }),
    )
}

/// Fails unless each measured figure, given with its name before the recorded one, is the recorded one.
fn compare(figures: impl Iterator<Item = (String, u64, u64)>) -> Result<()> {
    let mut moved = Vec::new();
    for (what, measured, recorded) in figures {
        println!("{what}: {measured}");
        if measured > recorded {
            moved.push(format!(
                "{what}: {measured}, more than the recorded {recorded}"
            ));
        } else if measured < recorded {
            moved.push(format!(
                "{what}: {measured}, less than the recorded {recorded}: lower the recorded figure"
            ));
        }
    }
    if moved.is_empty() {
        return Ok(());
    }
    bail!("{}", moved.join("\n"))
}

/// Counts [what is counted](COUNTED) for one pair among many.
async fn cost<L: Lock>(new: fn(&Client) -> L) -> Result<[u64; 4]> {
    let client = Client::builder().build(Arc::new(AtOnce::new()))?;
    let lock = &new(&client);
    for _ in 0..WARM_UP {
        pair(lock).await?;
    }
    // From here to the end no other task runs.
    tokio::task::yield_now().await;
    at_once(pair(lock))?;
    let mut outcomes = [Ok(()), Ok(())];
    let allocated = allocation_counter::measure(|| outcomes[0] = at_once(pair(lock)));
    let by_mutex = passes::count(|| outcomes[1] = at_once(pair(lock)));
    for outcome in outcomes {
        outcome?;
    }
    println!("passes of mutexes, by what each guards: {by_mutex:#?}");
    let of_one_claim = OF_ONE_CLAIM.iter().filter_map(|it| by_mutex.get(it));
    let of_one_claim: u64 = of_one_claim.sum();
    let all: u64 = by_mutex.values().sum();
    let (times, bytes) = (allocated.count_total, allocated.bytes_total);
    Ok([all - of_one_claim, of_one_claim, times, bytes])
}

async fn pair<L: Lock>(lock: &L) -> Result<()> {
    lock.acquire().await?.release().await?;
    Ok(())
}

/// The output of a future that waits for nothing.
fn at_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => bail!("the store answers at once, and yet a future waits"),
    }
}

/// A store without a server: every acquire is granted, every release succeeds.
#[derive(Debug)]
struct AtOnce {
    token: AtomicI64,
    clock: TokioClock,
    events: SyncMutex<Option<mpsc::UnboundedReceiver<Event>>>,
    // Kept so that the stream of events does not end, and the client with it.
    _sender: mpsc::UnboundedSender<Event>,
}

impl AtOnce {
    fn new() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            token: AtomicI64::new(1_000_000_000_000_000),
            clock: TokioClock::new(),
            events: SyncMutex::new(Some(events)),
            _sender: sender,
        }
    }
}

fn text(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

#[async_trait]
impl Store for AtOnce {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        let request = text(&call.request.to_string());
        let replies = call.item.script.replies;
        let reply = if replies.contains(&Status::Granted) {
            let token = self.token.fetch_add(1, Ordering::Relaxed);
            vec![request, text("GRANTED"), Value::Integer(token)]
        } else if replies.contains(&Status::Dropped) {
            vec![request, text("DROPPED")]
        } else if replies.contains(&Status::Released) {
            vec![request, text("RELEASED"), text("1"), Value::Integer(0)]
        } else {
            vec![request, text("STORED")]
        };
        Reply::read(call.request, Value::List(reply))
            .map_err(|bad| StoreError::unknown(bad.to_string()))
    }

    async fn subscribe(&self, _channel: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn unsubscribe(&self, _channel: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.take()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock)
    }

    async fn close(&self) {}
}
