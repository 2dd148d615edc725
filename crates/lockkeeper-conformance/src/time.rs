//! Time on a machine of any speed: how long a test waits for an event, and how short a lease may be that must not end.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use crate::site::Site;

/// The limit of every wait for an event. The event comes at once; the rest is for a machine with other work.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A stall of this fraction of the time may be the reason for a failure. A request may take a sixth of a ttl, and two
/// stalls may meet it.
const STALLS: u32 = 12;

/// Calls `attempt` with the ttl of its leases, or another time that it must keep. If it fails, and client or server has
/// meanwhile stalled for a twelfth of that time, it is called again with twice the time.
///
/// So an error of `attempt` may be forgiven; a panic never is. Return an error for what takes too long, and assert what
/// holds at any speed, above all exclusion.
///
/// # Errors
///
/// The error of `attempt`.
pub async fn beyond_stalls<T>(
    site: &dyn Site,
    first: Duration,
    mut attempt: impl AsyncFnMut(Duration) -> Result<T>,
) -> Result<T> {
    let mut time = first;
    loop {
        let mut stalls = Stalls::new();
        let attempted = tokio::select! {
            attempted = attempt(time) => attempted,
            Err(error) = stalls.measure(site) => return Err(error),
        };
        if attempted.is_ok() || stalls.longest() < time / STALLS {
            return attempted;
        }
        time *= 2;
    }
}

/// For how long nothing happened, at most.
struct Stalls {
    longest: Duration,
    /// When the present round began.
    begun: Instant,
}

impl Stalls {
    /// Much shorter than any lease, and so long that measuring does not load the server.
    const PAUSE: Duration = Duration::from_millis(10);

    fn new() -> Self {
        Self {
            longest: Duration::ZERO,
            begun: Instant::now(),
        }
    }

    /// Sleeps and asks the server until it is dropped or fails.
    async fn measure(&mut self, site: &dyn Site) -> Result<()> {
        loop {
            sleep(Self::PAUSE).await;
            site.command(&["EXISTS", "lockkeeper:name"]).await?;
            self.longest = self.longest();
            self.begun = Instant::now();
        }
    }

    fn longest(&self) -> Duration {
        let present = self.begun.elapsed().saturating_sub(Self::PAUSE);
        self.longest.max(present)
    }
}
