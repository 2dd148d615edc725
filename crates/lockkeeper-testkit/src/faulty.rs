//! A store that loses, delays and refuses requests on demand, and counts them.
//!
//! Faults are planned per script and used up in order, so a test says exactly which request meets which fault.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Form, Reply, Store, StoreError};
use lockkeeper_lua::Script;
use lockkeeper_memory::MemoryStore;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, oneshot};

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The server executes it and the reply arrives.
    Pass,
    /// The server executes it and the reply is lost: the caller waits for its whole timeout.
    LoseReply,
    /// It never arrives: the caller waits for its whole timeout.
    LoseRequest,
    /// It stays in flight until [`FaultyStore::deliver`]; by then no caller waits for the reply any more.
    Keep,
    /// It is never sent, and the caller knows that.
    NotSent,
    /// The server answers with this error.
    Refuse(&'static str),
}

/// A store with planned faults. See the [module](self).
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    fates: VecDeque<(&'static str, Fate)>,
    kept: Vec<Call>,
    seen: Vec<Sent>,
    /// Keys that contain this text form a group of their own.
    apart: Option<String>,
    /// Requests whose first key contains this text never arrive.
    silent: Option<String>,
    /// How long requests and replies are on their way, and how much later a request arrives if its caller is dropped.
    latency: Option<(Duration, Duration)>,
    /// How long the replies to each script take.
    delays: BTreeMap<&'static str, Duration>,
    /// Every subscription is refused with this error.
    deaf: Option<&'static str>,
    /// Subscriptions are confirmed, but no message arrives.
    mute: bool,
    subscriptions: usize,
}

/// What counts as one script: a claim that asks with `lock/take` asks to hold, as with `lock/acquire`.
fn verb(script: &Script) -> &'static str {
    match script.name {
        "lock/take" => "lock/acquire",
        name => name,
    }
}

/// A request that was sent.
#[derive(Debug)]
struct Sent {
    script: &'static str,
    form: Form,
    keys: Vec<String>,
}

impl FaultyStore {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let clock = inner.clock();
        Self::by_clock(inner, clock)
    }

    /// A client with these settings, and the store on which a test plans faults for its requests to `server`.
    ///
    /// # Errors
    ///
    /// If the settings are inconsistent.
    pub fn client(
        server: &MemoryStore,
        settings: ClientBuilder,
    ) -> lockkeeper::Result<(Client, Arc<Self>)> {
        let store = Self::new(Arc::new(server.sibling()));
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        Ok((settings.build(shared)?, store))
    }

    /// Wraps a store, with this clock for its clients.
    pub fn by_clock(inner: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            clock,
            state: Mutex::default(),
            arrived: Notify::new(),
        })
    }

    /// Plans the fate of the next request of this script that has none planned yet.
    pub fn plan(&self, script: &Script, fate: Fate) {
        self.state().fates.push_back((verb(script), fate));
    }

    /// From now on, requests whose first key contains this text never arrive: their server is dead.
    pub fn silence(&self, text: &str) {
        self.state().silent = Some(text.to_owned());
    }

    /// From now on, keys that contain this text form a group of their own, as on another server of a cluster.
    pub fn split_groups(&self, text: &str) {
        self.state().apart = Some(text.to_owned());
    }

    /// From now on, every request takes this long to arrive, and its reply as long again. As on a network, a request arrives
    /// even if its caller is dropped meanwhile, but then this much later.
    pub fn delay(&self, latency: Duration, if_dropped: Duration) {
        self.state().latency = Some((latency, if_dropped));
    }

    /// From now on, every reply to this script takes this long, or the caller's whole timeout.
    pub fn slow_down(&self, script: &Script, delay: Duration) {
        self.state().delays.insert(verb(script), delay);
    }

    /// From now on, every subscription is refused with this error.
    pub fn refuse_subscriptions(&self, error: &'static str) {
        self.state().deaf = Some(error);
    }

    /// From now on, no message arrives on any subscribed channel, and clients are not notified of that.
    pub fn lose_messages(&self) {
        self.state().mute = true;
    }

    /// How many subscriptions were requested.
    pub fn subscriptions(&self) -> usize {
        self.state().subscriptions
    }

    /// How often this script was sent.
    pub fn sent(&self, script: &Script) -> usize {
        self.state()
            .seen
            .iter()
            .filter(|sent| sent.script == verb(script))
            .count()
    }

    /// The keys of each request of this script, in order.
    pub fn keys_sent(&self, script: &Script) -> Vec<Vec<String>> {
        let state = self.state();
        let sent = state.seen.iter().filter(|sent| sent.script == verb(script));
        sent.map(|sent| sent.keys.clone()).collect()
    }

    /// How often this script was sent as text.
    pub fn sent_by_source(&self, script: &Script) -> usize {
        self.state()
            .seen
            .iter()
            .filter(|sent| sent.script == verb(script) && sent.form == Form::Source)
            .count()
    }

    /// Waits until this script has been sent at least this often.
    pub async fn wait_sent(&self, script: &Script, times: usize) {
        loop {
            let arrived = self.arrived.notified();
            if self.sent(script) >= times {
                return;
            }
            arrived.await;
        }
    }

    /// Delivers the delayed requests in order through another store, and returns the server's replies.
    pub async fn deliver(&self, by: &dyn Store) -> Vec<Result<Reply, StoreError>> {
        let kept = std::mem::take(&mut self.state().kept);
        let mut replies = Vec::new();
        for call in kept {
            replies.push(by.call(call).await);
        }
        replies
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Determines the fate of this call and counts it as sent.
    fn fate(&self, call: &Call) -> Fate {
        let name = verb(call.item.script);
        let mut state = self.state();
        state.seen.push(Sent {
            script: name,
            form: call.form,
            keys: call.item.keys.iter().map(str::to_owned).collect(),
        });
        let key = call.item.keys.first();
        let dead = |silent: &String| key.is_some_and(|key| key.contains(silent.as_str()));
        if state.silent.as_ref().is_some_and(dead) {
            drop(state);
            self.arrived.notify_waiters();
            return Fate::LoseRequest;
        }
        let planned = state.fates.iter().position(|(script, _)| *script == name);
        let fate = planned
            .and_then(|index| state.fates.remove(index))
            .map_or(Fate::Pass, |(_, fate)| fate);
        if fate == Fate::Keep {
            let mut kept = call.clone();
            kept.form = Form::Source;
            state.kept.push(kept);
        }
        drop(state);
        self.arrived.notify_waiters();
        fate
    }
}

/// Delivers a call and its reply, each after `latency`. If the caller is dropped, the call arrives `if_dropped` later.
async fn travel(
    to: Arc<dyn Store>,
    call: Call,
    latency: Duration,
    if_dropped: Duration,
) -> Result<Reply, StoreError> {
    let (caller, reply) = oneshot::channel();
    tokio::spawn(async move {
        tokio::time::sleep(latency).await;
        if caller.is_closed() {
            tokio::time::sleep(if_dropped).await;
        }
        // Nobody waits for the reply if the caller was dropped.
        let _ = caller.send(to.call(call).await);
    });
    let reply = reply.await;
    tokio::time::sleep(latency).await;
    reply.unwrap_or_else(|_| Err(StoreError::unknown("the runtime has ended")))
}

#[async_trait]
impl Store for FaultyStore {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        let timeout = call.timeout;
        let silence = async {
            tokio::time::sleep(timeout).await;
            Err(StoreError::unknown("no answer in time"))
        };
        match self.fate(&call) {
            Fate::Pass => {
                let (latency, delay) = {
                    let state = self.state();
                    let delay = state.delays.get(verb(call.item.script));
                    (state.latency, delay.copied())
                };
                let answer = match latency {
                    Some((latency, if_dropped)) => {
                        let to = Arc::clone(&self.inner);
                        travel(to, call, latency, if_dropped).await
                    }
                    None => self.inner.call(call).await,
                };
                match delay {
                    Some(delay) if delay >= timeout => silence.await,
                    Some(delay) => {
                        tokio::time::sleep(delay).await;
                        answer
                    }
                    None => answer,
                }
            }
            Fate::LoseReply => {
                let _ = self.inner.call(call).await;
                silence.await
            }
            Fate::LoseRequest | Fate::Keep => silence.await,
            Fate::NotSent => Err(StoreError::not_sent("no connection")),
            Fate::Refuse(text) => Err(StoreError::refused(text)),
        }
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        let (deaf, mute) = {
            let mut state = self.state();
            state.subscriptions += 1;
            (state.deaf, state.mute)
        };
        match deaf {
            Some(error) => Err(StoreError::refused(error)),
            None if mute => Ok(()),
            None => self.inner.subscribe(channel).await,
        }
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.inner.unsubscribe(channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.inner.events()
    }

    fn group(&self, key: &str) -> u32 {
        let apart = |text: &String| key.contains(text.as_str());
        u32::from(self.state().apart.as_ref().is_some_and(apart))
    }

    fn server_of(&self, group: u32) -> u32 {
        group
    }

    fn address(&self) -> String {
        self.inner.address()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
