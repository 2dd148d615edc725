//! `cargo xtask test`: the tests that a contributor runs.

use anyhow::{Result, anyhow, bail};
use clap::Args;

use crate::check;
use crate::examples;
use crate::programs::{self, FEATURES, WITHOUT_DATABASE};
use crate::servers;
use crate::steps::{Steps, cargo, execute};
use crate::suite::Suite;
use crate::tools;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Reuses the clusters and sentinels that an earlier run with `--again` left running, and leaves them running too. They
    /// end half an hour after their last use.
    #[arg(long)]
    again: bool,
    /// Runs only tests whose names contain one of these words, and no examples; also accepts libtest's own options.
    #[arg(last = true, value_name = "NAME")]
    only: Vec<String>,
}

/// Stops at the first step that fails, but runs all tests.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("a C compiler", tools::require_c_compiler)?;
    steps.run("a server to test against", tools::require_server)?;
    steps.run("tmux to test in", tools::offer_tmux)?;
    let all = options.only.is_empty();
    if all {
        check::without_compiling(steps)?;
    }
    let built = steps.run("build all tests and examples", || {
        programs::build(&WITHOUT_DATABASE)
    })?;
    let mut suite = Suite::new(&options.only);
    if options.again {
        suite.set(servers::KEPT_VARIABLE, servers::kept()?);
    }
    suite.side_by_side(2);
    let outcome = steps.run("tests", || suite.run(&built.tests));
    suite.print_slowest();
    outcome?;
    if !all {
        return match suite.ran() {
            0 => bail!("no test has a name like that"),
            _ => Ok(()),
        };
    }
    let servers = examples::servers()?;
    // Most examples wait, while those in the documentation are built.
    std::thread::scope(|scope| {
        let documented = scope.spawn(in_documentation);
        examples::run_built(steps, &built, &servers, None)?;
        steps.run("examples in the documentation", || {
            let outcome = documented.join();
            outcome.map_err(|_| anyhow!("a thread of the run has panicked"))?
        })
    })
}

fn in_documentation() -> Result<()> {
    let mut command = cargo();
    // The package with the second build of the engine has the same examples, which name the other build.
    let once = ["--exclude", "lockkeeper-threads"];
    command
        .args(["test", FEATURES, "--doc"])
        .args(WITHOUT_DATABASE)
        .args(once);
    execute(&mut command)
}
