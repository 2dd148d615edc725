//! A job on a crontab schedule, inside a service that runs on three machines: every machine wakes at every time of the schedule,
//! and one of them does the work.
//!
//! Read this when the schedule is in your program; [scheduled_job](scheduled_job.rs) shows what happens when a machine dies in the
//! middle. croner computes the next time, and tokio sleeps until then. A scheduler that calls a closure would not tell it the
//! scheduled time, and that time is the name on which the machines agree, however much their clocks differ.
//! `cargo example cron_job` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::convert::Infallible;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use chrono::{DateTime, TimeDelta, Utc};
use croner::Cron;
use lockkeeper::{Client, Once};
use lockkeeper_examples::{Place, Story};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Every second, because this is a demonstration. `0 2 * * *` is every night at two.
const LINE: &str = "* * * * * *";

/// How many times the machines wake in this program.
const TIMES: usize = 3;

/// Longer than any two clocks differ, and longer than a machine may be late.
const REMEMBERED: Duration = Duration::from_secs(3600);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("cron_job").await?;
    let story = Story::new();
    let written = Arc::<StdMutex<Vec<DateTime<Utc>>>>::default();

    story.chapter("Three machines, one of which is half a second late");
    let mut fleet = JoinSet::new();
    let start = Utc::now();
    for (machine, late) in [("ann", 0), ("bob", 0), ("carl", 500)] {
        let (client, written) = (place.another().await?, Arc::clone(&written));
        let late = TimeDelta::milliseconds(late);
        fleet.spawn(async move { serve(&client, machine, start, late, &written, story).await });
    }
    let mut ran = 0;
    while let Some(machine) = fleet.join_next().await {
        ran += machine??;
    }

    let mut written = written
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    written.sort_unstable();
    ensure!(
        ran == TIMES,
        "{TIMES} reports were due, and {ran} were written"
    );
    let expected = Cron::from_str(LINE)?.iter_after(start).take(TIMES);
    ensure!(written.iter().copied().eq(expected), "written: {written:?}");
    story.tell("all", format!("{TIMES} times, {TIMES} reports"));
    for time in written {
        job(&place.client, time).forget().await?;
    }
    place.close().await
}

/// The work of one scheduled time, which is part of its name.
fn job(client: &Client, time: DateTime<Utc>) -> Once {
    Once::new(client, &format!("report:{}", time.format("%FT%TZ"))).keep_for(REMEMBERED)
}

/// What each machine does, here for a few times. Returns how often it did the work.
async fn serve(
    client: &Client,
    machine: &'static str,
    start: DateTime<Utc>,
    late: TimeDelta,
    written: &StdMutex<Vec<DateTime<Utc>>>,
    story: Story,
) -> anyhow::Result<usize> {
    let cron = Cron::from_str(LINE)?;
    let mut ran = 0;
    for time in cron.iter_after(start).take(TIMES) {
        // Already past if the previous work took longer: then the job is late, but not skipped.
        let until = (time + late).signed_duration_since(Utc::now());
        sleep(until.to_std().unwrap_or_default()).await;
        let report = job(client, time);
        let outcome = report.get_or_run(async |_lease| {
            story.tell(
                machine,
                format!("writes the report of {}", time.format("%T")),
            );
            sleep(Duration::from_millis(50)).await;
            written
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(time);
            Ok::<_, Infallible>(Vec::new())
        });
        ran += usize::from(outcome.await?.ran());
    }
    Ok(ran)
}
