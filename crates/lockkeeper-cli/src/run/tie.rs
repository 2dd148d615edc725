//! The tie between a program and its lock: how long it may run, and whether the lock is lost.

use std::fmt;
use std::time::Duration;

use futures_util::future::select_all;
use lockkeeper::{End, Lease, LossReason};
use lockkeeper_core::clock::{BootClock, Clock as _, Moment};

/// The leases of a grant as one, by a clock that does not stop while the machine is suspended.
pub(crate) struct Tie {
    leases: Vec<Lease>,
    /// No other can hold before this moment, as long as the server keeps its data.
    end: Moment,
}

/// The loss of a lock.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    /// Which one, if there are several.
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

    /// How long until another can hold the lock. A lease that was lost early still lasts on the server for as long as it was last
    /// known to. If it is shorter, for example because of a forced release, that was the will of the one who did it.
    pub(crate) fn left(&mut self) -> Duration {
        let now = BootClock.now();
        if self.lost().is_none()
            && let Some(left) = self.leases.iter().map(Lease::remaining).min()
        {
            self.end = now.after(left);
        }
        self.end.since(now)
    }

    /// Which lock is lost and why, if any: the leases are parts of one grant.
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
