//! Runs many test programs and collects the results.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use crate::programs::{Outcome, Print, Program};
use crate::timing;

/// How many tests of the largest program run at a time, per core: most of them wait for a server or for time to pass.
const PER_CORE: usize = 6;

/// How many of the smaller programs run at a time beside the largest one.
const LANES: usize = 2;

/// How a test begins a line in which it says how much it went through: `proved 581162 states`.
const PROVED: &str = "proved ";

/// What to run and how, and the results so far.
#[derive(Debug)]
pub(crate) struct Suite {
    arguments: Vec<String>,
    environment: Vec<(&'static str, OsString)>,
    threads: usize,
    /// How many tests at a time each of the smaller programs runs, beside the largest program; `None`: programs run one after the other.
    beside: Option<usize>,
    times: Vec<(String, Duration)>,
    proved: BTreeMap<String, u64>,
}

impl Suite {
    /// Runs all tests.
    pub(crate) fn all() -> Self {
        Self::new(&[""; 0])
    }

    /// Runs the tests that libtest chooses with these arguments.
    pub(crate) fn new(arguments: &[impl ToString]) -> Self {
        Self {
            arguments: arguments.iter().map(ToString::to_string).collect(),
            environment: Vec::new(),
            threads: cores() * PER_CORE,
            beside: None,
            times: Vec::new(),
            proved: BTreeMap::new(),
        }
    }

    /// Sets a variable in the programs' environment.
    pub(crate) fn set(&mut self, variable: &'static str, value: impl Into<OsString>) {
        self.environment.push((variable, value.into()));
    }

    /// Sets the number of tests at a time.
    pub(crate) fn threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// The smaller programs run beside the largest one, [`LANES`] at a time, each with so many tests per core.
    pub(crate) fn side_by_side(&mut self, per_core: usize) {
        self.beside = Some(cores() * per_core);
    }

    /// Runs the programs that have a chosen test. Fails at the end if a test did.
    pub(crate) fn run(&mut self, programs: &[Program]) -> Result<()> {
        let mut listed = Vec::new();
        for program in programs {
            let tests = program.list(&self.arguments)?;
            if !tests.is_empty() {
                listed.push((program, tests));
            }
        }
        let mut apart = Vec::new();
        if self.beside.is_some() {
            listed.sort_by_key(|(_, tests)| std::cmp::Reverse(tests.len()));
            apart = listed.split_off(listed.len().min(1));
        }
        let (threads, apart) = (
            self.beside.unwrap_or_default(),
            Mutex::new(apart.into_iter()),
        );
        let next = || apart.lock().unwrap_or_else(PoisonError::into_inner).next();
        // In one piece each, for the lines of the largest are printed meanwhile.
        let beside = |(program, tests)| self.run_one(program, tests, threads, Print::Whole);
        let lane = || std::iter::from_fn(next).map(beside).collect::<Vec<_>>();
        let (here, there) = std::thread::scope(|scope| {
            let lanes = [lane; LANES].map(|lane| scope.spawn(lane));
            let run = |(program, tests)| self.run_one(program, tests, self.threads, Print::Lines);
            let here: Vec<_> = listed.into_iter().map(run).collect();
            (here, lanes.map(std::thread::ScopedJoinHandle::join))
        });
        let there = there.into_iter().collect::<std::thread::Result<Vec<_>>>();
        let there = there.map_err(|_| anyhow!("a run of tests has panicked"))?;
        let mut failed = Vec::new();
        for ran in here.into_iter().chain(there.into_iter().flatten()) {
            let (program, outcome, proved) = ran?;
            let name = |(test, time)| (format!("{}: {test}", program.name), time);
            self.times.extend(outcome.times.into_iter().map(name));
            for (what, number) in proved {
                *self.proved.entry(what).or_default() += number;
            }
            if !outcome.passed {
                failed.push(program.name.as_str());
            }
        }
        if !failed.is_empty() {
            bail!("tests failed in {}", failed.join(", "));
        }
        Ok(())
    }

    fn run_one<'a>(
        &self,
        program: &'a Program,
        tests: Vec<String>,
        threads: usize,
        print: Print,
    ) -> Result<(&'a Program, Outcome, BTreeMap<String, u64>)> {
        let mut proved = BTreeMap::new();
        let mut see = |line: &str| count(line, &mut proved);
        let (arguments, environment) = (&self.arguments, &self.environment);
        let outcome = program.run(tests, threads, arguments, environment, print, &mut see)?;
        Ok((program, outcome, proved))
    }

    /// How many tests have run.
    pub(crate) fn ran(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn print_slowest(&self) {
        timing::print_slowest(self.times.clone());
    }

    /// What the tests reported to have covered.
    pub(crate) fn proved(&self) -> &BTreeMap<String, u64> {
        &self.proved
    }
}

fn cores() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Adds the numbers of such a line to the sums.
pub(crate) fn count(line: &str, proved: &mut BTreeMap<String, u64>) {
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
    fn what_tests_went_through_is_added_up() {
        let mut proved = BTreeMap::new();
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
