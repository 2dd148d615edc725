//! The protocol of one kind of lock: which scripts it runs with which keys, and what their replies mean.
//!
//! A [`Protocol`] only builds and reads. It has no socket, no task and no clock, so the engine, a simulator and an
//! exhaustive search can drive the very same object. Lock authors implement it; users of locks never see it.

use std::fmt;
use std::time::Duration;

use lockkeeper_lua::{Script, Status};

use crate::name::Name;
use crate::owner::ClaimId;
use crate::store::{Reply, Value};

/// A fencing token: the number given with a grant; larger means later.
///
/// Tokens of a name increase between any two grants that exclude one another. They are about the server's time in
/// microseconds, below 2^53 until the year 2255, and so fit a signed 64-bit integer in any database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// No script draws a token from here on, where Lua can no longer count in ones.
    const END: Self = Self(1 << 53);

    /// The token that reads as this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number to hand to the resource.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// For databases without unsigned numbers: `UPDATE … SET token = $1 WHERE token <= $1`.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        // Tokens that a server has given are below 2^53.
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A kind of lock, by the word that stands in logs and on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(&'static str);

impl Kind {
    /// The kind called `word`.
    pub const fn new(word: &'static str) -> Self {
        Self(word)
    }

    /// The word.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One run of a script that a kind wants: everything but the request number, which the engine adds.
///
/// Items of one batch script can be run together, whatever claims they are of: that is how renewals go out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// What to run.
    pub script: &'static Script,
    /// `KEYS`.
    pub keys: Vec<String>,
    /// `ARGV` from its second on.
    pub args: Vec<String>,
}

impl Item {
    /// A run of `script`.
    ///
    /// # Panics
    ///
    /// In debug builds, if the numbers of keys and arguments are not those that the script's contract names.
    pub fn new<K, A>(script: &'static Script, keys: K, args: A) -> Self
    where
        K: IntoIterator<Item = String>,
        A: IntoIterator<Item = String>,
    {
        let item = Self {
            script,
            keys: keys.into_iter().collect(),
            args: args.into_iter().collect(),
        };
        debug_assert_eq!(item.keys.len(), script.keys.len(), "{}: KEYS", script.name);
        debug_assert_eq!(
            item.args.len() + 1,
            script.args.len(),
            "{}: ARGV",
            script.name
        );
        item
    }

    /// Many items of one batch script as one run of it; `None` of no items.
    pub(crate) fn batch(items: impl IntoIterator<Item = Self>) -> Option<Self> {
        items.into_iter().reduce(|mut batch, item| {
            debug_assert!(batch.script.batch && batch.script == item.script);
            batch.keys.extend(item.keys);
            batch.args.extend(item.args);
            batch
        })
    }
}

/// What an item is built from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Ask<'a> {
    /// Whose request it is.
    pub claim: &'a ClaimId,
    /// Length of the lease.
    pub ttl: Duration,
    /// The largest token this client has seen on the store.
    pub floor: u64,
    /// The token of the claim's grant; `None` before. An acquire that carries one repeats the grant and creates nothing.
    pub token: Option<FencingToken>,
    /// For how long a leave keeps the name from others.
    pub keep: Duration,
}

impl<'a> Ask<'a> {
    /// A request of `claim`.
    pub const fn new(
        claim: &'a ClaimId,
        ttl: Duration,
        floor: u64,
        token: Option<FencingToken>,
    ) -> Self {
        Self {
            claim,
            ttl,
            floor,
            token,
            keep: Duration::ZERO,
        }
    }

    /// The same for a leave that keeps the name from others for so long.
    #[must_use]
    pub const fn keeping(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// The time to keep as a script takes it: whole milliseconds, never less.
    pub fn keep_ms(&self) -> String {
        self.keep.as_micros().div_ceil(1000).to_string()
    }

    /// The token as a script takes it: 0 for none.
    pub fn token(&self) -> String {
        self.token.map_or(0, FencingToken::get).to_string()
    }

    /// The ttl as a script takes it, whole milliseconds.
    pub fn ttl_ms(&self) -> String {
        self.ttl.as_millis().to_string()
    }
}

/// What a claim can ask of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// To be made a holder.
    Acquire,
    /// To have its lease armed again.
    Renew,
    /// To go.
    Leave,
}

/// A reply in the engine's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// The claim holds.
    Granted(FencingToken),
    /// Another claim holds, for as long as this unless it renews; `None` means without end.
    Busy(Option<Duration>),
    /// The claim holds and its lease has been armed.
    Renewed,
    /// The claim holds, for as long as this.
    Held(Duration),
    /// The claim held and is gone.
    Left {
        /// False if the server refused to publish: waiters find out by their timers.
        told: bool,
        /// How many claims its owner still holds.
        holds: u64,
    },
    /// The claim held and is gone; nobody else may hold for a while.
    Kept {
        /// False if the server refused to publish: waiters find out by their timers.
        told: bool,
        /// For how long.
        left: Duration,
    },
    /// There was nothing to leave.
    NotHeld {
        /// How many claims its owner holds.
        holds: u64,
    },
    /// The claim holds, is to leave, and is not armed again.
    Revoked,
    /// The claim is not there.
    Gone,
    /// The name holds another kind's data.
    WrongKind,
}

impl Answer {
    /// Reads one outcome of a batch.
    pub(crate) const fn of_item(status: Status) -> Option<Self> {
        match status {
            Status::Renewed => Some(Self::Renewed),
            Status::Revoked => Some(Self::Revoked),
            Status::Gone => Some(Self::Gone),
            _ => None,
        }
    }

    /// Reads the statuses that all kinds share; `None` if a field is missing or is not what the contract says.
    pub fn read(reply: &Reply) -> Option<Self> {
        let number = || reply.field(0).and_then(Value::as_i64);
        let second = || reply.field(1).and_then(Value::as_i64);
        Some(match reply.status() {
            Status::Granted => {
                let token = FencingToken(number()?.try_into().ok()?);
                Self::Granted((token < FencingToken::END).then_some(token)?)
            }
            Status::Busy => Self::Busy(u64::try_from(number()?).ok().map(Duration::from_millis)),
            Status::Renewed => Self::Renewed,
            Status::Held => Self::Held(Duration::from_millis(number()?.try_into().unwrap_or(0))),
            Status::Left => Self::Left {
                told: number()? == 1,
                holds: second()?.try_into().ok()?,
            },
            Status::Kept => Self::Kept {
                told: number()? == 1,
                left: Duration::from_millis(second()?.try_into().unwrap_or(0)),
            },
            Status::Revoked => Self::Revoked,
            Status::NotHeld => Self::NotHeld {
                holds: number()?.try_into().ok()?,
            },
            Status::Gone => Self::Gone,
            Status::WrongKind => Self::WrongKind,
            _ => return None,
        })
    }
}

/// What a message on one of a kind's channels means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// Somebody left, at once or for later: one waiter of the name should look.
    Look,
}

/// One kind of lock on one name: builds requests, reads answers.
///
/// The provided methods are for kinds that need them; a kind without a queue, without modes or without groups leaves
/// them as they are. The engine's own promise for every item: it is sent at most once at a time for a claim, in the
/// order that [`claim`](crate::claim) allows.
pub trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// The kind.
    fn kind(&self) -> Kind;

    /// The name.
    fn name(&self) -> &Name;

    /// Makes the claim a holder, if it can be one now.
    fn acquire(&self, ask: Ask<'_>) -> Item;

    /// Arms the claim's lease again: an item of a batch script, with exactly one key.
    fn renew(&self, ask: Ask<'_>) -> Item;

    /// Lets the claim go. `overtakes` says that an acquire of it is unanswered and may be executed later: the script
    /// must then see to it that it creates nothing.
    fn leave(&self, ask: Ask<'_>, overtakes: bool) -> Item;

    /// Asks whether the claim holds; changes nothing. Exactly one key.
    fn verify(&self, ask: Ask<'_>) -> Item;

    /// Whether an owner that holds is let in again. It then asks the server at once, past those who wait for it.
    fn reenters(&self) -> bool {
        false
    }

    /// Where the waiters of this name are told to look.
    fn channel(&self) -> String {
        self.name().part("wake")
    }

    /// What a message on [`channel`](Self::channel) means; `None` if nothing.
    fn signal(&self, payload: &[u8]) -> Option<Signal> {
        matches!(payload, b"free" | b"kept").then_some(Signal::Look)
    }

    /// What a reply means; `None` if it is not one that the script's contract names.
    fn decode(&self, item: &'static Script, reply: &Reply) -> Option<Answer> {
        item.replies
            .contains(&reply.status())
            .then(|| Answer::read(reply))
            .flatten()
    }
}
