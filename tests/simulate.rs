//! Runs histories of the simulation until the time is over or one fails. `cargo xtask simulate` starts it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use lockkeeper_testkit::mutants::engine::{self, Mutant};
use lockkeeper_testkit::simulation::net::{self, Behaviour};
use lockkeeper_testkit::simulation::{Beyond, Options, Outcome, Workload, run};
use parking_lot::Mutex;

/// How many lines before a violation are shown.
const SHOWN: usize = 60;

/// Runs histories of the simulation, each twice, and compares their hashes.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask simulate", bin_name = "cargo xtask simulate")]
struct Arguments {
    /// How long to run, in minutes [default: 1, or until all histories have run].
    #[arg(long)]
    minutes: Option<f64>,
    /// How many histories to run.
    #[arg(long)]
    histories: Option<u64>,
    /// The first seed; the next seeds follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only histories of this workload: mutex, reentrant, fair, rwlock, semaphore, election, once, latch, redlock or mixed
    /// [default: all, in turn].
    #[arg(long, value_parser = workload)]
    kind: Option<Workload>,
    /// How many threads to use [default: one per core].
    #[arg(long)]
    threads: Option<usize>,
    /// Switches on this mistake in the engine, which must be found: one of `lockkeeper_core::mutants`.
    #[arg(long, value_parser = mutant)]
    mutant: Option<Mutant>,
    /// Breaks one condition of the guarantees, for which there is a counter-example: lost-writes, returned-hold, clock-behind,
    /// clock-ahead, deleted-key, force, late-write or silence. Not for redlock and mixed.
    #[arg(long, value_parser = beyond)]
    beyond: Option<Beyond>,
    /// Prints all events.
    #[arg(long)]
    verbose: bool,
    /// Compares what clients send in the first histories of each workload with what is stored for them, and shows the first
    /// difference.
    #[arg(long, conflicts_with_all = ["minutes", "histories", "seed", "mutant", "beyond", "verbose"])]
    net: bool,
    /// Stores what clients send now.
    #[arg(long, requires = "net", conflicts_with = "kind")]
    rewrite: bool,
    /// Where the calls of histories without a difference are kept, so that a difference that comes later shows the expected call.
    #[arg(long, requires = "net", default_value = "target/net")]
    calls: PathBuf,
}

impl Arguments {
    /// How many threads to use.
    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.unwrap_or(cores).max(1)
    }

    /// The command that repeats one history, with the mistake it was found with.
    fn to_repeat(&self, workload: Workload, seed: u64) -> String {
        let kind = workload.name();
        let mut command =
            format!("cargo xtask simulate --kind {kind} --seed {seed} --histories 1 --verbose");
        if let Some(mutant) = self.mutant {
            command.push_str(&format!(" --mutant {mutant:?}"));
        }
        if let Some(beyond) = self.beyond {
            command.push_str(&format!(" --beyond {}", beyond.name()));
        }
        command
    }
}

/// The totals of all threads. Each history counts once, although it runs twice.
#[derive(Debug, Default)]
struct Tally {
    /// How many histories have begun.
    begun: u64,
    /// Histories, events, scripts, grants and violations, in the order of [`Workload::ALL`].
    figures: [[u64; 5]; Workload::ALL.len()],
    /// The combined hash of all histories, whatever their order.
    hash: u64,
    /// The report of the first history that failed.
    failure: Option<Vec<String>>,
}

impl Tally {
    fn add(&mut self, workload: Workload, number: u64, outcome: &Outcome) {
        let broken = u64::from(outcome.violation.is_some());
        let more = [1, outcome.events, outcome.requests, outcome.grants, broken];
        let figures = self.figures[workload as usize].iter_mut();
        figures.zip(more).for_each(|(figure, more)| *figure += more);
        self.hash ^= outcome.hash.rotate_left((number % 64) as u32);
    }

    fn fail(&mut self, report: Vec<String>) {
        self.failure.get_or_insert(report);
    }

    /// Prints the figures of each workload. Returns the total of histories, events and scripts.
    fn print(&self) -> [u64; 3] {
        let mut all = [0; 3];
        println!("kind       histories      events     scripts      grants  violations");
        for (workload, figures) in Workload::ALL.into_iter().zip(self.figures) {
            let [histories, events, scripts, grants, violations] = figures;
            if histories > 0 {
                let kind = workload.name();
                println!(
                    "{kind:<10}{histories:>10}{events:>12}{scripts:>12}{grants:>12}{violations:>12}"
                );
            }
            all = [all[0] + histories, all[1] + events, all[2] + scripts];
        }
        all
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.net {
        true => compare(&arguments),
        false => simulate(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Compares what clients send with what is stored, or stores it.
fn compare(arguments: &Arguments) -> Result<()> {
    let workloads = arguments.kind.map_or(Workload::ALL.to_vec(), |it| vec![it]);
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&workload) = workloads.get(number) else {
                return Ok(());
            };
            let options = Options {
                record: true,
                ..Options::default()
            };
            let seeds = 1..=net::histories(workload);
            let outcomes = seeds.map(|seed| run(workload, seed, options.clone()));
            let outcomes: Vec<Outcome> = outcomes.collect::<std::io::Result<_>>()?;
            let mut broken = outcomes.iter().filter_map(|it| it.violation.as_ref());
            if let Some(violation) = broken.next() {
                bail!(
                    "{}: a history breaks a rule: {}",
                    workload.name(),
                    violation.what
                );
            }
            let behaviour = Behaviour::of(workload, &outcomes);
            found.lock().insert(number, behaviour);
        }
    };
    let ended: Result<()> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads())
            .map(|_| scope.spawn(work))
            .collect();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().try_for_each(join)
    });
    ended?;
    let found: Vec<_> = found.into_inner().into_values().collect();
    if arguments.rewrite {
        net::rewrite(&found)?;
        println!("stored what {} workloads send", found.len());
        return Ok(());
    }
    let mut differences = Vec::new();
    for behaviour in &found {
        differences.extend(behaviour.differences(Some(&arguments.calls)));
        behaviour.keep(&arguments.calls)?;
    }
    for difference in &differences {
        println!("{difference}\n");
    }
    if !differences.is_empty() {
        bail!(
            "{} differences; if they are meant, store them: --net --rewrite",
            differences.len()
        );
    }
    println!("no difference");
    Ok(())
}

fn simulate(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    let minutes = match (arguments.minutes, arguments.histories) {
        (None, Some(_)) => None,
        (minutes, _) => Some(minutes.unwrap_or(1.0)),
    };
    let until = minutes.map(|minutes| started + Duration::from_secs_f64(60.0 * minutes));
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads() {
            scope.spawn(|| {
                let work = || work(arguments, until, &tally);
                if let Err(error) = match arguments.mutant {
                    Some(mutant) => engine::with(mutant, work),
                    None => work(),
                } {
                    tally.lock().fail(vec![format!("{error:#}")]);
                }
            });
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    let tally = tally.into_inner();
    let [histories, events, scripts] = tally.print();
    println!(
        "{histories} histories, each run twice, in {seconds:.1} s: {:.0} runs/s; {} events, {} scripts; hash {:016x}",
        2.0 * to_f64(histories) / seconds,
        events,
        scripts,
        tally.hash,
    );
    if let Some(report) = tally.failure {
        bail!("{}", report.join("\n"));
    }
    Ok(())
}

fn workload(name: &str) -> Result<Workload> {
    let found = Workload::ALL.into_iter().find(|it| it.name() == name);
    found.with_context(|| format!("one of {}", Workload::ALL.map(Workload::name).join(", ")))
}

fn mutant(name: &str) -> Result<Mutant> {
    let named = |mutant: &Mutant| format!("{mutant:?}") == name;
    let mut all = Mutant::EVERY.iter().copied();
    all.find(named)
        .with_context(|| format!("the mutants are {:?}", Mutant::EVERY))
}

fn beyond(name: &str) -> Result<Beyond> {
    let found = Beyond::ALL.into_iter().find(|beyond| beyond.name() == name);
    found.with_context(|| format!("one of {}", Beyond::ALL.map(Beyond::name).join(", ")))
}

fn to_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn work(arguments: &Arguments, until: Option<Instant>, tally: &Mutex<Tally>) -> Result<()> {
    if arguments.beyond.is_some() && !arguments.kind.is_some_and(Workload::is_of_one_server) {
        let kinds = Workload::ALL.into_iter().filter(|it| it.is_of_one_server());
        let kinds: Vec<_> = kinds.map(Workload::name).collect();
        bail!("--beyond goes with --kind {}", kinds.join(" or "));
    }
    let workloads = arguments.kind.map_or(Workload::ALL.to_vec(), |it| vec![it]);
    let history = |workload, seed, keep_lines| {
        let beyond = arguments.beyond;
        let options = Options {
            keep_lines,
            beyond,
            ..Options::default()
        };
        run(workload, seed, options)
    };
    while until.is_none_or(|until| Instant::now() < until) {
        let number = {
            let mut tally = tally.lock();
            let most = arguments.histories.unwrap_or(u64::MAX);
            if tally.failure.is_some() || tally.begun >= most {
                break;
            }
            tally.begun += 1;
            tally.begun - 1
        };
        let turn = usize::try_from(number)? % workloads.len();
        let workload = workloads[turn];
        let seed = arguments.seed + number / workloads.len() as u64;
        let outcome = history(workload, seed, arguments.verbose)?;
        for line in &outcome.lines {
            println!("{line}");
        }
        let again = history(workload, seed, false)?;
        tally.lock().add(workload, number, &outcome);
        if again.hash != outcome.hash {
            let kind = workload.name();
            let report = format!("seed {seed} of {kind} does not repeat itself");
            tally.lock().fail(vec![report]);
        } else if let Some(violation) = &outcome.violation {
            let lines = history(workload, seed, true)?.lines;
            let mut report = vec![format!("{}: {}", violation.rule, violation.what)];
            let skipped = lines.len().saturating_sub(SHOWN);
            report.extend(lines.into_iter().skip(skipped));
            let command = arguments.to_repeat(workload, seed);
            report.push(format!("to repeat it: {command}"));
            tally.lock().fail(report);
        }
    }
    Ok(())
}
