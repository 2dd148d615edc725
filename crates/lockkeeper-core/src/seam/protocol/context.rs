//! What a protocol knows about the requesting claim.

use std::time::Duration;

use crate::words::owner::ClaimId;
use crate::words::token::FencingToken;

/// Data about the requesting claim, from which a protocol builds the request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RequestContext<'a> {
    /// The requesting claim.
    pub claim: &'a ClaimId,
    /// The length of the lease.
    pub ttl: Duration,
    /// The largest token that this client has seen on the store.
    pub floor: u64,
    /// The token of the claim's grant; `None` before that. An acquire that carries one repeats the grant and creates
    /// nothing.
    pub token: Option<FencingToken>,
    /// The token with which the claim was granted, also when it has ended; `None` before that.
    pub drawn: Option<FencingToken>,
    /// How long a release keeps the name unavailable.
    pub cooldown: Duration,
    /// How long a waiting claim counts as alive after a heartbeat.
    pub waiter_ttl: Duration,
    /// How many claims may wait, including this one; `None`: any number.
    pub queue_limit: Option<u64>,
    /// Whether the name may be inflated, as far as is known.
    pub inflated: bool,
    /// Whether other claims of this client may be polling the name.
    pub polled: bool,
    /// The token that a lock on several servers asks all of them for; 0: none.
    pub proposal: u64,
}

impl<'a> RequestContext<'a> {
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
            drawn: None,
            cooldown: Duration::ZERO,
            waiter_ttl: Duration::ZERO,
            queue_limit: None,
            inflated: true,
            polled: false,
            proposal: 0,
        }
    }

    /// Adds the token with which the claim was granted.
    #[must_use]
    pub const fn granted(mut self, drawn: Option<FencingToken>) -> Self {
        self.drawn = drawn;
        self
    }

    /// Adds the token that a lock on several servers asks all of them for.
    #[must_use]
    pub const fn proposing(mut self, proposal: u64) -> Self {
        self.proposal = proposal;
        self
    }

    /// Lets the claim wait in a queue.
    #[must_use]
    pub const fn queueing(mut self, waiter_ttl: Duration, queue_limit: Option<u64>) -> Self {
        self.waiter_ttl = waiter_ttl;
        self.queue_limit = queue_limit;
        self
    }

    /// Sets whether the name may be inflated.
    #[must_use]
    pub const fn on_inflated(mut self, inflated: bool) -> Self {
        self.inflated = inflated;
        self
    }

    /// Sets whether other claims of this client may be polling the name.
    #[must_use]
    pub const fn polling(mut self, polled: bool) -> Self {
        self.polled = polled;
        self
    }

    /// Returns the waiter ttl as scripts take it: whole milliseconds.
    pub fn waiter_ttl_ms(&self) -> u64 {
        millis(self.waiter_ttl)
    }

    /// Returns the limit of the queue as scripts take it: -1 for none.
    pub fn queue_limit(&self) -> i64 {
        let limit = self.queue_limit;
        limit.map_or(-1, |limit| limit.try_into().unwrap_or(i64::MAX))
    }

    /// Sets how long a release keeps the name unavailable.
    #[must_use]
    pub const fn cooling_down(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Returns the cooldown as scripts take it: whole milliseconds, rounded up.
    pub fn cooldown_ms(&self) -> u64 {
        millis(self.cooldown.saturating_add(Duration::from_nanos(999_999)))
    }

    /// Returns the token as scripts take it: 0 for none.
    pub fn token(&self) -> u64 {
        self.token.map_or(0, FencingToken::get)
    }

    /// Returns the ttl as scripts take it: whole milliseconds.
    pub fn ttl_ms(&self) -> u64 {
        millis(self.ttl)
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}
