//! One name of any kind on one server.
//!
//! # What is explored
//!
//! Clients begin, ask again, send heartbeats, renew, convert modes, release, close and crash at any moment. A message about a
//! grant arrives at any later time, any number of times, or never. Any request can be in trouble: late on its way there or
//! back, never executed, refused, not sent, given up. A request that was given up can be executed at any later time, any
//! number of times. Requests overtake each other. `docs/proving-ground.md` lists what is not explored. The rules are in
//! `judge.rs`, `tokens.rs`, `permits.rs`, `queue.rs`, `barred.rs` and `progress.rs`.
//!
//! # How states are kept few
//!
//! Clients that differ only in their names are one ([renamed] in the server's data too), claims forget what cannot matter any
//! more, and a request without trouble is one step. Tokens stay few because the server's clock is behind the last token, as
//! after it has stepped back, unless the bounds say otherwise. Requests that a queue records are numbered by the tick in which
//! they are sent, the only time that matters about them.
//!
//! [renamed]: lockkeeper_memory::Snapshot::renamed

mod barred;
mod bounds;
mod change;
mod client;
mod effects;
mod incident;
mod judge;
mod leaders;
mod moves;
mod permits;
mod progress;
mod queue;
mod runs;
mod send;
mod standing;
mod state;
mod tokens;
mod words;

use std::rc::Rc;

use anyhow::Result;
use rustc_hash::{FxHashMap, FxHashSet};

pub use bounds::{Bounds, MOST_CLIENTS};
use bounds::{TICKS, claimants};
use change::{Change, Send};
pub use incident::Incident;
use runs::Runs;
pub use runs::rename;
use state::{Asked, Client, State};

use super::explore::{Judgement, Model, Moves};
use super::state::Interned;
use crate::kinds::{Claimant, KindModel};
use crate::patch::Patch;

#[derive(Debug)]
pub(super) struct OneName {
    kind: KindModel,
    bounds: Bounds,
    runs: Runs,
    clients: Interned<Client>,
    /// The results of changes, by the numbers of the clients before and after.
    changes: FxHashMap<(u32, Change), u32>,
    sends: FxHashMap<(u32, Send), Option<(Asked, u32)>>,
    /// Calmed states from which every waiter is served.
    healthy: FxHashSet<State>,
}

impl OneName {
    pub(super) fn new(kind: KindModel, bounds: &Bounds, patch: Option<&Patch>) -> Result<Self> {
        let mut clients = Interned::default();
        clients.number(Client::new(bounds.attempts()));
        Ok(Self {
            kind,
            bounds: bounds.clone(),
            runs: Runs::new(kind, bounds, patch)?,
            clients,
            changes: FxHashMap::default(),
            sends: FxHashMap::default(),
            healthy: FxHashSet::default(),
        })
    }

    fn claimants(&self) -> impl Iterator<Item = Claimant> + use<> {
        claimants(self.bounds.clients, self.bounds.attempts())
    }

    fn client(&self, state: State, number: u8) -> Rc<Client> {
        self.clients.value(state.clients[usize::from(number)])
    }
}

impl Model for OneName {
    type State = State;

    fn beginning(&self) -> State {
        State {
            clients: [0; MOST_CLIENTS],
            server: 0,
            limit: None,
            granted_in: None,
            last: None,
            last_read: None,
            cools_until: None,
            tick: 0,
            faults: 0,
            endings: 0,
        }
    }

    fn moves(&mut self, from: State, moves: &mut Moves<State>) -> Result<()> {
        for claimant in self.claimants() {
            self.moves_of(from, claimant, moves)?;
        }
        self.endings(from, moves)?;
        if from.tick < self.bounds.ticks {
            let next = self.tick(from);
            moves.add(|| format!("time passes: tick {}", next.tick), next, None);
        }
        Ok(())
    }

    fn judge(&mut self, state: State) -> Result<Judgement> {
        let mut judgement = self.judge_claims(state)?;
        if judgement.broken.is_none() {
            judgement.broken = self.judge_progress(state)?;
        }
        Ok(judgement)
    }

    /// Puts the clients in sorted order.
    fn canonical(&mut self, state: State) -> State {
        if !self.kind.renames {
            return state;
        }
        let clients = usize::from(self.bounds.clients);
        let mut best: Option<State> = None;
        for order in ORDERS {
            let stays = |place: usize| usize::from(order[place]) == place;
            if !(clients..MOST_CLIENTS).all(stays) {
                continue;
            }
            let mut next = state;
            next.clients = order.map(|from| state.clients[usize::from(from)]);
            if !next.clients[..clients].is_sorted() {
                continue;
            }
            let mut names = [0; MOST_CLIENTS];
            for (client, from) in (0..).zip(order) {
                names[usize::from(from)] = client;
            }
            if order != ORDERS[0] {
                next.server = self.runs.renamed(state.server, names);
            }
            for last in [&mut next.last, &mut next.last_read].into_iter().flatten() {
                last.claimant.client = names[usize::from(last.claimant.client)];
            }
            if best.is_none_or(|best| next < best) {
                best = Some(next);
            }
        }
        best.unwrap_or(state)
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
