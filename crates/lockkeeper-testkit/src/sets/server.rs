//! The server: the shipped scripts on an embedded engine, each run remembered.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::FutureExt as _;
use indexmap::IndexSet;
use lockkeeper_core::protocol::{Answer, Protocol, RequestContext, ScriptCall, Together};
use lockkeeper_core::store::{Event, Reply, Store as _, StoreError, Value};
use lockkeeper_core::{ClaimId, FencingToken, Name, Owner};
use lockkeeper_memory::{MemoryStore, Snapshot};
use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::sync::mpsc;

use super::rival::Asked;
use super::{Bounds, NAMES, RIVALS, TICK};
use crate::mutants::Patch;

/// A lease ends so much before a whole number of ticks, on the server. ms.
const EARLY: u64 = 5;

/// The server's clock at tick zero, ms.
const BEGINNING: u64 = 1_000_000;

/// The last token of each name before the search begins, far ahead of the clock: then a token is the last one plus one.
const LAST_TOKEN: &str = "5000000000";

/// What one run of a script changed.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) server: u32,
    /// For each name that was asked for, in order; `None` if it cannot be read.
    pub(super) answers: Rc<[Option<Answer>]>,
    /// Whether the waiters of each name were told to look.
    pub(super) woken: [bool; NAMES],
}

/// Which claims hold, and for how long: rival, round, name.
#[derive(Debug, Default)]
pub(super) struct Standing(FxHashMap<(usize, u8, usize), Duration>);

impl Standing {
    pub(super) fn left(&self, rival: usize, round: u8, name: usize) -> Option<Duration> {
        self.0.get(&(rival, round, name)).copied()
    }

    /// Whether a claim holds beside which this one may not: any other, or one of another rival if the name `reenters`.
    pub(super) fn is_taken_beside(
        &self,
        (rival, round): (usize, u8),
        name: usize,
        reenters: bool,
    ) -> bool {
        self.0.keys().any(|&(whose, which, on)| {
            on == name && (whose != rival || which != round && !reenters)
        })
    }

    pub(super) fn is_free(&self, name: usize) -> bool {
        !self.0.keys().any(|(_, _, which)| *which == name)
    }
}

type Key = (u32, u8, usize, u8, Asked);

pub(super) struct Server {
    bounds: Bounds,
    protocols: Vec<Arc<dyn Protocol>>,
    owners: Vec<Owner>,
    patch: Option<Patch>,
    store: MemoryStore,
    events: mpsc::UnboundedReceiver<Event>,
    snapshots: IndexSet<Snapshot, FxBuildHasher>,
    runs: FxHashMap<Key, Run>,
    standings: FxHashMap<(u32, u8), Rc<Standing>>,
}

impl Server {
    /// An empty server; the number of its state is zero.
    pub(super) fn new(bounds: Bounds, patch: Option<&Patch>) -> Result<Self> {
        let store = MemoryStore::new();
        store.stop_clock(time(0));
        let events = store.events().context("the events are taken")?;
        let protocol = |number: usize| -> Result<Arc<dyn Protocol>> {
            let name = Name::new("", &format!("n{number}"))?;
            Ok(if bounds.reentrant[number] {
                lockkeeper_reentrant::protocol(name)
            } else {
                lockkeeper_mutex::protocol(name)
            })
        };
        let protocols: Vec<_> = (0..NAMES).map(protocol).collect::<Result<_>>()?;
        for protocol in &protocols {
            let subscribed = store.subscribe(&protocol.channel()).now_or_never();
            subscribed.context("the embedded engine waits for nobody")??;
            let fence = protocol.name().part("fence");
            store.execute(&["SET", &fence, LAST_TOKEN, "PX", "1000000000"])?;
        }
        let owner = |rival: usize| {
            format!("0000000{rival}-0000-4000-8000-000000000000:1")
                .parse()
                .map_err(anyhow::Error::from)
        };
        let mut snapshots = IndexSet::default();
        snapshots.insert(store.snapshot());
        Ok(Self {
            bounds,
            protocols,
            owners: (0..RIVALS).map(owner).collect::<Result<_>>()?,
            patch: patch.cloned(),
            store,
            events,
            snapshots,
            runs: FxHashMap::default(),
            standings: FxHashMap::default(),
        })
    }

    /// The length of a lease on the server.
    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(u64::from(self.bounds.ttl) * TICK - EARLY)
    }

    pub(super) fn claim(&self, rival: usize, round: u8, name: usize) -> ClaimId {
        let number = u64::from(round) * 8 + u64::try_from(name).unwrap_or(0);
        ClaimId::new(self.owners[rival], number)
    }

    /// Runs the script that is asked for.
    pub(super) fn run(
        &mut self,
        server: u32,
        tick: u8,
        rival: usize,
        round: u8,
        asked: Asked,
    ) -> Result<Run> {
        let key = (server, tick, rival, round, asked);
        if let Some(run) = self.runs.get(&key) {
            return Ok(run.clone());
        }
        self.at(server, tick);
        let (item, items) = self.item(rival, round, asked)?;
        let answers = match self.eval(&item) {
            Ok(value) => self.read(&item, value, items),
            Err(error) => {
                ensure!(self.patch.is_some(), "a script failed: {error}");
                vec![None; items]
            }
        };
        let run = Run {
            woken: self.take_messages(),
            server: self.number()?,
            answers: answers.into(),
        };
        self.runs.insert(key, run.clone());
        Ok(run)
    }

    /// The state at a later tick, without what has expired.
    pub(super) fn settle(&mut self, server: u32, tick: u8) -> Result<u32> {
        self.at(server, tick);
        self.number()
    }

    /// Which claims hold, as the scripts of their kinds tell.
    pub(super) fn standing(&mut self, server: u32, tick: u8) -> Result<Rc<Standing>> {
        if let Some(standing) = self.standings.get(&(server, tick)) {
            return Ok(Rc::clone(standing));
        }
        // Questions change nothing.
        self.at(server, tick);
        let mut standing = Standing::default();
        for (rival, set) in self.bounds.sets.iter().enumerate() {
            for round in 1..=self.bounds.rounds {
                for &name in *set {
                    let claim = self.claim(rival, round, name);
                    let item = self.protocols[name].verify(RequestContext::new(
                        &claim,
                        self.ttl(),
                        0,
                        None,
                    ));
                    let reply = Reply::read(1, self.eval(&item)?)?;
                    let answer = Answer::of_script(item.script, &reply);
                    if let Some(Answer::Held(left)) = answer {
                        standing.0.insert((rival, round, name), left);
                    }
                }
            }
        }
        let standing = Rc::new(standing);
        self.standings.insert((server, tick), Rc::clone(&standing));
        Ok(standing)
    }

    fn at(&self, server: u32, tick: u8) {
        self.store.stop_clock(time(tick));
        self.store.restore(&self.snapshots[server as usize]);
    }

    fn number(&mut self) -> Result<u32> {
        let (number, _) = self.snapshots.insert_full(self.store.snapshot());
        Ok(u32::try_from(number)?)
    }

    /// The run that is asked for, and how many names it is about.
    fn item(&self, rival: usize, round: u8, asked: Asked) -> Result<(ScriptCall, usize)> {
        let set = self.bounds.sets[rival];
        let ask = |place: usize,
                   token: Option<FencingToken>,
                   with: &dyn Fn(RequestContext<'_>) -> Option<ScriptCall>| {
            let claim = self.claim(rival, round, set[place]);
            with(RequestContext::new(&claim, self.ttl(), 0, token)).context("no such item")
        };
        let protocol = |place: usize| &self.protocols[set[place]];
        let mut items = Vec::new();
        match asked {
            Asked::Acquire if set.len() == 1 => {
                items.push(ask(0, None, &|ask| Some(protocol(0).acquire(ask)))?);
            }
            Asked::Acquire => {
                for place in 0..set.len() {
                    let together = |ask: RequestContext<'_>| {
                        Some(protocol(place).joint()?.item(ask, Together::Acquire))
                    };
                    items.push(ask(place, None, &together)?);
                }
            }
            Asked::Repeat(place, token) => {
                items.push(ask(place, Some(token), &|ask| {
                    Some(protocol(place).acquire(ask))
                })?);
            }
            Asked::Renew(place) => {
                items.push(ask(place, None, &|ask| Some(protocol(place).renew(ask)))?);
            }
            Asked::Leave(leaving) => {
                let alone = leaving.places().count() == 1;
                for (place, overtakes) in leaving.places() {
                    let leave = |ask: RequestContext<'_>| match alone {
                        true => Some(protocol(place).release(ask, overtakes)),
                        false => Some(
                            protocol(place)
                                .joint()?
                                .item(ask, Together::Release { overtakes }),
                        ),
                    };
                    items.push(ask(place, None, &leave)?);
                }
            }
        }
        let number = items.len();
        let joined = items.into_iter().reduce(|mut all, item| {
            // As the engine does it, whose way to do so is not public.
            all.keys.extend(item.keys);
            all.args.extend(item.args);
            all
        });
        Ok((joined.context("nothing to ask for")?, number))
    }

    fn read(&self, item: &ScriptCall, value: Value, items: usize) -> Vec<Option<Answer>> {
        let Ok(reply) = Reply::read(1, value) else {
            return vec![None; items];
        };
        if item.script.batch {
            let answer = |place| reply.field(place).and_then(Answer::of_item);
            return (0..items).map(answer).collect();
        }
        // All kinds read alike what scripts of one name answer.
        vec![Answer::of_script(item.script, &reply)]
    }

    fn eval(&self, item: &ScriptCall) -> Result<Value, StoreError> {
        let patched = self
            .patch
            .as_ref()
            .and_then(|patch| patch.source(item.script));
        let keys = item.keys.len().to_string();
        let command = |name: &str, script: &str| {
            let mut command: Vec<&str> = vec![name, script, &keys];
            command.extend(item.keys.iter().map(String::as_str));
            command.push("1");
            command.extend(item.args.iter().map(String::as_str));
            self.store.execute(&command)
        };
        if let Some(source) = patched {
            return command("EVAL", source);
        }
        match command("EVALSHA", item.script.sha1) {
            Err(error) if error.is_noscript() => command("EVAL", item.script.source),
            result => result,
        }
    }

    /// On the channels of which names the last script told the waiters to look.
    fn take_messages(&mut self) -> [bool; NAMES] {
        let mut woken = [false; NAMES];
        while let Ok(event) = self.events.try_recv() {
            if let Event::Message { channel, .. } = event {
                for (name, protocol) in self.protocols.iter().enumerate() {
                    woken[name] |= *protocol.channel() == *channel;
                }
            }
        }
        woken
    }

    /// Whether an answer to a leave says that the claim was there.
    pub(super) const fn says_left(answer: Option<Answer>) -> Option<bool> {
        match answer {
            Some(Answer::Released { .. } | Answer::Cooldown { .. }) => Some(true),
            Some(Answer::NotHeld { .. }) => Some(false),
            _ => None,
        }
    }
}

/// The server's time at a tick, µs.
fn time(tick: u8) -> i64 {
    let millis = BEGINNING + u64::from(tick) * TICK;
    i64::try_from(millis * 1000).unwrap_or(i64::MAX)
}
