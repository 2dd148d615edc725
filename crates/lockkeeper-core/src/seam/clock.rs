//! Local time: a monotonic [`Moment`] from the [`Clock`] of the store in use.
//!
//! Only this clock decides whether a lease is valid. With a server it is boot time, which continues while the machine
//! sleeps: a lease that ends during the sleep has ended when the machine wakes. With an in-process server it is tokio's
//! clock, so in tests with paused time leases expire at once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use crate::words::moment::Moment;

/// A source of local time that never steps back.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current moment.
    fn now(&self) -> Moment;
}

/// Time since the machine booted, including the time it slept (`CLOCK_BOOTTIME` on Linux and Android). On other systems
/// it is the monotonic clock, which continues during sleep on macOS, but stops while a Windows or BSD machine sleeps.
#[expect(
    clippy::exhaustive_structs,
    reason = "the machine has one boot time: there is nothing to set"
)]
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    #[cfg(unix)]
    fn now(&self) -> Moment {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Moment::from_elapsed(Duration::new(seconds, nanos))
    }

    #[cfg(not(unix))]
    fn now(&self) -> Moment {
        use std::sync::LazyLock;
        use std::time::Instant;
        static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
        Moment::from_elapsed(BEGINNING.elapsed())
    }
}

/// Tokio's clock, which tests can pause and advance.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    beginning: tokio::time::Instant,
}

impl TokioClock {
    /// A clock whose time begins now.
    pub fn new() -> Self {
        Self {
            beginning: tokio::time::Instant::now(),
        }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        Moment::from_elapsed(self.beginning.elapsed())
    }
}

/// The longest sleep between two checks of the clock. Timers stop while the machine sleeps, but boot time continues, so
/// a longer sleep could end late by as long as the machine slept.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Waits until `clock` shows `moment` or later. Never returns early; usually returns at most about a millisecond late,
/// and within [`LOOK`] after a sleeping machine wakes.
pub(crate) async fn sleep_until(clock: &Arc<dyn Clock>, moment: Moment) {
    loop {
        let left = moment.since(clock.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

/// Like [`sleep_until`]; waits for ever if there is no moment.
pub(crate) async fn sleep_until_some(clock: &Arc<dyn Clock>, moment: Option<Moment>) {
    match moment {
        Some(moment) => sleep_until(clock, moment).await,
        None => std::future::pending().await,
    }
}
