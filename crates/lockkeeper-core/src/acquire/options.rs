//! The options of an acquisition, and what they mean for each claim.

use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::engine::settings::LONGEST_LABEL;
use crate::engine::terms::Terms;
use crate::seam::protocol::Protocol;
use crate::words::error::{Error, Result};
use crate::words::owner::Owner;

/// See the module documentation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) owner: Option<Owner>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) max_queue: Option<u64>,
    pub(crate) min_replicas: u32,
    pub(crate) wait: Wait,
}

/// Checks that a note is short printable text: people read it at a glance.
pub(crate) fn check_note(note: &str) -> Result<()> {
    let length = note.len();
    if length > LONGEST_LABEL {
        return Err(Error::config(format!(
            "a note must be at most {LONGEST_LABEL} bytes long, this one has {length}: shorten it"
        )));
    }
    if note.chars().any(char::is_control) {
        return Err(Error::config(format!(
            "the note {note:?} contains a control character: remove it"
        )));
    }
    Ok(())
}

/// How long an acquisition waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Forever,
    For(Duration),
    Until(Instant),
}

impl Options {
    /// Waits without limit, with the client's default leases.
    pub(crate) const DEFAULT: Self = Self {
        owner: None,
        ttl: None,
        renewed: true,
        max_hold: None,
        min_hold: None,
        max_queue: None,
        min_replicas: 0,
        wait: Wait::Forever,
    };

    /// The terms for a claim of `protocol`. Fails if the options do not suit this kind or this client.
    pub(crate) fn terms(&self, engine: &Engine, protocol: &dyn Protocol) -> Result<Terms> {
        let mut terms = engine.settings.terms(self.ttl, self.renewed)?;
        terms.bound_hold(self.min_hold, self.max_hold)?;
        if self.min_hold.is_some() && !protocol.cools_down() {
            return Err(Error::config(format!(
                "a {} lock has no min_hold: what is released there is free for everybody at once",
                protocol.kind()
            )));
        }
        // A new owner holds nothing that its claim could join.
        terms.draws = !(protocol.shares_tokens() || protocol.reenters() && self.owner.is_some());
        if protocol.queue().is_some() {
            terms.timeout = terms.timeout.min(terms.waiter_ttl / 6);
            let most = |most: u64| most.try_into().unwrap_or(u32::MAX);
            terms.queue_limit = self.max_queue.map(most);
        }
        Ok(terms)
    }
}

impl Wait {
    /// The limit of the wait, from now on; `None`: without limit.
    pub(crate) fn longest(self) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::For(longest) => Some(longest),
            Self::Until(instant) => {
                Some(instant.saturating_duration_since(tokio::time::Instant::now().into_std()))
            }
        }
    }
}
