//! A job that one machine of a fleet runs: every machine wakes at the same minute, one of them works, the others go back to
//! sleep. A machine whose clock is late finds the work done, not the lock free.
//!
//! Read this when cron starts the same thing on many machines. From a shell, `lockkeeper run --no-wait --min-hold 1m` does the
//! same. `cargo run --example scheduled_job` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::time::Duration;

use anyhow::{bail, ensure};
use lockkeeper::{Client, Mutex, Released};
use lockkeeper_examples::{Place, Story};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Longer than the clocks of two machines are apart: a minute in earnest.
const AT_LEAST: Duration = Duration::from_millis(1500);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("scheduled_job").await?;
    let story = Story::new();

    story.chapter("Three machines wake at three");
    let mut fleet = JoinSet::new();
    for machine in ["ann", "bob", "carl"] {
        let client = place.another().await?;
        fleet.spawn(async move { wake(&client, machine, story).await });
    }
    let mut runs = 0;
    while let Some(ran) = fleet.join_next().await {
        runs += u32::from(ran??);
    }
    ensure!(runs == 1, "the report was written {runs} times");

    story.chapter("A fourth wakes late: its clock is behind");
    let late = wake(&place.another().await?, "dora", story).await?;
    ensure!(!late, "the report was written twice");

    story.chapter("The next night");
    let nightly = Mutex::new(&place.client, "nightly-report");
    let guard = nightly.acquire().wait_for(Duration::from_secs(5)).await?;
    story.tell("emil", "finds the lock free again");
    guard.release().await?;
    place.close().await
}

/// What each machine does; whether it was the one.
async fn wake(client: &Client, machine: &str, story: Story) -> anyhow::Result<bool> {
    let nightly = Mutex::new(client, "nightly-report");
    let Some(guard) = nightly.try_acquire().min_hold(AT_LEAST).await? else {
        story.tell(machine, "sees that another machine has it, and sleeps on");
        return Ok(false);
    };
    story.tell(machine, "writes the report");
    guard.run(sleep(Duration::from_millis(100))).await?;
    match guard.release().await? {
        Released::Kept(left) => {
            let left = left.as_millis();
            story.tell(machine, format!("is done; the name is kept for {left} ms"));
        }
        other => bail!("the name should be kept, not {other:?}"),
    }
    Ok(true)
}
