//! What ties a program to its lock: how long it may go on, and whether the lock is lost.

use std::fmt;
use std::time::Duration;

use futures_util::future::select_all;
use lockkeeper::{End, Lease, LossReason};
use lockkeeper_core::clock::{BootClock, Clock as _, Moment};

/// The leases of a lock as one, by a clock that goes on while the machine sleeps.
pub(crate) struct Tie {
    leases: Vec<Lease>,
    /// Before this no other can hold, as long as the server keeps what it was told.
    end: Moment,
}

/// That a lock is lost.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    /// Which of several.
    name: Option<String>,
    reason: LossReason,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name:?}: ")?;
        }
        self.reason.fmt(f)
    }
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

    /// Which lock is lost and why, if one is: the leases are parts of one grant.
    pub(crate) fn lost(&self) -> Option<Loss> {
        let several = self.leases.len() > 1;
        match self.leases.first()?.end()? {
            End::Lost(lost) => Some(Loss {
                name: several.then_some(lost.name),
                reason: lost.reason,
            }),
            _ => None,
        }
    }

    /// Resolves when a lock is lost.
    pub(crate) fn loss(&self) -> impl Future<Output = ()> + use<> {
        let lost = select_all(self.leases.iter().map(Lease::lost));
        async move { drop(lost.await) }
    }
}
