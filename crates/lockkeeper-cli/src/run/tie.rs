//! The tie between a program and its lock, which may have several leases: how long the program may run, and whether the lock is
//! lost.

use std::fmt;
use std::time::Duration;

use futures_util::future::select_all;
use lockkeeper::{End, Lease, LossReason};
use lockkeeper_core::clock::{BootClock, Clock as _, Moment};

/// The leases of a grant, treated as one, by a clock that continues while the machine is suspended.
pub(crate) struct Tie {
    leases: Vec<Lease>,
    /// No other can hold before this moment, as long as the server keeps its data.
    end: Moment,
}

/// The loss of a lock.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    /// Which lock was lost, if there are several.
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

    /// Returns how long it takes until another can hold the lock. A lease that was lost early still counts until its last known
    /// end on the server. If it ends there sooner, for example by a forced release, that was intended.
    pub(crate) fn left(&mut self) -> Duration {
        let now = BootClock.now();
        if self.lost().is_none()
            && let Some(left) = self.leases.iter().map(Lease::remaining).min()
        {
            self.end = now.after(left);
        }
        self.end.since(now)
    }

    /// Returns which lock is lost and why; `None` if none is. The leases are parts of one grant, so all of them end together.
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
