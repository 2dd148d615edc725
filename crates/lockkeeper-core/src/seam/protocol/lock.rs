//! The protocol of every kind that one server decides: claims hold shares of a name, alone or together with others.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper_lua::{lock, multi};

use crate::seam::protocol::{
    Conversion, Joint, Kind, Limited, Protocol, Queue, RequestContext, ScriptCall, Together,
};
use crate::words::name::{Key, Name};
use crate::words::owner::ClaimId;
use crate::words::token::FencingToken;

/// How much of a name a claim takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a claim can take nothing else")]
pub enum Share {
    /// All of it.
    Whole,
    /// This many parts, together with others.
    Parts(u32),
    /// This many permits out of a limit.
    Permits {
        /// How many the claim takes.
        permits: u32,
        /// The limit.
        limit: u32,
    },
}

/// Writes the share in the form that scripts take.
impl Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("x"),
            Self::Parts(parts) => parts.fmt(f),
            Self::Permits { permits, limit } => write!(f, "{permits}/{limit}"),
        }
    }
}

/// The value of a claim that is alone under a name, see `shared/value.lua`; without a token, the part before it.
struct Value<'a> {
    kind: Kind,
    share: Share,
    claim: &'a ClaimId,
    token: Option<FencingToken>,
}

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.kind, self.share, self.claim)?;
        self.token.map_or(Ok(()), |token| token.fmt(f))
    }
}

/// One name of a kind that one server decides, for claims that take the same share of it.
#[derive(Debug)]
pub struct LockProtocol {
    name: Name,
    kind: Kind,
    share: Share,
    /// The other share of the kind, and the name of this mode.
    modes: Option<(Share, &'static str)>,
    /// Whether the first request of a claim asks for a free name only.
    takes: bool,
    reenters: bool,
    queues: bool,
    cohorts: bool,
    /// For claims that take permits: the last limit that the server reported and that differs from their own.
    heard: Option<Arc<AtomicU32>>,
}

impl LockProtocol {
    /// The protocol of a kind whose claims take all of the name, wait in no queue, and ask again when it is free.
    pub const fn new(name: Name, kind: Kind) -> Self {
        Self {
            name,
            kind,
            share: Share::Whole,
            modes: None,
            takes: false,
            reenters: false,
            queues: false,
            cohorts: false,
            heard: None,
        }
    }

    /// Lets the first request of a claim ask for a free name only, with [`lock::TAKE`]. Only for kinds whose acquire is [`lock::ACQUIRE`].
    #[must_use]
    pub const fn taking(mut self) -> Self {
        self.takes = true;
        self
    }

    /// Grants the lock again to an owner that already holds it.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.reenters = true;
        self
    }

    /// Lets claims wait in a queue.
    #[must_use]
    pub const fn queueing(mut self) -> Self {
        self.queues = true;
        self
    }

    /// Lets claims wait in a queue, except on a name that other libraries may use too: these have no queue, and would
    /// take the marker of a queue for a holder.
    #[must_use]
    pub const fn queueing_unless_shared(mut self) -> Self {
        self.queues = !self.name.is_shared();
        self
    }

    /// Lets the waiting claims of one client hand the name over among themselves, if there is a queue.
    #[must_use]
    pub const fn in_cohorts(mut self) -> Self {
        self.cohorts = self.queues;
        self
    }

    /// Lets claims take this many permits out of `limit`. `heard` stores the last different limit that the server
    /// reported, 0 for none. Protocols that share it report a new limit only once.
    #[must_use]
    pub fn of_permits(mut self, permits: u32, limit: u32, heard: &Arc<AtomicU32>) -> Self {
        self.share = Share::Permits { permits, limit };
        self.heard = Some(Arc::clone(heard));
        self
    }

    /// Lets claims take this share, and be converted to claims that take the `other` one. `mode` is the name of this
    /// mode.
    #[must_use]
    pub const fn in_mode(mut self, share: Share, other: Share, mode: &'static str) -> Self {
        self.share = share;
        self.modes = Some((other, mode));
        self
    }

    fn channel(&self) -> Key<'_> {
        self.name.key(match self.queues {
            true => "grant",
            false => "wake",
        })
    }

    /// The value of a claim that is alone under the name, see `shared/value.lua`.
    const fn value<'a>(&'a self, claim: &'a ClaimId, token: Option<FencingToken>) -> Value<'a> {
        let (kind, share) = (self.kind, self.share);
        Value {
            kind,
            share,
            claim,
            token,
        }
    }

    /// Asks for the name if it is free.
    fn take(&self, ask: RequestContext<'_>) -> ScriptCall {
        let name = &self.name;
        let keys = [
            Key::Main(name),
            Key::Counter(name),
            Key::Tombstone(name, ask.claim),
        ];
        let value = self.value(ask.claim, None);
        let tries = u8::from(ask.queue_limit == Some(0));
        let args: [&dyn Display; 4] = [&value, &ask.ttl_ms(), &ask.floor, &tries];
        ScriptCall::new(&lock::TAKE, keys, args)
    }

    /// The keys that a request of one claim may need: those of the name, and the claim's tombstone.
    fn keys<'a>(&'a self, claim: &'a ClaimId) -> [Key<'a>; 6] {
        let [main, counter, holders, queue, state] = self.keys_of_all();
        let tombstone = Key::Tombstone(&self.name, claim);
        [main, counter, tombstone, holders, queue, state]
    }

    /// The keys of the name, without any tombstone.
    const fn keys_of_all(&self) -> [Key<'_>; 5] {
        [
            Key::Main(&self.name),
            Key::Counter(&self.name),
            self.name.key("holders"),
            self.name.key("queue"),
            self.name.key("state"),
        ]
    }
}

/// How long a tombstone lives that must stop a request which may still be executed, in the form that scripts take; 0 if
/// there is no such request.
fn tombstone_ttl(ask: RequestContext<'_>, in_doubt: bool) -> u64 {
    match in_doubt {
        true => ask.ttl_ms(),
        false => 0,
    }
}

impl Protocol for LockProtocol {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn mode(&self) -> Cow<'static, str> {
        match (self.modes, self.share) {
            (Some((_, mode)), _) => mode.into(),
            (None, Share::Permits { .. }) => format!("{} {}", self.kind, self.share).into(),
            (None, _) => self.kind.as_str().into(),
        }
    }

    fn shares_tokens(&self) -> bool {
        matches!(self.share, Share::Parts(_))
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        if self.takes && !ask.inflated && ask.token.is_none() && !ask.polled {
            return self.take(ask);
        }
        let limit = ask.queue_limit();
        let queue_limit: &dyn Display = match (self.queues, ask.queue_limit) {
            (false, None) => &"poll",
            _ => &limit,
        };
        let args: [&dyn Display; 11] = [
            ask.claim,
            &ask.ttl_ms(),
            &ask.floor,
            &ask.token(),
            &self.kind,
            &self.share,
            &u8::from(ask.polled),
            &ask.waiter_ttl_ms(),
            &self.channel(),
            queue_limit,
            &u8::from(self.reenters),
        ];
        ScriptCall::new(&lock::ACQUIRE, self.keys(ask.claim), args)
    }

    fn takes(&self) -> bool {
        self.takes
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        let args: [&dyn Display; 3] = [ask.claim, &ask.ttl_ms(), &self.share];
        if !ask.inflated {
            return ScriptCall::new(&lock::RENEW, [self.name.main()], &args[..2]);
        }
        let owners = match self.share {
            Share::Whole => "holders",
            Share::Parts(_) | Share::Permits { .. } => "state",
        };
        let name = &self.name;
        let keys = [Key::Main(name), name.key("holders"), name.key(owners)];
        ScriptCall::new(&lock::RENEW_INFLATED, keys, args)
    }

    fn release(&self, ask: RequestContext<'_>, in_doubt: bool) -> ScriptCall {
        let alone = !ask.inflated && !in_doubt && !ask.polled && ask.cooldown.is_zero();
        if alone && ask.drawn.is_some() {
            let value = self.value(ask.claim, ask.drawn);
            return ScriptCall::new(&lock::DROP, [self.name.main()], [value]);
        }
        let args: [&dyn Display; 9] = [
            ask.claim,
            &self.kind,
            &self.share,
            &self.channel(),
            &ask.cooldown_ms(),
            &tombstone_ttl(ask, in_doubt),
            &ask.floor,
            &ask.waiter_ttl_ms(),
            &u8::from(self.reenters),
        ];
        ScriptCall::new(&lock::RELEASE, self.keys(ask.claim), args)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        if !ask.inflated {
            return ScriptCall::new(&lock::VERIFY, [self.name.main()], [ask.claim]);
        }
        let keys = [Key::Main(&self.name), self.name.key("holders")];
        let args: [&dyn Display; 2] = [ask.claim, &self.share];
        ScriptCall::new(&lock::VERIFY_INFLATED, keys, args)
    }

    fn reenters(&self) -> bool {
        self.reenters
    }

    fn queue(&self) -> Option<&dyn Queue> {
        self.queues.then_some(self)
    }

    fn conversion(&self) -> Option<&dyn Conversion> {
        (self.cohorts || self.modes.is_some()).then_some(self)
    }

    fn limited(&self) -> Option<&dyn Limited> {
        self.heard.is_some().then_some(self)
    }

    fn joint(&self) -> Option<&dyn Joint> {
        Some(self)
    }
}

impl Queue for LockProtocol {
    fn heartbeat(&self, ask: RequestContext<'_>) -> ScriptCall {
        let args: [&dyn Display; 8] = [
            ask.claim,
            &ask.ttl_ms(),
            &ask.floor,
            &self.kind,
            &self.share,
            &ask.waiter_ttl_ms(),
            &self.channel(),
            &u8::from(self.reenters),
        ];
        ScriptCall::new(&lock::HEARTBEAT, self.keys_of_all(), args)
    }

    fn position(&self, claim: &str) -> ScriptCall {
        let keys = [Key::Main(&self.name), self.name.key("queue")];
        let args: [&dyn Display; 2] = [&claim, &self.share];
        ScriptCall::new(&lock::QUEUE, keys, args)
    }
}

impl Conversion for LockProtocol {
    fn convert(&self, ask: RequestContext<'_>, old: &ClaimId, in_doubt: bool) -> ScriptCall {
        let old_share = self.modes.map_or(self.share, |(other, _)| other);
        let args: [&dyn Display; 10] = [
            ask.claim,
            &ask.ttl_ms(),
            &ask.floor,
            &self.kind,
            &self.share,
            &ask.waiter_ttl_ms(),
            &self.channel(),
            old,
            &old_share,
            &tombstone_ttl(ask, in_doubt),
        ];
        let keys = self.keys(ask.claim).into_iter();
        let keys = keys.chain([Key::Tombstone(&self.name, old)]);
        ScriptCall::new(&lock::CONVERT, keys, args)
    }

    fn has_cohorts(&self) -> bool {
        self.cohorts
    }
}

impl Limited for LockProtocol {
    fn limit(&self, limit: Option<u32>, floor: u64, waiter_ttl: Duration) -> ScriptCall {
        let args: [&dyn Display; 5] = [
            &limit.unwrap_or(0),
            &floor,
            &self.kind,
            &waiter_ttl.as_millis(),
            &self.channel(),
        ];
        ScriptCall::new(&lock::LIMIT, self.keys_of_all(), args)
    }

    fn hears_limit(&self, limit: u32) -> bool {
        let heard = self.heard.as_ref();
        heard.is_some_and(|heard| heard.swap(limit, Ordering::Relaxed) != limit)
    }
}

impl Joint for LockProtocol {
    fn item(&self, ask: RequestContext<'_>, verb: Together) -> ScriptCall {
        let main = Key::Main(&self.name);
        let tombstone = Key::Tombstone(&self.name, ask.claim);
        match verb {
            Together::Acquire => {
                let keys = [main, Key::Counter(&self.name), tombstone];
                let args: [&dyn Display; 6] = [
                    ask.claim,
                    &ask.ttl_ms(),
                    &ask.floor,
                    &self.kind,
                    &self.share,
                    &u8::from(ask.polled),
                ];
                ScriptCall::new(&multi::ACQUIRE, keys, args)
            }
            Together::Release { overtakes } => {
                let args: [&dyn Display; 4] = [
                    ask.claim,
                    &self.channel(),
                    &ask.cooldown_ms(),
                    &tombstone_ttl(ask, overtakes),
                ];
                ScriptCall::new(&multi::RELEASE, [main, tombstone], args)
            }
        }
    }
}
