//! What a protocol is told of the claim that asks.

use std::time::Duration;

use crate::words::owner::ClaimId;
use crate::words::token::FencingToken;

/// What an item is built from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RequestContext<'a> {
    /// Whose request it is.
    pub claim: &'a ClaimId,
    /// Length of the lease.
    pub ttl: Duration,
    /// The largest token this client has seen on the store.
    pub floor: u64,
    /// The token of the claim's grant; `None` before. An acquire that carries one repeats the grant and creates nothing.
    pub token: Option<FencingToken>,
    /// For how long a leave keeps the name from others.
    pub cooldown: Duration,
    /// How long a waiting claim counts as alive after a heartbeat.
    pub waiter_ttl: Duration,
    /// How many claims may wait, including this one; `None`: any number.
    pub queue_limit: Option<u64>,
    /// Whether the name may be inflated, as far as is known.
    pub inflated: bool,
    /// Whether others of this client may be polling the name.
    pub polled: bool,
    /// The token that all servers of a majority are asked for; 0: none.
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
            cooldown: Duration::ZERO,
            waiter_ttl: Duration::ZERO,
            queue_limit: None,
            inflated: true,
            polled: false,
            proposal: 0,
        }
    }

    /// The same for a claim for which all servers of a majority are asked for this token.
    #[must_use]
    pub const fn proposing(mut self, proposal: u64) -> Self {
        self.proposal = proposal;
        self
    }

    /// The same for a claim that may wait in a queue.
    #[must_use]
    pub const fn queueing(mut self, waiter_ttl: Duration, queue_limit: Option<u64>) -> Self {
        self.waiter_ttl = waiter_ttl;
        self.queue_limit = queue_limit;
        self
    }

    /// The same for a name that may be inflated, or not.
    #[must_use]
    pub const fn on_inflated(mut self, inflated: bool) -> Self {
        self.inflated = inflated;
        self
    }

    /// The same for a claim that others of its client poll beside.
    #[must_use]
    pub const fn polling(mut self, polled: bool) -> Self {
        self.polled = polled;
        self
    }

    /// The waiter's ttl as a script takes it, whole milliseconds.
    pub fn waiter_ttl_ms(&self) -> u64 {
        millis(self.waiter_ttl)
    }

    /// The limit of the queue as a script takes it: -1 for none.
    pub fn queue_limit(&self) -> i64 {
        let limit = self.queue_limit;
        limit.map_or(-1, |limit| limit.try_into().unwrap_or(i64::MAX))
    }

    /// The same for a leave that keeps the name from others for so long.
    #[must_use]
    pub const fn cooling_down(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// The time to keep as a script takes it: whole milliseconds, never less.
    pub fn cooldown_ms(&self) -> u64 {
        millis(self.cooldown.saturating_add(Duration::from_nanos(999_999)))
    }

    /// The token as a script takes it: 0 for none.
    pub fn token(&self) -> u64 {
        self.token.map_or(0, FencingToken::get)
    }

    /// The ttl as a script takes it, whole milliseconds.
    pub fn ttl_ms(&self) -> u64 {
        millis(self.ttl)
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}
