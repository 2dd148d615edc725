//! The proving ground's command line: exhaustive searches with bounds of one's own. `cargo xtask prove` runs it.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use lockkeeper_testkit::search::{Bounds, Model, search};

/// Searches all states of a kind of lock, within bounds.
#[derive(Debug, Parser)]
struct Options {
    /// Only this kind.
    #[arg(long)]
    kind: Option<Kind>,
    /// How many clients, at most 3.
    #[arg(long, default_value_t = 2)]
    clients: u8,
    /// For each attempt of a client, how many ticks its lease lasts.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 2])]
    leases: Vec<u8>,
    /// How often time moves on.
    #[arg(long, default_value_t = 3)]
    ticks: u8,
    /// How many requests are given up, refused or not sent.
    #[arg(long, default_value_t = 1)]
    faults: u8,
    /// How many clients crash or close.
    #[arg(long, default_value_t = 1)]
    endings: u8,
    /// The server's clock is right: tokens are times.
    #[arg(long)]
    clock_right: bool,
    /// Stops after so many states.
    #[arg(long, default_value_t = 20_000_000)]
    states: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Mutex,
    Reentrant,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let bounds = Bounds {
        clients: options.clients,
        leases: options.leases,
        ticks: options.ticks,
        faults: options.faults,
        endings: options.endings,
        forgets: false,
        clock_behind: !options.clock_right,
        states: options.states,
    };
    let mut holds = true;
    for (kind, model) in [
        (Kind::Mutex, Model::mutex()?),
        (Kind::Reentrant, Model::reentrant()?),
    ] {
        if options.kind.is_some_and(|only| only != kind) {
            continue;
        }
        let report = search(&model, &bounds, None, |progress| {
            eprintln!("{} {progress}", model.protocol.kind());
        })?;
        println!("{report}");
        holds &= report.finished && report.violation.is_none();
    }
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
