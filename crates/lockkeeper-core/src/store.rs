//! The store seam: what the engine asks of a Redis client, and nothing more.
//!
//! A store runs scripts and carries messages. It never retries a script: a second execution is the engine's decision,
//! because only the engine knows what else has happened to the claim since. What a store does not know, it says.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_lua::Status;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::protocol::Item;
use crate::rights::Rules;

/// The number of one request, unlike that of any other request of the same client.
pub type Request = u64;

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
    pub item: Item,
    /// `ARGV[1]`, and the first field of the reply.
    pub request: Request,
    /// How to name the script.
    pub form: Form,
    /// When to give up waiting for the answer, counted from the call.
    pub timeout: Duration,
}

impl Call {
    /// A call of `item` as request number `request`.
    pub const fn new(item: Item, request: Request, form: Form, timeout: Duration) -> Self {
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

/// What is known about a request that got no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It did not reach the server and never will.
    NotSent,
    /// It may have been executed, be executed later, or never.
    Unknown,
    /// The server answered with an error instead of executing it to its end.
    Refused,
}

/// Why a store could not do what it was asked.
#[derive(Debug, Clone)]
pub struct StoreError {
    outcome: Outcome,
    message: String,
    /// What to do about it.
    remedy: Option<Arc<str>>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl StoreError {
    /// The request did not reach the server and never will.
    pub fn not_sent(message: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::NotSent,
            message: message.into(),
            remedy: None,
            source: None,
        }
    }

    /// Nobody knows whether the request was executed.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Unknown,
            message: message.into(),
            remedy: None,
            source: None,
        }
    }

    /// The server's error reply, whole: its first word is the code.
    pub fn refused(message: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Refused,
            message: message.into(),
            remedy: None,
            source: None,
        }
    }

    /// Keeps the client library's own error behind this one.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What is known about the request.
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The client library's own error.
    pub(crate) fn client_error(&self) -> Option<Arc<dyn StdError + Send + Sync>> {
        self.source.clone()
    }

    /// What happened, without saying again what is known about the request; an error reply as the server sent it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The code word of the server's error reply (`NOPERM`, `READONLY`, …); `None` if the server did not answer.
    pub fn code(&self) -> Option<&str> {
        match self.outcome {
            Outcome::Refused => self.message.split_whitespace().next(),
            Outcome::NotSent | Outcome::Unknown => None,
        }
    }

    /// Says what to do about a missing right. The server names a command, and neither keys nor channels.
    pub(crate) fn advised(mut self, rules: &Rules) -> Self {
        if self.code() == Some("NOPERM") {
            self.remedy = rules.remedy(&self.message);
        }
        self
    }

    /// Whether the server does not know the script: it has executed nothing.
    pub fn is_noscript(&self) -> bool {
        self.code() == Some("NOSCRIPT")
    }

    /// Whether the server refused this very request, so that a part of it may pass: it is not about the server's state,
    /// but for `TRYAGAIN`, which is about several keys at once.
    pub(crate) fn blames_request(&self) -> bool {
        self.outcome == Outcome::Refused
            && (!self.is_transient() || self.code() == Some("TRYAGAIN"))
    }

    /// Whether the same request may well succeed later: nobody answered, or the server is not ready just now.
    pub fn is_transient(&self) -> bool {
        match self.code() {
            None => true,
            Some(code) => matches!(
                code,
                "LOADING"
                    | "BUSY"
                    | "READONLY"
                    | "MASTERDOWN"
                    | "CLUSTERDOWN"
                    | "TRYAGAIN"
                    | "NOREPLICAS"
                    | "MISCONF"
                    | "OOM"
                    | "UNBLOCKED"
            ),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outcome {
            Outcome::NotSent => write!(f, "{}", Printable(&self.message)),
            Outcome::Unknown => write!(f, "no answer: {}", Printable(&self.message)),
            Outcome::Refused => {
                write!(f, "the server refused: {}", Printable(&self.message))?;
                self.remedy.iter().try_for_each(|it| write!(f, "; {it}"))
            }
        }
    }
}

/// A text that a server may have chosen, its control characters escaped: they could rewrite a terminal or forge lines of a log.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            f.write_str(plain)?;
            write!(f, "{}", part[plain.len()..].escape_default())?;
        }
        Ok(())
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
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
    /// [`Item::server`](crate::protocol::Item::server).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_cannot_act_on_a_terminal_or_forge_a_line() {
        let text = "ERR \u{1b}[2J\u{1b}]0;owned\u{7}\r\nWARN lost \u{9b}31m grün\u{0}";
        for error in [
            StoreError::refused(text),
            StoreError::unknown(text),
            StoreError::not_sent(text),
        ] {
            let shown = crate::Error::backend("acquire lock \"a\"", error).to_string();
            assert!(!shown.contains(char::is_control), "{shown:?}");
            let escaped = r"ERR \u{1b}[2J\u{1b}]0;owned\u{7}\r\nWARN lost \u{9b}31m grün\u{0}";
            assert!(shown.ends_with(escaped), "{shown}");
        }
        let plain = StoreError::refused("ERR plain").to_string();
        assert_eq!(plain, "the server refused: ERR plain");
    }
}
