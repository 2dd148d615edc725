//! The protocol of every kind that one server decides: claims hold shares of a name, alone or beside one another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper_lua::{lock, multi};

use crate::seam::protocol::{
    Conversion, Joint, Kind, Limited, Modes, Protocol, Queue, RequestContext, ScriptCall, Together,
};
use crate::words::name::Name;
use crate::words::owner::ClaimId;

/// How much of a name a claim takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Share {
    /// All of it.
    Whole,
    /// So many parts, beside others.
    Parts(u32),
    /// So many permits of so many.
    Permits {
        /// How many the claim takes.
        permits: u32,
        /// How many there are.
        limit: u32,
    },
}

impl Share {
    /// The share as a script takes it.
    fn text(self) -> String {
        match self {
            Self::Whole => "x".to_owned(),
            Self::Parts(parts) => parts.to_string(),
            Self::Permits { permits, limit } => format!("{permits}/{limit}"),
        }
    }
}

/// One name of a kind that one server decides, for claims with one share of it.
#[derive(Debug)]
pub struct LockProtocol {
    name: Name,
    kind: Kind,
    share: Share,
    /// Another share that the same kind gives, and what requests are called by.
    modes: Option<(Share, &'static str)>,
    reenters: bool,
    queues: bool,
    cohorts: bool,
    /// Of a kind whose claims take permits: the limit that was heard last, if it was another one.
    heard: Option<Arc<AtomicU32>>,
}

impl LockProtocol {
    /// Of a kind whose claims take all of the name, wait in no queue, and ask again when it is free.
    pub const fn new(name: Name, kind: Kind) -> Self {
        Self {
            name,
            kind,
            share: Share::Whole,
            modes: None,
            reenters: false,
            queues: false,
            cohorts: false,
            heard: None,
        }
    }

    /// An owner that holds is let in again.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.reenters = true;
        self
    }

    /// Claims wait in a queue.
    #[must_use]
    pub const fn queueing(mut self) -> Self {
        self.queues = true;
        self
    }

    /// Claims wait in a queue, but for a name that other libraries may use too: they know no queue, and its marker would be a holder to them.
    #[must_use]
    pub const fn queueing_unless_shared(mut self) -> Self {
        self.queues = !self.name.is_shared();
        self
    }

    /// The claims of a client hand the name over among themselves, where they wait in a queue.
    #[must_use]
    pub const fn in_cohorts(mut self) -> Self {
        self.cohorts = self.queues;
        self
    }

    /// Claims take so many permits of so many. `heard` is the other limit that was last heard to stand on the server, 0 for none; those
    /// who share it are told of a new one once.
    #[must_use]
    pub fn of_permits(mut self, permits: u32, limit: u32, heard: &Arc<AtomicU32>) -> Self {
        self.share = Share::Permits { permits, limit };
        self.heard = Some(Arc::clone(heard));
        self
    }

    /// Claims take this share, and may be converted to those that take the `other`; `mode` is what this one is called.
    #[must_use]
    pub const fn in_mode(mut self, share: Share, other: Share, mode: &'static str) -> Self {
        self.share = share;
        self.modes = Some((other, mode));
        self
    }

    fn main(&self) -> String {
        self.name.main().to_owned()
    }

    /// The keys of everything that may change who holds and who waits.
    fn keys(&self, claim: &ClaimId) -> [String; 6] {
        [
            self.main(),
            self.name.counter(),
            self.name.tombstone(claim),
            self.name.part("holders"),
            self.name.part("queue"),
            self.name.part("state"),
        ]
    }

    fn channel(&self) -> String {
        match self.queues {
            true => self.name.grants(),
            false => self.name.wakes(),
        }
    }

    fn kind_text(&self) -> String {
        self.kind.as_str().to_owned()
    }
}

fn flag(is_set: bool) -> String {
    u8::from(is_set).to_string()
}

/// For how long a tombstone stops a request that may still be executed, as a script takes it: 0 if none may be.
fn tombstone_ttl(ask: RequestContext<'_>, in_doubt: bool) -> String {
    match in_doubt {
        true => ask.ttl_ms(),
        false => "0".to_owned(),
    }
}

impl Protocol for LockProtocol {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        let queue_limit = match (self.queues, ask.queue_limit) {
            (false, None) => "poll".to_owned(),
            _ => ask.queue_limit(),
        };
        ScriptCall::new(
            &lock::ACQUIRE,
            self.keys(ask.claim),
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                ask.token(),
                self.kind_text(),
                self.share.text(),
                flag(ask.polled),
                ask.waiter_ttl_ms(),
                self.channel(),
                queue_limit,
                flag(self.reenters),
            ],
        )
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        let (claim, ttl) = (ask.claim.as_str().to_owned(), ask.ttl_ms());
        if ask.inflated {
            let owners = match self.share {
                Share::Whole => "holders",
                Share::Parts(_) | Share::Permits { .. } => "state",
            };
            let keys = [
                self.main(),
                self.name.part("holders"),
                self.name.part(owners),
            ];
            ScriptCall::new(&lock::RENEW_INFLATED, keys, [claim, ttl, self.share.text()])
        } else {
            ScriptCall::new(&lock::RENEW, [self.main()], [claim, ttl])
        }
    }

    fn release(&self, ask: RequestContext<'_>, in_doubt: bool) -> ScriptCall {
        let claim = ask.claim.as_str().to_owned();
        if !ask.inflated && !in_doubt {
            let args = [claim, self.channel(), ask.cooldown_ms()];
            return ScriptCall::new(&lock::RELEASE_THIN, [self.main()], args);
        }
        ScriptCall::new(
            &lock::RELEASE,
            self.keys(ask.claim),
            [
                claim,
                self.kind_text(),
                self.share.text(),
                self.channel(),
                ask.cooldown_ms(),
                tombstone_ttl(ask, in_doubt),
                ask.floor.to_string(),
                ask.waiter_ttl_ms(),
                flag(self.reenters),
            ],
        )
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        let claim = ask.claim.as_str().to_owned();
        if !ask.inflated {
            return ScriptCall::new(&lock::VERIFY, [self.main()], [claim]);
        }
        let keys = [self.main(), self.name.part("holders")];
        ScriptCall::new(&lock::VERIFY_INFLATED, keys, [claim, self.share.text()])
    }

    fn reenters(&self) -> bool {
        self.reenters
    }

    fn queue(&self) -> Option<&dyn Queue> {
        self.queues.then_some(self)
    }

    fn modes(&self) -> Option<&dyn Modes> {
        self.modes.is_some().then_some(self)
    }

    fn conversion(&self) -> Option<&dyn Conversion> {
        (self.cohorts || self.modes.is_some()).then_some(self)
    }

    fn has_cohorts(&self) -> bool {
        self.cohorts
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
        ScriptCall::new(
            &lock::HEARTBEAT,
            [
                self.main(),
                self.name.counter(),
                self.name.part("holders"),
                self.name.part("queue"),
                self.name.part("state"),
            ],
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                self.kind_text(),
                self.share.text(),
                ask.waiter_ttl_ms(),
                self.channel(),
                flag(self.reenters),
            ],
        )
    }

    fn position(&self, claim: &str) -> ScriptCall {
        let args = [claim.to_owned(), self.share.text()];
        ScriptCall::new(&lock::QUEUE, [self.main(), self.name.part("queue")], args)
    }
}

impl Modes for LockProtocol {
    fn mode(&self) -> &'static str {
        self.modes.map_or(self.kind.as_str(), |(_, mode)| mode)
    }
}

impl Conversion for LockProtocol {
    fn convert(&self, ask: RequestContext<'_>, old: &ClaimId, in_doubt: bool) -> ScriptCall {
        let keys = self.keys(ask.claim).into_iter();
        let old_share = self.modes.map_or(self.share, |(other, _)| other);
        ScriptCall::new(
            &lock::CONVERT,
            keys.chain([self.name.tombstone(old)]),
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                self.kind_text(),
                self.share.text(),
                ask.waiter_ttl_ms(),
                self.channel(),
                old.as_str().to_owned(),
                old_share.text(),
                tombstone_ttl(ask, in_doubt),
            ],
        )
    }
}

impl Limited for LockProtocol {
    fn mode(&self) -> String {
        format!("{} {}", self.kind, self.share.text())
    }

    fn limit(&self, limit: Option<u32>, floor: u64, waiter_ttl: Duration) -> ScriptCall {
        ScriptCall::new(
            &lock::LIMIT,
            [
                self.main(),
                self.name.counter(),
                self.name.part("holders"),
                self.name.part("queue"),
                self.name.part("state"),
            ],
            [
                limit.unwrap_or(0).to_string(),
                floor.to_string(),
                self.kind_text(),
                waiter_ttl.as_millis().to_string(),
                self.channel(),
            ],
        )
    }

    fn hears_limit(&self, limit: u32) -> bool {
        let heard = self.heard.as_ref();
        heard.is_some_and(|heard| heard.swap(limit, Ordering::Relaxed) != limit)
    }
}

impl Joint for LockProtocol {
    fn item(&self, ask: RequestContext<'_>, verb: Together) -> ScriptCall {
        let claim = ask.claim.as_str().to_owned();
        let (main, tombstone) = (self.main(), self.name.tombstone(ask.claim));
        match verb {
            Together::Acquire => ScriptCall::new(
                &multi::ACQUIRE,
                [main, self.name.counter(), tombstone],
                [
                    claim,
                    ask.ttl_ms(),
                    ask.floor.to_string(),
                    self.kind_text(),
                    self.share.text(),
                    flag(ask.polled),
                ],
            ),
            Together::Release { overtakes } => ScriptCall::new(
                &multi::RELEASE,
                [main, tombstone],
                [
                    claim,
                    self.channel(),
                    ask.cooldown_ms(),
                    tombstone_ttl(ask, overtakes),
                ],
            ),
        }
    }
}
