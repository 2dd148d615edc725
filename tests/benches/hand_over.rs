//! From the call of release to the next holder running.
//!
//! As many tasks wait as the row says, and one holds. A holder rests a moment before it releases, so that the queue is quiet;
//! it joins the queue again once the next holder runs, so it never overtakes. The round trips in the comparison rest just as
//! long in between, because a sleeping processor takes time to wake.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Election, FairLock, Guard, Mutex};
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Form, Store};
use lockkeeper_lua::{Status, lock};
use lockkeeper_redis::RedisStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::subject::Subject;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Effort;
use crate::bare::Bare;
use crate::meters::{count, scripts};
use crate::pairs::micros;
use crate::report::{Row, Target};
use crate::rounds::{Spread, in_turns};

/// Numbers of waiters for a mutex.
const WAITERS: [usize; 3] = [2, 16, 64];

/// Numbers of clients that these are spread over, as in that many processes.
const CLIENTS: [usize; 2] = [1, 8];

/// Numbers of waiters for a fair lock.
const QUEUES: [usize; 3] = [2, 64, 1_000];

/// Numbers of clients that those are spread over.
const FAIR_CLIENTS: [usize; 2] = [1, 100];

/// Numbers of candidates behind a leader, each with a client of its own.
const CANDIDATES: [usize; 2] = [1, 8];

/// How many times as long as the bare script and message a hand-over may take.
const BARE: Target = Target::AtMost(1.3);

/// The most round trips until the next leader leads.
const RESIGNATION: Target = Target::AtMost(2.0);

/// How long the queue may settle before each hand-over.
const REST: Duration = Duration::from_millis(1);

/// The longest time for a hand-over; beyond it, something is wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// The contestants that take turns.
#[derive(Debug, Clone, Copy)]
enum Turn {
    HandOvers,
    RoundTrips,
    /// The script and message of a fair hand-over, by the client library alone.
    Bare,
}

/// One round: the median time, µs, and the scripts that the server ran per hand-over.
#[derive(Debug, Clone, Copy)]
struct Sample {
    time: f64,
    /// The 99th percentile, µs.
    late: f64,
    scripts: f64,
}

impl Sample {
    fn of(scripts: f64, times: Vec<Duration>) -> Result<Self> {
        let mut times: Vec<f64> = times.into_iter().map(micros).collect();
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times.get(times.len() * part / 100).copied();
        Ok(Self {
            time: at(50).context("nothing was timed")?,
            late: at(99).context("nothing was timed")?,
            scripts,
        })
    }
}

/// Compares hand-overs of a mutex with single round trips.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let server = Server::start().await?;
    for clients in CLIENTS {
        for waiters in WAITERS {
            let part = "hand-over";
            rows.extend(compare::<Mutex>(&server, part, clients, waiters, None, effort).await?);
        }
    }
    Ok(rows)
}

/// Compares hand-overs of a fair lock with single round trips.
pub(crate) async fn measure_fair(effort: Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let server = Server::start().await?;
    for clients in FAIR_CLIENTS {
        for waiters in QUEUES {
            let part = "fair hand-over";
            rows.extend(compare::<FairLock>(&server, part, clients, waiters, None, effort).await?);
        }
    }
    Ok(rows)
}

/// Compares the time from a resignation to the next leader with single round trips.
pub(crate) async fn measure_resignation(effort: Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let server = Server::start().await?;
    for candidates in CANDIDATES {
        let (part, bound) = ("resignation", Some(RESIGNATION));
        let clients = candidates + 1;
        rows.extend(compare::<Election>(&server, part, clients, candidates, bound, effort).await?);
    }
    Ok(rows)
}

async fn compare<S: Subject>(
    server: &Server,
    part: &'static str,
    clients: usize,
    waiters: usize,
    bound: Option<Target>,
    effort: Effort,
) -> Result<Vec<Row>> {
    let store: Arc<dyn Store> = Arc::new(RedisStore::connect(&server.url()).await?);
    let mut line = Line::form::<S>(server, clients, waiters).await?;
    // A round has only a handful of hand-overs per waiter; many rounds make up for that.
    let rounds = (effort.rounds / 2).max(5);
    let line_cell = tokio::sync::Mutex::new(&mut line);
    let bare = tokio::sync::Mutex::new(Bare::start(server).await?);
    let round = async |turn| match turn {
        Turn::HandOvers => {
            let before = scripts(from_ref(server)).await?;
            let times = line_cell.lock().await.watch(effort.hand_overs).await?;
            let scripts = scripts(from_ref(server)).await? - before;
            Sample::of(scripts / count(times.len()), times)
        }
        Turn::RoundTrips => {
            line_cell.lock().await.stand_still().await?;
            Sample::of(0.0, round_trips(&store, effort.hand_overs).await?)
        }
        Turn::Bare => {
            line_cell.lock().await.stand_still().await?;
            let times = bare.lock().await.hand_overs(effort.hand_overs, REST).await;
            Sample::of(1.0, times?)
        }
    };
    let turns = [Turn::HandOvers, Turn::RoundTrips, Turn::Bare];
    let samples = in_turns(&turns, rounds, round).await?;
    line.disband().await;
    store.close().await;

    let times = |index: usize| -> Vec<f64> {
        let samples: &[Sample] = &samples[index];
        samples.iter().map(|sample| sample.time).collect()
    };
    let (hand_overs, round_trips) = (times(0), times(1));
    let scripts = samples[0].iter().map(|sample| sample.scripts);
    let crowd = if clients == 1 {
        format!("{waiters} waiters of one client")
    } else {
        format!("{waiters} waiters of {} clients", clients.min(waiters + 1))
    };
    let row = |what: &str, unit, spread| Row::new(part, format!("{crowd}: {what}"), unit, spread);
    let bare = times(2);
    let ratios = Spread::of_ratios(&hand_overs, &bare)?;
    let in_round_trips = Spread::of_ratios(&hand_overs, &round_trips)?;
    let in_round_trips = row("time / round trip", "×", in_round_trips);
    let ratios = row("time / bare", "×", ratios);
    let (in_round_trips, ratios) = match bound {
        Some(bound) => (in_round_trips.target(bound), ratios),
        // The bare script is that of a fair lock.
        None if part == "fair hand-over" => (in_round_trips, ratios.target(BARE)),
        None => (in_round_trips, ratios),
    };
    let whose = match clients {
        1 => "one client".to_owned(),
        _ => format!("{clients} clients"),
    };
    let late = Spread::of(samples[0].iter().map(|sample| sample.late))?;
    let plotted = |row: Row, share: &str| {
        let line = format!("{part}, {whose}, {share}");
        match bound {
            Some(_) => row,
            None => row.plotted("hand-over", &line, count(waiters)),
        }
    };
    let time = row("time", "µs", Spread::of(hand_overs.iter().copied())?);
    Ok(vec![
        plotted(time, "50 %"),
        plotted(row("time, 99 %", "µs", late), "99 %"),
        row(
            "one round trip",
            "µs",
            Spread::of(round_trips.iter().copied())?,
        ),
        in_round_trips,
        row("scripts each", "", Spread::of(scripts)?),
        row("bare script and message", "µs", Spread::of(bare)?),
        ratios,
    ])
}

/// Tasks that hand one lock on repeatedly.
struct Line {
    clients: Vec<Client>,
    tasks: JoinSet<Result<()>>,
    /// How long each hand-over took.
    times: mpsc::UnboundedReceiver<Duration>,
    /// Whether holders release.
    moving: watch::Sender<bool>,
}

impl Line {
    /// One holder and this many waiters, all idle.
    async fn form<S: Subject>(server: &Server, clients: usize, waiters: usize) -> Result<Self> {
        let mut made = Vec::new();
        for _ in 0..clients.min(waiters + 1) {
            made.push(lockkeeper::connect(&server.url()).await?);
        }
        let (sender, times) = mpsc::unbounded_channel();
        let moving = watch::Sender::new(false);
        let gate = Arc::new(Gate {
            beginning: Instant::now(),
            let_go: AtomicU64::new(0),
            grants: watch::Sender::new(0),
        });
        let mut tasks = JoinSet::new();
        for member in 0..=waiters {
            let lock = S::new(&made[member % made.len()], "hand-over");
            let work = stand_in_line(lock, Arc::clone(&gate), moving.subscribe(), sender.clone());
            tasks.spawn(work);
        }
        Ok(Self {
            clients: made,
            tasks,
            times,
            moving,
        })
    }

    /// Measures this many hand-overs.
    async fn watch(&mut self, hand_overs: usize) -> Result<Vec<Duration>> {
        self.moving.send_replace(true);
        let mut times = Vec::with_capacity(hand_overs);
        while times.len() < hand_overs {
            times.push(self.next().await?);
        }
        Ok(times)
    }

    /// Stops the line and waits until its members are idle.
    async fn stand_still(&mut self) -> Result<()> {
        self.moving.send_replace(false);
        // One last hand-over may be in progress, but not a second one.
        sleep(REST * 10).await;
        while self.times.try_recv().is_ok() {}
        Ok(())
    }

    async fn next(&mut self) -> Result<Duration> {
        let next = tokio::time::timeout(PATIENCE, self.times.recv());
        if let Ok(time) = next.await {
            return time.context("the line has dispersed");
        }
        // If a member has failed, its error says why the line has stopped.
        while let Some(ended) = self.tasks.try_join_next() {
            ended??;
        }
        anyhow::bail!("nobody was granted the lock within {PATIENCE:?}")
    }

    async fn disband(mut self) {
        self.tasks.shutdown().await;
        for client in self.clients {
            client.close().await;
        }
    }
}

/// The state that the members of a line share.
struct Gate {
    beginning: Instant,
    /// When the last holder called release, in ns since the beginning; 0 before the first.
    let_go: AtomicU64,
    /// The number of grants so far.
    grants: watch::Sender<u64>,
}

/// Acquires, rests and hands on until aborted.
async fn stand_in_line<S: Subject>(
    lock: S,
    gate: Arc<Gate>,
    mut moving: watch::Receiver<bool>,
    times: mpsc::UnboundedSender<Duration>,
) -> Result<()> {
    let mut grants = gate.grants.subscribe();
    loop {
        let guard = lock.acquire().await?;
        let running = gate.beginning.elapsed();
        let let_go = Duration::from_nanos(gate.let_go.load(Ordering::Acquire));
        let mut mine = 0;
        gate.grants.send_modify(|grants| {
            *grants += 1;
            mine = *grants;
        });
        if !let_go.is_zero() {
            times.send(running.saturating_sub(let_go))?;
        }
        moving.wait_for(|moving| *moving).await?;
        sleep(REST).await;
        let now = u64::try_from(gate.beginning.elapsed().as_nanos())?;
        gate.let_go.store(now, Ordering::Release);
        Guard::release(guard).await?;
        grants.wait_for(|grants| *grants > mine).await?;
    }
}

/// Queries a claim that does not exist: one key, one read, no change.
async fn round_trips(store: &Arc<dyn Store>, number: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(number);
    for request in 0..u64::try_from(number)? {
        let keys = ["lockkeeper:round trip".to_owned()];
        let item = ScriptCall::new(&lock::VERIFY, keys, ["nobody".to_owned()]);
        // The first request sends the text, so that the server knows the script.
        let form = if request == 0 {
            Form::Source
        } else {
            Form::Sha
        };
        let call = Call::new(item, request + 1, form, PATIENCE);
        sleep(REST).await;
        let store = Arc::clone(store);
        let task = tokio::spawn(async move {
            let start = Instant::now();
            let reply = store.call(call).await?;
            ensure!(reply.status() == Status::Gone);
            anyhow::Ok(start.elapsed())
        });
        times.push(task.await??);
    }
    Ok(times)
}
