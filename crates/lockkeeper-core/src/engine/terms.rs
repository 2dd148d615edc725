//! The terms that an acquisition sets for its claims before anything is sent.

use std::time::Duration;

use crate::engine::settings::{LONGEST_TTL, SHORTEST};
use crate::words::agenda::Pace;
use crate::words::error::{Error, Result};
use crate::words::moment::Moment;

/// The terms of a claim, set before its first request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// The length of the lease, in whole milliseconds.
    pub(crate) ttl: Duration,
    /// How much earlier the lease ends for its holder than on the server.
    pub(crate) margin: Duration,
    /// How long to wait for the answer to one request.
    pub(crate) timeout: Duration,
    /// How often the lease is renewed; `None` for a fixed lease.
    pub(crate) pace: Option<Pace>,
    /// How often a waiting claim sends a heartbeat.
    pub(crate) heartbeats: Pace,
    /// How long the claim may hold, however often it is renewed.
    pub(crate) max_hold: Option<Duration>,
    /// How long a waiting claim counts as alive after a heartbeat.
    pub(crate) waiter_ttl: Duration,
    /// How much earlier a grant by message ends for its holder than on the server.
    pub(crate) margin_of_waiting: Duration,
    /// How many claims may wait, including this one; `None`: any number.
    pub(crate) queue_limit: Option<u32>,
    /// How long the name stays unavailable to others, counted from the grant.
    pub(crate) min_hold: Option<Duration>,
    /// Whether other claims of the client may be polling the name.
    pub(crate) polled: bool,
    /// Whether others are expected to hold the name.
    pub(crate) expects_others: bool,
    /// How often a name that another library holds is polled.
    pub(crate) poll_every: Duration,
    /// When the acquisition stops waiting; `None`: never.
    pub(crate) wait_until: Option<Moment>,
    /// Whether it belongs to the cohort of its client and name, whose claims hand the name over to each other.
    pub(crate) in_cohort: bool,
    /// Whether its grant draws a token of its own, which must be larger than all that the client had seen before it asked.
    pub(crate) draws: bool,
    /// The token that a lock on several servers asks all of them for; 0: none.
    pub(crate) proposal: u64,
}

impl Terms {
    /// Why a grant was no longer valid when its answer came.
    pub(crate) fn too_late(&self) -> String {
        let valid = self.ttl.saturating_sub(self.margin);
        match self.max_hold.filter(|longest| *longest < valid) {
            Some(longest) => format!(
                "the grant came too late to be valid: its max_hold of {longest:?} had passed; choose a longer max_hold"
            ),
            None => "the grant came too late to be valid: the server is too slow for this ttl; choose a longer ttl".to_owned(),
        }
    }

    /// Sets the shortest and longest time of holding.
    pub(crate) fn bound_hold(
        &mut self,
        min_hold: Option<Duration>,
        max_hold: Option<Duration>,
    ) -> Result<()> {
        if let Some(longest) = max_hold.filter(|longest| *longest < SHORTEST) {
            return Err(Error::config(format!(
                "a max_hold of {longest:?} would end the lease before it begins: it must be at least {SHORTEST:?}, and longer than a request takes"
            )));
        }
        if let Some(shortest) = min_hold {
            if self.pace.is_none() && shortest > self.ttl {
                let ttl = self.ttl;
                return Err(Error::config(format!(
                    "a min_hold of {shortest:?} is longer than the ttl of {ttl:?}, and the lease is not renewed: choose a longer ttl or renew it"
                )));
            }
            if let Some(longest) = max_hold.filter(|longest| *longest < shortest) {
                return Err(Error::config(format!(
                    "a min_hold of {shortest:?} is longer than the max_hold of {longest:?}"
                )));
            }
            if shortest > LONGEST_TTL {
                return Err(Error::config(format!(
                    "a min_hold of {shortest:?} is too long: at most a year is allowed"
                )));
            }
        }
        self.max_hold = max_hold;
        self.min_hold = min_hold;
        Ok(())
    }
}
