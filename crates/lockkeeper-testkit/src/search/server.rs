//! The server: the shipped scripts on the embedded engine, each run remembered.

use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use futures_util::FutureExt as _;
use lockkeeper_core::ClaimId;
use lockkeeper_core::protocol::{self, Answer, RequestContext, ScriptCall};
use lockkeeper_core::store::{Event, Reply, Request, Store as _, StoreError, Value};
use lockkeeper_memory::{MemoryStore, Snapshot};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::mpsc;

use super::bounds::{Bounds, server_time};
use super::model::{Mode, Model, Seat, claims, rename, seats};
use super::state::{Asked, Interned, Message, Question, Told};
use crate::mutants::Patch;

/// The last token before the search begins, if the clock is behind it. Far ahead of the clock.
const LAST_TOKEN: &str = "5000000000";

/// What one run of a script changed.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) server: u32,
    pub(super) told: Told,
    /// Whether it told the waiters to look.
    pub(super) published: bool,
    /// Whom it told of a grant.
    pub(super) grants: Rc<[(Seat, Message)]>,
}

/// What the server has of the claims, by their [places](Server::place_of).
#[derive(Debug)]
pub(super) struct Standing {
    /// For how long each holds, ms.
    pub(super) left: Vec<Option<u64>>,
    /// The place of each in the queue, counted from one.
    pub(super) queued: Vec<Option<u64>>,
    /// Which of them hold, or wait, to read. Empty for kinds without modes.
    reading: Vec<bool>,
}

impl Standing {
    /// Whether nobody holds.
    pub(super) fn is_free(&self) -> bool {
        self.left.iter().all(Option::is_none)
    }

    /// Whether the claim at this place holds, or waits, to read.
    pub(super) fn reads(&self, place: usize) -> bool {
        self.reading.get(place).copied().unwrap_or(false)
    }

    /// Whether somebody holds who lets nobody in but its owner.
    pub(super) fn is_exclusive(&self) -> bool {
        (0..self.left.len()).any(|place| self.left[place].is_some() && !self.reads(place))
    }
}

/// A server whose state is the number of a snapshot.
#[derive(Debug)]
pub(super) struct Server {
    model: Model,
    bounds: Bounds,
    claims: Vec<Vec<ClaimId>>,
    patch: Option<Patch>,
    store: MemoryStore,
    events: mpsc::UnboundedReceiver<Event>,
    snapshots: Interned<Snapshot>,
    runs: FxHashMap<(u32, u8, Seat, Asked), Run>,
    settled: FxHashMap<(u32, u8), u32>,
    standings: FxHashMap<(u32, u8), Rc<Standing>>,
    /// States whose remains, nobody wanting the name any more, are in nobody's way.
    pub(super) tidy: FxHashSet<(u32, u8)>,
    renamed: FxHashMap<(u32, [u8; 3]), u32>,
}

impl Server {
    /// An empty server, and the number of its state.
    pub(super) fn new(
        model: &Model,
        bounds: &Bounds,
        patch: Option<&Patch>,
    ) -> Result<(Self, u32)> {
        let store = MemoryStore::new();
        store.stop_clock(server_time(0));
        let events = store.events().context("the events are taken")?;
        // One client more than there are: a late comer.
        let claims = claims(bounds.clients + 1, bounds.attempts())?;
        for channel in channels(model, &claims) {
            store
                .subscribe(&channel)
                .now_or_never()
                .context("the embedded engine waits for nobody")??;
        }
        if bounds.clock_behind {
            let fence = model.protocol.name().part("fence");
            store.execute(&["SET", &fence, LAST_TOKEN, "PX", "1000000000"])?;
        }
        let mut snapshots = Interned::new();
        let empty = snapshots.number(store.snapshot());
        let server = Self {
            model: model.clone(),
            bounds: bounds.clone(),
            claims,
            patch: patch.cloned(),
            store,
            events,
            snapshots,
            runs: FxHashMap::default(),
            settled: FxHashMap::default(),
            standings: FxHashMap::default(),
            tidy: FxHashSet::default(),
            renamed: FxHashMap::default(),
        };
        Ok((server, empty))
    }

    /// The claim of a seat.
    pub(super) fn claim(&self, seat: Seat) -> &ClaimId {
        &self.claims[usize::from(seat.client)][usize::from(seat.attempt)]
    }

    /// How many different runs of scripts there were, and how many states of the server.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.runs.len(), self.snapshots.len())
    }

    /// Runs the script that the protocol asks for.
    pub(super) fn run(&mut self, server: u32, tick: u8, seat: Seat, asked: Asked) -> Result<Run> {
        let key = (server, tick, seat, asked);
        if let Some(run) = self.runs.get(&key) {
            return Ok(run.clone());
        }
        let item = self.item(seat, asked)?;
        self.store.stop_clock(server_time(tick));
        self.store.restore(&self.snapshots.value(server));
        let told = self.execute(&item, asked)?;
        let (published, grants) = self.take_messages();
        let run = Run {
            server: self.snapshots.number(self.store.snapshot()),
            told,
            published,
            grants: grants.into(),
        };
        self.runs.insert(key, run.clone());
        Ok(run)
    }

    fn item(&self, seat: Seat, asked: Asked) -> Result<ScriptCall> {
        let protocol = self.model.protocol_of(asked.mode);
        let ttl = self.bounds.ttl(seat.attempt);
        let ask = RequestContext::new(self.claim(seat), ttl, asked.floor, asked.token)
            .queueing(self.bounds.waiter_ttl(), None);
        Ok(match asked.question {
            Question::Acquire => protocol.acquire(ask),
            Question::Convert { old, overtakes } => {
                let attempt = old;
                let modes = protocol.modes().context("a kind without modes")?;
                modes.convert(ask, self.claim(Seat { attempt, ..seat }), overtakes)
            }
            Question::Heartbeat => {
                let queue = protocol.queue().context("a kind without a queue")?;
                queue.heartbeat(ask)
            }
            Question::Renew => protocol.renew(ask),
            Question::Leave { overtakes } => protocol.release(ask, overtakes),
            Question::Verify => protocol.verify(ask),
        })
    }

    /// Runs a script as `EVAL` does, in the mutant's words if there is one for it.
    fn execute(&self, item: &ScriptCall, asked: Asked) -> Result<Told> {
        let value = match self.eval(item, asked.request) {
            Ok(value) => value,
            Err(error) => return self.refused(&error),
        };
        let answer = Reply::read(asked.request, value).ok().and_then(|reply| {
            if item.script.batch {
                reply.field(0).and_then(Answer::of_item)
            } else {
                Answer::of_script(item.script, &reply)
            }
        });
        Ok(answer.map_or(Told::Unreadable, Told::Answer))
    }

    fn eval(&self, item: &ScriptCall, request: Request) -> Result<Value, StoreError> {
        let patched = self
            .patch
            .as_ref()
            .and_then(|patch| patch.source(item.script));
        let (keys, request) = (item.keys.len().to_string(), request.to_string());
        let command = |name: &str, script: &str| {
            let mut command: Vec<&str> = vec![name, script, &keys];
            command.extend(item.keys.iter().map(String::as_str));
            command.push(&request);
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

    /// A shipped script never fails here; a mutant may.
    fn refused(&self, error: &StoreError) -> Result<Told> {
        ensure!(self.patch.is_some(), "a script failed: {error}");
        Ok(Told::Refused)
    }

    /// Whether the last script told the waiters to look, and whom it told of a grant.
    fn take_messages(&mut self) -> (bool, Vec<(Seat, Message)>) {
        let (mut look, mut grants) = (false, Vec::new());
        while let Ok(event) = self.events.try_recv() {
            let Event::Message { payload, .. } = event else {
                continue;
            };
            look |= protocol::is_wake(&payload);
            grants.extend(protocol::Grant::read(&payload).and_then(|grant| {
                let message = Message {
                    token: grant.token,
                    request: grant.request,
                };
                Some((self.seat_of(grant.claim)?, message))
            }));
        }
        (look, grants)
    }

    fn seat_of(&self, claim: &str) -> Option<Seat> {
        let mut seats = seats(self.bounds.clients, self.bounds.attempts());
        seats.find(|seat| self.claim(*seat).as_str() == claim)
    }

    /// The state without the key of the last token.
    pub(super) fn without_fence(&mut self, server: u32, tick: u8) -> Result<u32> {
        self.store.stop_clock(server_time(tick));
        self.store.restore(&self.snapshots.value(server));
        let fence = self.model.protocol.name().part("fence");
        self.store.execute(&["DEL", &fence])?;
        Ok(self.snapshots.number(self.store.snapshot()))
    }

    /// The state at a later tick, without what has expired.
    pub(super) fn settle(&mut self, server: u32, tick: u8) -> u32 {
        if let Some(settled) = self.settled.get(&(server, tick)) {
            return *settled;
        }
        self.store.stop_clock(server_time(tick));
        self.store.restore(&self.snapshots.value(server));
        let settled = self.snapshots.number(self.store.snapshot());
        self.settled.insert((server, tick), settled);
        settled
    }

    /// Who holds and who waits on the server, as its own scripts tell.
    pub(super) fn standing(&mut self, server: u32, tick: u8) -> Result<Rc<Standing>> {
        if let Some(standing) = self.standings.get(&(server, tick)) {
            return Ok(Rc::clone(standing));
        }
        // Questions change nothing.
        self.store.stop_clock(server_time(tick));
        self.store.restore(&self.snapshots.value(server));
        let (mut left, mut queued, mut reading) = (Vec::new(), Vec::new(), Vec::new());
        for seat in seats(self.bounds.clients, self.bounds.attempts()) {
            let place = self.queued(seat)?;
            let mut held = None;
            for &mode in self.model.modes() {
                let ends = self.left(seat, mode)?;
                if mode.reads() {
                    reading.push(ends.is_some() || place.is_some() && self.waits_to_read(seat)?);
                }
                held = held.max(ends);
            }
            left.push(held);
            queued.push(place);
        }
        let standing = Rc::new(Standing {
            left,
            queued,
            reading,
        });
        self.standings.insert((server, tick), Rc::clone(&standing));
        Ok(standing)
    }

    /// For how long a claim holds, ms, if it does.
    fn left(&self, seat: Seat, mode: Mode) -> Result<Option<u64>> {
        let asked = Asked {
            question: Question::Verify,
            mode,
            request: 1,
            floor: 0,
            token: None,
        };
        let told = self.execute(&self.item(seat, asked)?, asked)?;
        Ok(match told {
            Told::Answer(Answer::Held(left)) => Some(u64::try_from(left.as_millis())?),
            _ => None,
        })
    }

    /// The place of a claim in the queue, if there is one.
    fn queued(&self, seat: Seat) -> Result<Option<u64>> {
        let Some(queue) = self.model.protocol.queue() else {
            return Ok(None);
        };
        let item = queue.position(self.claim(seat).as_str());
        let reply = Reply::read(1, self.eval(&item, 1)?)?;
        let place = reply.field(1).and_then(Value::as_i64);
        let place = u64::try_from(place.context("a queue without places")?)?;
        Ok((place > 0).then_some(place))
    }

    /// Whether a claim in the queue waits to read: no script tells, so what they note is read.
    fn waits_to_read(&self, seat: Seat) -> Result<bool> {
        let waiters = self.model.protocol.name().part("waiters");
        let noted = self
            .store
            .execute(&["HGET", &waiters, self.claim(seat).as_str()])?;
        Ok(noted.as_str().is_some_and(|noted| noted.ends_with(":read")))
    }

    /// Where a seat's claim stands in a [`Standing`].
    pub(super) fn place_of(&self, seat: Seat) -> usize {
        usize::from(seat.client * self.bounds.attempts() + seat.attempt)
    }

    /// Whether the server has anything but the last token and marks of leaves.
    pub(super) fn has_remains(&self, server: u32, tick: u8) -> bool {
        self.store.stop_clock(server_time(tick));
        self.store.restore(&self.snapshots.value(server));
        let name = self.model.protocol.name();
        let marks: Vec<String> = self
            .claims
            .iter()
            .flatten()
            .map(|id| name.tombstone(id))
            .collect();
        let fence = name.part("fence");
        let keys = self.store.keys();
        keys.iter().any(|key| *key != fence && !marks.contains(key))
    }

    /// The state with the clients renamed: what was client `i` is client `names[i]`.
    pub(super) fn renamed(&mut self, server: u32, names: [u8; 3]) -> u32 {
        if let Some(renamed) = self.renamed.get(&(server, names)) {
            return *renamed;
        }
        let renamed = self
            .snapshots
            .value(server)
            .renamed(|text| rename(text, &names));
        let renamed = self.snapshots.number(renamed);
        self.renamed.insert((server, names), renamed);
        renamed
    }
}

/// The channels on which this kind's clients are told something.
fn channels(model: &Model, claims: &[Vec<ClaimId>]) -> Vec<String> {
    let channel = model.protocol.channel();
    if model.protocol.queue().is_none() {
        return vec![channel];
    }
    // An owner is its client's id and a number.
    let owners = claims.iter().filter_map(|claims| claims.first());
    owners
        .map(|claim| claim.owner().to_string())
        .filter_map(|owner| Some(format!("{channel}:{}", owner.split_once(':')?.0)))
        .collect()
}
