//! One name under constant contention: how often it changes hands, how long waits are, and how fairly clients share it.
//!
//! Each task acquires and releases at once, again and again. No work is done under the lock, so all the time is the lock's.

use std::slice::from_ref;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use lockkeeper::{Client, FairLock, Guard, Mutex};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::subject::Subject;
use tokio::task::JoinSet;

use crate::Effort;
use crate::meters::{count, scripts};
use crate::report::{Row, Target};
use crate::rounds::Spread;

const PART: &str = "contended";

/// The number of tasks, and of clients that they are spread over.
const CROWDS: [(usize, usize); 4] = [(8, 1), (64, 1), (8, 8), (64, 8)];

/// How long one round lasts.
const ROUND: Duration = Duration::from_secs(1);

/// The target rate of a mutex within one client, and across clients.
const TARGETS: [f64; 2] = [15_000.0, 5_500.0];

/// The target for the 99th percentile of the waits of eight tasks in eight clients, ms.
const LATE: Target = Target::AtMost(6.0);

/// The target for the client with the fewest grants, in percent of an equal share.
const SHARE: Target = Target::AtLeast(80.0);

/// One round.
struct Sample {
    rate: f64,
    scripts: f64,
    /// The 99th percentile of all waits, ms.
    late: f64,
    worst: f64,
    /// The grants of the client with the fewest, relative to its fair share.
    share: f64,
}

/// Measures a mutex and a fair lock.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let server = Server::start().await?;
    for (tasks, clients) in CROWDS {
        rows.extend(crowd::<Mutex>(&server, "mutex", tasks, clients, effort).await?);
        rows.extend(crowd::<FairLock>(&server, "fair", tasks, clients, effort).await?);
    }
    Ok(rows)
}

async fn crowd<S: Subject>(
    server: &Server,
    kind: &str,
    tasks: usize,
    clients: usize,
    effort: Effort,
) -> Result<Vec<Row>> {
    let mut made = Vec::new();
    for _ in 0..clients {
        made.push(lockkeeper::connect(&server.url()).await?);
    }
    let mut samples = Vec::new();
    // The first round warms up.
    for _ in 0..=effort.rounds / 2 {
        samples.push(round::<S>(server, kind, tasks, &made).await?);
    }
    for client in made {
        client.close().await;
    }
    let series = |of: fn(&Sample) -> f64| Spread::of(samples[1..].iter().map(of));
    let row = |what: &str, unit, spread| {
        let what = format!("{kind}, {tasks} tasks in {clients}: {what}");
        Row::new(PART, what, unit, spread)
    };
    let rate = row("hand-overs", "/s", series(|it| it.rate)?);
    let rate = match kind {
        "mutex" => rate.target(Target::AtLeast(TARGETS[usize::from(clients > 1)])),
        _ => rate,
    };
    let late = row("waits, 99 %", "ms", series(|it| it.late)?);
    let late = match (kind, tasks, clients) {
        ("mutex", 8, 8) => late.target(LATE),
        _ => late,
    };
    Ok(vec![
        rate,
        row("scripts for each", "", series(|it| it.scripts)?),
        late,
        row("longest wait", "ms", series(|it| it.worst)?),
        row("least share", "%", series(|it| it.share)?).target(SHARE),
    ])
}

async fn round<S: Subject>(
    server: &Server,
    name: &str,
    tasks: usize,
    clients: &[Client],
) -> Result<Sample> {
    let before = scripts(from_ref(server)).await?;
    let begun = Instant::now();
    let end = begun + ROUND;
    let mut working = JoinSet::new();
    for task in 0..tasks {
        let client = task % clients.len();
        let lock = S::new(&clients[client], name);
        working.spawn(async move { anyhow::Ok((client, work(lock, end).await?)) });
    }
    let (mut waits, mut grants) = (Vec::new(), vec![0_usize; clients.len()]);
    while let Some(done) = working.join_next().await {
        let (client, its) = done??;
        grants[client] += its.len();
        waits.extend(its);
    }
    let seconds = begun.elapsed().as_secs_f64();
    waits.sort_unstable();
    let millis = |wait: &Duration| wait.as_secs_f64() * 1_000.0;
    let late = waits.get(waits.len() * 99 / 100).context("no grant")?;
    let worst = waits.last().context("no grant")?;
    let least = grants.iter().min().context("no client")?;
    let all = count(waits.len());
    Ok(Sample {
        rate: all / seconds,
        scripts: (scripts(from_ref(server)).await? - before) / all,
        late: millis(late),
        worst: millis(worst),
        share: count(*least) * count(clients.len()) / all * 100.0,
    })
}

/// Acquires and releases until the round is over. Returns how long each acquisition took.
async fn work<S: Subject>(lock: S, end: Instant) -> Result<Vec<Duration>> {
    let mut waits = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        let guard = lock.acquire().await?;
        waits.push(began.elapsed());
        Guard::release(guard).await?;
    }
    Ok(waits)
}
