//! A scheduler with standbys: of three candidates, one leads. An operator asks the leader to resign, the next one hands over to a
//! chosen candidate, a third one dies, and an observer sees all of them in order. There are never two leaders at once.
//!
//! Read this when one of many processes should do what all of them could, and others must know which one does. `Election::run`
//! makes a leader step down: it drops the work when the leadership is lost, before another candidate leads.
//! `cargo example leader` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lockkeeper::{Client, Election, HandOver, Leaders, Waiter};
use lockkeeper_examples::{Place, Story};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The work of the schedulers; it counts how many do it at once.
#[derive(Default)]
struct Jobs {
    leading: AtomicU32,
    newest: AtomicU64,
}

/// Counts as leading while it lives.
struct Leading(Arc<Jobs>);

impl Leading {
    fn begin(jobs: &Arc<Jobs>, term: u64) -> anyhow::Result<Self> {
        ensure!(jobs.leading.fetch_add(1, Ordering::SeqCst) == 0, "two lead");
        let before = jobs.newest.swap(term, Ordering::SeqCst);
        ensure!(before < term, "an older leader came after a newer one");
        Ok(Self(Arc::clone(jobs)))
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.leading.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("leader").await?;
    let (jobs, story) = (Arc::<Jobs>::default(), Story::new());
    let mut leaders = Election::new(&place.client, "scheduler").observe();

    story.chapter("Three candidates");
    let (mut clients, mut hosts) = (Vec::new(), JoinSet::new());
    for name in ["ann", "bob", "carl"] {
        let client = place.another().await?;
        clients.push(client.clone());
        hosts.spawn(host(client, Arc::clone(&jobs), name, story));
    }
    let first = next(&mut leaders, &story).await?;
    let election = Election::new(&place.client, "scheduler").value("dora");
    standing_by(&election, 2).await?;

    story.chapter("An operator asks the leader to go");
    place.client.revoke("scheduler").await?;
    let second = next(&mut leaders, &story).await?;
    ensure!(second != first, "nobody stepped down");

    story.chapter("A newcomer leads, and chooses who is the next");
    hosts.shutdown().await;
    let dora = election
        .campaign()
        .wait_for(Duration::from_secs(60))
        .await?;
    ensure!(next(&mut leaders, &story).await? == "dora");
    for (client, name) in clients.iter().zip(["ann", "bob", "carl"]) {
        hosts.spawn(host(client.clone(), Arc::clone(&jobs), name, story));
    }
    let candidates = standing_by(&election, 3).await?;
    let chosen = candidates.last().context("three stand by")?;
    let done = dora.hand_over_to(chosen).await?;
    ensure!(matches!(done, HandOver::Done(_)), "it has gone");
    next(&mut leaders, &story).await?;

    // The leader is stopped, and resigns; closing waits until the server knows.
    hosts.shutdown().await;
    for client in clients {
        let report = client.close().await;
        ensure!(report.expiring == 0 && report.unconfirmed == 0);
    }
    place.close().await
}

/// The candidates that stand by, once there are this many.
async fn standing_by(election: &Election, many: usize) -> anyhow::Result<Vec<Waiter>> {
    let standing_by = async {
        loop {
            let candidates = election.candidates().await?;
            if candidates.len() == many {
                return anyhow::Ok(candidates);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), standing_by).await?
}

/// The next leader that an observer sees.
async fn next(leaders: &mut Leaders, story: &Story) -> anyhow::Result<String> {
    let known = async {
        loop {
            let leader = leaders.next().await.context("the stream ended")??;
            // For a moment there is no leader, or one of which nothing is known yet.
            if let Some(leader) = leader.filter(|leader| leader.since.is_some()) {
                return anyhow::Ok(leader);
            }
        }
    };
    let leader = timeout(Duration::from_secs(60), known).await??;
    story.tell(
        "observer",
        format!("{} leads, in term {}", leader.value, leader.term),
    );
    Ok(leader.value)
}

/// One host: it stands by, leads, steps down, and stands by again.
async fn host(
    client: Client,
    jobs: Arc<Jobs>,
    name: &'static str,
    story: Story,
) -> anyhow::Result<()> {
    let election = Election::new(&client, "scheduler").value(name);
    let failed = election.run(|leadership| {
        let leading = Leading::begin(&jobs, leadership.term().get());
        story.tell(
            name,
            format!("schedules jobs, with token {}", leadership.term()),
        );
        async move {
            match leading {
                // A real host does its work here, and passes the token on to whatever it changes.
                Ok(_leading) => std::future::pending().await,
                Err(error) => ControlFlow::Break(error),
            }
        }
    });
    Err(failed.await?)
}
