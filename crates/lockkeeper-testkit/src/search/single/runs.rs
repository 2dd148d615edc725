//! The effect of requests on the server: the number of its state after each script, every run remembered.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lockkeeper_core::protocol::{
    self, Answer, IsWake, Protocol, RequestContext, ScriptCall, Texts,
};
use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{ClaimId, FencingToken, Name, Record};
use lockkeeper_lua::Status;
use rustc_hash::{FxHashMap, FxHashSet};

use super::bounds::{Bounds, MOST_CLIENTS, TICKS, claimants};
use super::incident::Incident;
use super::standing::{Run, Standing, Stands};
use super::state::{Asked, Message, Question, Told};
use crate::kinds::{Claimant, KindModel, Mode};
use crate::patch::Patch;
use crate::search::server::Server;
use crate::search::state::{TAIL, owner};

/// How long results are kept: shorter than a tombstone, so that a missing tombstone shows.
const KEEP_FOR: Duration = TICKS.lease(1);

#[derive(Debug)]
pub(super) struct Runs {
    kind: KindModel,
    bounds: Bounds,
    protocols: Vec<(Mode, Arc<dyn Protocol>)>,
    /// Includes the claims of one extra client, the latecomer.
    claims: FxHashMap<Claimant, ClaimId>,
    pub(super) server: Server,
    runs: FxHashMap<(u32, u8, Claimant, Asked), Run>,
    limits: FxHashMap<(u32, u8, u8), Run>,
    administered: FxHashMap<(u32, u8, Option<Claimant>), Run>,
    proclamations: FxHashMap<(u32, u8, Claimant, FencingToken), Run>,
    standings: FxHashMap<(u32, u8), Rc<Standing>>,
    renamed: FxHashMap<(u32, [u8; MOST_CLIENTS]), u32>,
    /// States that leave nothing in the way once no client wants the name any more.
    tidy: FxHashSet<(u32, u8)>,
}

impl Runs {
    /// Creates a server without keys; its state is number zero.
    pub(super) fn new(kind: KindModel, bounds: &Bounds, patch: Option<&Patch>) -> Result<Self> {
        let mut server = Server::new(TICKS, 0, patch)?;
        let name = Name::new("", "n")?;
        let protocol = |mode| kind.protocol(mode, name.clone(), Duration::ZERO);
        let protocols = kind.modes.iter().map(|mode| (*mode, protocol(*mode)));
        let write = protocol(kind.largest());
        let mut claims = FxHashMap::default();
        for claimant in claimants(bounds.clients + 1, bounds.attempts()) {
            let owner = owner(claimant.client)?;
            claims.insert(claimant, ClaimId::new(owner, claimant.attempt.into()));
        }
        let channel = write.channel();
        if kind.waits_in_a_queue {
            for client in 0..=bounds.clients {
                server.subscribe(&format!("{channel}:0000000{client}{TAIL}"))?;
            }
        } else {
            server.subscribe(&channel)?;
        }
        if bounds.clock_behind {
            server.set_clock_behind(&name)?;
        }
        if let Some(value) = kind.value {
            server.execute(&["SET", name.main(), value])?;
        }
        server.number();
        Ok(Self {
            kind,
            bounds: bounds.clone(),
            protocols: protocols.collect(),
            claims,
            server,
            runs: FxHashMap::default(),
            limits: FxHashMap::default(),
            administered: FxHashMap::default(),
            proclamations: FxHashMap::default(),
            standings: FxHashMap::default(),
            renamed: FxHashMap::default(),
            tidy: FxHashSet::default(),
        })
    }

    pub(super) fn claim(&self, claimant: Claimant) -> &ClaimId {
        &self.claims[&claimant]
    }

    /// Runs the script that the protocol asks for.
    pub(super) fn run(
        &mut self,
        server: u32,
        tick: u8,
        claimant: Claimant,
        asked: Asked,
    ) -> Result<Run> {
        let key = (server, tick, claimant, asked);
        if let Some(run) = self.runs.get(&key) {
            return Ok(run.clone());
        }
        let call = self.script_call(claimant, asked)?;
        self.server.restore(server, tick);
        let told = match self.server.call(&call, asked.request, 1)?.as_deref() {
            None => Told::Refused,
            Some([Some(answer)]) => Told::Answer(*answer),
            Some(_) => Told::Unreadable,
        };
        let run = self.came_of(told);
        self.runs.insert(key, run.clone());
        Ok(run)
    }

    /// Sets the limit of a semaphore.
    pub(super) fn set_limit(&mut self, server: u32, tick: u8, limit: u8) -> Result<Run> {
        let key = (server, tick, limit);
        if let Some(run) = self.limits.get(&key) {
            return Ok(run.clone());
        }
        self.server.restore(server, tick);
        self.ask_limit(Some(limit))?;
        let run = self.came_of(Told::Unreadable);
        self.limits.insert(key, run.clone());
        Ok(run)
    }

    /// Revokes the name, or takes it by force from this claim and those that hold with it.
    pub(super) fn administer(
        &mut self,
        server: u32,
        tick: u8,
        forced: Option<Claimant>,
    ) -> Result<Run> {
        let key = (server, tick, forced);
        if let Some(run) = self.administered.get(&key) {
            return Ok(run.clone());
        }
        self.server.restore(server, tick);
        let protocol = &*self.protocols[0].1;
        match forced {
            Some(claimant) => self.server.free(protocol, self.claim(claimant))?,
            None => self.server.revoke(protocol.name())?,
        }
        let run = self.came_of(Told::Unreadable);
        self.administered.insert(key, run.clone());
        Ok(run)
    }

    /// Proclaims the claim's own id in the term of this token, as the engine does after a grant.
    pub(super) fn proclaim(
        &mut self,
        server: u32,
        tick: u8,
        claimant: Claimant,
        token: FencingToken,
    ) -> Result<Run> {
        let key = (server, tick, claimant, token);
        if let Some(run) = self.proclamations.get(&key) {
            return Ok(run.clone());
        }
        // The first value of a leader, or a later one of a claim that leads no more.
        let number = match self.standing(server, tick)?[claimant].left {
            Some(_) => "1",
            None => "2",
        };
        let (claim, ttl) = (self.claim(claimant), self.bounds.ttl(claimant.attempt));
        let ask = RequestContext::new(claim, ttl, 0, Some(token));
        let call = self.protocol(self.kind.largest()).proclamation(ask);
        let mut call = call.context("a kind that proclaims nothing")?;
        // The first argument is the request number, which the engine adds.
        let args = call.script.args.iter().skip(1).zip(call.args.iter());
        call.args = Texts::of(args.map(|(name, arg)| match *name {
            "number" => number,
            "value" => claim.as_str(),
            _ => arg,
        }));
        self.server.restore(server, tick);
        self.server.eval(&call, 1)?;
        let run = self.came_of(Told::Unreadable);
        self.proclamations.insert(key, run.clone());
        Ok(run)
    }

    /// The leader and its value, for a kind whose holders proclaim.
    fn leader(&self) -> Result<Option<(String, String)>> {
        if !self.kind.proclaims() {
            return Ok(None);
        }
        let call = lockkeeper_election::leader_call(self.name());
        let reply = Reply::read(1, self.server.eval(&call, 1)?)?;
        let text = |at| reply.field(at).and_then(Value::as_str).map(str::to_owned);
        Ok(text(1).zip(text(6)))
    }

    /// Whether a limit is in force according to the server, after setting one.
    fn ask_limit(&self, limit: Option<u8>) -> Result<bool> {
        let protocol = self.protocol(self.kind.largest());
        let limited = protocol.limited().context("a kind without a limit")?;
        let call = limited.limit(limit.map(u32::from), 0, self.bounds.waiter_ttl());
        let reply = Reply::read(1, self.server.eval(&call, 1)?)?;
        Ok(reply.status() != Status::Free)
    }

    /// Collects what a script has changed, given its answer.
    fn came_of(&mut self, told: Told) -> Run {
        let (mut woke, mut grants) = (false, Vec::new());
        let foreign = self.protocols[0].1.foreign();
        let is_wake = foreign.map_or(protocol::is_wake as IsWake, |foreign| foreign.is_wake());
        for (_, payload) in self.server.messages() {
            woke |= is_wake(&payload);
            let Some(grant) = protocol::Grant::read(&payload) else {
                continue;
            };
            let (token, request) = (grant.token, grant.request);
            let mut claims = self.claims.iter();
            let granted = claims.find(|(_, claim)| claim.as_str() == grant.claim);
            grants.extend(granted.map(|(claimant, _)| (*claimant, Message { token, request })));
        }
        Run {
            server: self.server.number(),
            told,
            woke,
            grants: grants.into(),
        }
    }

    fn protocol(&self, mode: Mode) -> &dyn Protocol {
        let of_mode = self.protocols.iter().find(|(its, _)| *its == mode);
        &*of_mode.unwrap_or(&self.protocols[0]).1
    }

    fn script_call(&self, claimant: Claimant, asked: Asked) -> Result<ScriptCall> {
        let protocol = self.protocol(asked.mode);
        let ttl = self.bounds.ttl(claimant.attempt);
        let ask = RequestContext::new(self.claim(claimant), ttl, asked.floor, asked.token)
            .queueing(self.bounds.waiter_ttl(), self.bounds.max_queue)
            .on_inflated(asked.inflated)
            .granted(asked.drawn)
            .cooling_down(Duration::from_millis(asked.cooldown.into()));
        Ok(match asked.question {
            Question::Acquire => protocol.acquire(ask),
            Question::Convert { old, overtakes } => {
                let attempt = old;
                let conversion = protocol
                    .conversion()
                    .context("a kind without conversions")?;
                let old = self.claim(Claimant {
                    attempt,
                    ..claimant
                });
                conversion.convert(ask, old, overtakes)
            }
            Question::Heartbeat => {
                let queue = protocol.queue().context("a kind without a queue")?;
                queue.heartbeat(ask)
            }
            Question::Renew => protocol.renew(ask),
            Question::Release { overtakes } => match asked.token {
                Some(token) => {
                    let name = protocol.name().clone();
                    lockkeeper_once::storing_protocol(name, token, KEEP_FOR).release(ask, overtakes)
                }
                None => protocol.release(ask, overtakes),
            },
        })
    }

    /// The state at a later tick, without what has expired.
    pub(super) fn later(&mut self, server: u32, tick: u8) -> u32 {
        self.server.later(server, tick)
    }

    /// A field of the name's `state`.
    pub(super) fn fact(&self, server: u32, tick: u8, field: &str) -> Result<Option<String>> {
        self.server.restore(server, tick);
        let state = self.name().part("state");
        let fact = self.server.execute(&["HGET", &state, field])?;
        Ok(fact.as_str().map(str::to_owned))
    }

    /// The claims that hold or wait on the server, according to its own scripts.
    pub(super) fn standing(&mut self, server: u32, tick: u8) -> Result<Rc<Standing>> {
        if let Some(standing) = self.standings.get(&(server, tick)) {
            return Ok(Rc::clone(standing));
        }
        // The state is restored first, so these queries change nothing.
        self.server.restore(server, tick);
        let attempts = self.bounds.attempts();
        let all = claimants(self.bounds.clients, attempts);
        let claims = all.map(|claimant| self.stands(self.claim(claimant)));
        let claims = claims.collect::<Result<_>>()?;
        let has_limit = self.kind.has_permits() && self.ask_limit(None)?;
        // The queries may have granted waiters and notified them.
        self.server.messages().for_each(drop);
        let record = self.record()?;
        let standing = Rc::new(Standing {
            has_limit,
            record,
            leader: self.leader()?,
            attempts,
            claims,
        });
        self.standings.insert((server, tick), Rc::clone(&standing));
        Ok(standing)
    }

    /// The stored result, for a kind that stores any.
    fn record(&self) -> Result<Option<(String, FencingToken)>> {
        let protocol = self.protocol(self.kind.largest());
        let Some(recorded) = protocol.recorded() else {
            return Ok(None);
        };
        let reply = Reply::read(1, self.server.eval(&recorded.record(None), 1)?)?;
        Ok(Record::read(&reply).map(|record| (record.claim, record.token)))
    }

    fn stands(&self, claim: &ClaimId) -> Result<Stands> {
        let stands = |protocol, mode| {
            let (left, queued) = (
                self.server.left(protocol, claim)?,
                self.queued(protocol, claim)?,
            );
            Ok::<_, anyhow::Error>(Stands { left, queued, mode })
        };
        for (mode, protocol) in &self.protocols {
            let found = stands(&**protocol, *mode)?;
            if found.left.is_some() || found.queued.is_some() {
                return Ok(found);
            }
        }
        stands(self.protocol(self.kind.largest()), self.kind.largest())
    }

    pub(super) fn name(&self) -> &Name {
        self.protocols[0].1.name()
    }

    /// The place of a claim in the queue, if it has one.
    fn queued(&self, protocol: &dyn Protocol, claim: &ClaimId) -> Result<Option<u64>> {
        let Some(queue) = protocol.queue() else {
            return Ok(None);
        };
        let call = queue.position(claim.as_str());
        let reply = Reply::read(1, self.server.eval(&call, 1)?)?;
        let place = reply.field(1).and_then(Value::as_i64);
        let place = u64::try_from(place.context("a queue without places")?)?;
        Ok((place > 0).then_some(place))
    }

    /// Whether a latecomer, when no client wants the name any more, is granted it within `patience` ticks, and after its
    /// release only the last token and tombstones remain.
    pub(super) fn is_tidy(&mut self, mut server: u32, mut tick: u8, patience: u8) -> Result<bool> {
        let key = (server, tick);
        if self.tidy.contains(&key) {
            return Ok(true);
        }
        let claimant = Claimant {
            client: self.bounds.clients,
            attempt: 0,
        };
        let largest = self.kind.largest();
        let ask = |question: Question| Asked {
            question,
            mode: largest,
            request: question.number(false, 0),
            floor: 0,
            token: None,
            inflated: true,
            drawn: None,
            cooldown: 0,
        };
        for _ in 0..=patience {
            let run = self.run(server, tick, claimant, ask(Question::Acquire))?;
            server = run.server;
            if let Told::Answer(Answer::Granted(_)) = run.told {
                let release = ask(Question::Release { overtakes: false });
                server = self.run(server, tick, claimant, release)?.server;
                if self.kind.has_modes() {
                    // The readers' shared data lives as long as the longest lease that any of them asked for.
                    tick += self.bounds.longest();
                    server = self.server.later(server, tick);
                }
                let tidy = !self.has_remains(server, tick);
                if tidy {
                    self.tidy.insert(key);
                }
                // After the limit was raised, the latecomer may hold beside others that end later.
                if tidy || self.bounds.incident != Some(Incident::LimitSet) {
                    return Ok(tidy);
                }
            }
            tick += 1;
            server = self.server.later(server, tick);
        }
        Ok(false)
    }

    fn has_remains(&self, server: u32, tick: u8) -> bool {
        self.server.restore(server, tick);
        let name = self.name();
        let claims = self.claims.values();
        let tombstones: Vec<_> = claims.map(|claim| name.tombstone(claim)).collect();
        let counter = name.counter();
        // Keys that a lost main key has left behind end by themselves.
        let may_stay = |key: &str| {
            let left = self.server.execute(&["PTTL", key]).ok();
            let left = left.and_then(|left| left.as_i64());
            self.bounds.incident == Some(Incident::MainKeyLost) && left.is_some_and(|left| left > 0)
        };
        let keys = self.server.keys();
        keys.iter()
            .any(|key| *key != counter && !tombstones.contains(key) && !may_stay(key))
    }

    /// The state with the clients renamed: client `i` becomes client `names[i]`.
    pub(super) fn renamed(&mut self, server: u32, names: [u8; MOST_CLIENTS]) -> u32 {
        if let Some(renamed) = self.renamed.get(&(server, names)) {
            return *renamed;
        }
        let renamed = self.server.renamed(server, |text| rename(text, names));
        self.renamed.insert((server, names), renamed);
        renamed
    }
}

/// Renames the clients in `text`: client `i` becomes client `names[i]`.
pub fn rename(text: &[u8], names: [u8; MOST_CLIENTS]) -> Vec<u8> {
    let mut renamed = text.to_vec();
    for at in 1..text.len() {
        // In a claim, and in the name of a tombstone.
        let of_tombstone = at >= 8 && text[at] == b'/' && text[at - 8..at - 1] == *b"0000000";
        if text[at..].starts_with(TAIL.as_bytes()) || of_tombstone {
            let client = usize::from(text[at - 1] - b'0');
            renamed[at - 1] = b'0' + names[client];
        }
    }
    renamed
}
