//! Orders of events and odd neighbours that are meant to break what is done to a lock from outside.

use std::sync::{Arc, Mutex as Cell, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, End, Error, HolderState, LeaseEvent, LossReason, Mutex, Observation, Observer,
    ReentrantLock, Released,
};
use lockkeeper_core::protocol::Item;
use lockkeeper_core::store::{Call, Form, Store, Value};
use lockkeeper_lua::{mutex, name, reentrant};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::unruly::{Fate, Unruly};
use tokio::time::{Instant, sleep, timeout};

const SOON: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(6);
const MOMENT: Duration = Duration::from_millis(1);

async fn client(server: &MemoryStore) -> Result<Client> {
    server.client(Client::builder().ttl(TTL)).await
}

fn unruly(server: &MemoryStore) -> Result<(Client, Arc<Unruly>)> {
    let store = Unruly::new(Arc::new(server.sibling()));
    let settings = Client::builder().ttl(TTL);
    let client = settings.build(Arc::clone(&store) as Arc<dyn Store>)?;
    Ok((client, store))
}

/// Counts the leases that are lost.
#[derive(Debug, Default)]
struct Losses(Cell<Vec<LossReason>>);

impl Observer for Losses {
    fn observe(&self, observation: &Observation<'_>) {
        if let LeaseEvent::Lost(reason) = observation.event {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(reason);
        }
    }
}

impl Losses {
    fn so_far(&self) -> Vec<LossReason> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_listen_does_not_ask_for_it_all_the_time() -> Result<()> {
    let (client, store) = unruly(&MemoryStore::new())?;
    store.refuse_subscriptions("NOPERM no permissions to access the channel");
    let guard = Mutex::new(&client, "name").acquire().await?;
    sleep(Duration::from_secs(600)).await;
    guard.verify().await?;
    let asked = store.subscriptions();
    ensure!(
        (1..=20).contains(&asked),
        "asked {asked} times in ten minutes"
    );
    // Whoever waits is told at once that nobody can.
    let waited = Instant::now();
    let waiting = Mutex::new(&client, "name").acquire().await.err();
    ensure!(
        matches!(waiting, Some(Error::Backend { .. })),
        "{waiting:?}"
    );
    ensure!(waited.elapsed() < Duration::from_secs(1));
    Ok(())
}

