//! The exhaustive searches by hand: `cargo xtask prove` builds this with optimisation and runs it.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use lockkeeper_testkit::mutants::{claim, lua};
use lockkeeper_testkit::rounds;
use lockkeeper_testkit::search::{Bounds, Found, MOST_CLIENTS, Model, search};
use lockkeeper_testkit::sets;
use lockkeeper_testkit::simulation::SEVERAL;

/// Searches every state of a lock within bounds: the thorough ones, unless told otherwise.
///
/// A bound that is given replaces that of two clients with two attempts each, and only that one search is made.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask prove", bin_name = "cargo xtask prove")]
struct Options {
    /// The bounds that every change must pass.
    #[arg(long, conflicts_with = "mutants")]
    quick: bool,
    /// Hunts the mutants of the scripts instead, and shows how each is caught.
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

/// Whether every mutant is caught.
fn hunt(options: &Options) -> Result<bool> {
    let mut caught = true;
    for mutant in lua::searched() {
        if !options.asks_for(mutant.kind()) {
            continue;
        }
        caught &= tell(mutant.name, mutant.hunt()?);
    }
    for (kind, mutants) in [("fair", claim::OF_QUEUES), ("rwlock", claim::OF_SWAPS)] {
        for &mutant in mutants {
            if options.asks_for(kind) {
                caught &= tell(&format!("{mutant:?}"), claim::hunt(mutant)?);
            }
        }
    }
    let several = lua::MULTI.iter().filter(|_| options.asks_for(SEVERAL));
    for mutant in several {
        let report = lua::hunt_several(mutant)?;
        println!("{}: {report}\n", mutant.name);
        caught &= report.violation.is_some();
    }
    Ok(caught)
}

/// Prints how a mutant was caught, if it was.
fn tell(name: &str, found: Option<Found>) -> bool {
    match &found {
        Some(found) => println!("{name}: caught\n{found}\n"),
        None => println!("{name}: SURVIVES\n"),
    }
    found.is_some()
}
