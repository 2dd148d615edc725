//! `cargo xtask bench`: how fast the locks are, beside the same scripts called bare.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::house::root;
use crate::steps::{Steps, cargo, execute};
use crate::tools;

/// What `tests/benches` is told.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Fewer rounds, leases and waiters: within two minutes.
    #[arg(long)]
    quick: bool,
    /// Measures only this: single, parallel, server, contended, hand-over, fair-hand-over, resignation, held, fair-waiters, crowds, readers.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Where the figures go as JSON [default: target/bench.json].
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Fails if something could not be measured, never because of what was measured.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("a server to measure", tools::require_server)?;
    // Cargo runs a benchmark in the folder of its package, so what is relative here would be elsewhere there.
    let json = match &options.json {
        Some(file) => std::path::absolute(file)?,
        None => root().join("target").join("bench.json"),
    };
    let mut command = cargo();
    command.args("bench --package lockkeeper-tests --bench locks --".split(' '));
    command.arg("--json").arg(json);
    command.args(options.quick.then_some("--quick"));
    command.args(options.only.iter().flat_map(|name| ["--only", name]));
    steps.run("cargo bench", || execute(&mut command))
}
