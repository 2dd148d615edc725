//! A server in a search: the embedded engine with the shipped scripts, one of them patched if wanted.

use std::iter;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::FutureExt as _;
use lockkeeper_core::protocol::{Answer, Protocol, RequestContext, ScriptCall};
use lockkeeper_core::store::{Event, Reply, Request, Store as _, StoreError, Value};
use lockkeeper_core::{ClaimId, Name};
use lockkeeper_lua::name;
use lockkeeper_memory::{MemoryStore, Snapshot};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

use super::state::{Interned, Ticks};
use crate::patch::Patch;

/// The last token before a search in which the server's clock is behind the tokens: far ahead of the clock.
const LAST_TOKEN: &str = "5000000000";

/// The keys that an administrator's scripts read.
fn keys_of(name: &Name) -> [String; 4] {
    let [holders, queue, state] = ["holders", "queue", "state"].map(|part| name.part(part));
    [name.main().to_owned(), holders, queue, state]
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::List(items) => items,
        _ => &[],
    }
}

/// A server whose clock stands still. Its states are numbered in order of appearance, and each use begins with restoring one.
#[derive(Debug)]
pub(super) struct Server {
    ticks: Ticks,
    ahead: i64,
    patch: Option<Patch>,
    store: MemoryStore,
    events: mpsc::UnboundedReceiver<Event>,
    states: Interned<Snapshot>,
    later: FxHashMap<(u32, u8), u32>,
}

impl Server {
    /// Creates a server without keys, its clock this many milliseconds ahead of others.
    pub(super) fn new(ticks: Ticks, ahead: i64, patch: Option<&Patch>) -> Result<Self> {
        let store = MemoryStore::new();
        let server = Self {
            ticks,
            ahead,
            patch: patch.cloned(),
            events: store.events().context("the events are taken")?,
            store,
            states: Interned::default(),
            later: FxHashMap::default(),
        };
        server.set_clock(0);
        Ok(server)
    }

    fn set_clock(&self, tick: u8) {
        let time = self.ticks.server_time(tick, self.ahead);
        self.store.stop_clock(time);
    }

    /// Makes the server lose all data at this tick.
    pub(super) fn restart(&self, tick: u8) {
        self.set_clock(tick);
        self.store.restart_empty();
    }

    pub(super) fn subscribe(&self, channel: &str) -> Result<()> {
        let subscribed = self.store.subscribe(channel).now_or_never();
        Ok(subscribed.context("the embedded engine waits for nobody")??)
    }

    /// Sets the last token of a name so far ahead of the clock that every token is the last one plus one, as after the clock
    /// has stepped back.
    pub(super) fn set_clock_behind(&self, name: &Name) -> Result<()> {
        let counter = name.counter();
        self.execute(&["SET", &counter, LAST_TOKEN, "PX", "1000000000"])?;
        Ok(())
    }

    /// Puts the counter of a name back to a token from long ago, as a failover does that has lost all later ones.
    pub(super) fn put_counter_back(&self, name: &Name) -> Result<()> {
        // Scripts store a counter for a day after it was raised.
        self.execute(&["SET", &name.counter(), "1", "PX", "86390000"])?;
        Ok(())
    }

    /// Restores this state at this tick, without what has expired by then.
    pub(super) fn restore(&self, state: u32, tick: u8) {
        self.set_clock(tick);
        self.store.restore(&self.states.value(state));
    }

    /// The number of the present state.
    pub(super) fn number(&mut self) -> u32 {
        self.states.number(self.store.snapshot())
    }

    /// The number of a state at a later tick.
    pub(super) fn later(&mut self, state: u32, tick: u8) -> u32 {
        if let Some(later) = self.later.get(&(state, tick)) {
            return *later;
        }
        self.restore(state, tick);
        let later = self.number();
        self.later.insert((state, tick), later);
        later
    }

    /// The number of a state with every text in it passed through `rename`.
    pub(super) fn renamed(&mut self, state: u32, rename: impl Fn(&[u8]) -> Vec<u8>) -> u32 {
        let renamed = self.states.value(state).renamed(rename);
        self.states.number(renamed)
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.store.keys()
    }

    pub(super) fn execute(&self, command: &[&str]) -> Result<Value, StoreError> {
        self.store.execute(command)
    }

    /// Runs a call of this many items and returns their answers; `None` is an answer that cannot be read. Returns no answers
    /// if the script fails, which only a patched one may do.
    pub(super) fn call(
        &self,
        call: &ScriptCall,
        request: Request,
        items: usize,
    ) -> Result<Option<Vec<Option<Answer>>>> {
        let value = match self.eval(call, request) {
            Ok(value) => value,
            Err(error) => {
                ensure!(self.patch.is_some(), "a script failed: {error}");
                return Ok(None);
            }
        };
        let Ok(reply) = Reply::read(request, value) else {
            return Ok(Some(vec![None; items]));
        };
        if call.script.batch {
            let answer = |item| reply.field(item).and_then(Answer::of_item);
            return Ok(Some((0..items).map(answer).collect()));
        }
        Ok(Some(vec![Answer::of_script(call.script, &reply)]))
    }

    /// Runs a script as `EVAL` does, with the patch if it is the patched one.
    pub(super) fn eval(&self, call: &ScriptCall, request: Request) -> Result<Value, StoreError> {
        let (keys, request) = (call.keys.len().to_string(), request.to_string());
        let run = |name: &str, script: &str| {
            let words = [name, script, keys.as_str()].into_iter();
            let words = words.chain(call.keys.iter());
            let words = words.chain(iter::once(request.as_str()));
            let words = words.chain(call.args.iter());
            self.execute(&words.collect::<Vec<_>>())
        };
        let patch = self.patch.as_ref();
        if let Some(source) = patch.and_then(|patch| patch.source(call.script)) {
            return run("EVAL", source);
        }
        match run("EVALSHA", call.script.sha1) {
            Err(error) if error.is_noscript() => run("EVAL", call.script.source),
            result => result,
        }
    }

    /// How long a claim still holds, if it does, according to its kind's script.
    pub(super) fn left(&self, kind: &dyn Protocol, claim: &ClaimId) -> Result<Option<Duration>> {
        let call = kind.verify(RequestContext::new(claim, Duration::ZERO, 0, None));
        let answers = self.call(&call, 1, 1)?.unwrap_or_default();
        match answers.first() {
            Some(Some(Answer::Held(left))) => Ok(Some(*left)),
            Some(Some(Answer::Revoked)) => self.left_of_revoked(kind.name(), claim).map(Some),
            _ => Ok(None),
        }
    }

    /// How long a revoked claim still holds, as an administrator is told.
    fn left_of_revoked(&self, name: &Name, claim: &ClaimId) -> Result<Duration> {
        let call = ScriptCall::new(&name::INSPECT, keys_of(name), [name.main()]);
        let reply = Reply::read(1, self.eval(&call, 1)?)?;
        let claims = reply.field(3).map_or(&[][..], items);
        let its = claims.iter().map(items);
        let mut its = its.filter(|it| it.first().and_then(Value::as_str) == Some(claim.as_str()));
        let left = its.next().and_then(|it| it.get(1)?.as_i64());
        let left = left.context("a revoked claim that no administrator sees")?;
        Ok(Duration::from_millis(left.try_into()?))
    }

    /// Takes a name by force from a claim and those that hold with it.
    pub(super) fn free(&self, kind: &dyn Protocol, claim: &ClaimId) -> Result<()> {
        let args = [claim.as_str().to_owned(), kind.channel()];
        self.eval(&ScriptCall::new(&name::FREE, keys_of(kind.name()), args), 1)?;
        Ok(())
    }

    /// Revokes a name.
    pub(super) fn revoke(&self, name: &Name) -> Result<()> {
        let call = ScriptCall::new(&name::REVOKE, keys_of(name), ScriptCall::NONE);
        self.eval(&call, 1)?;
        Ok(())
    }

    /// The messages since the last call: the channel and the payload.
    pub(super) fn messages(&mut self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let events = iter::from_fn(|| self.events.try_recv().ok());
        events.filter_map(|event| match event {
            Event::Message {
                channel, payload, ..
            } => Some((channel, payload)),
            _ => None,
        })
    }
}
