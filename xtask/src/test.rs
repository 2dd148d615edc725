//! `cargo xtask test`: the tests that a contributor runs.

use anyhow::Result;
use clap::Args;

use crate::check;
use crate::nextest::Nextest;
use crate::steps::Steps;
use crate::tools;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Runs only tests whose names contain one of these words; also accepts the options of `cargo nextest run`.
    #[arg(last = true, value_name = "NAME")]
    only: Vec<String>,
}

/// Stops at the first step that fails, but runs all tests.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("a C compiler", tools::require_c_compiler)?;
    steps.run("a server to test against", tools::require_server)?;
    steps.run("tmux to test in", tools::offer_tmux)?;
    let tests = steps.run("a test runner", Nextest::find)?;
    // Its second build of the engine takes longer than most tests together.
    let tests = tests.with(&["--exclude", "lockkeeper-threads"]);
    if !options.only.is_empty() {
        return steps.run("tests", || tests.with(&options.only).run());
    }
    check::without_compiling(steps)?;
    steps.run("build all tests", || tests.build())?;
    steps.run("tests", || tests.run())
}
