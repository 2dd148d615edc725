//! How long a claim holds at most and at least, beside its lease.

use std::time::Duration;

use super::Claim;
use crate::words::ending::LossReason;
use crate::words::moment::Moment;

/// What bounds the time of holding. Most claims have none of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    /// How long after the send of the granting request the claim may be believed in, however often it is renewed.
    max_hold: Option<Duration>,
    /// How long after the answer of the grant nobody else may hold.
    min_hold: Option<Duration>,
    /// The moment beyond which a claim that took another's place may not be believed in, as that one might not.
    until: Option<Moment>,
    /// When nobody else may hold before.
    cooldown_until: Option<Moment>,
}

impl Claim {
    /// Bounds the time of holding, counted from the send of the granting request.
    #[must_use]
    pub fn with_max_hold(mut self, max_hold: Option<Duration>) -> Self {
        if max_hold.is_some() {
            self.bounds.get_or_insert_default().max_hold = max_hold;
        }
        self
    }

    /// Keeps the name from others for at least so long, counted from the answer of the grant, also when it leaves sooner.
    #[must_use]
    pub fn with_min_hold(mut self, min_hold: Option<Duration>) -> Self {
        if min_hold.is_some() {
            self.bounds.get_or_insert_default().min_hold = min_hold;
        }
        self
    }

    /// How long the claim may hold, if that is bounded.
    pub(super) fn max_hold(&self) -> Option<Duration> {
        self.bounds.as_ref()?.max_hold
    }

    /// Binds a claim to what its predecessor was bound to.
    pub(crate) fn succeed(&mut self, old: &Self) {
        self.bounds = old.bounds.as_deref().map(|bounds| {
            Box::new(Bounds {
                until: old.limit(),
                cooldown_until: bounds.cooldown_until,
                ..Bounds::default()
            })
        });
    }

    /// Until when a leave is to keep the name from others; `None` if it need not.
    pub fn cooldown_until(&self) -> Option<Moment> {
        self.bounds.as_ref()?.cooldown_until
    }

    /// The grant has been answered: nobody else may hold for a while.
    pub(super) fn begin_cooldown(&mut self, now: Moment) {
        if let Some(bounds) = &mut self.bounds
            && let Some(shortest) = bounds.min_hold
        {
            bounds.cooldown_until = Some(now.after(shortest));
        }
    }

    /// The claim keeps the name from nobody when it leaves.
    pub(crate) fn no_cooldown(&mut self) {
        if let Some(bounds) = &mut self.bounds {
            bounds.cooldown_until = None;
        }
    }

    /// Nobody else may hold for so long from now on, also when the claim leaves sooner: of one that holds together with others,
    /// once they all do.
    pub(crate) fn cool_down_for(&mut self, shortest: Duration, now: Moment) {
        self.bounds.get_or_insert_default().cooldown_until = Some(now.after(shortest));
    }

    /// Until when a grant may be believed in by itself that is good for `trust` from the send of its request.
    pub(super) fn deadline_of_grant(&self, sent: Moment, trust: Duration) -> Moment {
        let deadline = sent.after(trust);
        let Some(bounds) = &self.bounds else {
            return deadline;
        };
        let longest = bounds.max_hold.map(|longest| sent.after(longest));
        let limits = [longest, bounds.until].into_iter().flatten();
        limits.fold(deadline, Ord::min)
    }

    /// The moment beyond which the deadline never moves.
    pub(super) fn limit(&self) -> Option<Moment> {
        let bounds = self.bounds.as_ref()?;
        let longest = bounds.max_hold.zip(self.granted);
        let longest = longest.map(|(longest, granted)| granted.after(longest));
        longest.or(bounds.until)
    }

    pub(super) fn limited(&self, deadline: Moment) -> Moment {
        self.limit().map_or(deadline, |limit| deadline.min(limit))
    }

    /// Why a deadline that has passed was the last.
    pub(super) fn reason(&self, now: Moment) -> LossReason {
        match self.limit() {
            Some(limit) if now >= limit => LossReason::MaxHold,
            _ => LossReason::Expired,
        }
    }
}
