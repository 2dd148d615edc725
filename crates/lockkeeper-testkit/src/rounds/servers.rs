//! The servers: the shipped scripts on embedded engines, each run remembered.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::FutureExt as _;
use indexmap::IndexSet;
use lockkeeper_core::protocol::{Answer, Protocol, RequestContext};
use lockkeeper_core::store::{Call, Form, Store as _};
use lockkeeper_core::{ClaimId, Name, Owner};
use lockkeeper_memory::{MemoryStore, Snapshot};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{Asked, Bounds, RIVALS, SERVERS, Server, TICK};

/// What the servers' clocks show at tick zero, ms: a second apart.
const BEGINNINGS: [u64; SERVERS] = [1_000_000, 1_000_600, 999_600];

/// A lease ends so much before a whole number of ticks, on the server. ms.
const EARLY: u64 = 5;

type Run = (usize, Server, u8, usize, u8, Asked);

pub(super) struct Servers {
    protocol: Arc<dyn Protocol>,
    ttl: Duration,
    one_claim: bool,
    owners: Vec<Owner>,
    /// An engine for each server and moment of its last restart.
    engines: FxHashMap<(usize, Option<u8>), MemoryStore>,
    snapshots: IndexSet<Snapshot, FxBuildHasher>,
    runs: FxHashMap<Run, (u32, Answer)>,
    held: FxHashMap<(u32, usize, u8), bool>,
}

impl Servers {
    pub(super) fn new(bounds: &Bounds) -> Result<Self> {
        let ttl = Duration::from_millis(u64::from(bounds.ttl) * TICK - EARLY);
        let owner = |rival: usize| {
            format!("0000000{rival}-0000-4000-8000-000000000000:1")
                .parse()
                .map_err(anyhow::Error::from)
        };
        let mut snapshots = IndexSet::default();
        snapshots.insert(MemoryStore::new().snapshot());
        Ok(Self {
            protocol: lockkeeper_redlock::protocol(Name::new("", "n")?, ttl),
            ttl,
            one_claim: bounds.one_claim,
            owners: (0..RIVALS).map(owner).collect::<Result<_>>()?,
            engines: FxHashMap::default(),
            snapshots,
            runs: FxHashMap::default(),
            held: FxHashMap::default(),
        })
    }

    /// A server without keys.
    #[expect(clippy::unused_self, reason = "it is the first of its snapshots")]
    pub(super) const fn empty(&self) -> u32 {
        0
    }

    pub(super) const fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn claim(&self, rival: usize, round: u8) -> ClaimId {
        let random = if self.one_claim { 0 } else { round };
        ClaimId::new(self.owners[rival], random.into())
    }

    /// Whether the claim is on a server with these keys.
    pub(super) fn holds(&mut self, keys: u32, rival: usize, round: u8) -> bool {
        if let Some(holds) = self.held.get(&(keys, rival, round)) {
            return *holds;
        }
        let engine = MemoryStore::new();
        engine.stop_clock(0);
        engine.restore(&self.snapshots[keys as usize]);
        let holder = engine.execute(&["GET", "n"]).ok();
        let claim = self.claim(rival, round);
        let holds = holder.and_then(|holder| holder.as_str().map(|text| text == claim.as_str()));
        let holds = holds.unwrap_or(false);
        self.held.insert((keys, rival, round), holds);
        holds
    }

    /// Runs the script that the protocol asks for; the keys behind it, and its answer.
    pub(super) fn run(
        &mut self,
        place: usize,
        server: Server,
        tick: u8,
        rival: usize,
        round: u8,
        asked: Asked,
    ) -> Result<(u32, Answer)> {
        let key = (place, server, tick, rival, round, asked);
        if let Some(run) = self.runs.get(&key) {
            return Ok(*run);
        }
        let claim = self.claim(rival, round);
        let ask = RequestContext::new(&claim, self.ttl, 0, None);
        let item = match asked {
            Asked::Acquire => self.protocol.acquire(ask),
            Asked::WriteBack(token) => {
                let member = self.protocol.majority();
                let member = member.context("the kind writes no token back")?;
                member.raise(ask, token)
            }
            Asked::Renew => self.protocol.renew(ask),
            Asked::Leave { overtakes } => self.protocol.release(ask, overtakes),
        };
        let script = item.script;
        let engine = self
            .engines
            .entry((place, server.restarted))
            .or_insert_with(|| {
                let engine = MemoryStore::new();
                if let Some(restarted) = server.restarted {
                    engine.stop_clock(time(place, restarted));
                    engine.restart_empty();
                }
                engine
            });
        engine.stop_clock(time(place, tick));
        engine.restore(&self.snapshots[server.keys as usize]);
        let call = Call::new(item, 1, Form::Source, Duration::from_secs(1));
        let reply = engine.call(call).now_or_never();
        let reply = reply.context("the embedded engine waits for nobody")??;
        let answer = if script.batch {
            match reply
                .field(0)
                .and_then(lockkeeper_core::store::Value::as_str)
            {
                Some("RENEWED") => Some(Answer::Renewed),
                Some("GONE") => Some(Answer::Gone),
                _ => None,
            }
        } else {
            Answer::of_script(script, &reply)
        };
        let answer = answer.with_context(|| format!("{} answered {reply:?}", script.name))?;
        let (keys, _) = self.snapshots.insert_full(engine.snapshot());
        let run = (u32::try_from(keys)?, answer);
        self.runs.insert(key, run);
        Ok(run)
    }
}

/// The server's time at a tick, µs.
fn time(place: usize, tick: u8) -> i64 {
    let millis = BEGINNINGS[place] + u64::from(tick) * TICK;
    i64::try_from(millis * 1000).unwrap_or(i64::MAX)
}
