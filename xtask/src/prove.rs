//! `cargo xtask prove`: the exhaustive searches, further out than the tests go, and the load tests for longer.

use anyhow::Result;
use clap::Args;

use crate::steps::{Steps, cargo, execute};

/// What the searches are told; see `cargo xtask prove --help`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Bounds and choices, as `--help` lists them: none for the thorough searches, `--quick` for those of the tests,
    /// `--mutants` to see every mutant caught, of the scripts and of the engine.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Fails if a property does not hold, or a search is unfinished.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    let mut command = cargo();
    command.args("run --release --package lockkeeper-tests --bin prove --".split(' '));
    command.args(&options.arguments);
    steps.run("cargo run --bin prove", || execute(&mut command))?;
    // With bounds of its own a single search was asked for.
    if !options.arguments.is_empty() {
        return Ok(());
    }
    let mut load = |step, words: &str, seconds| {
        let mut load = cargo();
        load.args("test --package lockkeeper-tests -- --nocapture".split(' '));
        load.args(words.split(' '));
        load.env("LOCKKEEPER_LOAD_SECONDS", seconds);
        steps.run(step, || execute(&mut load))
    };
    load(
        "the load tests, a minute each",
        "load:: --skip cluster_load::",
        "60",
    )?;
    load(
        "recorded histories and a cluster under load, five minutes each",
        "recorded:: cluster_load:: --test-threads 1",
        "300",
    )
}
