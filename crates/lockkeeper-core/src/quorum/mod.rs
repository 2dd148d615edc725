//! Decisions of a majority of independent servers: the rounds that grant a claim, and how long the grant is valid.
//!
//! Pure: events go in with the current [`Moment`], decisions come out. The engine drives it with real stores; the
//! exhaustive search drives the same code with models of stores. It enforces these laws:
//!
//! - A quorum is counted over all servers, never only over those that answered.
//! - A server's grant is valid for the ttl less the clock drift, counted from before the send of its request. A lease
//!   is valid while a quorum of its grants is valid.
//! - A grant is complete only when the claim holds on a quorum of servers and its token is the last one of each.
//!   Either all of them gave that token, or the largest token of a quorum was written back to them. After that the
//!   time is checked once more.
//! - A round decides once. The next round uses another claim.

mod round;

pub use round::{Failure, Reply, Round, Step, WrittenBack};

use std::time::Duration;

use crate::words::moment::Moment;

/// How far a proposed token may be ahead of the token that a quorum would draw, in µs. Servers follow a proposal up to
/// twice that far, so the whole quorum follows it.
const APART: u64 = 500_000;

/// The shortest time to wait for the remaining servers after a quorum has answered.
const LEAST_GRACE: Duration = Duration::from_millis(10);

/// Until when to wait for the remaining servers, if a request that began at `began` was answered by a quorum at
/// `reached`: as long again. Each further server that grants lets the lock survive the loss of one more, and each that
/// releases is free when the release returns. That is worth a few round trips, and no more.
pub(crate) fn until_the_rest(began: Moment, reached: Moment) -> Moment {
    reached.after(LEAST_GRACE.max(reached.since(began)))
}

/// How many servers there are, and how many of them decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quorum {
    servers: usize,
}

impl Quorum {
    /// The smallest number of servers whose majority survives the loss of one.
    pub const FEWEST: usize = 3;

    /// Returns a majority of `servers`; `None` unless their number is odd and at least three. One server more than an
    /// odd number would raise the majority by one, and the lock would not survive more losses.
    pub const fn of(servers: usize) -> Option<Self> {
        if servers >= Self::FEWEST && servers % 2 == 1 {
            Some(Self { servers })
        } else {
            None
        }
    }

    /// Returns how many servers there are.
    pub const fn servers(self) -> usize {
        self.servers
    }

    /// Returns how many servers are needed.
    pub const fn size(self) -> usize {
        self.servers / 2 + 1
    }

    /// Returns whether this many servers are enough to decide.
    pub const fn is_reached(self, servers: usize) -> bool {
        servers >= self.size()
    }

    /// Returns whether a quorum is impossible without this many servers.
    pub const fn is_prevented(self, missing: usize) -> bool {
        missing > self.servers - self.size()
    }

    /// Returns the largest value that a quorum reaches. Given the deadline of each server's part, this is the deadline
    /// of the whole. `None` if there are fewer values than a quorum.
    pub fn reached_by<T: Ord>(self, values: impl IntoIterator<Item = T>) -> Option<T> {
        let mut values: Vec<T> = values.into_iter().collect();
        values.sort_unstable_by(|one, other| other.cmp(one));
        values.into_iter().nth(self.size() - 1)
    }

    /// Returns the token to propose to all servers, chosen so that as many servers as possible give this same token. It
    /// is above `seen`, and as large as the `next` token of every server that is not too far ahead of a quorum. If the
    /// next token is known for fewer servers than a quorum, it is just above `seen`.
    pub fn proposal(self, seen: u64, next: impl IntoIterator<Item = u64>) -> u64 {
        let mut next: Vec<u64> = next.into_iter().collect();
        next.sort_unstable();
        let usual = next.get(self.size() - 1).copied();
        let within = |next: &u64| usual.is_some_and(|usual| *next <= usual.saturating_add(APART));
        let largest = next.into_iter().rfind(within).unwrap_or(0);
        largest.max(seen.saturating_add(1))
    }

    /// Returns when a quorum of servers is free, given the moment for each server; `None` for a server means unknown.
    pub fn free_at(self, servers: impl IntoIterator<Item = Option<Moment>>) -> Option<Moment> {
        let mut known: Vec<Moment> = servers.into_iter().flatten().collect();
        known.sort_unstable();
        known.get(self.size() - 1).copied()
    }
}

#[cfg(test)]
mod tests;
