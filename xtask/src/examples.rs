//! `cargo xtask examples`: every example, inside its own process and on a real server. Each fails if its story does not come true.

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use clap::Args;

use crate::house::root;
use crate::launch::{Cluster, Server};
use crate::steps::{Steps, cargo, execute};
use crate::tools;

/// The package that the examples are in.
const PACKAGE: &str = "lockkeeper-examples";

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
    let servers = (0..3)
        .map(|_| Server::start())
        .collect::<Result<Vec<_>>>()?;
    steps.cargo(&format!("build --package {PACKAGE} --examples"))?;
    let mut names = names()?;
    names.sort_by_key(|name| name == LAST);
    if let Some(only) = &options.only {
        names.retain(|name| name == only);
    }
    if names.is_empty() {
        bail!("there is no such example");
    }
    for name in &names {
        steps.run(&format!("example {name}"), || example(name, &[]))?;
    }
    for name in &names {
        let used = if name == LAST {
            &*servers
        } else {
            &servers[..1]
        };
        let urls: Vec<_> = used.iter().map(Server::url).collect();
        steps.run(&format!("example {name} on a server"), || {
            example(name, &urls)
        })?;
    }
    if names.iter().any(|name| name == ON_A_CLUSTER) {
        steps.run("example cluster on a cluster of six", || {
            let cluster = Cluster::start()?;
            example(ON_A_CLUSTER, &[cluster.url()])
        })?;
    }
    Ok(())
}

/// All examples that there are, so that a new one is run without being named here.
fn names() -> Result<Vec<String>> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .current_dir(root())
        .exec()
        .context("failed to read the workspace")?;
    let packages = metadata.packages.into_iter();
    let targets = packages
        .filter(|package| package.name.as_str() == PACKAGE)
        .flat_map(|package| package.targets);
    let examples = targets.filter(cargo_metadata::Target::is_example);
    Ok(examples.map(|target| target.name).collect())
}

fn example(name: &str, urls: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", PACKAGE, "--example", name]);
    command.arg("--");
    for url in urls {
        command.args(["--url", url]);
    }
    execute(&mut command)
}
