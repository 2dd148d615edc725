//! Limits on how long a claim holds, in addition to its lease.

use std::time::Duration;

use super::Claim;
use crate::words::ending::LossReason;
use crate::words::moment::Moment;

/// The limits on how long a claim holds. Most claims have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    /// How long after the send of the granting request the claim is valid at most, however often it is renewed.
    max_hold: Option<Duration>,
    /// How long the name stays unavailable to others, counted from the answer of the grant.
    min_hold: Option<Duration>,
    /// For a claim that replaced another: the limit on the old claim's validity, which also limits this one.
    until: Option<Moment>,
    /// The moment until which the name stays unavailable to others.
    cooldown_until: Option<Moment>,
}

impl Claim {
    /// Sets how long the claim may hold at most, counted from the send of the granting request.
    #[must_use]
    pub fn with_max_hold(mut self, max_hold: Option<Duration>) -> Self {
        if max_hold.is_some() {
            self.bounds.get_or_insert_default().max_hold = max_hold;
        }
        self
    }

    /// Sets how long the name stays unavailable to others, counted from the answer of the grant, even if the claim is released sooner.
    #[must_use]
    pub fn with_min_hold(mut self, min_hold: Option<Duration>) -> Self {
        if min_hold.is_some() {
            self.bounds.get_or_insert_default().min_hold = min_hold;
        }
        self
    }

    /// How long the claim may hold at most, if that is limited.
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

    /// Returns the moment until which a release must keep the name unavailable; `None` if it need not.
    pub fn cooldown_until(&self) -> Option<Moment> {
        self.bounds.as_ref()?.cooldown_until
    }

    /// Starts the claim's `min_hold`, if it has one, because the grant has been answered.
    pub(super) fn begin_cooldown(&mut self, now: Moment) {
        if let Some(bounds) = &mut self.bounds
            && let Some(shortest) = bounds.min_hold
        {
            bounds.cooldown_until = Some(now.after(shortest));
        }
    }

    /// Drops the cooldown: the release of this claim starts none.
    pub(crate) fn no_cooldown(&mut self) {
        if let Some(bounds) = &mut self.bounds {
            bounds.cooldown_until = None;
        }
    }

    /// Keeps others from holding for this long from now on, even if the claim is released sooner. For claims that are
    /// held together, this time starts once all of them are held.
    pub(crate) fn cool_down_for(&mut self, shortest: Duration, now: Moment) {
        self.bounds.get_or_insert_default().cooldown_until = Some(now.after(shortest));
    }

    /// The deadline of a grant that is valid for `trust` from the send of its request, reduced by the claim's limits.
    pub(super) fn deadline_of_grant(&self, sent: Moment, trust: Duration) -> Moment {
        let deadline = sent.after(trust);
        let Some(bounds) = &self.bounds else {
            return deadline;
        };
        let longest = bounds.max_hold.map(|longest| sent.after(longest));
        let limits = [longest, bounds.until].into_iter().flatten();
        limits.fold(deadline, Ord::min)
    }

    /// The latest possible deadline, if there is a limit.
    pub(super) fn limit(&self) -> Option<Moment> {
        let bounds = self.bounds.as_ref()?;
        let longest = bounds.max_hold.zip(self.granted);
        let longest = longest.map(|(longest, granted)| granted.after(longest));
        longest.or(bounds.until)
    }

    pub(super) fn limited(&self, deadline: Moment) -> Moment {
        self.limit().map_or(deadline, |limit| deadline.min(limit))
    }

    /// The reason for the loss, once the deadline has passed.
    pub(super) fn reason(&self, now: Moment) -> LossReason {
        match self.limit() {
            Some(limit) if now >= limit => LossReason::MaxHold,
            _ => LossReason::Expired,
        }
    }
}
