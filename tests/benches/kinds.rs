//! An acquire and a release of a free name, for each kind in turns: how many of them fit into a second, how long one takes, and what it costs
//! the server by its own count. A mutex also on a cluster, which spreads the names over three primaries.

use anyhow::{Context as _, Result};
use lockkeeper_testkit::server::Server;

use crate::Effort;
use crate::meters::{count, received};
use crate::peers::{Answer, Awake, Own, Scene};
use crate::place::Place;
use crate::report::{Row, Target};
use crate::rounds::{Spread, in_turns};

const PART: &str = "kinds";

/// The kinds, and whether the targets of one name are for them.
const KINDS: [(&str, bool); 7] = [
    ("mutex", true),
    ("reentrant", true),
    ("fair", true),
    ("read", true),
    ("write", true),
    ("semaphore", false),
    ("eight", false),
];

/// What the mutex on a cluster is called.
const ON_A_CLUSTER: &str = "mutex on 3 primaries";

/// Numbers of tasks.
const TASKS: [usize; 4] = [1, 8, 64, 256];

/// The number of tasks with which the server's costs are counted: enough that it is never idle between two commands.
const BUSY: usize = 64;

/// The time inside the commands of a pair on one name, µs.
const INSIDE: Target = Target::AtMost(6.0);

/// The commands inside the scripts of a pair of eight names, and the bytes sent for it.
const COMMANDS_OF_EIGHT: Target = Target::AtMost(32.0);
const BYTES_OF_EIGHT: Target = Target::AtMost(1_500.0);

/// The time of a pair with one task, and the rate with several, relative to the mutex.
const TIME: Target = Target::AtMost(1.25);
const RATE: Target = Target::AtLeast(0.9);

/// One round.
struct Sample {
    /// Pairs per second.
    rate: f64,
    /// The median time of a pair, µs.
    time: f64,
    /// The 99th percentile, µs.
    late: f64,
    /// Of a pair: the time in the server's commands, µs; the commands inside its scripts; the bytes sent.
    inside: f64,
    commands: f64,
    bytes: f64,
}

/// Measures every kind.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let (one, cluster) = (Place::one().await?, Place::cluster().await?);
    let own = |place: &Place| tokio::sync::Mutex::new(Own::new(vec![place.url()]));
    let (here, spread) = (own(&one), own(&cluster));
    let rounds = effort.rounds.div_ceil(3);
    let mut rows = Vec::new();
    for tasks in TASKS {
        let awake = (tasks == 1).then(Awake::begin).transpose()?;
        let round = async |index: usize| {
            // Behind the kinds comes the mutex on the cluster.
            let (place, own, (kind, _)) = match KINDS.get(index) {
                Some(kind) => (&one, &here, *kind),
                None => (&cluster, &spread, KINDS[0]),
            };
            let scene = Scene::pairs(kind, tasks);
            let mut own = own.lock().await;
            let servers = place.servers();
            let before = (Commands::of(servers).await?, received(servers).await?);
            let answer = own.work(scene, effort.peer_millis / 2).await?;
            let bytes = received(servers).await? - before.1;
            sample(answer, &before.0, &Commands::of(servers).await?, bytes)
        };
        let turns: Vec<usize> = (0..=KINDS.len()).collect();
        let samples = in_turns(&turns, rounds, round).await?;
        drop(awake);
        rows.extend(about(tasks, &samples)?);
    }
    here.into_inner().stop().await;
    spread.into_inner().stop().await;
    Ok(rows)
}

fn about(tasks: usize, samples: &[Vec<Sample>]) -> Result<Vec<Row>> {
    let series = |samples: &[Sample], of: fn(&Sample) -> f64| -> Vec<f64> {
        samples.iter().map(of).collect()
    };
    let number = match tasks {
        1 => "1 task".to_owned(),
        _ => format!("{tasks} tasks"),
    };
    let mutex = samples.first().context("no kind")?;
    let cluster = (ON_A_CLUSTER, false);
    let mut rows = Vec::new();
    for ((kind, aimed), its) in KINDS.into_iter().chain([cluster]).zip(samples) {
        let row = |what: &str, unit, of: fn(&Sample) -> f64| {
            let spread = Spread::of(series(its, of))?;
            let what = format!("{kind}, {number}: {what}");
            anyhow::Ok(Row::new(PART, what, unit, spread))
        };
        rows.push(row("pairs", "/s", |it| it.rate)?);
        rows.push(row("median", "µs", |it| it.time)?);
        rows.push(row("99 %", "µs", |it| it.late)?);
        if kind != "mutex" {
            let (what, of, target): (_, fn(&Sample) -> f64, _) = match tasks {
                1 => ("time", |it| it.time, TIME),
                _ => ("rate", |it| it.rate, RATE),
            };
            let ratio = Spread::of_ratios(&series(its, of), &series(mutex, of))?;
            let row = Row::new(
                PART,
                format!("{kind}, {number}: {what} / mutex"),
                "×",
                ratio,
            );
            rows.push(if aimed { row.target(target) } else { row });
        }
        // The replicas of a cluster count what they copy.
        if tasks == BUSY && kind != ON_A_CLUSTER {
            let inside = row("inside the commands", "µs", |it| it.inside)?;
            let commands = row("commands inside scripts", "", |it| it.commands)?;
            let bytes = row("sent for a pair", "bytes", |it| it.bytes)?;
            rows.extend(match kind {
                "eight" => [
                    inside,
                    commands.target(COMMANDS_OF_EIGHT),
                    bytes.target(BYTES_OF_EIGHT),
                ],
                _ if aimed => [inside.target(INSIDE), commands, bytes],
                _ => [inside, commands, bytes],
            });
        }
    }
    Ok(rows)
}

fn sample(answer: Answer, before: &Commands, after: &Commands, bytes: f64) -> Result<Sample> {
    let seconds = answer.seconds;
    let mut times: Vec<f64> = answer.waits.into_iter().flatten().collect();
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get(times.len() * part / 100).copied();
    let all = count(times.len());
    Ok(Sample {
        rate: all / seconds,
        time: at(50).context("nothing was measured")?,
        late: at(99).context("nothing was measured")?,
        inside: (after.micros - before.micros) / all,
        commands: (after.inside - before.inside) / all,
        bytes: bytes / all,
    })
}

/// A server's own statistics of its commands.
struct Commands {
    /// The time spent in scripts, µs.
    micros: f64,
    /// The commands that scripts have run.
    inside: f64,
}

impl Commands {
    /// The sum of these servers' statistics.
    async fn of(servers: &[Server]) -> Result<Self> {
        let mut sum = Self {
            micros: 0.0,
            inside: 0.0,
        };
        for server in servers {
            let text = server.command(&["INFO", "commandstats"]).await?;
            sum.add(&text.into_text()?)?;
        }
        Ok(sum)
    }

    fn add(&mut self, text: &str) -> Result<()> {
        for line in text.lines() {
            let Some((name, fields)) = line
                .strip_prefix("cmdstat_")
                .and_then(|it| it.split_once(':'))
            else {
                continue;
            };
            let field = |name: &str| -> Result<f64> {
                let mut fields = fields.trim().split(',');
                let value = fields.find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
                Ok(value.context("no such field")?.parse()?)
            };
            match name {
                "evalsha" | "eval" => self.micros += field("usec")?,
                // Commands that connections send in addition to scripts.
                _ if OUTSIDE.iter().any(|it| name.starts_with(it)) => {}
                _ => self.inside += field("calls")?,
            }
        }
        Ok(())
    }
}

/// Commands that no script of a pair runs.
const OUTSIDE: [&str; 10] = [
    "info",
    "hello",
    "client",
    "ping",
    "script",
    "subscribe",
    "unsubscribe",
    "config",
    "select",
    "cluster",
];
