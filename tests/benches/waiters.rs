//! A long queue for one name: the work and memory that waiting takes, and whether the lock still moves on.
//!
//! All waiters are tasks of one client. They join in a short time, so their heartbeats come together, which is the worst case.
//!
//! The duration of scripts is from the server's own slow log. The log would also contain the commands inside a script, which
//! would slow down the scripts, so shorter commands are not logged. The log is off while work is measured.

use std::slice::from_ref;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairGuard, FairLock};
use lockkeeper_lua::lock;
use lockkeeper_testkit::server::Server;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use crate::meters::{Watched, count, own_memory, servers_memory, watch};
use crate::pairs::micros;
use crate::report::{Row, Target};
use crate::rounds::Spread;
use crate::slowlog::SlowLog;
use crate::{Effort, PATIENCE};

const PART: &str = "fair waiters";

/// The name of the lock: 32 bytes, about as long as a name that contains a UUID.
const NAME: &str = "bench:fair:waiters:0000000000000";

/// Three periods of heartbeats: the default waiter ttl.
const PERIODS: Duration = Duration::from_secs(10);

/// How many acquires behind all other waiters, and how many hand-overs, are timed.
const TIMED: usize = 1_000;

/// Waiters that join at the same time.
const TOGETHER: usize = 64;

/// The number of waiters for which the targets are given.
const TARGET_WAITERS: f64 = 100_000.0;

/// The target for the 99th percentile of a script's duration, µs. The longest may have waited for a processor.
const SCRIPT: Target = Target::AtMost(1_000.0);

/// Measures waiters, for each number of them on a server of its own.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &waiters in effort.waiters {
        rows.extend(wait(waiters, effort.periods, rows.is_empty()).await?);
    }
    Ok(rows)
}

/// `fresh`: as for leases, see [`held`](crate::held).
async fn wait(number: usize, periods: u32, fresh: bool) -> Result<Vec<Row>> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let mut crowd = Crowd::gather(&server, &client).await?;
    // One-time allocations must not count.
    crowd.grow(TOGETHER).await?;

    let (memory, server_memory_before) = (own_memory(), servers_memory(from_ref(&server)).await?);
    let start = Instant::now();
    crowd.grow(number).await?;
    let joined = start.elapsed();
    let waiters = count(number - TOGETHER);
    let memory = own_memory()
        .zip(memory)
        .map(|(after, before)| (after - before) / waiters);
    let server_memory = (servers_memory(from_ref(&server)).await? - server_memory_before) / waiters;

    let watched = watch(from_ref(&server), PERIODS * periods).await?;
    let moving = crowd.time().await?;
    let withdrawn = crowd.disperse().await?;
    client.close().await;

    let row = |what: &str, unit, spread| {
        Row::new(PART, format!("{number} waiters: {what}"), unit, spread)
    };
    let once = |what: &str, unit, value| row(what, unit, Spread::once(value));
    let mut rows = costs(&watched, &once);
    if let Some(memory) = memory.filter(|_| fresh) {
        rows.push(once("client memory each", "bytes", memory).target(Target::AtMost(2_048.0)));
    }
    rows.push(once("server memory each", "bytes", server_memory));
    let scale = TARGET_WAITERS / count(number);
    if scale > 1.0 {
        // The targets are for more waiters than these.
        let at = |what: &str, value: f64| once(&format!("{what}, ×{scale}"), "", value * scale);
        rows.push(at("scripts/s", watched.scripts).target(Target::AtMost(400.0)));
        rows.push(at("server CPU %", watched.server).target(Target::AtMost(20.0)));
    }
    for (what, times) in moving {
        rows.extend(quantiles(what, times, &row)?);
    }
    rows.push(once("joined in", "s", joined.as_secs_f64()));
    rows.push(once("withdrawn in", "s", withdrawn.as_secs_f64()));
    Ok(rows)
}

fn costs(watched: &Watched, once: &impl Fn(&str, &'static str, f64) -> Row) -> Vec<Row> {
    vec![
        once("scripts", "/s", watched.scripts).target(Target::AtMost(400.0)),
        once("scripts, busiest second", "/s", watched.busiest),
        once("client CPU", "% of a core", watched.client),
        once("server CPU", "% of a core", watched.server).target(Target::AtMost(20.0)),
    ]
}

/// The median of `times` with the least and the greatest, and the 99th percentile.
fn quantiles(
    what: &str,
    mut times: Vec<f64>,
    row: &impl Fn(&str, &'static str, Spread) -> Row,
) -> Result<Vec<Row>> {
    times.sort_by(f64::total_cmp);
    let slow = *times
        .get(times.len() * 99 / 100)
        .context("nothing was timed")?;
    let slow = row(&format!("{what}, 99 %"), "µs", Spread::once(slow));
    Ok(vec![
        row(what, "µs", Spread::of(times)?),
        match what.ends_with("script") {
            true => slow.target(SCRIPT),
            false => slow,
        },
    ])
}

/// One holder and its waiters.
struct Crowd<'a> {
    server: &'a Server,
    log: SlowLog<'a>,
    client: &'a Client,
    waiting: JoinSet<Result<()>>,
    holder: Option<FairGuard>,
    granted: mpsc::UnboundedReceiver<(Instant, FairGuard)>,
    grants: mpsc::UnboundedSender<(Instant, FairGuard)>,
}

impl<'a> Crowd<'a> {
    async fn gather(server: &'a Server, client: &'a Client) -> Result<Self> {
        let (grants, granted) = mpsc::unbounded_channel();
        Ok(Self {
            server,
            log: SlowLog(server),
            client,
            waiting: JoinSet::new(),
            holder: Some(FairLock::new(client, NAME).acquire().await?),
            granted,
            grants,
        })
    }

    /// Lets more waiters join until there are this many, a few at a time: memory for requests in flight must not count as a
    /// waiter's.
    async fn grow(&mut self, number: usize) -> Result<()> {
        while self.waiting.len() < number {
            self.join(number.min(self.waiting.len() + TOGETHER)).await?;
        }
        Ok(())
    }

    /// Lets more waiters join at once until there are this many.
    async fn join(&mut self, number: usize) -> Result<()> {
        while self.waiting.len() < number {
            let lock = FairLock::new(self.client, NAME);
            let grants = self.grants.clone();
            self.waiting.spawn(async move {
                let guard = lock.acquire().await?;
                grants.send((Instant::now(), guard))?;
                Ok(())
            });
        }
        let start = Instant::now();
        while self.length().await? < number {
            ensure!(start.elapsed() < PATIENCE, "not all have joined");
            yield_now().await;
        }
        Ok(())
    }

    /// The duration of scripts with this many waiters, µs, and of hand-overs among their heartbeats.
    async fn time(&mut self) -> Result<Vec<(&'static str, Vec<f64>)>> {
        self.log.start().await?;
        self.join(self.waiting.len() + TIMED).await?;
        let acquires = self.log.of(&lock::ACQUIRE).await?;
        self.log.start().await?;
        sleep(PERIODS / 3).await;
        let heartbeats = self.log.of(&lock::HEARTBEAT).await?;
        self.log.start().await?;
        let hand_overs = self.hand_on(TIMED).await?;
        let leaves = self.log.of(&lock::RELEASE).await?;
        self.log.stop().await?;
        Ok(vec![
            ("acquire script", acquires),
            ("heartbeat script", heartbeats),
            ("leave script", leaves),
            ("hand-over", hand_overs),
        ])
    }

    /// Hands the lock on repeatedly, spread over some periods of their heartbeats. Returns how long each took, µs.
    async fn hand_on(&mut self, number: usize) -> Result<Vec<f64>> {
        let pause = PERIODS / u32::try_from(number)?;
        let mut times = Vec::with_capacity(number);
        for _ in 0..number {
            sleep(pause).await;
            let holder = self.holder.take().context("nobody holds")?;
            let token = holder.fencing_token();
            let start = Instant::now();
            let (released, next) = timeout(PATIENCE, async {
                tokio::join!(holder.release(), self.granted.recv())
            })
            .await
            .context("nobody was granted the lock")?;
            released?;
            let (granted, next) = next.context("all who wait are gone")?;
            ensure!(next.fencing_token() > token, "tokens must grow");
            times.push(micros(granted - start));
            self.holder = Some(next);
        }
        Ok(times)
    }

    /// Ends all waiters and the holder. Returns the time until the server has no data of them.
    async fn disperse(mut self) -> Result<Duration> {
        let start = Instant::now();
        self.waiting.shutdown().await;
        while self.length().await? > 0 {
            ensure!(start.elapsed() < PATIENCE, "not all have left");
            sleep(Duration::from_millis(20)).await;
        }
        let dispersed = start.elapsed();
        if let Some(holder) = self.holder {
            holder.release().await?;
        }
        let rest = self.server.command(&["KEYS", "*"]).await?.into_texts()?;
        let of_queue = |key: &&String| key.contains(NAME) && !key.contains(".fence:");
        let rest: Vec<_> = rest.iter().filter(of_queue).collect();
        ensure!(rest.is_empty(), "the server still has {rest:?}");
        Ok(dispersed)
    }

    async fn length(&self) -> Result<usize> {
        let length = FairLock::new(self.client, NAME).queue_len().await?;
        Ok(length.try_into()?)
    }
}
