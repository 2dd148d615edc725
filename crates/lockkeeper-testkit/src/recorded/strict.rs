//! A store that counts replies to the wrong request, and records the tokens that pass through it.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{BadReply, Call, Event, Replicated, Reply, Store, StoreError, Value};
use lockkeeper_lua::Status;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::history::now;

/// When each token was first seen by any client.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<BTreeMap<u64, u64>>);

impl Tokens {
    /// When a token was first seen, if ever.
    pub(super) fn first_heard(&self, token: u64) -> Option<u64> {
        self.0.lock().get(&token).copied()
    }

    pub(super) fn hear(&self, token: u64) {
        self.0.lock().entry(token).or_insert_with(now);
    }

    /// Records the tokens of a reply: of a grant, or of the grants among the outcomes of a batch.
    fn read(&self, reply: &Reply) {
        if reply.status() == Status::Granted {
            self.read_field(reply.fields().first());
        }
        for outcome in reply.fields() {
            if let Value::List(fields) = outcome
                && fields.first().and_then(Value::as_str) == Some(Status::Granted.as_str())
            {
                self.read_field(fields.get(1));
            }
        }
    }

    fn read_field(&self, token: Option<&Value>) {
        let token = token.and_then(Value::as_str).map(str::parse);
        if let Some(Ok(token)) = token {
            self.hear(token);
        }
    }

    /// Records the token of a message about a grant: `G <claim> <token> <request>`.
    fn read_message(&self, payload: &[u8]) {
        let text = String::from_utf8_lossy(payload);
        if let ["G", _, token, _] = text.split(' ').collect::<Vec<_>>()[..]
            && let Ok(token) = token.parse()
        {
            self.hear(token);
        }
    }
}

/// Every reply of a script contains the number of its request, which the store underneath compares. This store counts the
/// mismatches.
#[derive(Debug)]
pub(super) struct Strict {
    inner: Arc<dyn Store>,
    foreign: Arc<AtomicU64>,
    tokens: Arc<Tokens>,
}

impl Strict {
    pub(super) const fn new(
        inner: Arc<dyn Store>,
        foreign: Arc<AtomicU64>,
        tokens: Arc<Tokens>,
    ) -> Self {
        Self {
            inner,
            foreign,
            tokens,
        }
    }

    fn count(&self, error: &StoreError) {
        if error.source().is_some_and(|source| source.is::<BadReply>()) {
            self.foreign.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl Store for Strict {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        let reply = self.inner.call(call).await;
        reply
            .inspect(|reply| self.tokens.read(reply))
            .inspect_err(|error| self.count(error))
    }

    async fn call_replicated(
        &self,
        call: Call,
        replicas: u32,
        patience: Duration,
    ) -> Result<Replicated, StoreError> {
        let reply = self.inner.call_replicated(call, replicas, patience).await;
        reply.inspect_err(|error| self.count(error))
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.inner.subscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.inner.unsubscribe(channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        let mut events = self.inner.events()?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let tokens = Arc::clone(&self.tokens);
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if let Event::Message { payload, .. } = &event {
                    tokens.read_message(payload);
                }
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Some(receiver)
    }

    fn group(&self, key: &str) -> u32 {
        self.inner.group(key)
    }

    fn server_of(&self, group: u32) -> u32 {
        self.inner.server_of(group)
    }

    fn servers(&self) -> Vec<u32> {
        self.inner.servers()
    }

    fn address(&self) -> String {
        self.inner.address()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
