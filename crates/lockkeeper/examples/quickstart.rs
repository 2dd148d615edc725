//! Five minutes with Lockkeeper: workers take turns, one gives up waiting, a holder loses its lease and knows it, and everything
//! shuts down cleanly.
//!
//! Start here. `cargo run --example quickstart` needs no server; `-- --url redis://127.0.0.1:6379` runs the same program on one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::{Client, Error, LeaseState, Mutex};
use tokio::task::JoinSet;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The engine inside this program; with `--url` the locks live on a server instead.
const IN_THIS_PROGRAM: &str = "memory://";

const WORKERS: u32 = 4;
const SALES_EACH: u32 = 2;

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => tell(IN_THIS_PROGRAM).await,
        [option, url] if option == "--url" => tell(url).await,
        _ => Err("usage: quickstart [--url redis://HOST:PORT]".into()),
    }
}

async fn tell(url: &str) -> Outcome {
    // A separate namespace keeps the program away from everything else on a shared server.
    let settings = Client::builder().namespace("quickstart");
    let client = lockkeeper::connect_with(url, settings).await?;
    let story = Story(Instant::now());

    println!("\nFour workers sell from one till, one at a time");
    workers_take_turns(&client, story).await?;
    println!("\nSomebody cannot wait for ever");
    somebody_gives_up(&client, story).await?;
    println!("\nA holder is busy for too long, loses its lease, and knows it");
    a_holder_loses_its_lease(&client, story).await?;

    println!("\nShutdown");
    let report = client.close().await;
    story.tell(
        "client",
        format!(
            "closed; leases cut short: {}, left without answer: {}",
            report.expiring, report.unconfirmed
        ),
    );
    assert_eq!((report.expiring, report.unconfirmed), (0, 0));
    Ok(())
}

/// Prints who did what, and how long after the start.
#[derive(Clone, Copy)]
struct Story(Instant);

impl Story {
    fn tell(self, who: &str, what: impl AsRef<str>) {
        let seconds = self.0.elapsed().as_secs_f64();
        println!("  {seconds:>7.3} s  {who:<9} {}", what.as_ref());
    }
}

/// A till that breaks if two use it at once: it is read, and written a moment later.
#[derive(Default)]
struct Till {
    sales: AtomicU32,
}

impl Till {
    async fn sell(&self) {
        let sales = self.sales.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(60)).await;
        self.sales.store(sales + 1, Ordering::Relaxed);
    }
}

async fn workers_take_turns(client: &Client, story: Story) -> Outcome {
    let till = Arc::new(Till::default());
    let mutex = Mutex::new(client, "till");
    let mut workers = JoinSet::new();
    for number in 1..=WORKERS {
        let (till, mutex) = (Arc::clone(&till), mutex.clone());
        workers.spawn(async move {
            let name = format!("worker {number}");
            for _ in 0..SALES_EACH {
                let asked = Instant::now();
                let guard = mutex.acquire().await?;
                let (waited, token) = (asked.elapsed().as_millis(), guard.fencing_token());
                story.tell(
                    &name,
                    format!("waited {waited:>3} ms, holds with token {token}"),
                );
                till.sell().await;
                guard.release().await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let sales = till.sales.load(Ordering::Relaxed);
    story.tell("till", format!("{sales} sales, none lost"));
    assert_eq!(sales, WORKERS * SALES_EACH, "sales were lost");
    Ok(())
}

async fn somebody_gives_up(client: &Client, story: Story) -> Outcome {
    let mutex = Mutex::new(client, "report");
    let guard = mutex.acquire().await?;
    story.tell("ann", "holds the lock and takes her time");
    match mutex.acquire().wait_for(Duration::from_millis(200)).await {
        Err(error @ Error::Timeout { .. }) => story.tell("bob", error.to_string()),
        other => return Err(format!("bob should have timed out, not {other:?}").into()),
    }
    assert!(mutex.try_acquire().await?.is_none());
    story.tell(
        "bob",
        "tries once more without waiting: taken, and that is no error",
    );
    guard.release().await?;
    story.tell("ann", "released");
    Ok(())
}

/// What the lock protects. It refuses a token older than the newest one it has seen.
#[derive(Default)]
struct Ledger {
    newest: u64,
}

impl Ledger {
    fn write(&mut self, token: u64) -> bool {
        let accepted = token >= self.newest;
        self.newest = self.newest.max(token);
        accepted
    }
}

async fn a_holder_loses_its_lease(client: &Client, story: Story) -> Outcome {
    let mutex = Mutex::new(client, "ledger");
    let mut ledger = Ledger::default();
    // A lease that is not renewed stands in for a holder that was paused for longer than its ttl.
    let carl = mutex
        .acquire()
        .ttl(Duration::from_millis(300))
        .no_renewal()
        .await?;
    story.tell(
        "carl",
        format!(
            "holds for 300 ms and no longer, with token {}",
            carl.fencing_token()
        ),
    );
    match carl.run(tokio::time::sleep(Duration::from_secs(60))).await {
        Err(error @ Error::Lost { .. }) => {
            story.tell("carl", format!("his minute of work was stopped: {error}"));
        }
        other => return Err(format!("carl should have lost his lease, not {other:?}").into()),
    }
    assert!(matches!(carl.state(), LeaseState::Lost(_)));

    let dora = mutex.acquire().await?;
    story.tell(
        "dora",
        format!("holds now, with token {}", dora.fencing_token()),
    );
    assert!(ledger.write(dora.fencing_token().get()));
    assert!(
        !ledger.write(carl.fencing_token().get()),
        "the ledger took an entry of an old holder"
    );
    story.tell(
        "ledger",
        "took dora's entry; refused one that carl sent late, for its older token",
    );
    dora.release().await?;
    Ok(())
}

#[tokio::test]
async fn the_story_comes_true() -> Outcome {
    tell(IN_THIS_PROGRAM).await
}
