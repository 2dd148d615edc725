//! A nightly job on three machines: one of them does it, and if that one dies in the middle, another one does it instead. A machine
//! that wakes late, because its clock is behind, finds the job done.
//!
//! Read this when cron starts the same job on many machines. From a shell, `lockkeeper run --once-per 1d --lock report -- …` does
//! the same. `cargo example scheduled_job` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lockkeeper::{Client, Once, OnceOutcome};
use lockkeeper_examples::{Place, Story};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How soon another machine takes over: half a minute in production.
const TTL: Duration = Duration::from_secs(3);

/// The report of one night, from any machine. Each night has its own name, so that its report is made once.
fn report(client: &Client, night: &str) -> Once {
    Once::new(client, &format!("report:{night}")).ttl(TTL)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Arc::new(Place::open("scheduled_job").await?);
    let story = Story::new();
    for night in ["22", "23"] {
        report(&place.client, night).forget().await?;
    }
    let written = Arc::<AtomicU32>::default();

    story.chapter("Three machines wake at two, and ann is the first");
    let (begun, has_begun) = oneshot::channel();
    let ann = tokio::task::spawn_blocking({
        let place = Arc::clone(&place);
        move || die_in_the_middle(&place, begun, story)
    });
    has_begun.await.context("ann did not begin")?;
    let mut fleet = JoinSet::new();
    for machine in ["bob", "carl"] {
        let (client, written) = (place.another().await?, Arc::clone(&written));
        fleet.spawn(async move { wake(&client, machine, "22", &written, story).await });
    }
    ann.await??;
    let mut ran = 0;
    while let Some(outcome) = fleet.join_next().await {
        let outcome = outcome??;
        ran += u32::from(outcome.ran());
        ensure!(outcome.into_value() == b"report 1");
    }
    ensure!(ran == 1, "the report was finished {ran} times");

    story.chapter("A fourth wakes late: its clock is behind");
    let late = wake(&place.another().await?, "dora", "22", &written, story).await?;
    ensure!(late == OnceOutcome::Stored(b"report 1".to_vec()));

    story.chapter("The next night");
    let next = wake(&place.another().await?, "emil", "23", &written, story).await?;
    ensure!(next == OnceOutcome::Ran(b"report 2".to_vec()));

    for night in ["22", "23"] {
        report(&place.client, night).forget().await?;
    }
    let place = Arc::into_inner(place).context("somebody still works")?;
    place.close().await
}

/// What each machine does.
async fn wake(
    client: &Client,
    machine: &'static str,
    night: &str,
    written: &AtomicU32,
    story: Story,
) -> anyhow::Result<OnceOutcome> {
    let report = report(client, night);
    let outcome = report.get_or_run(async |_lease| {
        story.tell(machine, "writes the report");
        sleep(Duration::from_millis(100)).await;
        let number = written.fetch_add(1, Ordering::SeqCst) + 1;
        Ok::<_, Infallible>(format!("report {number}").into_bytes())
    });
    let outcome = outcome.await?;
    if !outcome.ran() {
        story.tell(machine, "finds it done, and sleeps on");
    }
    Ok(outcome)
}

/// A machine that loses power halfway: it stops completely, so it releases nothing and renews nothing.
fn die_in_the_middle(
    place: &Place,
    begun: oneshot::Sender<()>,
    story: Story,
) -> anyhow::Result<()> {
    let (dead, dies) = oneshot::channel();
    let machine = Builder::new_current_thread().enable_all().build()?;
    machine.block_on(async {
        let client = place.another().await?;
        let report = report(&client, "22");
        let working = report.get_or_run(async |_lease| {
            story.tell("ann", "begins the report");
            let _ = begun.send(());
            sleep(TTL / 10).await;
            story.tell("ann", "dies in the middle of it");
            let _ = dead.send(());
            std::future::pending::<Result<Vec<u8>, Infallible>>().await
        });
        tokio::select! {
            biased;
            _ = dies => Ok(()),
            outcome = working => anyhow::bail!("ann should be dead: {outcome:?}"),
        }
    })
}
