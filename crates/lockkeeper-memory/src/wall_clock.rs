//! The server's wall clock: what `TIME` tells and expiries are counted in.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The system's time at the beginning, moved on by tokio's time, so that a test with paused time moves it too.
#[derive(Debug)]
pub(crate) struct WallClock {
    /// Microseconds since the Unix epoch, steps included.
    beginning: i64,
    since: Instant,
}

impl WallClock {
    pub(crate) fn new() -> Self {
        let beginning = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            beginning: i64::try_from(beginning.as_micros()).unwrap_or(i64::MAX),
            since: Instant::now(),
        }
    }

    /// Microseconds since the Unix epoch; the epoch itself however far the clock is stepped back.
    pub(crate) fn now_micros(&self) -> i64 {
        let elapsed = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.beginning.saturating_add(elapsed).max(0)
    }

    pub(crate) const fn step(&mut self, milliseconds: i64) {
        self.beginning = self
            .beginning
            .saturating_add(milliseconds.saturating_mul(1000));
    }
}
