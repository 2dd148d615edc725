//! How fast the locks are: `cargo xtask bench`.
//!
//! Each measurement is compared with the same scripts sent without the lock, in the same run and in turns, because on a
//! machine that also does other work only ratios are reliable. The targets are information: a run that misses one still
//! succeeds, and performance is never a test.
//!
//! Each part runs in a process of its own, so that the memory that it takes is its own too.
//!
//! | module | what it measures |
//! |---|---|
//! | [`clients`] | the memory of a client that does nothing |
//! | [`kinds`] | an acquire and a release of a free name, for each kind, on one server and on a cluster: rate, and cost for the server |
//! | [`single`] | an acquire and a release without contention, one after the other |
//! | [`parallel`] | the same by 64 tasks on 64 names |
//! | [`hand_over`] | from the call of release to the next holder running, and the cost on the server |
//! | [`contended`] | one name under constant contention |
//! | [`held`] | leases that are only held: work, memory, losses |
//! | [`readers`] | ten thousand readers that enter when a writer releases |
//! | [`waiters`] | a long queue for one name: work, memory, duration of scripts, hand-overs |
//! | [`crowds`] | many waiters for many names, on one server and on a cluster |
//! | [`peers`] | the same work by other lock libraries |
//!
//! | module | purpose |
//! |---|---|
//! | [`pairs`] | an acquire and a release by the lock, by the store and by the client library alone, over redis-rs and over fred |
//! | [`bare`] | a hand-over of a fair lock by the client library alone |
//! | [`rounds`] | measuring in turns; medians |
//! | [`slowlog`] | the duration of scripts on the server |
//! | [`meters`] | processor time, memory and commands, of this process and of the server |
//! | [`place`] | one server or a cluster |
//! | [`report`] | the table and the JSON file |

mod bare;
mod clients;
mod contended;
mod crowds;
mod hand_over;
mod held;
mod kinds;
mod meters;
mod pairs;
mod parallel;
mod peers;
mod place;
mod readers;
mod report;
mod rounds;
mod single;
mod slowlog;
mod waiters;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};
use tokio::time::timeout;

use report::Report;

/// Measures the locks on a server that it starts.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Arguments {
    /// Fewer rounds, leases and waiters: takes two minutes at most.
    #[arg(long)]
    quick: bool,
    /// Measures only this part.
    #[arg(long, value_name = "NAME")]
    only: Option<Part>,
    /// Writes the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The command that starts a program of tests/peers, as a JSON array of words.
    #[arg(long, value_name = "COMMAND")]
    peer: Vec<String>,
    /// Cargo passes this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// One part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Many leases held.
    Held,
    /// Many clients that do nothing.
    Clients,
    /// Many waiters for one name.
    FairWaiters,
    /// Many waiters for many names, also on a cluster.
    Crowds,
    /// Ten thousand readers behind one writer.
    Readers,
    /// One task without contention.
    Single,
    /// 64 tasks, each with a name of its own.
    Parallel,
    /// A pair of each kind, and what it costs the server.
    Kinds,
    /// One name under constant contention.
    Contended,
    /// The hand-over from a holder to the next waiter.
    HandOver,
    /// The same for a fair lock, where the release grants the lock to the next waiter.
    FairHandOver,
    /// The same for an election: from a resignation to the next leader.
    Resignation,
    /// Other lock libraries.
    Peers,
}

/// The longest time that anything may take; beyond it, something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds per contestant.
    rounds: usize,
    /// Acquires and releases per round with one task.
    pairs: usize,
    /// Hand-overs per round.
    hand_overs: usize,
    /// The numbers of leases to hold, one after the other.
    leases: &'static [usize],
    /// The numbers of waiters for one name, one after the other.
    waiters: &'static [usize],
    /// Names with ten waiters each; ten times as many names with one each.
    names: usize,
    /// Clients that do nothing.
    clients: usize,
    /// For how many renewal periods leases and waiters are watched.
    periods: u32,
    /// How long a round of a peer lasts, ms.
    peer_millis: usize,
    /// The longest time for a part: a benchmark that hangs is a fault, not a figure.
    limit: Duration,
}

impl Effort {
    /// Within two minutes.
    const QUICK: Self = Self {
        rounds: 11,
        pairs: 400,
        hand_overs: 60,
        leases: &[10_000],
        waiters: &[10_000],
        names: 1_000,
        clients: 100,
        periods: 1,
        peer_millis: 200,
        limit: Duration::from_secs(150),
    };

    /// Within half an hour.
    const FULL: Self = Self {
        rounds: 21,
        pairs: 1_000,
        hand_overs: 100,
        leases: &[100_000, 10_000, 1_000],
        waiters: &[100_000, 10_000],
        names: 10_000,
        clients: 1_000,
        periods: 2,
        peer_millis: 400,
        limit: Duration::from_secs(900),
    };
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let effort = if arguments.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    let mut report = Report {
        facts: meters::machine(if arguments.quick { "quick" } else { "full" }).await?,
        rows: Vec::new(),
    };
    match arguments.only {
        Some(part) => report.add(measure_here(part, effort, &arguments.peer).await?),
        None => {
            for part in Part::value_variants() {
                if *part != Part::Peers || !arguments.peer.is_empty() {
                    report.add(measure_apart(*part, &arguments)?);
                }
            }
        }
    }
    report.print();
    if let Some(file) = &arguments.json {
        report.write(file)?;
        println!("\n{}", file.display());
    }
    Ok(())
}

/// Measures a part in another process of this program.
fn measure_apart(part: Part, arguments: &Arguments) -> Result<Report> {
    let file = std::env::temp_dir().join(format!("lockkeeper-bench-{}.json", std::process::id()));
    let part = part.to_possible_value().context("a part without a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--only", part.get_name()]);
    command.arg("--json").arg(&file);
    command.args(arguments.quick.then_some("--quick"));
    command.args(arguments.peer.iter().flat_map(|peer| ["--peer", peer]));
    // What it prints is printed again, with the rest.
    let status = command.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{}: {status}", part.get_name());
    taken(&file)
}

/// Reads a report and removes its file.
fn taken(file: &Path) -> Result<Report> {
    let report = Report::read(file)?;
    std::fs::remove_file(file)?;
    Ok(report)
}

async fn measure_here(part: Part, effort: Effort, peers: &[String]) -> Result<Report> {
    let start = Instant::now();
    let report = timeout(effort.limit, measure(part, effort, peers))
        .await
        .with_context(|| format!("{part:?}: not done within {:?}", effort.limit))?
        .with_context(|| format!("failed to measure {part:?}"))?;
    eprintln!("{part:?}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(report)
}

async fn measure(part: Part, effort: Effort, peers: &[String]) -> Result<Report> {
    let rows = match part {
        Part::Clients => clients::measure(effort).await?,
        Part::Single => single::measure(effort).await?,
        Part::Parallel => parallel::measure(effort).await?,
        Part::Kinds => kinds::measure(effort).await?,
        Part::Contended => contended::measure(effort).await?,
        Part::HandOver => hand_over::measure(effort).await?,
        Part::FairHandOver => hand_over::measure_fair(effort).await?,
        Part::Resignation => hand_over::measure_resignation(effort).await?,
        Part::FairWaiters => waiters::measure(effort).await?,
        Part::Crowds => crowds::measure(effort).await?,
        Part::Held => held::measure(effort).await?,
        Part::Readers => readers::measure(effort).await?,
        Part::Peers => return peers::measure(effort, peers).await,
    };
    Ok(Report::from(rows))
}
