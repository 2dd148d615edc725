//! The store seam: what the engine asks of a Redis client, and nothing more.
//!
//! A store runs scripts and carries messages. It never retries a script: a second execution is the engine's decision,
//! because only the engine knows what else has happened to the claim since. What a store does not know, it says.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_lua::Status;
use tokio::sync::mpsc;

use crate::seam::clock::Clock;
use crate::seam::protocol::ScriptCall;

pub use crate::words::slot::slot_of;
pub use crate::words::store_error::{Outcome, Request, StoreError};

/// How a script is named to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// By its SHA-1 (`EVALSHA`); a server that does not know it answers `NOSCRIPT` and has executed nothing.
    Sha,
    /// By its text (`EVAL`), which also teaches it to the server.
    Source,
}

/// One execution of one script.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// The script, its keys, and its arguments from `ARGV[2]` on.
    pub item: ScriptCall,
    /// `ARGV[1]`, and the first field of the reply.
    pub request: Request,
    /// How to name the script.
    pub form: Form,
    /// When to give up waiting for the answer, counted from the call.
    pub timeout: Duration,
}

impl Call {
    /// A call of `item` as request number `request`.
    pub const fn new(item: ScriptCall, request: Request, form: Form, timeout: Duration) -> Self {
        Self {
            item,
            request,
            form,
            timeout,
        }
    }
}

/// A value in a script's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// Nothing there.
    Nil,
    /// A whole number.
    Integer(i64),
    /// A string.
    Bytes(Vec<u8>),
    /// An array.
    List(Vec<Self>),
}

impl Value {
    /// The text of a string; `None` for anything else and for bytes that are not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// A whole number, also one written as a decimal string.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => self.as_str()?.parse().ok(),
        }
    }
}

/// What a script answered, the request number checked and taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    status: Status,
    fields: Vec<Value>,
}

impl Reply {
    /// Reads the reply to `request`.
    ///
    /// # Errors
    ///
    /// [`BadReply::Foreign`] if it carries another request's number: the replies of the connection are out of step and
    /// the connection must be replaced. [`BadReply::Malformed`] if it is no reply of a Lockkeeper script at all.
    pub fn read(request: Request, reply: Value) -> Result<Self, BadReply> {
        let Value::List(fields) = reply else {
            return Err(BadReply::Malformed);
        };
        let mut fields = fields.into_iter();
        let echo = fields
            .next()
            .as_ref()
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok());
        match echo {
            Some(echo) if echo == request => {}
            Some(echo) => {
                return Err(BadReply::Foreign {
                    expected: request,
                    echo,
                });
            }
            None => return Err(BadReply::Malformed),
        }
        let status = fields
            .next()
            .as_ref()
            .and_then(Value::as_str)
            .and_then(Status::parse);
        let status = status.ok_or(BadReply::Malformed)?;
        Ok(Self {
            status,
            fields: fields.collect(),
        })
    }

    /// The status word.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The fields after the status.
    pub fn fields(&self) -> &[Value] {
        &self.fields
    }

    /// The field after the status, counted from zero.
    pub fn field(&self, index: usize) -> Option<&Value> {
        self.fields.get(index)
    }
}

/// What a script answered, and how many replicas have what it wrote.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Replicated {
    /// The answer.
    pub reply: Reply,
    /// How many replicas have confirmed in time; why nobody knows, if the question failed.
    pub reached: Result<u64, StoreError>,
}

impl Replicated {
    /// An answer whose effects so many replicas have.
    pub const fn new(reply: Reply, reached: Result<u64, StoreError>) -> Self {
        Self { reply, reached }
    }
}

/// Why a reply cannot be believed. Either way the outcome of the request is unknown and the connection must go.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReply {
    /// The reply belongs to another request.
    #[error("the reply to request {expected} carries number {echo}")]
    #[non_exhaustive]
    Foreign {
        /// The request that was sent.
        expected: Request,
        /// The number in the reply.
        echo: Request,
    },
    /// The reply is none of a Lockkeeper script.
    #[error("the reply is not one of a Lockkeeper script")]
    Malformed,
}

/// What a store tells without being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message on a channel that is subscribed to.
    #[non_exhaustive]
    Message {
        /// Where it was published.
        channel: String,
        /// What was published.
        payload: Vec<u8>,
    },
    /// Messages may have been missed (a new connection, or the reader lagged), and from now on they arrive again: every
    /// subscription is in place.
    Reconnected,
    /// A connection is down: requests fail and messages are missed until `Reconnected`.
    Disconnected,
}

impl Event {
    /// A message that was published on a channel.
    pub fn message(channel: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self::Message {
            channel: channel.into(),
            payload: payload.into(),
        }
    }
}

/// A connection to one deployment, a single server or several that share the keys among them.
///
/// Cancel safety, for every method: dropping the future gives up the answer, not the request.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Executes a script once and returns its reply, within the call's timeout.
    ///
    /// Calls reach the server in the order in which they were first polled, as long as one connection lives.
    ///
    /// # Errors
    ///
    /// The error says which of three is true: not sent, unknown, refused. A reply that is not this request's is
    /// "unknown", and the store replaces the connection it came by.
    async fn call(&self, call: Call) -> Result<Reply, StoreError>;

    /// Executes a script once, as [`call`](Self::call) does but on a connection that no other request uses meanwhile, and
    /// then waits until `replicas` replicas have confirmed that they have everything that the server had written by then,
    /// or until `patience` is over. Other requests are not kept waiting.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call), if the script was not executed or its reply did not come; what became of the waiting is
    /// told apart in [`Replicated::reached`]. A store that cannot wait for replicas executes nothing: "not sent".
    async fn call_replicated(
        &self,
        _call: Call,
        _replicas: u32,
        _patience: Duration,
    ) -> Result<Replicated, StoreError> {
        Err(StoreError::not_sent(
            "this store cannot wait for replicas: acquire without min_replicas",
        ))
    }

    /// Starts to receive the messages of a channel. When it returns `Ok`, the server has confirmed: every message
    /// published from now on arrives, or else [`Event::Reconnected`] does. Subscribing twice changes nothing.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call); after an error the channel is not subscribed to.
    async fn subscribe(&self, channel: &str) -> Result<(), StoreError>;

    /// Stops receiving the messages of a channel; one that is not subscribed to is no error.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call); after an error stray messages may still arrive, and nothing else is left behind.
    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError>;

    /// The channel on which the server tells what happens to this key, if it is set up to: Redis' keyspace notifications. `None` if
    /// there is no such channel.
    fn keyspace_channel(&self, _key: &str) -> Option<String> {
        None
    }

    /// The stream of events, for the one engine that this store serves; `None` if it has been taken already, or
    /// the store is closed.
    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>>;

    /// The group of a key: one script may name keys of one group. A single server is one group; a cluster has one for
    /// each slot.
    fn group(&self, _key: &str) -> u32 {
        0
    }

    /// The server that has the keys of a group now: what one of them keeps waiting is nothing to those on another.
    fn server_of(&self, _group: u32) -> u32 {
        0
    }

    /// The servers that share the keys now. A script without keys runs on one of them, named in
    /// [`ScriptCall::server`](crate::seam::protocol::ScriptCall::server).
    fn servers(&self) -> Vec<u32> {
        vec![0]
    }

    /// Which server it is, for people, without any password: in errors about several servers.
    fn address(&self) -> String {
        String::new()
    }

    /// The clock by which leases on this store are believed in.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Ends every connection and task. Calls fail with "not sent" from then on, the event stream ends.
    async fn close(&self);
}
