//! `cargo xtask simulate`: runs histories of the deterministic simulation until the time is over or one fails.

use std::ffi::OsString;

use anyhow::Result;
use clap::Args;

use crate::nextest::FEATURES;
use crate::steps::{Steps, cargo, execute};

/// The options of the simulation; see `cargo xtask simulate --help`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// `--minutes N`, `--histories N`, `--seed S`,
    /// `--kind mutex|reentrant|fair|rwlock|semaphore|election|once|latch|redlock|mixed`, `--threads N`, `--mutant NAME`,
    /// `--beyond WAY`, `--verbose`; or `--net`, with `--rewrite`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs them. Fails if a history does.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    let mut command = cargo();
    command.args("run --quiet --profile test --package lockkeeper-tests".split(' '));
    command.args([FEATURES, "--bin", "simulate", "--"]);
    command.args(&options.arguments);
    steps.run("simulate", || execute(&mut command))
}
