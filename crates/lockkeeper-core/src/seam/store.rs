//! The store trait: what the engine needs from a Redis client, and nothing more.
//!
//! A store runs scripts and carries messages. It never retries a script: only the engine may decide to run it again,
//! because only the engine knows what else has happened to the claim since. If a store does not know an outcome, it
//! says so.

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

/// How a call names its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// By its SHA-1 (`EVALSHA`); a server that does not have the script answers `NOSCRIPT` and has executed nothing.
    Sha,
    /// By its text (`EVAL`), which also stores the script on the server.
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
    /// Whether the script is sent by its SHA-1 or by its text.
    pub form: Form,
    /// How long to wait for the answer, counted from the call.
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
    /// No value.
    Nil,
    /// A whole number.
    Integer(i64),
    /// A string.
    Bytes(Vec<u8>),
    /// An array.
    List(Vec<Self>),
}

impl Value {
    /// Returns the text of a string; `None` for anything else and for bytes that are not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns a whole number, which may be written as a decimal string.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => self.as_str()?.parse().ok(),
        }
    }
}

/// A script's reply, with the request number checked and removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    status: Status,
    fields: Vec<Value>,
}

impl Reply {
    /// Reads the reply to `request`: an array of its number, a status and fields, or one line of the same words.
    ///
    /// # Errors
    ///
    /// - [`BadReply::Foreign`] if it has another request's number: the replies of the connection are out of step, and
    ///   the connection must be replaced;
    /// - [`BadReply::Malformed`] if it is not a reply of a Lockkeeper script.
    pub fn read(request: Request, reply: Value) -> Result<Self, BadReply> {
        match reply {
            Value::List(fields) => {
                let mut fields = fields.into_iter();
                let (echo, status) = (fields.next(), fields.next());
                let echo = echo.as_ref().and_then(Value::as_str);
                let status = status.as_ref().and_then(Value::as_str);
                let status = Self::status_of(request, echo, status)?;
                let fields = fields.collect();
                Ok(Self { status, fields })
            }
            Value::Bytes(line) => {
                let line = std::str::from_utf8(&line).map_err(|_| BadReply::Malformed)?;
                let mut words = line.split(' ');
                let status = Self::status_of(request, words.next(), words.next())?;
                let fields = words.map(|word| Value::Bytes(word.into())).collect();
                Ok(Self { status, fields })
            }
            Value::Nil | Value::Integer(_) => Err(BadReply::Malformed),
        }
    }

    /// The status, if the first word is the number of this request.
    fn status_of(
        request: Request,
        echo: Option<&str>,
        status: Option<&str>,
    ) -> Result<Status, BadReply> {
        let echo = echo.and_then(|text| text.parse().ok());
        let echo: Request = echo.ok_or(BadReply::Malformed)?;
        if echo != request {
            return Err(BadReply::Foreign {
                expected: request,
                echo,
            });
        }
        status.and_then(Status::parse).ok_or(BadReply::Malformed)
    }

    /// Returns the status word.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Returns the fields after the status.
    pub fn fields(&self) -> &[Value] {
        &self.fields
    }

    /// Returns the field at this index after the status, counted from 0.
    pub fn field(&self, index: usize) -> Option<&Value> {
        self.fields.get(index)
    }
}

/// A script's reply, and how many replicas have confirmed what the script wrote.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Replicated {
    /// The reply.
    pub reply: Reply,
    /// How many replicas have confirmed in time; the error if that is unknown.
    pub reached: Result<u64, StoreError>,
}

impl Replicated {
    /// A reply, and how many replicas have confirmed what the script wrote.
    pub const fn new(reply: Reply, reached: Result<u64, StoreError>) -> Self {
        Self { reply, reached }
    }
}

/// Why a reply must not be trusted. In both cases the outcome of the request is unknown and the connection must be
/// replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReply {
    /// The reply belongs to another request.
    #[error("the reply to request {expected} has the number of request {echo}")]
    #[non_exhaustive]
    Foreign {
        /// The request that was sent.
        expected: Request,
        /// The number in the reply.
        echo: Request,
    },
    /// It is not a reply of a Lockkeeper script.
    #[error("the reply is not one of a Lockkeeper script")]
    Malformed,
}

/// What a store reports without being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message arrived on a subscribed channel.
    #[non_exhaustive]
    Message {
        /// The channel.
        channel: String,
        /// The content.
        payload: Vec<u8>,
    },
    /// Messages may have been missed, because of a new connection or a reader that was too slow. From now on they
    /// arrive again: every subscription is in place.
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

/// A connection to one deployment: a single server, or several that share the keys.
///
/// Cancel safety, for every method: dropping the future abandons the answer, not the request.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Executes a script once and returns its reply, within the call's timeout.
    ///
    /// As long as one connection lives, calls reach the server in the order in which they were first polled.
    ///
    /// # Errors
    ///
    /// The error says which of three outcomes it is: not sent, unknown or refused. If a reply belongs to another
    /// request, the outcome is "unknown", and the store replaces the connection.
    async fn call(&self, call: Call) -> Result<Reply, StoreError>;

    /// Executes a script once, like [`call`](Self::call) but on a connection that no other request uses meanwhile. Then
    /// waits until `replicas` replicas have confirmed everything that the server had written by then, or until
    /// `patience` has passed. Other requests do not wait for it.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call), if the script was not executed or its reply did not come. The outcome of the wait
    /// for replicas is separate, in [`Replicated::reached`]. A store that cannot wait for replicas executes nothing
    /// and returns "not sent".
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

    /// Subscribes to a channel. When it returns `Ok`, the server has confirmed the subscription: from now on every
    /// published message arrives, or [`Event::Reconnected`] reports that some may be missing. Subscribing twice changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call); after an error the channel is not subscribed to.
    async fn subscribe(&self, channel: &str) -> Result<(), StoreError>;

    /// Ends the subscription to a channel. It is not an error if there is none.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call). After an error, late messages may still arrive; nothing else is left behind.
    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError>;

    /// Returns the channel on which the server reports changes of this key, if it is configured to send Redis' keyspace
    /// notifications. `None` if there is no such channel.
    fn keyspace_channel(&self, _key: &str) -> Option<String> {
        None
    }

    /// Returns the stream of events, for the one engine that this store serves; `None` if it has been taken already,
    /// or the store is closed.
    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>>;

    /// Returns the group of a key. All keys of one script must be in the same group. A single server is one group; a
    /// cluster has one for each slot.
    fn group(&self, _key: &str) -> u32 {
        0
    }

    /// Returns the server that has the keys of a group now. A request that hangs on one server must not delay
    /// requests to another.
    fn server_of(&self, _group: u32) -> u32 {
        0
    }

    /// Returns the servers that share the keys now. A script without keys runs on one of them, named in
    /// [`ScriptCall::server`](crate::seam::protocol::ScriptCall::server).
    fn servers(&self) -> Vec<u32> {
        vec![0]
    }

    /// Returns an address for people, without any password. Errors about several servers show it.
    fn address(&self) -> String {
        String::new()
    }

    /// Returns the clock that decides how long leases on this store are valid.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Ends every connection and task. From then on calls fail with "not sent", and the event stream ends.
    async fn close(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Bytes(text.into())
    }

    #[test]
    fn a_reply_is_an_array_or_one_line_of_the_same_words() {
        let words = ["7", "GRANTED", "17"].map(text);
        let array = Reply::read(7, Value::List(words.into())).unwrap();
        let line = Reply::read(7, text("7 GRANTED 17")).unwrap();
        assert_eq!(array, line);
        assert_eq!(line.status(), Status::Granted);
        assert_eq!(line.fields(), [text("17")]);
        let bare = Reply::read(7, text("7 MORE")).unwrap();
        assert!(bare.fields().is_empty());
    }

    #[test]
    fn a_line_of_another_request_or_of_no_script_is_no_reply() {
        let foreign = Reply::read(8, text("7 GRANTED 17")).unwrap_err();
        assert_eq!(
            foreign,
            BadReply::Foreign {
                expected: 8,
                echo: 7
            }
        );
        for line in [
            "",
            "7",
            "7 ",
            "7  GRANTED",
            "GRANTED 17",
            "7 granted",
            " 7 GRANTED",
            "PONG",
        ] {
            let read = Reply::read(7, text(line));
            assert_eq!(read, Err(BadReply::Malformed), "{line:?}");
        }
        let bytes = Value::Bytes(vec![b'7', b' ', 0xff]);
        assert_eq!(Reply::read(7, bytes), Err(BadReply::Malformed));
        assert_eq!(Reply::read(7, Value::Integer(7)), Err(BadReply::Malformed));
    }
}
