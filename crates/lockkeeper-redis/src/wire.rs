//! The seam to the client libraries: one connection that lives exactly as long as its socket.
//!
//! Only the modules behind this one, [`redis_rs`] and [`fred`], use a client library. Neither reconnects here, follows redirections
//! or sends anything twice: the owner of a connection replaces it when it has ended, and a request that was under way is then
//! unknown.

mod exchange;
#[cfg(feature = "fred")]
pub(crate) mod fred;
#[cfg(feature = "redis-rs")]
pub(crate) mod redis_rs;

use std::time::Duration;

use lockkeeper_core::store::{Outcome, StoreError};

use crate::credentials::Credentials;
use crate::options::{RedisOptions, Transport};
use crate::request::Outgoing;
use crate::target::Target;
pub(crate) use exchange::{
    Answer, Change, Changed, Heard, Lifeline, Listener, Opened, nonce, out_of_step,
};

/// The callers' half of a connection.
pub(crate) enum Wire {
    #[cfg(feature = "redis-rs")]
    RedisRs(redis_rs::Wire),
    #[cfg(feature = "fred")]
    Fred(fred::Wire),
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
    ) -> Result<Opened<Self>, StoreError> {
        match options.transport {
            #[cfg(feature = "redis-rs")]
            Transport::RedisRs => {
                let opened = redis_rs::open(target, credentials, options, listener).await?;
                Ok(opened.map(Self::RedisRs))
            }
            #[cfg(feature = "fred")]
            Transport::Fred => {
                let opened = fred::open(target, credentials, options, listener).await?;
                Ok(opened.map(Self::Fred))
            }
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

/// Whether this is the server's own answer, so that the connection is still good.
pub(crate) fn is_refusal(error: &StoreError) -> bool {
    error.outcome() == Outcome::Refused
}
