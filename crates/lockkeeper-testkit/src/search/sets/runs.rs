//! The effect of requests on the server: the number of its state after each script, every run remembered.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lockkeeper_core::protocol::{Protocol, RequestContext, ScriptCall, Together};
use lockkeeper_core::{ClaimId, FencingToken, Name, Owner};
use rustc_hash::FxHashMap;

use super::contender::{Answers, Asked};
use super::{CONTENDERS, NAMES, Sets, TICKS};
use crate::kinds::{Claimant, Holder, Mode};
use crate::patch::Patch;
use crate::search::server::Server;
use crate::search::state::owner;

/// The effect of one run of a script.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) server: u32,
    /// The answer for each requested name, in order.
    pub(super) answers: Answers,
    /// Whether the waiters of each name were notified.
    pub(super) woken: [bool; NAMES],
}

/// The claims that hold, their names, and for how long.
#[derive(Debug, Default)]
pub(super) struct Standing(Vec<(Claimant, usize, Duration)>);

impl Standing {
    pub(super) fn left(&self, claimant: Claimant, name: usize) -> Option<Duration> {
        let mut all = self.0.iter();
        let its = all.find(|(its, on, _)| (*its, *on) == (claimant, name));
        its.map(|(.., left)| *left)
    }

    pub(super) fn holders(&self, name: usize) -> impl Iterator<Item = Holder> {
        let on_name = self.0.iter().filter(move |(_, on, _)| *on == name);
        on_name.map(|&(claimant, ..)| Holder {
            claimant,
            mode: Mode::Write,
        })
    }

    pub(super) fn is_free(&self, name: usize) -> bool {
        self.holders(name).next().is_none()
    }
}

pub(super) struct Runs {
    bounds: Sets,
    protocols: Vec<Arc<dyn Protocol>>,
    owners: Vec<Owner>,
    server: Server,
    runs: FxHashMap<(u32, u8, Claimant, Asked), Run>,
    standings: FxHashMap<(u32, u8), Rc<Standing>>,
}

impl Runs {
    /// Creates a server without keys; its state is number zero.
    pub(super) fn new(bounds: Sets, patch: Option<&Patch>) -> Result<Self> {
        let mut server = Server::new(TICKS, 0, patch)?;
        let mut protocols = Vec::new();
        for (number, kind) in bounds.kinds.iter().enumerate() {
            let name = Name::new("", &format!("n{number}"))?;
            server.set_clock_behind(&name)?;
            let protocol = kind.protocol(Mode::Write, name, TICKS.lease(bounds.ttl));
            server.subscribe(&protocol.channel())?;
            protocols.push(protocol);
        }
        server.number();
        let clients = 0..CONTENDERS as u8;
        Ok(Self {
            bounds,
            protocols,
            owners: clients.map(owner).collect::<Result<_>>()?,
            server,
            runs: FxHashMap::default(),
            standings: FxHashMap::default(),
        })
    }

    /// The duration of a lease on the server.
    pub(super) const fn ttl(&self) -> Duration {
        TICKS.lease(self.bounds.ttl)
    }

    pub(super) fn claim(&self, Claimant { client, attempt }: Claimant, name: usize) -> ClaimId {
        let number = usize::from(attempt) * NAMES + name;
        ClaimId::new(self.owners[usize::from(client)], number as u64)
    }

    /// Runs the requested script.
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
        let (call, items) = self.script_call(claimant, asked)?;
        self.server.restore(server, tick);
        let answers = self.server.call(&call, 1, items)?;
        let mut woken = [false; NAMES];
        for (channel, _) in self.server.messages() {
            for (name, protocol) in self.protocols.iter().enumerate() {
                woken[name] |= protocol.channel() == channel;
            }
        }
        let run = Run {
            server: self.server.number(),
            answers: answers.unwrap_or_else(|| vec![None; items]).into(),
            woken,
        };
        self.runs.insert(key, run.clone());
        Ok(run)
    }

    /// The state at a later tick, without what has expired.
    pub(super) fn later(&mut self, server: u32, tick: u8) -> u32 {
        self.server.later(server, tick)
    }

    /// The claims that hold, according to their kinds' scripts.
    pub(super) fn standing(&mut self, server: u32, tick: u8) -> Result<Rc<Standing>> {
        if let Some(standing) = self.standings.get(&(server, tick)) {
            return Ok(Rc::clone(standing));
        }
        // These queries change nothing.
        self.server.restore(server, tick);
        let mut standing = Standing::default();
        for (client, set) in (0..).zip(self.bounds.sets) {
            for attempt in 0..self.bounds.attempts {
                let claimant = Claimant { client, attempt };
                for &name in set {
                    let claim = self.claim(claimant, name);
                    let left = self.server.left(&*self.protocols[name], &claim)?;
                    standing.0.extend(left.map(|left| (claimant, name, left)));
                }
            }
        }
        let standing = Rc::new(standing);
        self.standings.insert((server, tick), Rc::clone(&standing));
        Ok(standing)
    }

    /// The script call for a request, and the number of names in it.
    fn script_call(&self, claimant: Claimant, asked: Asked) -> Result<(ScriptCall, usize)> {
        let set = self.bounds.sets[usize::from(claimant.client)];
        let call = |part: usize, token: Option<FencingToken>, build: Build<'_>| {
            let (name, protocol) = (set[part], &*self.protocols[set[part]]);
            let claim = self.claim(claimant, name);
            let ask = RequestContext::new(&claim, self.ttl(), 0, token).polling(true);
            build(protocol, ask).context("a kind that is not acquired together with others")
        };
        let joint = |verb| {
            move |protocol: &dyn Protocol, ask: RequestContext<'_>| {
                Some(protocol.joint()?.item(ask, verb))
            }
        };
        let calls: Vec<_> = match asked {
            Asked::Acquire if set.len() > 1 => {
                let parts = 0..set.len();
                let all = parts.map(|part| call(part, None, &joint(Together::Acquire)));
                all.collect::<Result<_>>()?
            }
            Asked::Acquire => vec![call(0, None, &|it, ask| Some(it.acquire(ask)))?],
            Asked::Repeat(part, token) => {
                vec![call(part, Some(token), &|it, ask| Some(it.acquire(ask)))?]
            }
            Asked::Renew(part) => vec![call(part, None, &|it, ask| Some(it.renew(ask)))?],
            Asked::Release(releases) => {
                let alone = releases.parts().count() == 1;
                let release = |(part, overtakes)| match alone {
                    true => call(part, None, &|it, ask| Some(it.release(ask, overtakes))),
                    false => call(part, None, &joint(Together::Release { overtakes })),
                };
                releases.parts().map(release).collect::<Result<_>>()?
            }
        };
        let items = calls.len();
        let joined = ScriptCall::batch(calls);
        Ok((joined.context("nothing to ask for")?, items))
    }
}

/// Builds the call of one part.
type Build<'a> = &'a dyn Fn(&dyn Protocol, RequestContext<'_>) -> Option<ScriptCall>;
