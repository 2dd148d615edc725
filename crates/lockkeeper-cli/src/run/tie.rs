//! What ties a program to its lock: how long it may go on, and whether the lock is lost.

use std::time::Duration;

use futures_util::future::select_all;
use lockkeeper::{Lease, LeaseState, LossReason};
use lockkeeper_core::clock::{BootClock, Clock as _, Moment};

/// The leases of a lock as one, by a clock that goes on while the machine sleeps.
pub(crate) struct Tie {
    leases: Vec<Lease>,
    /// Before this no other can hold, as long as the server keeps what it was told.
    end: Moment,
}

impl Tie {
    pub(crate) fn new(leases: &[Lease]) -> Self {
        let mut tie = Self {
            leases: leases.to_vec(),
            end: BootClock.now(),
        };
        tie.left();
        tie
    }

    /// How long until the lock can be another's. A lease that was lost before its time lasts on the server for as long as it
    /// was last seen to: that a revoked one does not, or that one is forced, is the will of whoever did it.
    pub(crate) fn left(&mut self) -> Duration {
        let now = BootClock.now();
        if self.lost().is_none()
            && let Some(left) = self.leases.iter().map(Lease::remaining).min()
        {
            self.end = now.after(left);
        }
        self.end.since(now)
    }

    /// Why the lock is lost, if it is.
    pub(crate) fn lost(&self) -> Option<LossReason> {
        self.leases.iter().find_map(|lease| match lease.state() {
            LeaseState::Lost(reason) => Some(reason),
            _ => None,
        })
    }

    /// Resolves when the lock is lost.
    pub(crate) fn loss(&self) -> impl Future<Output = LossReason> + use<> {
        let lost = select_all(self.leases.iter().map(Lease::lost));
        async move { lost.await.0 }
    }
}
