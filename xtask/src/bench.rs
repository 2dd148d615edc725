//! `cargo xtask bench`: how fast the locks are, compared with the same scripts alone and with other lock libraries.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::house::root;
use crate::steps::{Steps, cargo, execute};
use crate::{peers, plots, tools};

/// Options for `tests/benches`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Fewer rounds, leases and waiters: takes two minutes at most.
    #[arg(long)]
    quick: bool,
    /// Measures only this part: single, parallel, server, contended, hand-over, fair-hand-over, resignation, held,
    /// fair-waiters, crowds, readers, peers.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Measures other lock libraries too, if their languages are installed.
    #[arg(long)]
    peers: bool,
    /// Draws the figures into the book after measuring.
    #[arg(long, conflicts_with_all = ["quick", "only"], requires = "peers")]
    plots: bool,
    /// Writes the figures to this file as JSON [default: target/bench.json].
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the benchmark. Fails if something could not be measured, never because of the figures.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("a server to measure", tools::require_server)?;
    let peers = if options.peers {
        peers::build(steps)?
    } else {
        Vec::new()
    };
    // Cargo runs a benchmark in the folder of its package, so a relative path would mean another place.
    let json = match &options.json {
        Some(file) => std::path::absolute(file)?,
        None => root().join("target").join("bench.json"),
    };
    let mut command = cargo();
    command.args("bench --package lockkeeper-tests --bench locks --".split(' '));
    command.arg("--json").arg(&json);
    command.args(options.quick.then_some("--quick"));
    command.args(options.only.iter().flat_map(|name| ["--only", name]));
    for (_, words) in &peers {
        command.arg("--peer").arg(serde_json::to_string(words)?);
    }
    steps.run("cargo bench", || execute(&mut command))?;
    if options.plots {
        steps.run("plots", || plots::take(&json))?;
    }
    Ok(())
}
