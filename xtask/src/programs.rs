//! The test programs: built all at once, and run one after the other while their tests are timed.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Artifact, Message};

use crate::steps::cargo;
use crate::timing::Stopwatch;

/// The features of every build of the tests, so that one build serves all.
pub(crate) const FEATURES: &str = "--all-features";

/// The package with the example that needs a database, whose build takes too long for a contributor.
pub(crate) const WITH_DATABASE: &str = "lockkeeper-examples-sql";

/// All other packages, as arguments for cargo. Builds of these are shared; together with that package, libraries would have
/// more features.
pub(crate) const WITHOUT_DATABASE: [&str; 3] = ["--workspace", "--exclude", WITH_DATABASE];

/// A test program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The package and the target: `lockkeeper-core lib`.
    pub(crate) name: String,
    path: PathBuf,
    /// The folder of the package, in which its tests run.
    folder: PathBuf,
}

/// The result of one build of the tests.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) tests: Vec<Program>,
    /// The other programs by name: first the examples, then the rest.
    pub(crate) examples: Vec<(String, PathBuf)>,
    pub(crate) bins: Vec<(String, PathBuf)>,
}

/// When to print a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Print {
    /// Line by line.
    Lines,
    /// All at once at the end.
    Whole,
}

/// How a program ended, and how long its tests took.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) passed: bool,
    pub(crate) times: Vec<(String, Duration)>,
}

/// Builds the tests and examples that these arguments of cargo choose.
pub(crate) fn build(chosen: &[&str]) -> Result<Built> {
    let mut command = cargo();
    command.args([
        "test",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    command.arg(FEATURES).args(chosen);
    let mut built = Built::default();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    for message in Message::parse_stream(BufReader::new(output(child.stdout.take())?)) {
        if let Message::CompilerArtifact(artifact) = message? {
            built.add(artifact);
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("cargo ended with {status}");
    }
    built.tests.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(built)
}

impl Built {
    fn add(&mut self, artifact: Artifact) {
        let Some(path) = artifact.executable else {
            return;
        };
        let target = artifact.target;
        if artifact.profile.test {
            let folder = artifact.manifest_path.parent();
            let folder = folder.map(PathBuf::from).unwrap_or_default();
            let package = folder.file_name().unwrap_or_default().to_string_lossy();
            self.tests.push(Program {
                name: format!("{package} {}", target.name),
                path: path.into(),
                folder,
            });
        } else if target.is_example() {
            self.examples.push((target.name, path.into()));
        } else if target.is_bin() {
            self.bins.push((target.name, path.into()));
        }
    }
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// The names of the tests that these arguments choose, in the order in which they run.
    pub(crate) fn list(&self, arguments: &[String]) -> Result<Vec<String>> {
        let mut command = self.command();
        let output = command.arg("--list").args(arguments).output()?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("{} ended with {}: {complaint}", self.name, output.status);
        }
        let names = String::from_utf8_lossy(&output.stdout);
        let names = names.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }

    /// Runs the tests of a [`list`](Self::list) with this many threads, and prints the program's output; `see` receives each
    /// line.
    pub(crate) fn run(
        &self,
        tests: Vec<String>,
        threads: usize,
        arguments: &[String],
        environment: &[(&'static str, OsString)],
        print: Print,
        see: &mut impl FnMut(&str),
    ) -> Result<Outcome> {
        let mut kept = format!("\n     Running {} ({})\n", self.name, self.path.display());
        if print == Print::Lines {
            print!("{kept}");
        }
        let mut command = self.command();
        command
            .args(["--test-threads", &threads.to_string()])
            .args(arguments);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut stopwatch = Stopwatch::start(tests, threads, Instant::now());
        for line in BufReader::new(output(child.stdout.take())?).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            match print {
                Print::Lines => println!("{line}"),
                Print::Whole => kept.extend([&*line, "\n"]),
            }
            stopwatch.hear(&line, Instant::now());
            see(&line);
        }
        if print == Print::Whole {
            print!("{kept}");
        }
        Ok(Outcome {
            passed: child.wait()?.success(),
            times: stopwatch.times(),
        })
    }
}

fn output(output: Option<ChildStdout>) -> Result<ChildStdout> {
    output.context("a program without output")
}
