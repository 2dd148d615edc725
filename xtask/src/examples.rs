//! `cargo xtask examples`: every example, inside its own process and on a real server. Each fails if its story does not come true.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::house::root;
use crate::launch::{Cluster, Server};
use crate::programs::{self, Built};
use crate::steps::{Steps, execute};
use crate::tools;

/// The one that needs servers of its own, which must have been up for a ttl: it comes last.
const LAST: &str = "redlock";

/// What to run.
#[derive(Debug, Args, Default)]
pub(crate) struct Options {
    /// Only this one.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// The one that runs on a cluster too.
const ON_A_CLUSTER: &str = "cluster";

/// Stops at the first that fails.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("a server for the examples", tools::require_server)?;
    // Asked for alone they would be built as tests.
    let built = steps.run("build all tests and examples", || programs::build(&[], &[]))?;
    run_built(steps, &built, options.only.as_deref())
}

/// As [`run`], of what is built: all of them, or `only` this one.
pub(crate) fn run_built(steps: &mut Steps, built: &Built, only: Option<&str>) -> Result<()> {
    let mut examples: Vec<_> = built.examples.iter().collect();
    examples.retain(|(name, _)| only.is_none_or(|only| name == only));
    examples.sort_by_key(|(name, _)| (name == LAST, name));
    if examples.is_empty() {
        bail!("there is no such example");
    }
    let servers = (0..3)
        .map(|_| Server::start())
        .collect::<Result<Vec<_>>>()?;
    for (name, path) in &examples {
        steps.run(&format!("example {name}"), || example(path, &[]))?;
    }
    for (name, path) in &examples {
        let used = if name == LAST {
            &*servers
        } else {
            &servers[..1]
        };
        let urls: Vec<_> = used.iter().map(Server::url).collect();
        steps.run(&format!("example {name} on a server"), || {
            example(path, &urls)
        })?;
    }
    if let Some((_, path)) = examples.iter().find(|(name, _)| name == ON_A_CLUSTER) {
        steps.run("example cluster on a cluster of six", || {
            let cluster = Cluster::start()?;
            example(path, &[cluster.url()])
        })?;
    }
    Ok(())
}

fn example(path: &Path, urls: &[String]) -> Result<()> {
    let mut command = Command::new(path);
    command.current_dir(root());
    for url in urls {
        command.args(["--url", url]);
    }
    execute(&mut command)
}
