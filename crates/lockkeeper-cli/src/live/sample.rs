//! What is known of all names at one moment, as it is shown and sent.

use std::ops::{AddAssign, Sub};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::look::Lock;

/// What is known of all names at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sample {
    /// RFC 3339, UTC, by the clock of this machine.
    pub(crate) at: String,
    /// The locks that are held or waited for: those with most waiters first, then by name.
    pub(crate) locks: Vec<Row>,
    /// How many claims hold.
    pub(crate) holders: u64,
    /// How many wait.
    pub(crate) waiters: u64,
    /// What was seen since the beginning.
    pub(crate) totals: Totals,
    /// The same for one second, of the last ten.
    pub(crate) per_second: Rates,
    /// For how long those waited that were seen to come and to be granted.
    pub(crate) waits: Waits,
    /// What all this asks of the server.
    pub(crate) load: Load,
    /// Why something could not be asked since the last sample; then the rest is older than it would be.
    pub(crate) unreachable: Option<String>,
}

/// One lock, and how old what is said of it is.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) lock: Arc<Lock>,
    /// How long ago the server was asked.
    pub(crate) looked_ms: u64,
    /// For how long it has been held: by its token, or else since the first of those who hold was seen.
    pub(crate) held_ms: Option<u64>,
    /// How long ago each of `holders` was first seen to hold, in their order; `None` of what only keeps others out.
    pub(crate) holders_seen_ms: Vec<Option<u64>>,
    /// How long ago the server was asked for its queue; `None`: never.
    pub(crate) queue_looked_ms: Option<u64>,
}

/// What was seen to happen. What begins and ends between two looks at a name is not seen, so these are the least that it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// Claims that hold and did not before.
    pub(crate) grants: u64,
    /// Claims that no longer hold, for whatever reason.
    pub(crate) ended: u64,
    /// Those of them that were behind with their renewal when they were seen last, and gone when their lease was over. One that
    /// let go in its last moments is among them, for that looks the same from outside.
    pub(crate) ran_out: u64,
    /// Claims that were asked to leave.
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
    /// For one second, if it took so long.
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

/// The same for one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) grants: f64,
    pub(crate) ended: f64,
    pub(crate) ran_out: f64,
    pub(crate) revoked: f64,
}

/// For how long those waited that were seen to come into a queue and to hold. One that is granted before anybody looks at the
/// queue is not among them, nor one that was there at the first look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Waits {
    /// How many.
    pub(crate) seen: u64,
    /// For how long they waited in all.
    pub(crate) sum_ms: u64,
    /// The longest wait that ended in each of the last samples, the newest last; `None`: none was seen to end.
    pub(crate) longest_ms: Vec<Option<u64>>,
}

/// What looking asks of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Load {
    /// Questions about one name or one client for each second, since the last sample.
    pub(crate) questions_per_second: f64,
    /// Pages of some 500 keys for each second.
    pub(crate) pages_per_second: f64,
    /// How long ago the oldest answer came of which a lock here is shown: with so many names, each is asked about so seldom.
    pub(crate) oldest_ms: u64,
    /// How long ago the last complete list of names was begun; `None`: there is none yet, so names are missing.
    pub(crate) listed_ms: Option<u64>,
    /// How many names on the list have not been asked about yet.
    pub(crate) unknown: u64,
    /// About how many names are left out because there are more than are kept in mind; they come in again for such as end.
    pub(crate) left_out: u64,
}

/// Whole milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// So many in that time, for each second.
pub(super) fn per_second(number: u64, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number to be shown")]
    let number = number as f64;
    match time.as_secs_f64() {
        0.0 => 0.0,
        seconds => number / seconds,
    }
}
