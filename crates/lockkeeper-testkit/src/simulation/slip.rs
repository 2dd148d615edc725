//! Planted mistakes in what a client sends, below its engine. No rule forbids what they do: the [nets](super::net) must show it.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper_core::store::{Call, Reply, StoreError};

use super::checks::{Verb, claims, verb};

/// How late a late heartbeat is.
pub(super) const DELAY: Duration = Duration::from_millis(5);

/// Which call of a history, or which keep-alive, is concerned, counted from 1.
const CALL: u64 = 10;
const KEEP_ALIVE: u64 = 4;

/// A planted mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "tests go through all of them")]
pub enum Slip {
    /// One call leaves behind the next one.
    Swap,
    /// One request is sent twice.
    Double,
    /// One heartbeat or renewal is late.
    Late,
    /// Every request about a claim whose last one has failed is sent twice.
    DoubleRetry,
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    Usual,
    BehindNext,
    Twice,
    Late,
}

/// The state of a history's planted mistake.
#[derive(Debug)]
pub(super) struct Slipping {
    slip: Slip,
    calls: u64,
    keep_alives: u64,
    doubled: bool,
    /// The claims whose last request has failed.
    failed: BTreeSet<(usize, String)>,
}

impl Slipping {
    pub(super) const fn new(slip: Slip) -> Self {
        Self {
            slip,
            calls: 0,
            keep_alives: 0,
            doubled: false,
            failed: BTreeSet::new(),
        }
    }

    /// Decides about the next call.
    pub(super) fn next(&mut self, link: usize, call: &Call) -> Sending {
        self.calls += 1;
        let keeps = matches!(verb(call), Verb::Heartbeat | Verb::Renew);
        self.keep_alives += u64::from(keeps);
        let retries = || {
            claims(call)
                .iter()
                .any(|claim| self.failed.contains(&(link, (*claim).to_owned())))
        };
        match self.slip {
            Slip::Swap if self.calls == CALL => Sending::BehindNext,
            // The second copy changes nothing, and the history goes on as before.
            Slip::Double if call.item.script.name == "lock/acquire" && !self.doubled => {
                self.doubled = true;
                Sending::Twice
            }
            Slip::Late if keeps && self.keep_alives == KEEP_ALIVE => Sending::Late,
            Slip::DoubleRetry if retries() => Sending::Twice,
            _ => Sending::Usual,
        }
    }

    /// Notes the outcome of a call.
    pub(super) fn settled(
        &mut self,
        link: usize,
        call: &Call,
        outcome: &Result<Reply, StoreError>,
    ) {
        for claim in claims(call) {
            let key = (link, claim.to_owned());
            match outcome {
                Ok(_) => self.failed.remove(&key),
                // The server has only forgotten the script: that is no fault.
                Err(error) if error.is_noscript() => continue,
                Err(_) => self.failed.insert(key),
            };
        }
    }
}
