//! The seam to the client libraries: one connection that lives exactly as long as its socket.
//!
//! Only the modules behind this one, [`redis_rs`] and [`fred`], use a client library. Neither reconnects here, follows redirections
//! or sends anything twice: the owner of a connection replaces it when it has ended, and a request that was under way is then
//! unknown.

#[cfg(feature = "fred")]
pub(crate) mod fred;
#[cfg(feature = "redis-rs")]
pub(crate) mod redis_rs;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::store::{Outcome, StoreError, Value};
use tokio::task::JoinHandle;

use crate::credentials::Credentials;
use crate::options::{RedisOptions, Transport};
use crate::request::Outgoing;
use crate::target::Target;

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
    const fn words(self) -> (&'static str, &'a str) {
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

/// The callers' half of a connection.
pub(crate) enum Wire {
    #[cfg(feature = "redis-rs")]
    RedisRs(redis_rs::Wire),
    #[cfg(feature = "fred")]
    Fred(fred::Wire),
}

/// A connection that has just been made.
pub(crate) struct Opened {
    pub(crate) wire: Wire,
    pub(crate) lifeline: Lifeline,
    /// The answer to `HELLO`, which says what the server is.
    pub(crate) hello: Answer,
}

impl Wire {
    /// Connects, logs in, selects the database and waits for a first `PONG`. With a listener it is a connection for messages, which
    /// runs no scripts.
    ///
    /// Dropping the future closes every connection that was opened.
    pub(crate) async fn open(
        target: &Target,
        credentials: Option<&Credentials>,
        options: &RedisOptions,
        listener: Option<Listener>,
    ) -> Result<Opened, StoreError> {
        match options.transport {
            #[cfg(feature = "redis-rs")]
            Transport::RedisRs => redis_rs::open(target, credentials, options, listener).await,
            #[cfg(feature = "fred")]
            Transport::Fred => fred::open(target, credentials, options, listener).await,
        }
    }

    /// Sends one request and waits for its answer. With `sharded`, the request is worded for a server that shards the messages of
    /// names.
    ///
    /// It is queued when the future is first polled: nothing is awaited before that.
    pub(crate) async fn request(
        &self,
        request: &Outgoing,
        sharded: bool,
        patience: Duration,
    ) -> Answer {
        match self {
            #[cfg(feature = "redis-rs")]
            Self::RedisRs(wire) => wire.request(request, sharded, patience).await,
            // Boxed: fred's futures are large, and requests by the other library would become as large.
            #[cfg(feature = "fred")]
            Self::Fred(wire) => Box::pin(wire.request(request, sharded, patience)).await,
        }
    }

    /// The same, directly after an `ASKING`, on a connection that only this caller uses meanwhile.
    pub(crate) async fn request_asking(
        &self,
        request: &Outgoing,
        sharded: bool,
        patience: Duration,
    ) -> Answer {
        match self {
            #[cfg(feature = "redis-rs")]
            Self::RedisRs(wire) => wire.request_asking(request, sharded, patience).await,
            #[cfg(feature = "fred")]
            Self::Fred(wire) => Box::pin(wire.request_asking(request, sharded, patience)).await,
        }
    }

    /// Changes subscriptions and asks for an echo after them. Returns the result of each change, in order. An error means that the
    /// connection is no longer usable. Without any change it only asks for the echo.
    pub(crate) async fn change(
        &self,
        changes: &[Change<'_>],
        patience: Duration,
    ) -> Result<Vec<Changed>, StoreError> {
        match self {
            #[cfg(feature = "redis-rs")]
            Self::RedisRs(wire) => wire.change(changes, patience).await,
            #[cfg(feature = "fred")]
            Self::Fred(wire) => Box::pin(wire.change(changes, patience)).await,
        }
    }

    /// Ends the connection with a `QUIT`, after everything that is under way.
    pub(crate) async fn end(&self) {
        match self {
            #[cfg(feature = "redis-rs")]
            Self::RedisRs(wire) => wire.end().await,
            #[cfg(feature = "fred")]
            Self::Fred(wire) => wire.end().await,
        }
    }
}

/// The owner's half: dropping it ends the connection, whatever the server does.
#[derive(Debug)]
pub(crate) struct Lifeline(JoinHandle<String>);

impl Lifeline {
    /// `life` ends with the connection and returns why; dropping it ends the connection.
    fn spawn(life: impl Future<Output = String> + Send + 'static) -> Self {
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

/// Whether this is the server's own answer, so that the connection is still good.
pub(crate) fn is_refusal(error: &StoreError) -> bool {
    error.outcome() == Outcome::Refused
}

/// An answer that belongs to something else.
pub(crate) fn out_of_step() -> StoreError {
    StoreError::unknown("the replies of the connection are out of step")
}

/// For a request that was not answered in time.
fn no_answer() -> StoreError {
    StoreError::unknown("no answer in time")
}
