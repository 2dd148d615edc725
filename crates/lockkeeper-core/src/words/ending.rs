//! How a hold ends, and what is left of it.

use std::fmt;
use std::time::Duration;

/// What a holder may believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is still held; the last renewal was not answered and the deadline has not come yet.
    Uncertain,
    /// The lock is no longer held, and was not let go.
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
    /// Why the lease was lost; `None` if it was released.
    pub const fn reason(&self) -> Option<LossReason> {
        match self {
            Self::Released => None,
            Self::Lost(lost) => Some(lost.reason),
        }
    }
}

/// A loss: which part of the grant ended it, and why. Of several locks held together it is the one that was lost; of a lock on
/// several servers, the part whose reason weighs most: revoked, closed, `max_hold`, gone, expired.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The name of the lock.
    pub name: String,
    /// What its server is called: its [name](crate::ClientBuilder::store_name), or its address. `None` of an engine in this
    /// process that has no name.
    pub server: Option<String>,
    /// Why it was lost.
    pub reason: LossReason,
}

impl Lost {
    /// The loss of the lock called `name`, on a server without a name: for a test of your own code, which sets what it needs.
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
    /// The server said that the claim is not there: the key was deleted, also by
    /// [`Client::force_release`](crate::Client::force_release), or the server lost its data.
    Gone,
    /// Somebody has asked for the lock back, by [`Client::revoke`](crate::Client::revoke). The lock stays taken until the
    /// guard is gone, or the lease ends on the server.
    Revoked,
    /// The longest time to hold, which was set for this acquisition, is over.
    MaxHold,
    /// The client was closed while the guard lived.
    ClientClosed,
}

impl LossReason {
    /// One word of lower case, with underscores: fit for a label of a metric.
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
            Self::MaxHold => "the longest time to hold it is over",
            Self::ClientClosed => "the client was closed",
        })
    }
}

/// What is left of a lock after a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock is free, or goes to the next in line.
    Free,
    /// The same owner still holds it by this many other claims.
    StillHeld(u64),
    /// Nobody holds it, and nobody may for this much longer: it was let go before its
    /// [`min_hold`](crate::Acquire::min_hold) was over.
    Kept(Duration),
}

impl Released {
    /// What is left of two locks that were held together: what keeps others out for longest.
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

/// What [`Client::close`](crate::Client::close) found and did. The default is a client that left nothing behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Claims that nobody held any more and that the server has confirmed to be gone, since the client was made.
    pub confirmed: usize,
    /// Leases whose guards were alive: lost to their holders, and held on the server until their ttl ends.
    pub expiring: usize,
    /// Claims that nobody held any more, or that were just being acquired or released, and that the server has not
    /// confirmed to be gone: it did not answer in time, or refused. Those that are there end with their ttl.
    pub unconfirmed: usize,
}
