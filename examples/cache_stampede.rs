//! A cache without a stampede: when a value is missing, one request loads it and all others wait for that one. The value expires in
//! the middle of the traffic, and again only one of them loads it.
//!
//! Read this when you have your own cache, a value is expensive to compute and many ask for it, or to see how it works;
//! `single_flight` does the same with `Once`, in fewer lines. The trick is to read the cache again under the lock: a request that
//! waited finds the value that an earlier one loaded. `cargo example cache_stampede` needs no server; add
//! `-- --url redis://127.0.0.1:6379` for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::ensure;
use lockkeeper::Mutex;
use lockkeeper_examples::{Place, Story};
use tokio::task::JoinSet;
use tokio::time::sleep;

const KEY: &str = "example:cache_stampede:price";
const REQUESTS: u32 = 300;
/// How long the value lives, ms: first until a whole crowd has read it, then so short that it expires in the middle of the traffic.
const LONG: &str = "60000";
const SHORT: &str = "600";

/// The expensive part: it counts how often it was asked, and by how many at once.
#[derive(Default)]
struct Database {
    asked: AtomicU32,
    asking: AtomicU32,
    most: AtomicU32,
}

impl Database {
    async fn compute(&self) -> String {
        let asking = self.asking.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(asking, Ordering::SeqCst);
        sleep(Duration::from_millis(80)).await;
        self.asking.fetch_sub(1, Ordering::SeqCst);
        let edition = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        format!("price, edition {edition}")
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Arc::new(Place::open("cache_stampede").await?);
    let database = Arc::<Database>::default();
    let story = Story::new();
    place.redis.command(&["DEL", KEY]).await?;

    story.chapter("Fifty requests at once, and nothing in the cache");
    let mut crowd = JoinSet::new();
    for _ in 0..50 {
        crowd.spawn(price(Arc::clone(&place), Arc::clone(&database), LONG));
    }
    while let Some(value) = crowd.join_next().await {
        ensure!(value?? == "price, edition 1");
    }
    let asked = database.asked.load(Ordering::SeqCst);
    story.tell("database", format!("was asked {asked} time by 50 requests"));
    ensure!(asked == 1, "the database was stormed: {asked}");

    story.chapter("A request every 5 ms, while the value lives for 600 ms");
    place.redis.command(&["DEL", KEY]).await?;
    for _ in 0..REQUESTS {
        crowd.spawn(price(Arc::clone(&place), Arc::clone(&database), SHORT));
        sleep(Duration::from_millis(5)).await;
    }
    let mut served = 0;
    while let Some(value) = crowd.join_next().await {
        served += u32::from(value??.starts_with("price"));
    }
    let (asked, most) = (
        database.asked.load(Ordering::SeqCst),
        database.most.load(Ordering::SeqCst),
    );
    story.tell(
        "database",
        format!("was asked {} times more by {served} requests", asked - 1),
    );
    story.tell("database", format!("at most {most} at the same time"));
    ensure!(served == REQUESTS && asked > 1, "the value never expired");
    ensure!(most == 1, "{most} requests loaded at the same time");
    place.redis.command(&["DEL", KEY]).await?;
    place.client.close().await;
    Ok(())
}

/// Reads the price from the cache; if it is missing, one of the callers loads it.
async fn price(place: Arc<Place>, database: Arc<Database>, lives: &str) -> anyhow::Result<String> {
    if let Some(cached) = place.redis.command(&["GET", KEY]).await? {
        return Ok(cached);
    }
    let lock = Mutex::new(&place.client, "price");
    let guard = lock.acquire().wait_for(Duration::from_secs(10)).await?;
    // Another request may have loaded it while this one waited.
    let value = match place.redis.command(&["GET", KEY]).await? {
        Some(cached) => cached,
        None => {
            let loaded = guard.run(database.compute()).await?;
            let set = ["SET", KEY, loaded.as_str(), "PX", lives];
            place.redis.command(&set).await?;
            loaded
        }
    };
    guard.release().await?;
    Ok(value)
}
