//! What goes over a connection, whichever library it uses: answers, messages, changes of subscriptions, its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::store::{StoreError, Value};
use tokio::task::JoinHandle;

/// What a server answers to one request. An error reply is the server's refusal.
pub(crate) type Answer = Result<Value, StoreError>;

/// What a connection for messages receives besides answers.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    Message {
        channel: &'a str,
        payload: &'a [u8],
    },
    /// This many messages were dropped, because they were not read in time.
    #[cfg_attr(
        not(feature = "fred"),
        expect(dead_code, reason = "redis-rs drops none")
    )]
    Missed(u64),
    /// The server has ended a sharded subscription, because the slot has moved to another node.
    #[cfg_attr(
        not(feature = "redis-rs"),
        expect(dead_code, reason = "fred hears nothing of it")
    )]
    Taken,
}

/// The task that reads the socket calls it, so it must not wait.
pub(crate) type Listener = Arc<dyn Fn(Heard<'_>) + Send + Sync>;

/// A change of a connection's subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Subscribe(&'a str),
    Unsubscribe(&'a str),
    SubscribeSharded(&'a str),
    UnsubscribeSharded(&'a str),
}

impl<'a> Change<'a> {
    /// The command and the channel.
    pub(super) const fn words(self) -> (&'static str, &'a str) {
        match self {
            Self::Subscribe(channel) => ("SUBSCRIBE", channel),
            Self::Unsubscribe(channel) => ("UNSUBSCRIBE", channel),
            Self::SubscribeSharded(channel) => ("SSUBSCRIBE", channel),
            Self::UnsubscribeSharded(channel) => ("SUNSUBSCRIBE", channel),
        }
    }
}

/// The result of a change: how many subscriptions of its kind there are then, if that is known, or the server's refusal.
pub(crate) type Changed = Result<Option<usize>, StoreError>;

/// A connection that has just been made.
pub(crate) struct Opened<W> {
    pub(crate) wire: W,
    pub(crate) lifeline: Lifeline,
    /// The answer to `HELLO`, which says what the server is.
    pub(crate) hello: Answer,
}

impl<W> Opened<W> {
    /// The same, with the callers' half as `into` makes it.
    pub(super) fn map<T>(self, into: impl FnOnce(W) -> T) -> Opened<T> {
        Opened {
            wire: into(self.wire),
            lifeline: self.lifeline,
            hello: self.hello,
        }
    }
}

/// The owner's half: dropping it ends the connection, whatever the server does.
#[derive(Debug)]
pub(crate) struct Lifeline(pub(super) JoinHandle<String>);

impl Lifeline {
    /// `life` ends with the connection and returns why; dropping it ends the connection.
    pub(super) fn spawn(life: impl Future<Output = String> + Send + 'static) -> Self {
        Self(tokio::spawn(life))
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits until the connection has ended and returns why. Must not be called again afterwards.
    pub(crate) async fn end(&mut self) -> String {
        (&mut self.0)
            .await
            .unwrap_or_else(|_| "it was closed".to_owned())
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The text that a `PING` carries, to recognize its answer. Unique within this process.
pub(crate) fn nonce() -> String {
    static NONCES: AtomicU64 = AtomicU64::new(0);
    format!("lockkeeper-{}", NONCES.fetch_add(1, Ordering::Relaxed))
}

/// An answer that belongs to something else.
pub(crate) fn out_of_step() -> StoreError {
    StoreError::unknown("the replies of the connection are out of step")
}

/// For a request that was not answered in time.
pub(super) fn no_answer() -> StoreError {
    StoreError::unknown("no answer in time")
}
