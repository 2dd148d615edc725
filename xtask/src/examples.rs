//! `cargo xtask examples`: runs every example, in its own process and on a real server. An example fails unless everything
//! happens as it says.

use std::io::BufReader;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use cargo_metadata::Message;
use clap::Args;

use crate::house::root;
use crate::launch::{Cluster, Server};
use crate::nextest::{FEATURES, WITH_DATABASE, WITHOUT_DATABASE};
use crate::steps::{Steps, cargo, execute};
use crate::tools;

/// The example that needs servers of its own, which must have been up for a ttl. It runs last.
const LAST: &str = "redlock";

/// How many examples run at a time, per core.
const PER_CORE: usize = 2;

/// Which examples to run.
#[derive(Debug, Args, Default)]
pub(crate) struct Options {
    /// Runs only this one.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// The example that also runs on a cluster.
const ON_A_CLUSTER: &str = "cluster";

/// Builds and runs them: all, or `only` this one.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("a server for the examples", tools::require_server)?;
    // They must be up for a ttl when the last example runs.
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect::<Result<_>>()?;
    let mut examples = steps.run("build all examples", build)?;
    let only = options.only.as_deref();
    examples.retain(|(name, _)| only.is_none_or(|only| name == only));
    examples.sort_by_key(|(name, _)| (name == LAST, name.clone()));
    if examples.is_empty() {
        bail!("there is no such example");
    }
    let mut stories: Vec<Story<'_>> = Vec::new();
    for (name, path) in &examples {
        stories.push((name.clone(), path, Box::new(|| Ok(Vec::new()))));
        if name != LAST {
            let server = || Ok(vec![Served::Alone(Server::start()?)]);
            stories.push((format!("{name} on a server"), path, Box::new(server)));
        }
        if name == ON_A_CLUSTER {
            let cluster = || Ok(vec![Served::Cluster(Cluster::start()?)]);
            stories.push((
                format!("{name} on a cluster of six"),
                path,
                Box::new(cluster),
            ));
        }
    }
    steps.run("examples", || tell_all(&stories))?;
    if let Some((name, path)) = examples.iter().find(|(name, _)| name == LAST) {
        let urls: Vec<_> = servers.iter().map(Server::url).collect();
        steps.run(&format!("example {name} on three servers"), || {
            execute(&mut example(path, &urls))
        })?;
    }
    Ok(())
}

/// The names and programs of all examples. That with a database is built apart, as its libraries have more features.
fn build() -> Result<Vec<(String, PathBuf)>> {
    let mut examples = build_in(&WITHOUT_DATABASE)?;
    examples.extend(build_in(&["--package", WITH_DATABASE])?);
    Ok(examples)
}

fn build_in(packages: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut command = cargo();
    let words = "build --profile test --examples --bins --message-format=json-render-diagnostics";
    command.args(words.split(' ')).arg(FEATURES).args(packages);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("a program without output")?;
    let mut examples = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        if let Message::CompilerArtifact(artifact) = message?
            && let Some(path) = artifact.executable
            && artifact.target.is_example()
        {
            examples.push((artifact.target.name, path.into()));
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "cargo ended with {status}");
    Ok(examples)
}

/// The server or cluster of a running example.
enum Served {
    Alone(Server),
    Cluster(Cluster),
}

impl Served {
    fn url(&self) -> String {
        match self {
            Self::Alone(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }
}

/// An example: its name, its program, and a function that starts its servers; none if it runs inside its own process.
type Story<'a> = (
    String,
    &'a Path,
    Box<dyn Fn() -> Result<Vec<Served>> + Sync>,
);

/// Runs all examples, several at a time because most of them wait. Prints the output of each in one piece.
fn tell_all(stories: &[Story<'_>]) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some((name, path, start)) = stories.get(next.fetch_add(1, Ordering::Relaxed)) {
            let served = start()?;
            let urls: Vec<_> = served.iter().map(Served::url).collect();
            let begun = Instant::now();
            let told = example(path, &urls).output()?;
            let (took, out) = (begun.elapsed(), String::from_utf8_lossy(&told.stdout));
            let err = String::from_utf8_lossy(&told.stderr);
            println!(
                "\n== example {name}, {:.1} s\n{out}{err}",
                took.as_secs_f64()
            );
            if !told.status.success() {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push(format!("{name}: {}", told.status));
            }
        }
        Ok(())
    };
    let workers = PER_CORE * available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(_) => bail!("a thread that runs examples has panicked"),
            })
    })?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("examples failed: {}", failed.join(", "));
    }
    Ok(())
}

fn example(path: &Path, urls: &[String]) -> Command {
    let mut command = Command::new(path);
    command.current_dir(root());
    for url in urls {
        command.args(["--url", url]);
    }
    command
}
