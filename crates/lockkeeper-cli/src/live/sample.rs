//! Everything known about all names at one moment, in the form that is shown and sent.

use std::ops::{AddAssign, Sub};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::look::Lock;

/// Everything known about all names at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sample {
    /// RFC 3339, UTC, by the clock of this machine.
    pub(crate) at: String,
    /// The locks with holders or waiters: those with the most waiters first, then by name.
    pub(crate) locks: Vec<Row>,
    /// The number of claims that hold.
    pub(crate) holders: u64,
    /// The number of waiters.
    pub(crate) waiters: u64,
    /// The events that were seen since the start.
    pub(crate) totals: Totals,
    /// The rates of these events over the last ten seconds.
    pub(crate) per_second: Rates,
    /// Wait times of the claims that were seen both to enter a queue and to be granted.
    pub(crate) waits: Waits,
    /// The load that this causes on the server.
    pub(crate) load: Load,
    /// Why a request failed since the last sample. If one did, the data is older than usual.
    pub(crate) unreachable: Option<String>,
}

impl Sample {
    /// Whether all names are there, as far as the server answers.
    pub(crate) fn is_whole(&self) -> bool {
        self.load.whole || self.unreachable.is_some()
    }
}

/// One lock, and the age of its data.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) lock: Arc<Lock>,
    /// How long ago the server was asked.
    pub(crate) looked_ms: u64,
    /// How long it has been held: according to its token, or else since the first present holder was seen.
    pub(crate) held_ms: Option<u64>,
    /// How long ago each of `holders` was first seen to hold, in the same order; `None` for a claim in cooldown.
    pub(crate) holders_seen_ms: Vec<Option<u64>>,
    /// How long ago the server was asked for its queue; `None`: never.
    pub(crate) queue_looked_ms: Option<u64>,
}

/// Events that were seen. Events between two looks at a name are missed, so these are lower bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// Claims that hold and did not before.
    pub(crate) grants: u64,
    /// Claims that no longer hold, for whatever reason.
    pub(crate) ended: u64,
    /// The ended claims whose renewal was late at the last look, and which were gone after the end of their lease. A claim that was
    /// released in that last moment is included, because it looks the same from outside.
    pub(crate) ran_out: u64,
    /// Claims that were revoked.
    pub(crate) revoked: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.grants += other.grants;
        self.ended += other.ended;
        self.ran_out += other.ran_out;
        self.revoked += other.revoked;
    }
}

impl Sub for Totals {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            grants: self.grants - other.grants,
            ended: self.ended - other.ended,
            ran_out: self.ran_out - other.ran_out,
            revoked: self.revoked - other.revoked,
        }
    }
}

impl Totals {
    /// Returns the rates per second, if these events happened within this time.
    pub(super) fn over(self, time: Duration) -> Rates {
        let rate = |number: u64| per_second(number, time);
        Rates {
            grants: rate(self.grants),
            ended: rate(self.ended),
            ran_out: rate(self.ran_out),
            revoked: rate(self.revoked),
        }
    }
}

/// The same events, as rates per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) grants: f64,
    pub(crate) ended: f64,
    pub(crate) ran_out: f64,
    pub(crate) revoked: f64,
}

/// Wait times of the claims that were seen both in a queue and then holding. Claims that are granted before anybody reads the queue
/// are not included, nor are those that were there at the first look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Waits {
    /// The number of these waits.
    pub(crate) seen: u64,
    /// Their total duration.
    pub(crate) sum_ms: u64,
    /// The longest wait that ended in each of the last samples, the newest last; `None`: none was seen to end.
    pub(crate) longest_ms: Vec<Option<u64>>,
}

/// The load that observing causes on the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Load {
    /// Requests about one name or one client per second, since the last sample.
    pub(crate) questions_per_second: f64,
    /// Pages of some 500 keys per second.
    pub(crate) pages_per_second: f64,
    /// The age of the oldest answer that the sample shows. With many names, each is asked about rarely.
    pub(crate) oldest_ms: u64,
    /// How long ago the last complete list of names was begun. `None`: there is none yet, so names are missing.
    pub(crate) listed_ms: Option<u64>,
    /// How many names on the list have no answer yet.
    pub(crate) unknown: u64,
    /// Whether each name was asked about since somebody looks on. Until then, names are missing or what is known of them is old.
    pub(crate) whole: bool,
    /// About how many names are left out, because there are more than are kept in memory; they are added when others end.
    pub(crate) left_out: u64,
}

/// Whole milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// A number of events in this time, per second.
pub(super) fn per_second(number: u64, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number to be shown")]
    let number = number as f64;
    match time.as_secs_f64() {
        0.0 => 0.0,
        seconds => number / seconds,
    }
}
