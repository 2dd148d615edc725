//! Breadth-first search through the states of a model: the first violation found is one with the fewest steps.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::rule::Violation;

/// A model to explore. It may remember what it has computed, but what it says about a state depends on that state alone.
pub(super) trait Model {
    /// The whole state at one moment. A search has tens of millions of them.
    type State: Copy + Eq + Hash;

    fn beginning(&self) -> Self::State;

    /// Adds every step from a state.
    fn moves(&mut self, from: Self::State, moves: &mut Moves<Self::State>) -> Result<()>;

    /// Checks the state itself, however it was reached.
    fn judge(&mut self, state: Self::State) -> Result<Judgement>;

    /// Returns the representative of all states that differ only in the names of the clients.
    fn canonical(&mut self, state: Self::State) -> Self::State {
        state
    }
}

/// The verdict on a state.
#[derive(Debug)]
pub(super) struct Judgement {
    /// Whether the searched lock is held.
    pub(super) held: bool,
    pub(super) broken: Option<Violation>,
}

/// The steps from a state.
#[derive(Debug)]
pub(super) struct Moves<S> {
    in_words: bool,
    all: Vec<Move<S>>,
}

#[derive(Debug)]
struct Move<S> {
    step: String,
    to: S,
    broken: Option<Violation>,
}

impl<S> Moves<S> {
    const fn new(in_words: bool) -> Self {
        let all = Vec::new();
        Self { in_words, all }
    }

    /// Adds a step to a state, with the rule that the step itself breaks, if any. The description is built only if it is
    /// wanted.
    pub(super) fn add(&mut self, step: impl FnOnce() -> String, to: S, broken: Option<Violation>) {
        let step = if self.in_words { step() } else { String::new() };
        self.all.push(Move { step, to, broken });
    }
}

/// The progress of an exploration.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress {
    /// States found.
    pub states: usize,
    /// Those whose steps have not been taken yet.
    pub open: usize,
    /// Steps taken.
    pub transitions: u64,
    /// The number of steps from the beginning to the present states.
    pub depth: u32,
    /// The time since the beginning.
    pub time: Duration,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs();
        let (states, open, transitions) = (self.states, self.open, self.transitions);
        write!(f, "{seconds:>4} s: {states} states, {open} open, ")?;
        write!(f, "{transitions} transitions, depth {}", self.depth)
    }
}

/// The result of an exploration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Distinct states; states that differ only in the clients' names count once.
    pub states: usize,
    /// In how many of them the lock is held.
    pub held: usize,
    /// Steps taken between them.
    pub transitions: u64,
    /// The number of steps to the farthest state.
    pub depth: u32,
    /// Whether every state within the bounds was visited or a violation was found.
    pub finished: bool,
    /// How long it took.
    pub time: Duration,
    /// The first violation.
    pub violation: Option<Trace>,
}

impl Report {
    /// Whether every rule holds in every state.
    pub const fn is_good(&self) -> bool {
        self.finished && self.violation.is_none()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        let rate = self.states as f64 / seconds.max(1e-9);
        let (states, held, transitions) = (self.states, self.held, self.transitions);
        write!(
            f,
            "  {states} states, held in {held}, {transitions} transitions, "
        )?;
        writeln!(
            f,
            "depth {}, {seconds:.1} s, {rate:.0} states/s",
            self.depth
        )?;
        match &self.violation {
            Some(trace) => trace.fmt(f),
            None if self.finished => f.write_str("  every rule holds in every state"),
            None => f.write_str("  UNFINISHED: more states than the bound"),
        }
    }
}

/// A violation with the fewest steps to it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Trace {
    /// The steps, described.
    pub steps: Vec<String>,
    /// The rule that is broken after the last step.
    pub violation: Violation,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "{number:>4}. {step}")?;
        }
        write!(f, "      VIOLATION: {}", self.violation)
    }
}

/// The time between progress reports.
const PROGRESS: Duration = Duration::from_secs(1);

/// Visits every state, until a rule is broken or `limit` states are found.
pub(super) fn explore<M: Model>(
    mut model: M,
    limit: usize,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report> {
    let began = Instant::now();
    let mut reported = began;
    let mut found = IndexSet::<M::State, FxBuildHasher>::default();
    let beginning = model.beginning();
    found.insert(model.canonical(beginning));
    // The state from which each state was first found.
    let mut parents = vec![0_u32];
    let mut moves = Moves::new(false);
    let (mut transitions, mut held, mut violation) = (0, 0, None);
    let (mut next, mut depth, mut level) = (0, 0, 1);
    'search: while next < found.len() && found.len() < limit {
        if next == level {
            (depth, level) = (depth + 1, found.len());
        }
        model.moves(found[next], &mut moves)?;
        for Move { to, mut broken, .. } in moves.all.drain(..) {
            transitions += 1;
            let state = model.canonical(to);
            if found.insert(state) {
                parents.push(u32::try_from(next)?);
                if broken.is_none() {
                    let judgement = model.judge(state)?;
                    held += usize::from(judgement.held);
                    broken = judgement.broken;
                }
            }
            if broken.is_some() {
                let mut path = vec![next];
                while let Some(&state) = path.last()
                    && state != 0
                {
                    path.push(parents[state] as usize);
                }
                let states = path.into_iter().rev().map(|state| found[state]);
                violation = Some(trace(&mut model, states.skip(1))?);
                break 'search;
            }
        }
        next += 1;
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            progress(&Progress {
                states: found.len(),
                open: found.len() - next,
                transitions,
                depth,
                time: began.elapsed(),
            });
        }
    }
    Ok(Report {
        states: found.len(),
        held,
        transitions,
        depth,
        finished: violation.is_some() || next == found.len(),
        time: began.elapsed(),
        violation,
    })
}

/// The steps through these states, and one more that breaks a rule. The states are canonical; in the steps the clients keep
/// their names from first to last.
fn trace<M: Model>(model: &mut M, path: impl Iterator<Item = M::State>) -> Result<Trace> {
    let (mut state, mut steps) = (model.beginning(), Vec::new());
    for target in path {
        let mut moves = Moves::new(true);
        model.moves(state, &mut moves)?;
        let mut moves = moves.all.into_iter();
        let next = moves.find(|next| model.canonical(next.to) == target);
        let next = next.context("a step of the trace is not found again")?;
        steps.push(next.step);
        state = next.to;
    }
    let mut moves = Moves::new(true);
    model.moves(state, &mut moves)?;
    for Move { step, to, broken } in moves.all {
        let broken = match broken {
            None => {
                let canonical = model.canonical(to);
                model.judge(canonical)?.broken
            }
            broken => broken,
        };
        if let Some(violation) = broken {
            steps.push(step);
            return Ok(Trace { steps, violation });
        }
    }
    anyhow::bail!("the violation is not found again")
}
