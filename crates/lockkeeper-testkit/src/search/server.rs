//! The server: the shipped scripts on the embedded engine, each run remembered.

use anyhow::{Context as _, Result, ensure};
use futures_util::FutureExt as _;
use lockkeeper_core::ClaimId;
use lockkeeper_core::protocol::{Answer, Ask, Item};
use lockkeeper_core::store::{Event, Reply, Store as _, StoreError, Value};
use lockkeeper_memory::{MemoryStore, Snapshot};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

use super::bounds::{Bounds, server_time};
use super::model::{Model, Seat, claims, rename};
use super::state::{Asked, Interned, Question, Told};
use crate::mutants::Patch;

/// The last token before the search begins, if the clock is behind it. Far ahead of the clock.
const LAST_TOKEN: &str = "5000000000";

/// What one run of a script changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) server: u32,
    pub(super) told: Told,
    /// Whether it told the waiters to look.
    pub(super) published: bool,
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
    alive: FxHashMap<(u32, u8), u16>,
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
        store
            .subscribe(&model.protocol.channel())
            .now_or_never()
            .context("the embedded engine waits for nobody")??;
        if bounds.clock_behind {
            let fence = model.protocol.name().part("fence");
            store.execute(&["SET", &fence, LAST_TOKEN, "PX", "1000000000"])?;
        }
        let mut snapshots = Interned::new();
        let empty = snapshots.number(store.snapshot());
        let server = Self {
            model: model.clone(),
            bounds: bounds.clone(),
            claims: claims(bounds.clients, bounds.attempts())?,
            patch: patch.cloned(),
            store,
            events,
            snapshots,
            runs: FxHashMap::default(),
            settled: FxHashMap::default(),
            alive: FxHashMap::default(),
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
            return Ok(*run);
        }
        let item = self.item(seat, asked);
        self.store.stop_clock(server_time(tick));
        self.store.restore(&self.snapshots.value(server));
        let told = self.execute(&item, asked.question)?;
        let run = Run {
            server: self.snapshots.number(self.store.snapshot()),
            told,
            published: self.take_messages(),
        };
        self.runs.insert(key, run);
        Ok(run)
    }

    fn item(&self, seat: Seat, asked: Asked) -> Item {
        let protocol = &self.model.protocol;
        let ttl = self.bounds.ttl(seat.attempt);
        let ask = Ask::new(self.claim(seat), ttl, asked.floor, asked.token);
        match asked.question {
            Question::Acquire => protocol.acquire(ask),
            Question::Renew => protocol.renew(ask),
            Question::Leave { overtakes } => protocol.leave(ask, overtakes),
            Question::Verify => protocol.verify(ask),
        }
    }

    /// Runs a script as `EVAL` does, in the mutant's words if there is one for it.
    fn execute(&self, item: &Item, question: Question) -> Result<Told> {
        let patched = self
            .patch
            .as_ref()
            .and_then(|patch| patch.source(item.script));
        let number = question.number();
        let (keys, request) = (item.keys.len().to_string(), number.to_string());
        let mut command = vec!["EVAL", patched.unwrap_or(item.script.source), &keys];
        command.extend(item.keys.iter().map(String::as_str));
        command.push(&request);
        command.extend(item.args.iter().map(String::as_str));
        let value = match self.store.execute(&command) {
            Ok(value) => value,
            Err(error) => return self.refused(&error),
        };
        let reply = Reply::read(number, value).and_then(|reply| {
            let Some(status) = reply.field(0).filter(|_| item.script.batch) else {
                return Ok(reply);
            };
            // A batch of one: its item's outcome reads like a reply of its own.
            let echo = Value::Bytes(request.clone().into_bytes());
            Reply::read(number, Value::List(vec![echo, status.clone()]))
        });
        let answer = reply
            .ok()
            .and_then(|reply| self.model.protocol.decode(item.script, &reply));
        Ok(answer.map_or(Told::Unreadable, Told::Answer))
    }

    /// A shipped script never fails here; a mutant may.
    fn refused(&self, error: &StoreError) -> Result<Told> {
        ensure!(self.patch.is_some(), "a script failed: {error}");
        Ok(Told::Refused)
    }

    fn take_messages(&mut self) -> bool {
        let mut look = false;
        while let Ok(event) = self.events.try_recv() {
            if let Event::Message { payload, .. } = event {
                look |= self.model.protocol.signal(&payload).is_some();
            }
        }
        look
    }

    /// The state without the key of the last token.
    pub(super) fn without_fence(&mut self, server: u32) -> Result<u32> {
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

    /// Which seats hold on the server, as its own scripts tell, one bit for each.
    pub(super) fn alive(&mut self, server: u32, tick: u8) -> Result<u16> {
        if let Some(alive) = self.alive.get(&(server, tick)) {
            return Ok(*alive);
        }
        let mut alive = 0;
        for client in 0..self.bounds.clients {
            for attempt in 0..self.bounds.attempts() {
                let seat = Seat { client, attempt };
                let asked = Asked {
                    question: Question::Verify,
                    floor: 0,
                    token: None,
                };
                let told = self.run(server, tick, seat, asked)?.told;
                if let Told::Answer(Answer::Held(_)) = told {
                    alive |= self.bit(seat);
                }
            }
        }
        self.alive.insert((server, tick), alive);
        Ok(alive)
    }

    /// The bit of a seat among those [alive](Self::alive).
    pub(super) fn bit(&self, seat: Seat) -> u16 {
        1 << (seat.client * self.bounds.attempts() + seat.attempt)
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
