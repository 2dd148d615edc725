//! The server's wall clock, for `TIME` and expiries.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Starts at the system's time and advances with tokio's time, so that a test with paused time moves it too. Or shows a time that
/// was set, which advances or stands still.
#[derive(Debug)]
pub(crate) struct WallClock {
    /// Microseconds since the Unix epoch, steps included.
    beginning: i64,
    /// `None`: it stands still.
    since: Option<Instant>,
}

impl WallClock {
    pub(crate) fn new() -> Self {
        let beginning = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self::going(i64::try_from(beginning.as_micros()).unwrap_or(i64::MAX))
    }

    /// Shows `micros` now and goes on.
    pub(crate) fn going(micros: i64) -> Self {
        Self {
            beginning: micros,
            since: Some(Instant::now()),
        }
    }

    /// Shows `micros` forever.
    pub(crate) const fn stopped(micros: i64) -> Self {
        Self {
            beginning: micros,
            since: None,
        }
    }

    /// Microseconds since the Unix epoch; the epoch itself however far the clock is stepped back.
    pub(crate) fn now_micros(&self) -> i64 {
        let elapsed = self.since.map_or(0, |since| since.elapsed().as_micros());
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        self.beginning.saturating_add(elapsed).max(0)
    }

    pub(crate) const fn step(&mut self, milliseconds: i64) {
        self.beginning = self
            .beginning
            .saturating_add(milliseconds.saturating_mul(1000));
    }
}
