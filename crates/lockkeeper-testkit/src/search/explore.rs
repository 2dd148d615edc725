//! Breadth first through the states of a model: the first violation found is at the end of one of the shortest ways to one.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::rule::Violation;

/// What there is to explore. It remembers what it has computed, never where it was: what it says of a state depends on
/// that state alone.
pub(super) trait Model {
    /// Everything there is at one moment. There are tens of millions of them.
    type State: Copy + Eq + Hash;

    fn beginning(&self) -> Self::State;

    /// Adds every step from a state.
    fn moves(&mut self, from: Self::State, moves: &mut Moves<Self::State>) -> Result<()>;

    /// What must hold in the state itself, however it was reached.
    fn judge(&mut self, state: Self::State) -> Result<Judgement>;

    /// The one of all states that are alike but for the names of the clients.
    fn canonical(&mut self, state: Self::State) -> Self::State {
        state
    }
}

/// What is to be said of a state.
#[derive(Debug)]
pub(super) struct Judgement {
    /// Whether what is searched is held.
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

    /// A step to a state, and the rule that the step itself breaks. Its words are asked for only if somebody reads them.
    pub(super) fn add(&mut self, step: impl FnOnce() -> String, to: S, broken: Option<Violation>) {
        let step = if self.in_words { step() } else { String::new() };
        self.all.push(Move { step, to, broken });
    }
}

/// How far an exploration has come.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress {
    /// States found.
    pub states: usize,
    /// Those of them whose steps have not been taken yet.
    pub open: usize,
    /// Steps taken.
    pub transitions: u64,
    /// How many steps the states at hand are from the beginning.
    pub depth: u32,
    /// Since it began.
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

/// What an exploration has found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Different states, those that are alike but for the clients' names counted once.
    pub states: usize,
    /// In how many of them what is searched is held.
    pub held: usize,
    /// Steps taken between them.
    pub transitions: u64,
    /// The number of steps to the farthest state.
    pub depth: u32,
    /// Whether every state within the bounds was visited, or a violation found.
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

/// One of the shortest ways to a violation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Trace {
    /// The steps, in words.
    pub steps: Vec<String>,
    /// What is broken behind the last of them.
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

/// How often progress is reported.
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
    // From which state each was found first.
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
/// their names from the first to the last.
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
            None => model.judge(to)?.broken,
            broken => broken,
        };
        if let Some(violation) = broken {
            steps.push(step);
            return Ok(Trace { steps, violation });
        }
    }
    anyhow::bail!("the violation is not found again")
}
