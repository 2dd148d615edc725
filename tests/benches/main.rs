//! How fast the locks are: `cargo xtask bench`.
//!
//! Each measurement is compared with the same scripts sent without the lock, in the same run and in turns, because on a
//! machine that also does other work only ratios are reliable. The targets are information: a run that misses one still
//! succeeds, and performance is never a test.
//!
//! | module | what it measures |
//! |---|---|
//! | [`single`] | an acquire and a release without contention, one after the other |
//! | [`parallel`] | the same by 64 tasks on 64 names |
//! | [`hand_over`] | from the call of release to the next holder running, and the cost on the server |
//! | [`contended`] | one name under constant contention |
//! | [`server`] | what an acquire and a release of a free name cost the server, for each kind |
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
mod contended;
mod crowds;
mod hand_over;
mod held;
mod meters;
mod pairs;
mod parallel;
mod peers;
mod place;
mod readers;
mod report;
mod rounds;
mod server;
mod single;
mod slowlog;
mod waiters;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
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
    /// Many leases held. Runs first, because memory that another part has freed would be reused and not counted.
    Held,
    /// Many waiters for one name. Alone it also measures the memory of the client.
    FairWaiters,
    /// Ten waiters for each of many names, also on a cluster. Alone it also measures the memory of the client.
    Crowds,
    /// Ten thousand readers behind one writer.
    Readers,
    /// One task without contention.
    Single,
    /// 64 tasks, each with a name of its own.
    Parallel,
    /// What a pair costs the server.
    Server,
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
    /// Names with ten waiters each.
    names: usize,
    /// For how many renewal periods they are watched.
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
    let mut report = Report::new(meters::machine().await?);
    report.print_facts();
    for part in Part::value_variants() {
        if arguments.only.is_some_and(|only| only != *part) {
            continue;
        }
        if *part == Part::Peers && arguments.peer.is_empty() {
            continue;
        }
        let start = Instant::now();
        let rows = timeout(effort.limit, measure(*part, effort, &arguments.peer))
            .await
            .with_context(|| format!("{part:?}: not done within {:?}", effort.limit))?
            .with_context(|| format!("failed to measure {part:?}"))?;
        report.add(rows);
        eprintln!("{part:?}: {:.1} s", start.elapsed().as_secs_f64());
    }
    report.print_table();
    if let Some(file) = &arguments.json {
        report.write_json(file, arguments.quick)?;
        println!("\n{}", file.display());
    }
    Ok(())
}

async fn measure(part: Part, effort: Effort, peers: &[String]) -> Result<Vec<report::Row>> {
    match part {
        Part::Single => single::measure(effort).await,
        Part::Parallel => parallel::measure(effort).await,
        Part::Server => server::measure(effort).await,
        Part::Contended => contended::measure(effort).await,
        Part::HandOver => hand_over::measure(effort).await,
        Part::FairHandOver => hand_over::measure_fair(effort).await,
        Part::Resignation => hand_over::measure_resignation(effort).await,
        Part::FairWaiters => waiters::measure(effort).await,
        Part::Crowds => crowds::measure(effort).await,
        Part::Held => held::measure(effort).await,
        Part::Readers => readers::measure(effort).await,
        Part::Peers => peers::measure(effort, peers).await,
    }
}
