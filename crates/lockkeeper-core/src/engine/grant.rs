//! Grants. `needs` of a grant's parts must be valid: 1 of 1 for a lock on one server, n of n for several locks held
//! together, and a majority for a lock on several servers.
//!
//! When a grant is lost, its remaining parts are no longer renewed, and are released when the guard is gone. Until then
//! the work under the guard has time to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Ending, Validity};
use crate::engine::part::Part;
use crate::seam::observer::LeaseEvent;
use crate::words::ending::{End, LossReason, Lost};
use crate::words::moment::Moment;
use crate::words::token::FencingToken;

/// What a guard, its leases and the renewer share.
#[derive(Debug)]
pub(crate) struct Grant {
    needs: usize,
    parts: Box<[(Arc<Part>, FencingToken)]>,
    /// Its name, if its parts have several names.
    pub(crate) names: Option<Box<str>>,
    /// The guard was released before the grant was lost.
    released: AtomicBool,
    /// How it was lost, once that was noticed.
    lost: OnceLock<Lost>,
    /// Notified when a part changes its phase.
    pub(crate) changed: Notify,
}

impl Grant {
    /// A grant of these parts, each with its token; `needs` of them must be valid.
    pub(crate) fn new(needs: usize, parts: Vec<(Arc<Part>, FencingToken)>) -> Arc<Self> {
        let names = match &parts[..] {
            // The parts of one lock on several servers have the same claim id.
            [(first, _), rest @ ..] if rest.iter().any(|(part, _)| part.id != first.id) => {
                let mut names: Vec<&Part> = parts.iter().map(|(part, _)| &**part).collect();
                names.dedup_by(|one, other| one.id == other.id);
                let names: Vec<&str> = names.iter().map(|part| part.name()).collect();
                Some(names.join(", ").into())
            }
            _ => None,
        };
        let needs = match mutant!(LossOfOneKeepsTheRest) {
            true => 1,
            false => needs,
        };
        let grant = Arc::new(Self {
            needs,
            parts: parts.into(),
            names,
            released: AtomicBool::new(false),
            lost: OnceLock::new(),
            changed: Notify::new(),
        });
        for part in grant.parts() {
            part.join(&grant);
        }
        grant
    }

    /// Reports the grant of every part to the observer, then lets the holder use them. In this order: the observer is
    /// told nothing else of a lease before, because all other events need a part in use.
    pub(crate) fn begin(&self, waited: Duration) {
        for (part, token) in &self.parts {
            let token = *token;
            tracing::debug!(claim = %part.id, %token, "granted");
            part.tell(LeaseEvent::Granted { token, waited });
        }
        for part in self.parts() {
            let now = part.now();
            part.change(|claim| claim.begin_use(now));
        }
    }

    /// How many parts must be valid.
    pub(crate) const fn needs(&self) -> usize {
        self.needs
    }

    /// Its parts, in the order in which they were acquired.
    pub(crate) fn parts(&self) -> impl ExactSizeIterator<Item = &Arc<Part>> {
        self.parts.iter().map(|(part, _)| part)
    }

    /// The part at this index; the first if there is no such part.
    pub(crate) fn part(&self, place: usize) -> &Arc<Part> {
        // A grant has at least one part.
        &self.parts.get(place).unwrap_or(&self.parts[0]).0
    }

    /// The token of the part at this index.
    pub(crate) fn token(&self, place: usize) -> FencingToken {
        self.parts.get(place).unwrap_or(&self.parts[0]).1
    }

    /// Counts the grant as released, unless the lease was lost before. Call this before the guard ends its parts.
    pub(crate) fn release(&self) {
        if self.end().is_none() {
            self.released.store(true, Ordering::Relaxed);
        }
    }

    /// How it ended; `None` while it is valid. Each call reads the clocks, so the result is correct even if no task ran
    /// in time.
    pub(crate) fn end(&self) -> Option<End> {
        if let Some(lost) = self.lost.get() {
            return Some(End::Lost(lost.clone()));
        }
        if self.count(Validity::holds) >= self.needs {
            return None;
        }
        let lost = match self.released.load(Ordering::Relaxed) {
            true => None,
            false => self.worst_loss(),
        };
        Some(match lost {
            // More parts may be lost later. The first caller to notice decides which loss is reported.
            Some(lost) => End::Lost(self.lost.get_or_init(|| lost).clone()),
            None => End::Released,
        })
    }

    /// How many of its parts match `what`.
    pub(crate) fn count(&self, what: impl Fn(Validity) -> bool) -> usize {
        let parts = self.parts();
        parts.filter(|part| what(part.validity().0)).count()
    }

    /// Which part was lost, and why; `None` if none was. If parts were lost for several reasons, the one with the
    /// highest rank counts: a notice to the holder ranks above an expiry.
    fn worst_loss(&self) -> Option<Lost> {
        let weight = |reason: LossReason| match reason {
            LossReason::Revoked => 4,
            LossReason::ClientClosed => 3,
            LossReason::MaxHold => 2,
            LossReason::Gone => 1,
            LossReason::Expired => 0,
        };
        let lost = self.parts().filter_map(|part| match part.validity().0 {
            Validity::Ended(Ending::Lost(reason)) => Some((part, reason)),
            _ => None,
        });
        // The first of those with the highest rank.
        let worst = lost.reduce(|worst, next| match weight(next.1) > weight(worst.1) {
            true => next,
            false => worst,
        });
        worst.map(|(part, reason)| part.lost(reason))
    }

    /// How long the grant stays valid if nothing else happens, and the part that decides this: the one with the
    /// `needs`-th largest deadline. `None` if the grant has ended.
    pub(crate) fn decisive(&self) -> Option<(Duration, &Arc<Part>)> {
        let left = self.parts().filter_map(|part| {
            let (validity, deadline) = part.validity();
            let left = deadline?.since(part.now());
            validity.holds().then_some((left, part))
        });
        let mut left: Vec<_> = left.collect();
        left.sort_unstable_by_key(|(left, _)| std::cmp::Reverse(*left));
        left.into_iter().nth(self.needs - 1)
    }

    /// Waits until it has ended; returns how.
    pub(crate) async fn ended(&self) -> End {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(end) = self.end() {
                return end;
            }
            let Some((left, part)) = self.decisive() else {
                // It has ended since the last check.
                return self.end().unwrap_or(End::Released);
            };
            let clock = &part.requester.clock;
            let deadline: Moment = clock.now().after(left);
            tokio::select! {
                biased;
                () = changed => {}
                () = crate::seam::clock::sleep_until(clock, deadline) => {}
            }
        }
    }
}
