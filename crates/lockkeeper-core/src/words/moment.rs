//! Points of local time.

use std::fmt;
use std::time::Duration;

/// A point of local time, only comparable with others of the same [`Clock`](crate::clock::Clock).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment `elapsed` after the clock's own beginning.
    pub const fn from_elapsed(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Returns this moment plus `later`; the end of time instead of an overflow.
    #[must_use]
    pub const fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }

    /// Returns this moment minus `earlier`; the beginning of time instead of an overflow.
    #[must_use]
    pub const fn before(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(earlier))
    }

    /// Returns the time from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moment({:?})", self.0)
    }
}
