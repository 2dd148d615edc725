//! Many readers and one writer: a table of prices that shops read together, and that one job reloads. The shops never see half a
//! table, and the job never waits forever.
//!
//! Read this when most holders only read. `cargo example rwlock_cache` needs no server; `-- --url redis://127.0.0.1:6379`
//! runs the same program on one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use lockkeeper::{Client, Error, FencingToken, ReadGuard, RwLock, Upgrade};
use lockkeeper_examples::{Arguments, Story};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What the lock protects, as a database would store it: it refuses a smaller token than it has seen.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    edition: u32,
    prices: BTreeMap<&'static str, u32>,
    seen: u64,
}

impl Table {
    /// Reads twice, the second time when the doors are open, so that a table which changes under a reader would be noticed.
    async fn read(&self, token: FencingToken, doors: &mut Doors) -> Result<u32> {
        let before = self.look(token)?;
        doors.wait_for(|open| *open).await?;
        ensure!(
            self.look(token)? == before,
            "the table changed under a reader"
        );
        Ok(before)
    }

    fn look(&self, token: FencingToken) -> Result<u32> {
        self.with(token, |content| content.edition)
    }

    /// Writes one price after the other: for a while the table is a mix of two editions.
    async fn load(&self, token: FencingToken) -> Result<u32> {
        for fruit in ["apples", "pears", "plums"] {
            sleep(Duration::from_millis(20)).await;
            self.with(token, |content| {
                *content.prices.entry(fruit).or_insert(100) += 5;
            })?;
        }
        self.with(token, |content| {
            content.edition += 1;
            content.edition
        })
    }

    fn with<T>(&self, token: FencingToken, f: impl FnOnce(&mut Content) -> T) -> Result<T> {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            token.get() >= content.seen,
            "token {token} is older than {}",
            content.seen
        );
        content.seen = token.get();
        Ok(f(&mut content))
    }
}

/// Whether the readers may leave.
type Doors = watch::Receiver<bool>;

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { url } = Arguments::parse();
    // A separate namespace keeps the program away from everything else on a shared server.
    let settings = Client::builder().namespace("rwlock_cache");
    let client = lockkeeper::connect_with(&url, settings)
        .await
        .context("failed to connect")?;
    let (lock, table, story) = (
        RwLock::new(&client, "prices"),
        Table::default(),
        Story::new(),
    );

    println!("The table is loaded, and whoever loaded it reads on without a gap");
    let writing = lock.write().await?;
    let edition = table.load(writing.fencing_token()).await?;
    story.tell(
        "loader",
        format!(
            "wrote edition {edition} with token {}",
            writing.fencing_token()
        ),
    );
    let reading = writing.downgrade().await?;
    story.tell(
        "loader",
        format!("reads it with token {}", reading.fencing_token()),
    );
    reading.release().await?;

    println!("\nThree shops read together, and a fourth comes behind the loader");
    let (open, doors) = watch::channel(false);
    let mut shops = JoinSet::new();
    for shop in ["ann", "bob", "carl"] {
        let guard = lock.read().await?;
        shops.spawn(visit(guard, table.clone(), doors.clone(), shop, story));
    }
    let loader = tokio::spawn(reload(lock.clone(), table.clone(), story));
    queued(&lock, 1).await?;
    ensure!(lock.try_read().await?.is_none(), "nobody passes the loader");
    story.tell("dora", "finds the loader before her, and waits");
    let (late, for_dora) = (table.clone(), lock.read().into_future());
    shops.spawn(async move { visit(for_dora.await?, late, doors, "dora", story).await });
    queued(&lock, 2).await?;
    open.send(true)?;
    let mut editions = Vec::new();
    while let Some(edition) = shops.join_next().await {
        editions.push(edition??);
    }
    let late = loader.await??;
    ensure!(editions == [1, 1, 1, 2], "the shops read {editions:?}");

    println!("\nA loader that was asleep wakes up, and is refused by its token");
    let refused = table.load(late).await;
    ensure!(refused.is_err(), "a stale write was taken");
    story.tell(
        "loader",
        format!("is refused: {}", refused.err().context("no error")?),
    );

    println!("\nA reader that wants to write asks to be upgraded, and does not wait for itself");
    let reading = lock.read().await?;
    let owner = reading.owner();
    let refused = lock.write().owner(&owner).await;
    ensure!(
        matches!(refused, Err(Error::WouldDeadlock { .. })),
        "{refused:?}"
    );
    match reading.try_upgrade().await? {
        Upgrade::Write(writing) => {
            story.tell(
                "emil",
                format!(
                    "was alone and writes with token {}",
                    writing.fencing_token()
                ),
            );
            writing.release().await?;
        }
        Upgrade::Busy(_) => anyhow::bail!("nobody else reads"),
    }
    let report = client.close().await;
    ensure!(
        report.expiring == 0 && report.unconfirmed == 0,
        "something was left behind: {report:?}"
    );
    Ok(())
}

/// Waits until this many are in the queue.
async fn queued(lock: &RwLock, number: u64) -> Result<()> {
    let all = async {
        while lock.queue_len().await? < number {
            sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok(())
    };
    timeout(Duration::from_secs(60), all)
        .await
        .context("nobody joined the queue")?
}

/// A shop reads the table; returns the edition that it read.
async fn visit(
    guard: ReadGuard,
    table: Table,
    mut doors: Doors,
    shop: &'static str,
    story: Story,
) -> Result<u32> {
    let edition = table.read(guard.fencing_token(), &mut doors).await?;
    let token = guard.fencing_token();
    story.tell(shop, format!("read edition {edition} with token {token}"));
    guard.release().await?;
    Ok(edition)
}

/// Reloads the table. Returns its token, which is old by the time the shops have read again.
async fn reload(lock: RwLock, table: Table, story: Story) -> Result<FencingToken> {
    let guard = lock.write().wait_for(Duration::from_secs(60)).await?;
    let token = guard.fencing_token();
    let edition = table.load(token).await?;
    story.tell(
        "loader",
        format!("wrote edition {edition} with token {token}"),
    );
    guard.release().await?;
    Ok(token)
}
