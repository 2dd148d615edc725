//! What has come of work that is done once.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::words::owner::Owner;
use crate::words::token::FencingToken;

/// What has come of the work of a name, as the server keeps it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// What the work has made; `None` if it has failed.
    pub value: Option<Vec<u8>>,
    /// The claim that did the work.
    pub claim: String,
    /// Whose claim it was; `None` if somebody else's hand has written it.
    pub owner: Option<Owner>,
    /// The fencing token that the work was done with.
    pub token: FencingToken,
    /// When the server stored it, by its clock.
    pub at: SystemTime,
    /// For how long the server keeps it from when it was asked; `None`: without end, as somebody else's hand may have made it.
    pub left: Option<Duration>,
    /// The SHA-256 of what the work was asked for, in hex; empty if nothing was said.
    pub fingerprint: String,
}

impl Record {
    /// Whether the work has failed.
    pub const fn is_failure(&self) -> bool {
        self.value.is_none()
    }
}

/// Never what the work has made: that may be of any size, and nobody else's business.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("bytes", &self.value.as_ref().map(Vec::len))
            .field("claim", &self.claim)
            .field("token", &self.token)
            .field("at", &self.at)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
