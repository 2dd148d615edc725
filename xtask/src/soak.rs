//! `cargo xtask soak`: uses locks of all kinds on real servers for a long time while clients are killed.

use anyhow::Result;
use clap::Args;

use crate::steps::{Steps, cargo, execute};
use crate::tools;

/// How long to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
}

/// Runs the soak. Fails if memory grows, or if a key without expiry remains.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("a server to test against", tools::require_server)?;
    let mut command = cargo();
    command.args("run --release --package lockkeeper-tests --bin soak -- --minutes".split(' '));
    command.arg(options.minutes.to_string());
    steps.run("soak", || execute(&mut command))
}
