//! A leader that steps down when it must: three candidates, one of whom leads. The leader is asked to go, the next one's term
//! ends, and never do two lead at the same time.
//!
//! Read this when one process of many should do what all of them could. `guard.run` is what makes a leader step down: its work
//! ends at the next await when the lease is lost. `cargo run --example leader` needs no server; add
//! `-- --url redis://127.0.0.1:6379` for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use lockkeeper::{Client, Error, FairLock};
use lockkeeper_examples::{Place, Story};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What leaders do, and a witness of how many do it at once.
#[derive(Default)]
struct Cluster {
    leading: AtomicU32,
    newest: AtomicU64,
}

impl Cluster {
    /// Leads until it is dropped.
    async fn lead(&self, token: u64) -> anyhow::Result<()> {
        let _leading = Leading::begin(&self.leading)?;
        let before = self.newest.swap(token, Ordering::SeqCst);
        ensure!(before < token, "an older leader came after a newer one");
        std::future::pending().await
    }
}

/// Counted for as long as it lives.
struct Leading<'a>(&'a AtomicU32);

impl<'a> Leading<'a> {
    fn begin(leading: &'a AtomicU32) -> anyhow::Result<Self> {
        ensure!(leading.fetch_add(1, Ordering::SeqCst) == 0, "two lead");
        Ok(Self(leading))
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("leader").await?;
    let (cluster, story) = (Arc::<Cluster>::default(), Story::new());
    let (elected, mut elections) = mpsc::unbounded_channel();

    story.chapter("Three candidates");
    let (mut clients, mut candidates) = (Vec::new(), JoinSet::new());
    for name in ["ann", "bob", "carl"] {
        let (client, cluster) = (place.another().await?, Arc::clone(&cluster));
        clients.push(client.clone());
        candidates.spawn(campaign(client, cluster, name, elected.clone(), story));
    }
    let mut next = async || {
        let leader = timeout(Duration::from_secs(10), elections.recv()).await?;
        leader.context("nobody leads")?
    };
    let first = next().await?;

    story.chapter("An operator asks the leader to go");
    sleep(Duration::from_millis(100)).await;
    place.client.revoke("leader").await?;
    let second = next().await?;

    story.chapter("A term is over");
    let third = next().await?;
    ensure!(first != second && second != third, "nobody stepped down");

    // Whoever leads is stopped, and its guard dropped; closing waits until the server knows.
    candidates.shutdown().await;
    for client in clients {
        let report = client.close().await;
        ensure!(report.expiring == 0 && report.unconfirmed == 0);
    }
    place.close().await
}

/// Stands for election, leads, steps down, and stands again.
async fn campaign(
    client: Client,
    cluster: Arc<Cluster>,
    name: &'static str,
    elected: mpsc::UnboundedSender<anyhow::Result<&'static str>>,
    story: Story,
) -> anyhow::Result<()> {
    let lock = FairLock::new(&client, "leader");
    loop {
        // Nobody leads for longer than this, however well.
        let guard = lock.acquire().max_hold(Duration::from_millis(600)).await?;
        let token = guard.fencing_token();
        story.tell(name, format!("leads, with token {token}"));
        elected.send(Ok(name))?;
        match guard.run(cluster.lead(token.get())).await {
            Err(Error::Lost { reason, .. }) => {
                story.tell(name, format!("steps down: {reason}"));
            }
            Err(error) => return Err(error.into()),
            Ok(Err(error)) => elected.send(Err(error))?,
            Ok(Ok(())) => bail!("a leader does not end by itself"),
        }
        // The guard goes here: only now may the next one lead.
        drop(guard);
    }
}
