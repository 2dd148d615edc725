//! The stored outcome of work that is done once.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::words::owner::Owner;
use crate::words::token::FencingToken;

/// The outcome of the work of a name, as the server stores it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The result of the work; `None` if it failed.
    pub value: Option<Vec<u8>>,
    /// The claim that did the work.
    pub claim: String,
    /// The owner of the claim; `None` if another program wrote it.
    pub owner: Option<Owner>,
    /// The fencing token that the work was done with.
    pub token: FencingToken,
    /// When the server stored it, by its clock.
    pub at: SystemTime,
    /// How much longer the server keeps it, counted from its answer. `None` if it has no end, which another program may
    /// have set.
    pub left: Option<Duration>,
    /// The SHA-256, in hex, of the request for the work; empty if no fingerprint was given.
    pub fingerprint: String,
}

impl Record {
    /// A record of work by this claim with this token, stored now and without end, for tests of your own code. A `value`
    /// of `None` means that the work failed. Set the other fields as the test needs.
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

    /// Returns whether the work failed.
    pub const fn is_failure(&self) -> bool {
        self.value.is_none()
    }
}

/// Never shows the result, which may be large or confidential.
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
