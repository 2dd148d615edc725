//! What a majority of independent servers decides: the rounds by which a claim is granted, and for how long it may be
//! believed in.
//!
//! Pure: events go in with the present [`Moment`], decisions come out. The engine drives it with real stores; the exhaustive
//! search drives the very same code with models of them. The laws it keeps:
//!
//! - A quorum is counted over all servers there are, never over those that answered.
//! - The time for which a server's grant may be believed in counts from before the send of its request, less the drift of
//!   clocks. A lease lasts as long as a quorum of such times.
//! - A grant is none before a quorum of servers has its token for the last one while the claim holds there: because they have all
//!   given the same, or because the largest of a quorum of grants was written back to them. And not before the time has been
//!   looked at once more behind that.
//! - A round decides once. The next one is of another claim.

mod round;

use std::time::Duration;

pub use round::{Failure, Reply, Round, Step, WrittenBack};

use crate::words::moment::Moment;

/// How far the token that is asked for may be ahead of what a quorum would draw, µs: half of what servers follow at most, so that all
/// of the quorum follow.
const APART: u64 = 500_000;

/// How many servers there are, and how many of them decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quorum {
    servers: usize,
}

impl Quorum {
    /// The fewest servers of which a majority survives the loss of one.
    pub const FEWEST: usize = 3;

    /// A majority of `servers`; `None` unless they are odd in number, and three or more. One more server than an odd number
    /// would make the lock need one more of them and survive the loss of no more.
    pub const fn of(servers: usize) -> Option<Self> {
        if servers >= Self::FEWEST && servers % 2 == 1 {
            Some(Self { servers })
        } else {
            None
        }
    }

    /// How many servers there are.
    pub const fn servers(self) -> usize {
        self.servers
    }

    /// How many of them are needed.
    pub const fn size(self) -> usize {
        self.servers / 2 + 1
    }

    /// Whether so many servers are enough to decide.
    pub const fn is_reached(self, servers: usize) -> bool {
        servers >= self.size()
    }

    /// Whether no quorum can be had without so many servers.
    pub const fn is_prevented(self, missing: usize) -> bool {
        missing > self.servers - self.size()
    }

    /// The largest value that a quorum reaches: of the moments until which each server's part may be believed in, the one
    /// until which a quorum may. `None` if there are fewer values than that.
    pub fn reached_by<T: Ord>(self, values: impl IntoIterator<Item = T>) -> Option<T> {
        let mut values: Vec<T> = values.into_iter().collect();
        values.sort_unstable_by(|one, other| other.cmp(one));
        values.into_iter().nth(self.size() - 1)
    }

    /// For how long a quorum may be believed in, when each server's part may be for so long; zero if no quorum may.
    pub fn remaining(self, parts: impl IntoIterator<Item = Duration>) -> Duration {
        self.reached_by(parts).unwrap_or(Duration::ZERO)
    }

    /// The token to ask all servers for, so that as many as possible give the same: above `seen`, and as large as the `next` of every
    /// server, but for those too far ahead of a quorum. Of fewer servers than a quorum nothing follows.
    pub fn proposal(self, seen: u64, next: impl IntoIterator<Item = u64>) -> u64 {
        let mut next: Vec<u64> = next.into_iter().collect();
        next.sort_unstable();
        let usual = next.get(self.size() - 1).copied();
        let within = |next: &u64| usual.is_some_and(|usual| *next <= usual.saturating_add(APART));
        let largest = next.into_iter().rfind(within).unwrap_or(0);
        largest.max(seen.saturating_add(1))
    }

    /// When a quorum of servers is free, if each is at its moment; `None` of a server: nobody knows.
    pub fn free_at(self, servers: impl IntoIterator<Item = Option<Moment>>) -> Option<Moment> {
        let mut known: Vec<Moment> = servers.into_iter().flatten().collect();
        known.sort_unstable();
        known.get(self.size() - 1).copied()
    }
}

#[cfg(test)]
mod tests;
