//! Leases.

use std::fmt;

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// No renewal was answered in time: the deadline passed.
    Expired,
    /// The server said that the claim is not there: the key was deleted, or the server lost its data.
    Gone,
    /// The client was closed while the guard lived.
    ClientClosed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "no renewal was answered before its deadline",
            Self::Gone => "the server no longer knows the claim",
            Self::ClientClosed => "the client was closed",
        })
    }
}
