//! Counts the allocations of an acquire and a release of a free name in this process:
//! `cargo bench --package lockkeeper-tests --bench allocations`.
//!
//! There is no server: the store answers at once, and its few allocations count too. The counts do not depend on machine or
//! load. `locks` does not count them because counting would slow it down.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use anyhow::Result;
use async_trait::async_trait;
use lockkeeper::{Client, FairLock, Guard, Lock, Mutex, ReentrantLock, RwLock, Semaphore};
use lockkeeper_core::clock::{BootClock, Clock};
use lockkeeper_core::store::{Call, Event, Reply, Store, StoreError, Value};
use lockkeeper_lua::Status;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::block_in_place;

const PAIRS: u32 = 1000;

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::builder().build(Arc::new(AtOnce::new()))?;
    let name = "allocations";
    let rw = RwLock::new(&client, name);
    println!("allocations and bytes of an acquire and a release");
    kind("mutex", &Mutex::new(&client, name)).await?;
    kind("re-entrant", &ReentrantLock::new(&client, name)).await?;
    kind("fair", &FairLock::new(&client, name)).await?;
    kind("read", &rw.reader()).await?;
    kind("write", &rw.writer()).await?;
    kind("semaphore", &Semaphore::new(&client, name, 4)).await?;
    client.close().await;
    Ok(())
}

async fn kind<L: Lock>(what: &str, lock: &L) -> Result<()> {
    // The first grant introduces the client.
    pairs(lock).await?;
    let mut outcome = Ok(());
    let counted = block_in_place(|| {
        let run = || outcome = Handle::current().block_on(pairs(lock));
        allocation_counter::measure(run)
    });
    outcome?;
    let each = |total: u64| total / u64::from(PAIRS);
    let (times, bytes) = (each(counted.count_total), each(counted.bytes_total));
    println!("{what:>10} {times:>4} {bytes:>6} B");
    Ok(())
}

async fn pairs<L: Lock>(lock: &L) -> Result<()> {
    for _ in 0..PAIRS {
        lock.acquire().await?.release().await?;
    }
    Ok(())
}

/// A store without a server: every acquire is granted, every release succeeds.
#[derive(Debug)]
struct AtOnce {
    token: AtomicI64,
    events: SyncMutex<Option<mpsc::UnboundedReceiver<Event>>>,
    // Kept so that the stream of events does not end, and the client with it.
    _sender: mpsc::UnboundedSender<Event>,
}

impl AtOnce {
    fn new() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            token: AtomicI64::new(1_000_000_000_000_000),
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
        Arc::new(BootClock)
    }

    async fn close(&self) {}
}
