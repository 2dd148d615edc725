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
    /// What the claim has made with this token, stored now and kept without end; `None` if it has failed. For a test of your own
    /// code, which sets what it needs.
    ///
    /// # Examples
    ///
    /// ```
    /// use lockkeeper_core::{FencingToken, Record};
    ///
    /// let claim = "67e55044-10b1-426f-9247-bb680e5fe0c8:7/9c1f4d03a2b75e68";
    /// let record = Record::new(Some(b"receipt 1".to_vec()), claim, FencingToken::new(7));
    /// assert!(!record.is_failure());
    /// ```
    pub fn new(value: Option<Vec<u8>>, claim: impl Into<String>, token: FencingToken) -> Self {
        let claim = claim.into();
        Self {
            value,
            owner: Owner::of_claim(&claim),
            claim,
            token,
            at: SystemTime::now(),
            left: None,
            fingerprint: String::new(),
        }
    }

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
