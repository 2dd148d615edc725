//! `cargo xtask bench`: how fast the locks are, compared with the same scripts alone and with other lock libraries.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
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
    /// Measures only this part: single, parallel, kinds, contended, hand-over, fair-hand-over, resignation, held, clients,
    /// fair-waiters, crowds, readers, peers.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Measures other lock libraries too, if their languages are installed.
    #[arg(long)]
    peers: bool,
    /// Draws the figures into the book after measuring.
    #[arg(long, conflicts_with_all = ["quick", "only", "cores"], requires = "peers")]
    plots: bool,
    /// Keeps the programs on the first N processors and the servers on the others, so that neither takes the other's time.
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
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
    let mut command = match options.cores {
        Some(programs) => apart(programs)?,
        None => cargo(),
    };
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

/// Cargo on the first `programs` processors; tests that it runs start their servers on the others.
fn apart(programs: usize) -> Result<Command> {
    let all = std::thread::available_parallelism()?.get();
    if programs == 0 || programs >= all {
        bail!(
            "--cores is from 1 to one less than the {all} processors, because the servers need one too"
        );
    }
    let server = tools::server_program().context("no server to measure")?;
    let script = root().join("target").join("bench-server");
    let rest = format!("{programs}-{}", all - 1);
    fs::create_dir_all(root().join("target"))?;
    fs::write(
        &script,
        format!("#!/bin/sh\nexec taskset -c {rest} '{server}' \"$@\"\n"),
    )?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    let cargo = cargo();
    let mut command = Command::new("taskset");
    command.arg("-c").arg(format!("0-{}", programs - 1));
    command.arg(cargo.get_program()).current_dir(root());
    for (name, value) in cargo.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env(tools::SERVER_VARIABLE, script);
    Ok(command)
}
