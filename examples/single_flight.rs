//! One request computes a value, on any machine, and all requests that arrive meanwhile receive that value. If the computation
//! fails, the waiting requests do not all repeat it.
//!
//! Read this when a value is expensive to compute and many machines ask for it. It is the story of `cache_stampede` without a cache
//! of your own: the request that computed the result stores it, or nobody does. `cargo example single_flight` needs no
//! server; add `-- --url redis://127.0.0.1:6379` for one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::ensure;
use lockkeeper::{Client, Error, Once, OnceError, OnceOutcome};
use lockkeeper_examples::{Place, Story};
use tokio::task::JoinSet;
use tokio::time::sleep;

const MACHINES: usize = 4;
const REQUESTS: usize = 200;

/// The expensive part: it counts how often it was asked.
#[derive(Default)]
struct Database {
    asked: AtomicU32,
}

impl Database {
    async fn price(&self) -> io::Result<Vec<u8>> {
        let edition = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        sleep(Duration::from_millis(80)).await;
        Ok(format!("price, edition {edition}").into_bytes())
    }

    async fn broken(&self) -> io::Result<Vec<u8>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(80)).await;
        Err(io::Error::other("the database is down"))
    }
}

/// The price, as any request on any machine gets it.
fn price(client: &Client) -> Once {
    Once::new(client, "price")
        .keep_for(Duration::from_secs(60))
        .retry_after(Duration::from_secs(60))
        .wait_for(Duration::from_secs(60))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("single_flight").await?;
    let mut machines = Vec::new();
    for _ in 0..MACHINES {
        machines.push(place.another().await?);
    }
    price(&place.client).forget().await?;
    let database = Arc::<Database>::default();
    let story = Story::new();

    story.chapter("Two hundred requests on four machines, and nothing stored");
    let mut requests = JoinSet::new();
    for number in 0..REQUESTS {
        let (price, database) = (price(&machines[number % MACHINES]), Arc::clone(&database));
        requests.spawn(async move { price.get_or_run(async |_| database.price().await).await });
    }
    let mut ran = 0;
    while let Some(outcome) = requests.join_next().await {
        let outcome = outcome??;
        ran += u32::from(outcome.ran());
        ensure!(outcome.into_value() == b"price, edition 1");
    }
    story.tell(
        "database",
        format!("was asked by {ran} of {REQUESTS} requests"),
    );
    ensure!(ran == 1 && database.asked.load(Ordering::SeqCst) == 1);

    story.chapter("The price changes: it is forgotten, and the next request computes it");
    ensure!(price(&machines[0]).forget().await?);
    let next = price(&machines[1])
        .get_or_run(async |_| database.price().await)
        .await?;
    story.tell(
        "machine 2",
        String::from_utf8_lossy(&next.clone().into_value()),
    );
    ensure!(next == OnceOutcome::Ran(b"price, edition 2".to_vec()));

    story.chapter("The database is down: one request finds out, and nobody storms it");
    ensure!(price(&machines[0]).forget().await?);
    let before = database.asked.load(Ordering::SeqCst);
    for number in 0..REQUESTS {
        let (price, database) = (price(&machines[number % MACHINES]), Arc::clone(&database));
        requests.spawn(async move { price.get_or_run(async |_| database.broken().await).await });
    }
    let (mut failed, mut told) = (0, 0);
    while let Some(outcome) = requests.join_next().await {
        match outcome? {
            Err(OnceError::Work(_)) => failed += 1,
            Err(OnceError::Lock(Error::WorkFailed { .. })) => told += 1,
            other => anyhow::bail!("{other:?}"),
        }
    }
    story.tell(
        "database",
        format!("was asked by {failed}, and {told} were told that it is down"),
    );
    ensure!(failed == 1 && database.asked.load(Ordering::SeqCst) == before + 1);

    price(&place.client).forget().await?;
    for machine in machines {
        machine.close().await;
    }
    place.close().await
}
