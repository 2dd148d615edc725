//! Work under locks for a time, by tasks that write down what they believed.

use std::time::{Duration, Instant};

use anyhow::Result;
use lockkeeper::{Client, RwLock, Upgrade};
use tokio::task::{JoinSet, yield_now};

use crate::history::{Belief, now};

/// How long a load test lasts: 5 s, or what the environment says in `LOCKKEEPER_LOAD_SECONDS`.
pub fn duration() -> Duration {
    let seconds = std::env::var("LOCKKEEPER_LOAD_SECONDS");
    let seconds = seconds.ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(5))
}

/// Lets so many tasks read, write, downgrade and upgrade for so long, and reports each time of believing when it is over.
///
/// # Errors
///
/// That of the first task that fails.
pub async fn read_and_write(
    client: &Client,
    name: &str,
    tasks: u32,
    time: Duration,
    report: impl Fn(Belief) + Clone + Send + Sync + 'static,
) -> Result<()> {
    let mut set = JoinSet::new();
    let end = Instant::now() + time;
    for task in 0..tasks {
        let (lock, report) = (RwLock::new(client, name), report.clone());
        let who = format!("process {}, task {task}", std::process::id());
        set.spawn(async move {
            while Instant::now() < end {
                turn(&lock, &who, &report).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = set.join_next().await {
        done??;
    }
    Ok(())
}

/// Holds once, in a mode chosen at random, and perhaps in the other one after that.
async fn turn(lock: &RwLock, who: &str, report: &impl Fn(Belief)) -> Result<()> {
    if fastrand::u8(..10) < 6 {
        let guard = lock.read().await?;
        let from = now();
        yield_now().await;
        report(Belief::until_now(from, &guard, true, who.to_owned())?);
        if fastrand::u8(..10) > 0 {
            guard.release().await?;
            return Ok(());
        }
        match guard.try_upgrade().await? {
            Upgrade::Busy(guard) => drop(guard.release().await?),
            Upgrade::Write(guard) => {
                let from = now();
                yield_now().await;
                report(Belief::until_now(from, &guard, false, who.to_owned())?);
                guard.release().await?;
            }
        }
        return Ok(());
    }
    let guard = lock.write().await?;
    let from = now();
    yield_now().await;
    report(Belief::until_now(from, &guard, false, who.to_owned())?);
    if fastrand::bool() {
        guard.release().await?;
        return Ok(());
    }
    let guard = guard.downgrade().await?;
    let from = now();
    yield_now().await;
    report(Belief::until_now(from, &guard, true, who.to_owned())?);
    guard.release().await?;
    Ok(())
}
