//! Breadth first through the states: the first violation found is one of the shortest.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::bounds::{Bounds, MOST_CLIENTS};
use super::model::Model;
use super::property::Violation;
use super::report::{Found, Progress, Report};
use super::server::Server;
use super::state::{Client, Interned, World};
use super::step::Step;
use crate::mutants::Patch;

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(1);

/// A search under way.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) model: Model,
    pub(super) bounds: Bounds,
    pub(super) server: Server,
    pub(super) clients: Interned<Client>,
    /// States, calmed, from which every waiter is served.
    pub(super) healthy: FxHashSet<World>,
    pub(super) beginning: World,
    /// Every state found, folded.
    found: IndexSet<World, FxBuildHasher>,
    /// From which state each was found first.
    parents: Vec<u32>,
    transitions: u64,
}

/// Searches all states within the bounds, the scripts as shipped or with one of them patched, until a property does not hold.
///
/// # Errors
///
/// If the embedded engine fails; a property that does not hold is no error.
pub fn search(
    model: &Model,
    bounds: &Bounds,
    patch: Option<&Patch>,
    progress: impl FnMut(&Progress),
) -> Result<Report> {
    Search::new(model, bounds, patch)?.run(progress)
}

impl Search {
    pub(super) fn new(model: &Model, bounds: &Bounds, patch: Option<&Patch>) -> Result<Self> {
        let (server, empty) = Server::new(model, bounds, patch)?;
        let mut clients = Interned::new();
        let client = clients.number(Client::new(bounds.attempts()));
        let beginning = World {
            clients: [client; MOST_CLIENTS],
            server: empty,
            last: None,
            last_read: None,
            tick: 0,
            faults: 0,
            endings: 0,
        };
        Ok(Self {
            model: model.clone(),
            bounds: bounds.clone(),
            server,
            clients,
            healthy: FxHashSet::default(),
            beginning,
            found: IndexSet::default(),
            parents: Vec::new(),
            transitions: 0,
        })
    }

    fn run(mut self, mut progress: impl FnMut(&Progress)) -> Result<Report> {
        let begun = Instant::now();
        let mut told = begun;
        let beginning = self.folded(self.beginning);
        self.found.insert(beginning);
        self.parents.push(0);
        let mut violation = None;
        let (mut next, mut depth, mut level) = (0, 0, 1);
        'search: while next < self.found.len() && self.found.len() < self.bounds.states {
            if next == level {
                (depth, level) = (depth + 1, self.found.len());
            }
            for (_, world, broken) in self.moves(self.found[next])? {
                self.transitions += 1;
                let folded = self.folded(world);
                let (_, new) = self.found.insert_full(folded);
                if new {
                    self.parents.push(u32::try_from(next)?);
                }
                let broken = match broken {
                    None if new => self.broken(folded)?,
                    broken => broken,
                };
                if broken.is_some() {
                    violation = Some(self.trace(next)?);
                    break 'search;
                }
            }
            next += 1;
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                progress(&Progress {
                    states: self.found.len(),
                    open: self.found.len() - next,
                    transitions: self.transitions,
                    depth,
                    time: begun.elapsed(),
                });
            }
        }
        let (runs, keyspaces) = self.server.size();
        Ok(Report {
            kind: self.model.protocol.kind(),
            bounds: self.bounds.clone(),
            states: self.found.len(),
            transitions: self.transitions,
            depth,
            runs,
            keyspaces,
            finished: violation.is_some() || next == self.found.len(),
            time: begun.elapsed(),
            violation,
        })
    }

    fn broken(&mut self, world: World) -> Result<Option<Violation>> {
        match self.judge(world)? {
            None => self.judge_progress(world),
            broken => Ok(broken),
        }
    }

    /// The same state with the clients in an order of their own: states that differ in nothing but who is who are one.
    pub(super) fn folded(&mut self, world: World) -> World {
        let clients = usize::from(self.bounds.clients);
        let mut best: Option<World> = None;
        for order in ORDERS {
            let kept = |place: usize| usize::from(order[place]) == place;
            if !(clients..MOST_CLIENTS).all(kept) {
                continue;
            }
            let mut folded = world;
            for (place, from) in order.iter().enumerate() {
                folded.clients[place] = world.clients[usize::from(*from)];
            }
            if !folded.clients[..clients].is_sorted() {
                continue;
            }
            let mut names = [0; MOST_CLIENTS];
            for (client, from) in (0..).zip(order) {
                names[usize::from(from)] = client;
            }
            if order != ORDERS[0] {
                folded.server = self.server.renamed(world.server, names);
            }
            for last in [&mut folded.last, &mut folded.last_read]
                .into_iter()
                .flatten()
            {
                last.seat.client = names[usize::from(last.seat.client)];
            }
            if best.is_none_or(|best| folded < best) {
                best = Some(folded);
            }
        }
        best.unwrap_or(world)
    }

    /// The steps from the beginning to a violation, which one step from state number `last` shows.
    fn trace(&mut self, last: usize) -> Result<Found> {
        let mut path = vec![last];
        while let Some(&index) = path.last()
            && index != 0
        {
            path.push(self.parents[index] as usize);
        }
        path.pop();
        let mut steps: Vec<Step> = Vec::new();
        let mut world = self.beginning;
        // The states on the path are folded: here the clients keep their names from the first step to the last.
        for index in path.into_iter().rev() {
            let target = self.found[index];
            let moves = self.moves(world)?;
            let next = moves
                .into_iter()
                .find(|(_, next, _)| self.folded(*next) == target);
            let (step, next, _) = next.context("a step of the trace is not found again")?;
            steps.push(step);
            world = next;
        }
        // The run to health is to be judged again.
        self.healthy.clear();
        self.server.tidy.clear();
        for (step, next, broken) in self.moves(world)? {
            let broken = match broken {
                None => self.broken(next)?,
                broken => broken,
            };
            if let Some(violation) = broken {
                steps.push(step);
                return Ok(Found::new(violation, &steps));
            }
        }
        anyhow::bail!("the violation is not found again")
    }
}

/// Every order of the clients; the first changes nothing.
const ORDERS: [[u8; MOST_CLIENTS]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];
