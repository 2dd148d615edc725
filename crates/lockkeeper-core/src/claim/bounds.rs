//! Limits on how long a claim holds, besides its lease.

use std::time::Duration;

use super::Claim;
use crate::words::ending::LossReason;
use crate::words::moment::Moment;

/// The limits on the time of holding. Most claims have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    /// How long after the send of the granting request the claim is valid at most, however often it is renewed.
    max_hold: Option<Duration>,
    /// How long after the answer of the grant nobody else may hold.
    min_hold: Option<Duration>,
    /// For a claim that replaced another: the limit on that one's validity, which also limits this one.
    until: Option<Moment>,
    /// Until when nobody else may hold.
    cooldown_until: Option<Moment>,
}

impl Claim {
    /// Sets the longest time of holding, counted from the send of the granting request.
    #[must_use]
    pub fn with_max_hold(mut self, max_hold: Option<Duration>) -> Self {
        if max_hold.is_some() {
            self.bounds.get_or_insert_default().max_hold = max_hold;
        }
        self
    }

    /// Sets the shortest time for which nobody else may hold, counted from the answer of the grant, even if the claim
    /// is released sooner.
    #[must_use]
    pub fn with_min_hold(mut self, min_hold: Option<Duration>) -> Self {
        if min_hold.is_some() {
            self.bounds.get_or_insert_default().min_hold = min_hold;
        }
        self
    }

    /// The longest time of holding, if there is one.
    pub(super) fn max_hold(&self) -> Option<Duration> {
        self.bounds.as_ref()?.max_hold
    }

    /// Applies the limits of the replaced claim to this one.
    pub(crate) fn succeed(&mut self, old: &Self) {
        self.bounds = old.bounds.as_deref().map(|bounds| {
            Box::new(Bounds {
                until: old.limit(),
                cooldown_until: bounds.cooldown_until,
                ..Bounds::default()
            })
        });
    }

    /// Returns until when a release must keep the name unavailable; `None` if it need not.
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

    /// The release of this claim starts no cooldown.
    pub(crate) fn no_cooldown(&mut self) {
        if let Some(bounds) = &mut self.bounds {
            bounds.cooldown_until = None;
        }
    }

    /// Nobody else may hold for this long from now on, even if the claim is released sooner. For claims that are held
    /// together, this starts when all of them are.
    pub(crate) fn cool_down_for(&mut self, shortest: Duration, now: Moment) {
        self.bounds.get_or_insert_default().cooldown_until = Some(now.after(shortest));
    }

    /// The deadline of a grant that is valid for `trust` from the send of its request, on its own.
    pub(super) fn deadline_of_grant(&self, sent: Moment, trust: Duration) -> Moment {
        let deadline = sent.after(trust);
        let Some(bounds) = &self.bounds else {
            return deadline;
        };
        let longest = bounds.max_hold.map(|longest| sent.after(longest));
        let limits = [longest, bounds.until].into_iter().flatten();
        limits.fold(deadline, Ord::min)
    }

    /// The moment that the deadline never passes.
    pub(super) fn limit(&self) -> Option<Moment> {
        let bounds = self.bounds.as_ref()?;
        let longest = bounds.max_hold.zip(self.granted);
        let longest = longest.map(|(longest, granted)| granted.after(longest));
        longest.or(bounds.until)
    }

    pub(super) fn limited(&self, deadline: Moment) -> Moment {
        self.limit().map_or(deadline, |limit| deadline.min(limit))
    }

    /// The reason for the loss when the deadline has passed.
    pub(super) fn reason(&self, now: Moment) -> LossReason {
        match self.limit() {
            Some(limit) if now >= limit => LossReason::MaxHold,
            _ => LossReason::Expired,
        }
    }
}
