//! Runs the exhaustive searches by hand: `cargo xtask prove` with an option builds this with optimisation and runs it.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use lockkeeper_testkit::kinds::KindModel;
use lockkeeper_testkit::mutants::hunt::Hunt;
use lockkeeper_testkit::search::{Bounds, Incident, MOST_CLIENTS, MOST_STATES, Scope};

/// Searches every state of a lock within bounds: the thorough ones by default.
///
/// Without an option, `cargo xtask prove` runs what every change must pass, and `cargo xtask prove --all` everything.
///
/// An explicit bound replaces that of two clients with two attempts each, and then only that one search runs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask prove", bin_name = "cargo xtask prove")]
struct Options {
    /// The bounds that every change must pass.
    #[arg(long, conflicts_with_all = ["mutants", "thorough"])]
    quick: bool,
    /// Wide bounds, which take hours.
    #[arg(long, conflicts_with = "mutants")]
    thorough: bool,
    /// Hunts the mutants of the scripts and of the engine instead, by searches and histories, and shows what catches each.
    #[arg(long)]
    mutants: bool,
    /// Searches only this kind.
    #[arg(long, value_parser = PossibleValuesParser::new(Scope::KINDS))]
    kind: Option<String>,
    /// How many clients.
    #[arg(long)]
    clients: Option<u8>,
    /// The lease of each of a client's attempts, in ticks: 2,2 for two attempts.
    #[arg(long, value_delimiter = ',')]
    leases: Option<Vec<u8>>,
    /// How many attempts of each client, the last ones, can only take the place of an earlier one.
    #[arg(long)]
    takers: Option<u8>,
    /// How many ticks a waiter in a queue counts as alive after the server heard from it.
    #[arg(long)]
    waiter: Option<u8>,
    /// How often time advances.
    #[arg(long)]
    ticks: Option<u8>,
    /// How many requests get into trouble.
    #[arg(long)]
    faults: Option<u8>,
    /// How many clients crash or close.
    #[arg(long)]
    endings: Option<u8>,
    /// The server's clock is right, so tokens are times.
    #[arg(long)]
    clock_right: bool,
    /// What may happen to the name, which counts as an ending.
    #[arg(long, value_parser = PossibleValuesParser::new(Incident::ALL.map(Incident::name)))]
    incident: Option<String>,
    /// Gives up a search after this many states; a state takes about 100 bytes.
    #[arg(long, default_value_t = MOST_STATES)]
    states: usize,
}

impl Options {
    /// Whether a bound was given.
    const fn has_own(&self) -> bool {
        self.clients.is_some()
            || self.leases.is_some()
            || self.takers.is_some()
            || self.waiter.is_some()
            || self.ticks.is_some()
            || self.faults.is_some()
            || self.endings.is_some()
            || self.clock_right
            || self.incident.is_some()
    }

    /// The searches for this kind.
    fn scopes(&self, kind: &str) -> Result<Vec<Scope>> {
        if !self.has_own() {
            return Ok(Scope::of(kind, !self.quick));
        }
        ensure!(
            !self.thorough,
            "the thorough searches have bounds of their own"
        );
        let bounds = self.own();
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
        // Locks over several names or servers have other bounds.
        let kinds = KindModel::ON_ONE_SERVER.into_iter();
        let kind = kinds.filter(|it| it.name == kind);
        Ok(kind
            .map(|kind| Scope::Single(kind, bounds.clone()))
            .collect())
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
        let mut incidents = Incident::ALL.into_iter();
        bounds.incident = incidents.find(|it| self.incident.as_deref() == Some(it.name()));
        bounds
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

/// Whether every rule holds in every state.
fn prove(options: &Options) -> Result<bool> {
    let mut holds = true;
    for kind in Scope::KINDS {
        if options.kind.as_deref().is_some_and(|only| only != kind) {
            continue;
        }
        for scope in options.scopes(kind)? {
            let report = scope.explore(None, options.states, &mut |progress| {
                eprintln!("{kind} {progress}");
            })?;
            println!("{scope}\n{report}");
            holds &= report.is_good();
        }
    }
    Ok(holds)
}

/// Whether every mutant is caught by everything that must catch it, and the same runs break nothing without it.
fn hunt(options: &Options) -> Result<bool> {
    let hunts = Hunt::all().into_iter();
    let asked = |hunt: &Hunt| options.kind.is_none() || hunt.kind == options.kind.as_deref();
    let hunts: Vec<Hunt> = hunts.filter(asked).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(hunt) = hunts.get(place) else { break };
            eprintln!("{}/{} {}", place + 1, hunts.len(), hunt.mistake.name());
            done.push((place, hunt.run()));
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
    let (mut good, mut mistakes) = (true, Vec::new());
    for (place, caught) in caught {
        let (hunt, caught) = (&hunts[place], caught?);
        let name = hunt.mistake.name();
        if mistakes.last() != Some(&name) {
            println!("\n{name}\n    {}", hunt.mistake.what());
            mistakes.push(name);
        }
        println!("    {caught}");
        good &= caught.is_good();
    }
    let outcome = if good { "all caught" } else { "NOT ALL CAUGHT" };
    println!(
        "\n{} mutants, {} hunts: {outcome}",
        mistakes.len(),
        hunts.len()
    );
    Ok(good)
}
