//! The outcome of one run of a script, and what stands on the server after it.

use std::ops::Index;
use std::rc::Rc;
use std::time::Duration;

use lockkeeper_core::FencingToken;

use super::state::{Message, Told};
use crate::kinds::{Claimant, Mode};

/// The effect of one run of a script.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) server: u32,
    pub(super) told: Told,
    /// Whether it notified the waiters.
    pub(super) woke: bool,
    /// The claims whose grants it announced by messages.
    pub(super) grants: Rc<[(Claimant, Message)]>,
}

/// The server's state of a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stands {
    /// How long it still holds.
    pub(super) left: Option<Duration>,
    /// Its place in the queue, counted from one.
    pub(super) queued: Option<u64>,
    /// Its mode.
    pub(super) mode: Mode,
}

/// The server's state of all claims.
#[derive(Debug)]
pub(super) struct Standing {
    /// Whether a semaphore's limit is in force because a claim holds or waits, according to the server.
    pub(super) has_limit: bool,
    /// The result of work that is done once: its claim, and the token of the work.
    pub(super) record: Option<(String, FencingToken)>,
    /// The leader of an election and its value.
    pub(super) leader: Option<(String, String)>,
    pub(super) attempts: u8,
    pub(super) claims: Vec<Stands>,
}

impl Index<Claimant> for Standing {
    type Output = Stands;

    fn index(&self, claimant: Claimant) -> &Stands {
        &self.claims[usize::from(claimant.client * self.attempts + claimant.attempt)]
    }
}

impl Standing {
    /// Whether no claim holds.
    pub(super) fn is_free(&self) -> bool {
        self.claims.iter().all(|claim| claim.left.is_none())
    }

    /// Whether a claim holds that excludes all other owners.
    pub(super) fn is_exclusive(&self) -> bool {
        let excludes = |claim: &Stands| claim.left.is_some() && !claim.mode.reads();
        self.claims.iter().any(excludes)
    }
}
