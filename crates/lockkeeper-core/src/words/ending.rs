//! How a hold ends, and what remains of it.

use std::fmt;
use std::time::Duration;

/// What a holder may assume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is still held: the last renewal was not answered, but the deadline has not passed.
    Uncertain,
    /// The lock is no longer held, although it was not released.
    Lost(LossReason),
    /// The guard has been released or dropped.
    Released,
}

/// How a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The guard was released or dropped.
    Released,
    /// The lease was lost.
    Lost(Lost),
}

impl End {
    /// Returns why the lease was lost; `None` if it was released.
    pub const fn reason(&self) -> Option<LossReason> {
        match self {
            Self::Released => None,
            Self::Lost(lost) => Some(lost.reason),
        }
    }
}

/// A loss: which part of the grant was lost, and why. For several locks held together, it is the lock that was lost.
/// For a lock on several servers, it is the part whose reason comes first in this order: revoked, closed, `max_hold`,
/// gone, expired.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The name of the lock.
    pub name: String,
    /// The server's [name](crate::ClientBuilder::store_name), or its address. `None` for an in-process server without
    /// a name.
    pub server: Option<String>,
    /// Why it was lost.
    pub reason: LossReason,
}

impl Lost {
    /// The loss of the lock called `name`, on a server without a name, for tests of your own code. Set the other fields as
    /// the test needs.
    pub fn new(name: impl Into<String>, reason: LossReason) -> Self {
        Self {
            name: name.into(),
            server: None,
            reason,
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, reason, .. } = self;
        write!(f, "lock {name:?} was lost: {reason}")
    }
}

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The deadline passed: no renewal was answered in time, or the lease was a fixed one.
    Expired,
    /// The server reported that the claim is not there: the key was deleted, for example by
    /// [`Client::force_release`](crate::Client::force_release), or the server lost its data.
    Gone,
    /// Somebody asked for the lock back with [`Client::revoke`](crate::Client::revoke). The lock becomes free when the
    /// guard is gone or the lease ends on the server.
    Revoked,
    /// The [`max_hold`](crate::Acquire::max_hold) of this acquisition has passed.
    MaxHold,
    /// The client was closed while the guard was alive, or the runtime that it was built on was shut down: nobody renews
    /// the lease any more.
    ClientClosed,
}

impl LossReason {
    /// Returns the reason as one lower-case word with underscores, suitable as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::Revoked => "revoked",
            Self::MaxHold => "max_hold",
            Self::ClientClosed => "client_closed",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline passed",
            Self::Gone => "the server no longer knows the claim",
            Self::Revoked => "it was revoked",
            Self::MaxHold => "its max_hold has passed",
            Self::ClientClosed => "the client was closed, or its runtime was shut down",
        })
    }
}

/// The state of a lock after a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock is free, or was granted to the next waiter.
    Free,
    /// The same owner still holds it, with this many other claims.
    StillHeld(u64),
    /// Nobody holds it, but nobody may acquire it for this much longer: it was released before its
    /// [`min_hold`](crate::Acquire::min_hold) was over.
    Kept(Duration),
}

impl Released {
    /// The joint state of two locks that were held together: the state that keeps others out for longer.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::StillHeld(one), Self::StillHeld(two)) => Self::StillHeld(one.max(two)),
            (held @ Self::StillHeld(_), _) | (_, held @ Self::StillHeld(_)) => held,
            (Self::Kept(one), Self::Kept(two)) => Self::Kept(one.max(two)),
            (kept @ Self::Kept(_), _) | (_, kept @ Self::Kept(_)) => kept,
            (Self::Free, Self::Free) => Self::Free,
        }
    }
}

/// What [`Client::close`](crate::Client::close) found and did. The default is the report of a client that had nothing
/// to release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Claims without a guard that the server has confirmed to be gone, counted over the whole life of the client.
    pub confirmed: usize,
    /// Leases whose guards were still alive. They are lost to their holders and expire on the server.
    pub expiring: usize,
    /// Claims without a guard, or that were being acquired or released, that the server has not confirmed to be gone,
    /// because it did not answer in time or refused. If they exist there, they end with their ttl.
    pub unconfirmed: usize,
}
