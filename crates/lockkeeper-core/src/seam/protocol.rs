//! The protocol of one kind of lock: which scripts it runs with which keys, and what their replies mean.
//!
//! A [`Protocol`] only builds and reads. It has no socket, no task and no clock, so the engine, a simulator and an
//! exhaustive search can drive the very same object. Lock authors implement it; users of locks never see it.

mod context;
mod lock;
mod record;
mod texts;

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::time::Duration;

use lockkeeper_lua::{Script, Status};

use crate::seam::store::{Reply, Value};
use crate::words::name::{Key, Name};
use crate::words::owner::ClaimId;
use crate::words::store_error::Request;

pub use context::RequestContext;
pub use lock::{LockProtocol, Share};
pub use texts::Texts;

pub use crate::words::answer::{Answer, Verb};
pub use crate::words::kind::Kind;
pub use crate::words::token::FencingToken;

/// One run of a script that a kind wants: everything but the request number, which the engine adds.
///
/// Items of one batch script can be run together, whatever claims they are of: that is how renewals go out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptCall {
    /// What to run.
    pub script: &'static Script,
    /// `KEYS`.
    pub keys: Texts,
    /// `ARGV` from its second on.
    pub args: Texts,
    /// Of a script without keys: where it runs, one of [`Store::servers`](crate::seam::store::Store::servers); any of them if
    /// that is `None`.
    pub server: Option<u32>,
}

impl ScriptCall {
    /// No keys, or no arguments.
    pub const NONE: [&'static str; 0] = [];

    /// A run of `script`; keys and arguments are sent as they are displayed.
    ///
    /// # Panics
    ///
    /// In debug builds, if the numbers of keys and arguments are not those that the script's contract names.
    pub fn new<K, A>(script: &'static Script, keys: K, args: A) -> Self
    where
        K: IntoIterator<Item: Display>,
        A: IntoIterator<Item: Display>,
    {
        let item = Self {
            script,
            keys: Texts::of(keys),
            args: Texts::of(args),
            server: None,
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

    /// The same on this server. The script has no keys.
    #[must_use]
    pub const fn on(mut self, server: u32) -> Self {
        self.server = Some(server);
        self
    }

    /// Many items of one batch script as one run of it; `None` of no items, and of items of several scripts.
    pub(crate) fn batch(items: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut items = items.into_iter();
        let first = items.next()?;
        items.try_fold(first, |mut batch, item| {
            debug_assert!(batch.script.batch);
            batch.keys.append(&item.keys);
            batch.args.append(&item.args);
            (batch.script == item.script).then_some(batch)
        })
    }
}

/// What claims on several names can ask of the server by one script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are two scripts")]
pub enum Together {
    /// To be made holders, all or none.
    Acquire,
    /// To go.
    Release {
        /// An acquire of this claim is unanswered and may be executed later.
        overtakes: bool,
    },
}

impl Answer {
    /// Reads one outcome of a batch: a status, or a list of it and its fields.
    pub fn of_item(outcome: &Value) -> Option<Self> {
        let (status, fields) = match outcome {
            Value::List(outcome) => outcome.split_first()?,
            status => (status, &[][..]),
        };
        match (Status::parse(status.as_str()?)?, fields) {
            // That of a single acquire says the other way round.
            (Status::Waiting, [place, left @ ..]) => {
                Self::waiting(place, left.first().and_then(Value::as_i64))
            }
            (status, fields) => Self::of(status, fields),
        }
    }

    /// Reads the statuses that all kinds share; `None` if a field is missing or is not what the contract says.
    pub fn read(reply: &Reply) -> Option<Self> {
        Self::of(reply.status(), reply.fields())
    }

    /// The limit that stands on the server, if the reply to an acquisition says that it is another one than the claim's.
    pub fn limit_of(reply: &Reply) -> Option<u32> {
        let field = match reply.status() {
            Status::Granted => reply.fields().get(1),
            Status::Waiting => reply.fields().get(2),
            _ => None,
        };
        field.and_then(Value::as_i64)?.try_into().ok()
    }

    /// What the reply of this script means; `None` if it is not one that its contract names.
    pub fn of_script(script: &Script, reply: &Reply) -> Option<Self> {
        let named = script.replies.contains(&reply.status());
        named.then(|| Self::read(reply)).flatten()
    }

    fn waiting(place: &Value, left: Option<i64>) -> Option<Self> {
        let place = place.as_i64()?.try_into().ok()?;
        let left = left.filter(|_| place == 1).map(u64::try_from);
        Some(Self::Waiting {
            place,
            left: left.and_then(Result::ok).map(Duration::from_millis),
        })
    }

    fn of(status: Status, fields: &[Value]) -> Option<Self> {
        let field = |index: usize| fields.get(index).and_then(Value::as_i64);
        let (number, second) = (|| field(0), || field(1));
        Some(match status {
            Status::Granted => {
                let token = FencingToken::new(number()?.try_into().ok()?);
                Self::Granted((token < FencingToken::END).then_some(token)?)
            }
            Status::Busy => {
                let left = u64::try_from(number()?).ok().map(Duration::from_millis);
                match second() {
                    Some(1) => Self::Foreign(left),
                    _ => Self::Busy(left),
                }
            }
            Status::Quarantined => {
                Self::Quarantined(Duration::from_millis(number()?.try_into().unwrap_or(0)))
            }
            Status::Raised => Self::Raised,
            Status::Free => Self::Free,
            Status::Waiting => Self::waiting(fields.get(1)?, number())?,
            Status::QueueFull => Self::QueueFull(number()?.try_into().ok()?),
            Status::WouldDeadlock => Self::WouldDeadlock,
            Status::OverLimit => Self::OverLimit(number()?.try_into().ok()?),
            Status::Stored => Self::Stored,
            Status::More => Self::More,
            Status::Inflated => Self::Inflated,
            Status::Renewed => Self::Renewed,
            Status::Held => Self::Held(Duration::from_millis(number()?.try_into().unwrap_or(0))),
            Status::Released => Self::Released {
                told: number()? == 1,
                holds: second()?.try_into().ok()?,
            },
            Status::Cooldown => Self::Cooldown {
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

/// Whether a message on the channel of a name's waiters says that one of them should look: somebody left, at once or for later.
pub fn is_wake(payload: &[u8]) -> bool {
    matches!(payload, b"free" | b"kept")
}

/// A grant that a message has told of: `G <claim> <token> <request>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant<'a> {
    /// Whose it is.
    pub claim: &'a str,
    /// Its token.
    pub token: FencingToken,
    /// The last request of the claim that the server had executed.
    pub request: Request,
}

impl<'a> Grant<'a> {
    /// Reads a message; `None` if it is none.
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let mut words = str::from_utf8(payload).ok()?.split(' ');
        let (Some("G"), Some(claim), Some(token), Some(request), None) = (
            words.next(),
            words.next(),
            words.next(),
            words.next(),
            words.next(),
        ) else {
            return None;
        };
        Some(Self {
            claim,
            token: FencingToken::new(token.parse().ok()?),
            request: request.parse().ok()?,
        })
    }
}

/// One kind of lock on one name: builds requests.
///
/// What only some kinds have is asked for by a method that gives it: `None` says that this kind does not have it. The engine's own promise
/// for every request: it is sent at most once at a time for a claim, in the order that [`claim`](crate::claim) allows.
pub trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// The kind.
    fn kind(&self) -> Kind;

    /// The name.
    fn name(&self) -> &Name;

    /// Makes the claim a holder, if it can be one now.
    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall;

    /// Arms the claim's lease again: an item of a batch script.
    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall;

    /// Lets the claim go. `overtakes` says that an acquire of it is unanswered and may be executed later: the script
    /// must then see to it that it creates nothing.
    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall;

    /// Asks whether the claim holds; changes nothing.
    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall;

    /// What the server is told of a claim as soon as it holds, if there is anything. Nobody waits for that: it is sent in the background, until
    /// it is answered or the claim holds no more. It changes nothing for a claim that does not hold.
    fn proclamation(&self, _ask: RequestContext<'_>) -> Option<ScriptCall> {
        None
    }

    /// Whether an owner that holds is let in again. It then asks the server at once, past those who wait for it.
    fn reenters(&self) -> bool {
        false
    }

    /// That claims wait in a queue on the server, and are granted by it.
    fn queue(&self) -> Option<&dyn Queue> {
        None
    }

    /// That a name can be held in several modes.
    fn modes(&self) -> Option<&dyn Modes> {
        None
    }

    /// That a claim can take the place of another one.
    fn conversion(&self) -> Option<&dyn Conversion> {
        None
    }

    /// Whether the claims of one client form a cohort: one of them asks the server, and whoever lets go hands the name over to the
    /// next. For kinds that let nobody in beside a holder and promise no order.
    fn has_cohorts(&self) -> bool {
        false
    }

    /// That only so much of a name can be held at a time.
    fn limited(&self) -> Option<&dyn Limited> {
        None
    }

    /// That what claims wait for may have come, as the work of a name that is done: then nobody holds it.
    fn recorded(&self) -> Option<&dyn Recorded> {
        None
    }

    /// That claims can be acquired together with those on other names, by one script.
    fn joint(&self) -> Option<&dyn Joint> {
        None
    }

    /// That a majority of several servers decides.
    fn majority(&self) -> Option<&dyn MajorityMember> {
        None
    }

    /// That clients of another library hold the same names and wait for them, and that all is kept as that library keeps it.
    fn foreign(&self) -> Option<&dyn Foreign> {
        None
    }
}

/// Kinds whose claims wait in a queue on the server.
pub trait Queue: Send + Sync {
    /// Says that the waiting claim is alive: an item of a batch script.
    fn heartbeat(&self, ask: RequestContext<'_>) -> ScriptCall;

    /// Asks how many wait, and where among them this claim is (empty: no claim); changes nothing.
    fn position(&self, claim: &str) -> ScriptCall;
}

/// Kinds that hold a name in several modes, each by a protocol of its own.
pub trait Modes: Send + Sync {
    /// The kind and this mode, in one word.
    fn mode(&self) -> &'static str;
}

/// Kinds of which a claim can take the place of another one, with nobody in between.
pub trait Conversion: Send + Sync {
    /// Makes the claim a holder in the place of `old`: a claim of its owner that holds in another mode, or one of its client's cohort.
    /// `overtakes` says that an acquire of the old one is unanswered. Run again it answers the same.
    fn convert(&self, ask: RequestContext<'_>, old: &ClaimId, overtakes: bool) -> ScriptCall;
}

/// Kinds of which only so many parts can be held at a time.
pub trait Limited: Send + Sync {
    /// The kind, how many parts a claim takes and how many its client says there are, in one text.
    fn mode(&self) -> String;

    /// Asks how many parts there are and how many are held; or, with a `limit`, says that there are so many from now on.
    fn limit(&self, limit: Option<u32>, floor: u64, waiter_ttl: Duration) -> ScriptCall;

    /// Is told which limit stands on the server, where that is another one than its own; whether this is news.
    fn hears_limit(&self, limit: u32) -> bool;
}

/// Kinds whose claims are for what comes once, as work that is done: when it has, an acquire is answered by what has come of it.
pub trait Recorded: Send + Sync {
    /// Asks what has come of the work; or deletes that, if the work was done with this token.
    fn record(&self, forget: Option<FencingToken>) -> ScriptCall;
}

/// Kinds whose claims one script acquires together with others.
pub trait Joint: Send + Sync {
    /// An item of [`multi::ACQUIRE`](lockkeeper_lua::multi::ACQUIRE) or [`multi::RELEASE`](lockkeeper_lua::multi::RELEASE).
    fn item(&self, ask: RequestContext<'_>, verb: Together) -> ScriptCall;
}

/// Kinds that a majority of several servers decides.
pub trait MajorityMember: Send + Sync {
    /// Writes the largest token of the majority back to a server on which the claim holds.
    fn raise(&self, ask: RequestContext<'_>, token: FencingToken) -> ScriptCall;
}

/// Whether a message says that one of the waiters should look.
pub type IsWake = fn(&[u8]) -> bool;

/// Kinds whose names another library's clients hold too, and wait for.
pub trait Foreign: Send + Sync {
    /// Where all of them are told to look.
    fn channel(&self) -> String;

    /// What is said there to those who wait.
    fn is_wake(&self) -> IsWake;

    /// Asks who holds; answered as [`name::INSPECT`](lockkeeper_lua::name::INSPECT) is. Changes nothing.
    fn inspect(&self) -> ScriptCall;

    /// Tells those who hold to let go; answered as [`name::REVOKE`](lockkeeper_lua::name::REVOKE) is.
    fn revoke(&self) -> ScriptCall;

    /// Takes the name from whoever holds it if that is this claim, or as the other library calls it; answered as
    /// [`name::FREE`](lockkeeper_lua::name::FREE) is.
    fn free(&self, claim: &str) -> ScriptCall;
}

impl dyn Protocol {
    /// Where the waiters of this name are told to look; of a kind with a queue, what the channels begin with on which
    /// clients are told of their grants.
    pub fn channel(&self) -> String {
        match self.foreign() {
            Some(foreign) => foreign.channel(),
            None => self.channel_key().to_string(),
        }
    }

    /// What is said there to those who wait.
    pub(crate) fn is_wake(&self) -> IsWake {
        self.foreign().map_or(is_wake, |foreign| foreign.is_wake())
    }

    pub(crate) fn channel_key(&self) -> Key<'_> {
        let name = self.name();
        name.key(self.queue().map_or("wake", |_| "grant"))
    }

    /// The kind and, of a kind with modes, the mode, or of one with permits, what a claim takes of how many.
    pub(crate) fn mode(&self) -> Cow<'static, str> {
        match (self.modes(), self.limited()) {
            (Some(modes), _) => modes.mode().into(),
            (None, Some(limited)) => limited.mode().into(),
            (None, None) => self.kind().as_str().into(),
        }
    }
}
