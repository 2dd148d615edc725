//! The exhaustive searches by hand: `cargo xtask prove` with an option builds this with optimisation and runs it.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use lockkeeper_testkit::mutants::hunt::{Hunt, Hunter};
use lockkeeper_testkit::rounds;
use lockkeeper_testkit::search::{Bounds, MOST_CLIENTS, Model, search};
use lockkeeper_testkit::sets;

/// How locks over several names are called on the command line.
const SEVERAL: &str = "multi";

/// Searches every state of a lock within bounds: the thorough ones, unless told otherwise.
///
/// A bound that is given replaces that of two clients with two attempts each, and only that one search is made.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask prove", bin_name = "cargo xtask prove")]
struct Options {
    /// The bounds that every change must pass.
    #[arg(long, conflicts_with_all = ["mutants", "thorough"])]
    quick: bool,
    /// Far out, which takes hours.
    #[arg(long, conflicts_with = "mutants")]
    thorough: bool,
    /// Hunts the mutants of the scripts and of the engine instead, by the searches and by histories, and shows how each is
    /// caught.
    #[arg(long)]
    mutants: bool,
    /// Only this kind.
    #[arg(long)]
    kind: Option<Kind>,
    /// How many clients there are.
    #[arg(long)]
    clients: Option<u8>,
    /// For each attempt of a client, how many ticks its lease lasts: 2,2 for two attempts.
    #[arg(long, value_delimiter = ',')]
    leases: Option<Vec<u8>>,
    /// How many attempts of each client, the last, only ask to take the place of one before.
    #[arg(long)]
    takers: Option<u8>,
    /// For how many ticks a claim in a queue is alive without a word.
    #[arg(long)]
    waiter: Option<u8>,
    /// How often time moves on.
    #[arg(long)]
    ticks: Option<u8>,
    /// How many requests are in trouble.
    #[arg(long)]
    faults: Option<u8>,
    /// How many clients crash or close.
    #[arg(long)]
    endings: Option<u8>,
    /// The server's clock is right, so tokens are times.
    #[arg(long)]
    clock_right: bool,
    /// Gives a search up after so many states; one takes about 100 bytes.
    #[arg(long, default_value_t = 50_000_000)]
    states: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Mutex,
    Reentrant,
    Fair,
    Rwlock,
    Redlock,
    Multi,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Reentrant => "reentrant",
            Self::Fair => "fair",
            Self::Rwlock => "rwlock",
            Self::Redlock => "redlock",
            Self::Multi => SEVERAL,
        }
    }
}

impl Options {
    /// Whether a bound is given.
    const fn has_own(&self) -> bool {
        self.clients.is_some()
            || self.leases.is_some()
            || self.takers.is_some()
            || self.waiter.is_some()
            || self.ticks.is_some()
            || self.faults.is_some()
            || self.endings.is_some()
            || self.clock_right
    }

    fn bounds(&self, model: &Model) -> Result<Vec<Bounds>> {
        ensure!(
            !(self.has_own() && self.thorough),
            "the thorough searches have bounds of their own"
        );
        let mut searches = match (self.has_own(), self.quick) {
            (true, _) => vec![self.own()],
            (false, true) => model.quick(),
            (false, false) => model.thorough(),
        };
        for bounds in &mut searches {
            bounds.states = self.states;
            ensure!(
                (1..=MOST_CLIENTS).contains(&bounds.clients.into()),
                "there must be from 1 to {MOST_CLIENTS} clients"
            );
            ensure!(
                !bounds.leases.contains(&0) && (1..=5).contains(&bounds.leases.len()),
                "there must be from 1 to 5 leases, of at least a tick each"
            );
            ensure!(
                usize::from(bounds.takers) < bounds.leases.len(),
                "the first attempt can take the place of none"
            );
        }
        Ok(searches)
    }

    fn own(&self) -> Bounds {
        let mut bounds = Bounds::small();
        bounds.clients = self.clients.unwrap_or(bounds.clients);
        bounds.leases = self.leases.clone().unwrap_or(bounds.leases);
        bounds.takers = self.takers.unwrap_or(bounds.takers);
        bounds.waiter = self.waiter.unwrap_or(bounds.waiter);
        bounds.ticks = self.ticks.unwrap_or(bounds.ticks);
        bounds.faults = self.faults.unwrap_or(bounds.faults);
        bounds.endings = self.endings.unwrap_or(bounds.endings);
        bounds.clock_behind = !self.clock_right;
        bounds
    }

    fn asks_for(&self, kind: &str) -> bool {
        self.kind.is_none_or(|only| only.as_str() == kind)
    }
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let begun = Instant::now();
    let holds = if options.mutants {
        hunt(&options)?
    } else {
        prove(&options)?
    };
    println!("{:.1} s in all", begun.elapsed().as_secs_f64());
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether every property holds in every state.
fn prove(options: &Options) -> Result<bool> {
    let mut holds = true;
    for model in Model::all()? {
        let kind = model.protocol.kind();
        if !options.asks_for(kind.as_str()) {
            continue;
        }
        for bounds in options.bounds(&model)? {
            let report = search(&model, &bounds, None, |progress| {
                eprintln!("{kind} {progress}");
            })?;
            println!("{report}");
            holds &= report.finished && report.violation.is_none();
        }
    }
    // These have bounds of another sort.
    if options.asks_for("redlock") && !options.has_own() {
        holds &= prove_rounds(options)?;
    }
    if options.asks_for(SEVERAL) && !options.has_own() {
        holds &= prove_sets(options)?;
    }
    Ok(holds)
}

/// Whether every property holds in every state of a lock over several servers.
fn prove_rounds(options: &Options) -> Result<bool> {
    let mut holds = true;
    let searches = if options.quick {
        rounds::Bounds::quick()
    } else {
        rounds::Bounds::thorough()
    };
    for mut bounds in searches {
        bounds.states = options.states;
        let begun = Instant::now();
        let report = rounds::search(bounds)?;
        println!("redlock, {bounds:?}\n{report}\n{:?}", begun.elapsed());
        holds &= report.finished && report.violation.is_none();
    }
    Ok(holds)
}

/// Whether every property holds in every state of locks over several names.
fn prove_sets(options: &Options) -> Result<bool> {
    let mut holds = true;
    let quick = [sets::Bounds::small(), sets::Bounds::small_of_mutexes()];
    let thorough = sets::Bounds::thorough();
    for bounds in if options.quick { &quick[..] } else { &thorough } {
        let report = sets::search(*bounds, None)?;
        println!("{SEVERAL}: {bounds:?}\n{report}");
        holds &= report.finished && report.violation.is_none();
    }
    Ok(holds)
}

/// Whether every mutant is caught by everything that must catch it, and the same runs break nothing without it.
fn hunt(options: &Options) -> Result<bool> {
    let hunts = Hunt::all().into_iter();
    let asked = |hunt: &Hunt| {
        let kind = options.kind.map(Kind::as_str);
        kind.is_none() || hunt.kind == kind
    };
    let hunts: Vec<Hunt> = hunts.filter(asked).collect();
    let (hunter, next) = (Hunter::default(), AtomicUsize::new(0));
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(hunt) = hunts.get(place) else { break };
            eprintln!("{}/{} {}", place + 1, hunts.len(), hunt.mutant);
            done.push((place, hunter.hunt(hunt)));
        }
        done
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut caught = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().filter_map(|thread| thread.join().ok());
        done.flatten().collect::<Vec<_>>()
    });
    ensure!(caught.len() == hunts.len(), "a hunt has panicked");
    caught.sort_by_key(|(place, _)| *place);
    let (mut good, mut last) = (true, "");
    for (place, caught) in caught {
        let (hunt, caught) = (&hunts[place], caught?);
        if hunt.mutant != last {
            println!("\n{}\n    {}", hunt.mutant, hunt.what);
        }
        last = &hunt.mutant;
        println!("    {caught}");
        good &= caught.is_good();
    }
    let mut mutants: Vec<_> = hunts.iter().map(|hunt| &hunt.mutant).collect();
    mutants.dedup();
    let outcome = if good { "all caught" } else { "NOT ALL CAUGHT" };
    println!(
        "\n{} mutants, {} hunts: {outcome}",
        mutants.len(),
        hunts.len()
    );
    Ok(good)
}
