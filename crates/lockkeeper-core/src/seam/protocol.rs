//! The protocol of one kind of lock: which scripts it runs with which keys, and what their replies mean.
//!
//! A [`Protocol`] only builds requests and reads replies. It has no socket, task or clock, so the engine, a simulator
//! and an exhaustive search can drive the same object. Authors of lock kinds implement it; users of locks never see
//! it.

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
use crate::words::owner::{ClaimId, Owner};
use crate::words::store_error::Request;

pub use context::RequestContext;
pub use lock::{LockProtocol, Share};
pub use texts::Texts;

pub use crate::words::answer::{Answer, Verb};
pub use crate::words::kind::Kind;
pub use crate::words::token::FencingToken;

/// One run of a script: everything except the request number, which the engine adds.
///
/// Items of the same batch script can share one run, even if they belong to different claims. Renewals are sent that
/// way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptCall {
    /// The script to run.
    pub script: &'static Script,
    /// `KEYS`.
    pub keys: Texts,
    /// `ARGV`, from its second element on.
    pub args: Texts,
    /// For a script without keys: the server to run it on, one of
    /// [`Store::servers`](crate::seam::store::Store::servers); `None` means any of them.
    pub server: Option<u32>,
}

impl ScriptCall {
    /// No keys, or no arguments.
    pub const NONE: [&'static str; 0] = [];

    /// A run of `script`. Keys and arguments are sent in their `Display` form.
    ///
    /// # Panics
    ///
    /// In debug builds, if the numbers of keys and arguments differ from the script's contract.
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

    /// Returns the same call for this server. The script must have no keys.
    #[must_use]
    pub const fn on(mut self, server: u32) -> Self {
        self.server = Some(server);
        self
    }

    /// Joins items of one batch script into one run; `None` if there are no items, or items of several scripts. An item with the
    /// same keys as the one before, and the same of the arguments that the script names as `once`, leaves those out.
    pub fn batch(items: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut items = items.into_iter();
        let mut batch = items.next()?;
        let script = batch.script;
        // The last item with keys, if others may leave them out.
        let mut first = (!script.once.is_empty()).then(|| batch.clone());
        for item in items {
            if item.script != script {
                return None;
            }
            debug_assert!(script.batch);
            if first.as_ref().is_some_and(|first| first.stands_for(&item)) {
                for (what, arg) in item.labelled() {
                    let left_out = script.once.contains(&what);
                    batch.args.push(if left_out { "" } else { arg });
                }
            } else {
                batch.keys.append(&item.keys);
                batch.args.append(&item.args);
                first = first.map(|_| item);
            }
        }
        Some(batch)
    }

    /// Whether another item has the same keys and the same of those arguments that stand once.
    fn stands_for(&self, other: &Self) -> bool {
        let mut pairs = self.labelled().zip(other.labelled());
        let same = |((what, arg), (_, its))| arg == its || !self.script.once.contains(&what);
        self.keys == other.keys && pairs.all(same)
    }

    /// The arguments of one item, each with what it is.
    fn labelled(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let labels = self.script.args.iter().copied().skip(1);
        labels.zip(self.args.iter())
    }
}

/// What one script can do for claims on several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are two scripts")]
pub enum Together {
    /// Make them holders, all or none.
    Acquire,
    /// Release them.
    Release {
        /// An acquire of this claim is unanswered and may be executed later.
        overtakes: bool,
    },
}

impl Answer {
    /// Reads one outcome of a batch: a status, or a list of a status and its fields.
    pub fn of_item(outcome: &Value) -> Option<Self> {
        let (status, fields) = match outcome {
            Value::List(outcome) => outcome.split_first()?,
            status => (status, &[][..]),
        };
        match (Status::parse(status.as_str()?)?, fields) {
            // A single acquire's reply has these two in the other order.
            (Status::Waiting, [place, left @ ..]) => {
                Self::waiting(place, left.first().and_then(Value::as_i64))
            }
            (status, fields) => Self::of(status, fields),
        }
    }

    /// Reads the statuses that all kinds share; `None` if a field is missing or breaks the contract.
    pub fn read(reply: &Reply) -> Option<Self> {
        Self::of(reply.status(), reply.fields())
    }

    /// Reads the limit on the server, if the reply to an acquire says that it differs from the claim's.
    pub fn limit_of(reply: &Reply) -> Option<u32> {
        let field = match reply.status() {
            Status::Granted => reply.fields().get(1),
            Status::Waiting => reply.fields().get(2),
            _ => None,
        };
        field.and_then(Value::as_i64)?.try_into().ok()
    }

    /// Reads a reply of this script; `None` if its contract does not name such a reply.
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
            Status::Granted => Self::Granted(FencingToken::new(number()?.try_into().ok()?)),
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
            Status::Dropped => Self::Dropped,
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

/// Returns whether a message on the channel of a name's waiters tells one of them to poll. It does after a release,
/// whether the name is free now or in its cooldown.
pub fn is_wake(payload: &[u8]) -> bool {
    matches!(payload, b"free" | b"kept")
}

/// A grant that a message reports: `G <claim> <token> <request>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant<'a> {
    /// The claim that was granted.
    pub claim: &'a str,
    /// Its token.
    pub token: FencingToken,
    /// The last request of the claim that the server had executed.
    pub request: Request,
}

impl<'a> Grant<'a> {
    /// Reads a message; `None` if it is not a grant.
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

/// One kind of lock on one name: builds requests and reads replies.
///
/// A method that returns an `Option` stands for an ability that only some kinds have; `None` means that this kind does
/// not have it. For a claim, the engine sends each request at most once at a time, in an order that
/// [`claim`](crate::claim) allows.
pub trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// Returns the kind.
    fn kind(&self) -> Kind;

    /// Returns the name.
    fn name(&self) -> &Name;

    /// Returns, as one text, the kind and what else distinguishes its claims: the mode, or the permits that a claim
    /// takes.
    fn mode(&self) -> Cow<'static, str> {
        self.kind().as_str().into()
    }

    /// Makes the claim a holder, if that is possible now.
    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall;

    /// Returns whether the first request of a claim asks for a free name only, while nothing says that the name is
    /// [inflated](RequestContext::inflated). Its answer is then a grant or [`Answer::Inflated`].
    fn takes(&self) -> bool {
        false
    }

    /// Extends the claim's lease: an item of a batch script.
    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall;

    /// Releases the claim. `overtakes` says that an acquire of it is unanswered and may be executed later. The script
    /// must then ensure that the late acquire creates nothing.
    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall;

    /// Asks whether the claim holds; changes nothing.
    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall;

    /// Returns what to tell the server about a claim as soon as it holds, if anything. The engine sends it in the
    /// background until it gets an answer or the claim no longer holds; nothing waits for it. For a claim that does not
    /// hold it changes nothing.
    fn proclamation(&self, _ask: RequestContext<'_>) -> Option<ScriptCall> {
        None
    }

    /// Returns whether an owner that already holds is granted the lock again. Its request then goes out at once, ahead
    /// of this client's waiters.
    fn reenters(&self) -> bool {
        false
    }

    /// Returns whether a grant may share the token of other owners' claims that stand, as those of readers do. Such a token may be
    /// smaller than one that the client has seen since. Every other grant draws a token of its own, unless it is a re-entry.
    fn shares_tokens(&self) -> bool {
        true
    }

    /// For kinds whose claims wait in a queue on the server.
    fn queue(&self) -> Option<&dyn Queue> {
        None
    }

    /// For kinds in which one claim can replace another.
    fn conversion(&self) -> Option<&dyn Conversion> {
        None
    }

    /// For kinds that limit how much of a name can be held at a time.
    fn limited(&self) -> Option<&dyn Limited> {
        None
    }

    /// For kinds whose claims may find that there is nothing to hold, because the work of the name is done.
    fn recorded(&self) -> Option<&dyn Recorded> {
        None
    }

    /// For kinds whose claims can be acquired together with claims on other names, in one script.
    fn joint(&self) -> Option<&dyn Joint> {
        None
    }

    /// For kinds that a majority of several servers decides.
    fn majority(&self) -> Option<&dyn MajorityMember> {
        None
    }

    /// For kinds that share their names with clients of another library. Everything is stored as that library stores
    /// it.
    fn foreign(&self) -> Option<&dyn Foreign> {
        None
    }
}

/// Kinds whose claims wait in a queue on the server.
pub trait Queue: Send + Sync {
    /// Sends a heartbeat of the waiting claim: an item of a batch script.
    fn heartbeat(&self, ask: RequestContext<'_>) -> ScriptCall;

    /// Asks how many claims wait, and at which place this claim is; changes nothing. An empty `claim` asks for the
    /// number alone.
    fn position(&self, claim: &str) -> ScriptCall;

    /// Returns the channel on which this owner's waiter hears that its turn may have come, for the queue of another
    /// library, which does not grant by itself. After any message there the waiter sends a heartbeat at once, and that
    /// heartbeat grants. `None` means that grants are reported on a channel of the client.
    fn turns(&self, _owner: Owner) -> Option<String> {
        None
    }
}

/// Kinds in which one claim can replace another in one step, so that no third claim can hold in between.
pub trait Conversion: Send + Sync {
    /// Makes the claim a holder in place of `old`: a claim of the same owner in another mode, or one of its client's
    /// cohort. `overtakes` says that an acquire of the old one is unanswered. Running it again gives the same answer.
    fn convert(&self, ask: RequestContext<'_>, old: &ClaimId, overtakes: bool) -> ScriptCall;

    /// Returns whether the claims of one client form a cohort: only one of them asks the server, and a released claim
    /// hands the name over to the next. For kinds with one holder that promise no order. Otherwise a claim replaces
    /// one of its owner in another mode.
    fn has_cohorts(&self) -> bool;
}

/// Kinds that limit how many permits can be held at a time.
pub trait Limited: Send + Sync {
    /// Asks for the limit and how many permits are held; with a `limit`, sets that limit first.
    fn limit(&self, limit: Option<u32>, floor: u64, waiter_ttl: Duration) -> ScriptCall;

    /// Notes a limit on the server that differs from the protocol's own. Returns whether that is news.
    fn hears_limit(&self, limit: u32) -> bool;
}

/// Kinds whose claims are for work that is done once. After it is done, every acquire gets its stored outcome.
pub trait Recorded: Send + Sync {
    /// Asks for the stored outcome. With `forget`, deletes it instead if the work was done with this token.
    fn record(&self, forget: Option<FencingToken>) -> ScriptCall;
}

/// Kinds whose claims one script can acquire together with claims on other names.
pub trait Joint: Send + Sync {
    /// An item of [`multi::ACQUIRE`](lockkeeper_lua::multi::ACQUIRE) or [`multi::RELEASE`](lockkeeper_lua::multi::RELEASE).
    fn item(&self, ask: RequestContext<'_>, verb: Together) -> ScriptCall;
}

/// Kinds that a majority of several servers decides.
pub trait MajorityMember: Send + Sync {
    /// Writes the largest token of the majority back to a server, if the claim holds there.
    fn raise(&self, ask: RequestContext<'_>, token: FencingToken) -> ScriptCall;
}

/// A function that returns whether a message tells one of the waiters to poll.
pub type IsWake = fn(&[u8]) -> bool;

/// Kinds that share their names with clients of another library.
pub trait Foreign: Send + Sync {
    /// Returns the channel whose messages tell all waiters to poll.
    fn channel(&self) -> String;

    /// Returns the function that recognises a message for waiters on that channel.
    fn is_wake(&self) -> IsWake;

    /// Returns whether claims of several owners can hold together. The waiters of this client that can hold together
    /// then ask one after the other: as soon as one of them is granted, the next asks. If the poller waits for
    /// something else and has asked in vain, the first of them asks.
    fn shares(&self) -> bool {
        false
    }

    /// Returns how many parts of the name a claim asks for, if claims share it.
    fn parts(&self) -> u32 {
        1
    }

    /// Notes the reply to an acquire.
    fn hears(&self, _reply: &Reply) {}

    /// Returns how many parts there are, as far as is known, if the last acquire asked for more. Then the waiters of this
    /// client that ask for less do not wait for it.
    fn parts_known(&self) -> Option<u32> {
        None
    }

    /// Returns whether a release can keep the name unavailable for a while. If not, `min_hold` is refused.
    fn cools_down(&self) -> bool {
        true
    }

    /// Asks who holds; the reply is that of [`name::INSPECT`](lockkeeper_lua::name::INSPECT). Changes nothing.
    fn inspect(&self) -> ScriptCall;

    /// Asks the holders to release; the reply is that of [`name::REVOKE`](lockkeeper_lua::name::REVOKE).
    fn revoke(&self) -> ScriptCall;

    /// Takes the name from its holder if `claim` is that holder: the id of a claim, or what the other library calls it.
    /// The reply is that of [`name::FREE`](lockkeeper_lua::name::FREE).
    fn free(&self, claim: &str) -> ScriptCall;
}

impl dyn Protocol {
    /// Returns the channel whose messages tell the waiters of this name to poll. For a kind with a queue, it is the
    /// prefix of the channels on which clients are notified of their grants.
    pub fn channel(&self) -> String {
        match self.foreign() {
            Some(foreign) => foreign.channel(),
            None => self.channel_key().to_string(),
        }
    }

    /// Returns the function that recognises a message for waiters on that channel.
    pub(crate) fn is_wake(&self) -> IsWake {
        self.foreign().map_or(is_wake, |foreign| foreign.is_wake())
    }

    pub(crate) fn channel_key(&self) -> Key<'_> {
        let name = self.name();
        name.key(self.queue().map_or("wake", |_| "grant"))
    }

    pub(crate) fn has_cohorts(&self) -> bool {
        self.conversion().is_some_and(Conversion::has_cohorts)
    }

    /// How many parts a claim asks for, of a kind whose claims can hold together without a queue on the server.
    pub(crate) fn shared_parts(&self) -> Option<u32> {
        let foreign = self.foreign().filter(|foreign| foreign.shares());
        foreign.map(Foreign::parts)
    }

    pub(crate) fn cools_down(&self) -> bool {
        self.foreign().is_none_or(Foreign::cools_down)
    }
}
