//! What a search tells.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::Kind;

use super::bounds::Bounds;
use super::property::Violation;
use super::step::Step;

/// How far a search has come.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress {
    /// States found.
    pub states: usize,
    /// Those of them that have not been looked at yet.
    pub open: usize,
    /// Steps taken.
    pub transitions: u64,
    /// How many steps the states looked at are from the beginning.
    pub depth: u32,
    /// Since the search began.
    pub time: Duration,
}

/// What a search has found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Of what kind.
    pub kind: Kind,
    /// How far it went.
    pub bounds: Bounds,
    /// Different states, symmetric ones folded.
    pub states: usize,
    /// Steps taken between them.
    pub transitions: u64,
    /// The number of steps to the farthest state.
    pub depth: u32,
    /// Different runs of scripts.
    pub runs: usize,
    /// Different contents of the server.
    pub keyspaces: usize,
    /// Whether every state within the bounds was looked at, or a violation found.
    pub finished: bool,
    /// How long it took.
    pub time: Duration,
    /// The first violation.
    pub violation: Option<Found>,
}

/// A violation, and one of the shortest ways to it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// What does not hold.
    pub violation: Violation,
    /// The steps to it, in words.
    pub trace: Vec<String>,
}

impl Found {
    pub(super) fn new(violation: Violation, steps: &[Step]) -> Self {
        let trace = steps.iter().map(ToString::to_string).collect();
        Self { violation, trace }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in (1..).zip(&self.trace) {
            writeln!(f, "{number:>4}. {step}")?;
        }
        write!(f, "      VIOLATION: {}", self.violation)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        writeln!(f, "{}: {}", self.kind, self.bounds)?;
        write!(
            f,
            "  {} states, {} transitions, depth {}, {} script runs, {} keyspaces, {seconds:.1} s, {:.0} states/s",
            self.states,
            self.transitions,
            self.depth,
            self.runs,
            self.keyspaces,
            self.states as f64 / seconds.max(1e-9),
        )?;
        match &self.violation {
            Some(found) => write!(f, "\n{found}"),
            None if self.finished => write!(f, "\n  every property holds in every state"),
            None => write!(f, "\n  UNFINISHED: more states than the bound"),
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>4.0} s: {} states, {} open, {} transitions, depth {}",
            self.time.as_secs_f64(),
            self.states,
            self.open,
            self.transitions,
            self.depth,
        )
    }
}
