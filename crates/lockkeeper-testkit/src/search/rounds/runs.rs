//! The effect of requests on servers: the number of the keys that a server has after each script, every run remembered.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lockkeeper_core::mutants::{Mutant, is_active};
use lockkeeper_core::protocol::{Answer, Protocol, RequestContext};
use lockkeeper_core::{ClaimId, Name, Owner};
use rustc_hash::FxHashMap;

use super::contender::Asked;
use super::{CONTENDERS, Keys, Rounds, SERVERS, TICKS};
use crate::kinds::{Claimant, KindModel, Mode};
use crate::patch::Patch;
use crate::search::server::Server;
use crate::search::state::owner;

/// How far the servers' clocks are ahead, ms: they differ by up to a second.
const AHEAD: [i64; SERVERS] = [0, 600, -400];

/// The server, its keys, the tick, the claim and the request.
type Request = (usize, Keys, u8, Claimant, Asked);

pub(super) struct Runs {
    protocol: Arc<dyn Protocol>,
    ttl: Duration,
    /// The token that each contender proposes to all servers.
    proposals: [u64; CONTENDERS],
    patch: Option<Patch>,
    owners: Vec<Owner>,
    /// By server and its last loss of data, which an engine stores apart from its keys.
    servers: FxHashMap<(usize, Option<u8>), Server>,
    runs: FxHashMap<Request, (u32, Answer)>,
    held: FxHashMap<(usize, Keys, Claimant), bool>,
}

impl Runs {
    /// Creates the servers. A server without keys has state number zero.
    pub(super) fn new(bounds: Rounds, patch: Option<&Patch>) -> Result<Self> {
        let ttl = TICKS.lease(bounds.ttl);
        let clients = 0..CONTENDERS as u8;
        Ok(Self {
            protocol: KindModel::REDLOCK.protocol(Mode::Write, Name::new("", "n")?, ttl),
            ttl,
            proposals: bounds.proposals.map(|ahead| {
                let proposal = ahead.map(|ahead| TICKS.server_time(0, ahead));
                proposal.map_or(0, i64::unsigned_abs)
            }),
            patch: patch.cloned(),
            owners: clients.map(owner).collect::<Result<_>>()?,
            servers: FxHashMap::default(),
            runs: FxHashMap::default(),
            held: FxHashMap::default(),
        })
    }

    /// The duration of a lease on the servers.
    pub(super) const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The claim of a round. Every round has its own, unless the mistake of reusing one is active.
    pub(super) fn claim(&self, Claimant { client, attempt }: Claimant) -> ClaimId {
        let one_claim = is_active(Mutant::ReuseClaim);
        let attempt = if one_claim { 0 } else { attempt };
        ClaimId::new(self.owners[usize::from(client)], attempt.into())
    }

    fn restored(&mut self, place: usize, keys: Keys, tick: u8) -> Result<&mut Server> {
        let server = match self.servers.entry((place, keys.lost)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut server = Server::new(TICKS, AHEAD[place], self.patch.as_ref())?;
                if let Some(tick) = keys.lost {
                    server.restart(tick);
                }
                server.number();
                entry.insert(server)
            }
        };
        server.restore(keys.number, tick);
        Ok(server)
    }

    /// Whether a server with these keys has the claim.
    pub(super) fn holds(&mut self, place: usize, keys: Keys, claimant: Claimant) -> Result<bool> {
        let key = (place, keys, claimant);
        if let Some(holds) = self.held.get(&key) {
            return Ok(*holds);
        }
        let (claim, protocol) = (self.claim(claimant), Arc::clone(&self.protocol));
        // Tick 0, before anything can have expired.
        let server = self.restored(place, keys, 0)?;
        let holds = server.left(&*protocol, &claim)?.is_some();
        self.held.insert(key, holds);
        Ok(holds)
    }

    /// Runs the script that the protocol asks for. Returns the number of the keys afterwards, and the answer.
    pub(super) fn run(
        &mut self,
        place: usize,
        keys: Keys,
        tick: u8,
        claimant: Claimant,
        asked: Asked,
    ) -> Result<(u32, Answer)> {
        let key = (place, keys, tick, claimant, asked);
        if let Some(run) = self.runs.get(&key) {
            return Ok(*run);
        }
        let claim = self.claim(claimant);
        let proposal = self.proposals[usize::from(claimant.client)];
        // Names of this kind are never inflated.
        let ask = RequestContext::new(&claim, self.ttl, 0, None)
            .on_inflated(false)
            .proposing(proposal);
        let call = match asked {
            Asked::Acquire => self.protocol.acquire(ask),
            Asked::WriteBack(token) => {
                let member = self.protocol.majority();
                member
                    .context("the kind writes no token back")?
                    .raise(ask, token)
            }
            Asked::Renew => self.protocol.renew(ask),
            Asked::Release { overtakes } => self.protocol.release(ask, overtakes),
        };
        let server = self.restored(place, keys, tick)?;
        let answers = server.call(&call, 1, 1)?.unwrap_or_default();
        let answer = answers.first().copied().flatten();
        let answer = answer.with_context(|| format!("{} gave no answer", call.script.name))?;
        let run = (server.number(), answer);
        self.runs.insert(key, run);
        Ok(run)
    }
}
