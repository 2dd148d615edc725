//! A claim with everything that belongs to it, as the engine keeps it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Belief, Claim};
use crate::clock::Moment;
use crate::lease::LossReason;
use crate::owner::ClaimId;
use crate::protocol::Protocol;
use crate::renewal::schedule::{LeaseId, Pace};

/// What was agreed for a claim before its first request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Length of the lease, whole milliseconds.
    pub(crate) ttl: Duration,
    /// How much earlier than on the server the lease ends for its holder.
    pub(crate) margin: Duration,
    /// How long one request is waited for.
    pub(crate) timeout: Duration,
    /// `None` for a fixed lease.
    pub(crate) pace: Option<Pace>,
    /// How long the claim may hold, however often it is renewed.
    pub(crate) max_hold: Option<Duration>,
    /// How long nobody else may hold from the grant on.
    pub(crate) min_hold: Option<Duration>,
}

/// A claim with all that goes with it, shared by its guard, its observers, the renewals and the reaper.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) number: LeaseId,
    pub(crate) id: ClaimId,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) terms: Terms,
    claim: Mutex<Claim>,
    /// Rings when belief ends.
    ended: Notify,
}

impl Tenure {
    pub(crate) fn new(
        number: LeaseId,
        id: ClaimId,
        protocol: Arc<dyn Protocol>,
        terms: Terms,
    ) -> Self {
        let claim = Claim::new(id.clone(), terms.ttl, terms.margin)
            .with_max_hold(terms.max_hold)
            .with_min_hold(terms.min_hold);
        Self {
            number,
            id,
            protocol,
            terms,
            claim: Mutex::new(claim),
            ended: Notify::new(),
        }
    }

    pub(crate) fn claim(&self) -> MutexGuard<'_, Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the claim and tells its observers if belief ended by it.
    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut Claim) -> T) -> T {
        let (result, ended) = {
            let mut claim = self.claim();
            let held = claim.deadline().is_some();
            let result = f(&mut claim);
            (result, held && claim.deadline().is_none())
        };
        if ended {
            self.ended.notify_waiters();
        }
        result
    }

    /// Changes the claim; why its lease is lost, if that is how it ends by this change. Whoever is told so reports it, so
    /// that it is reported once.
    pub(crate) fn lose(&self, change: impl FnOnce(&mut Claim)) -> Option<LossReason> {
        self.change(|claim| {
            let before = claim.loss();
            change(claim);
            claim.loss().filter(|_| before.is_none())
        })
    }

    /// Rings when belief ends. To miss nothing, call this, then look at the belief, then await.
    pub(crate) fn bell(&self) -> &Notify {
        &self.ended
    }

    /// What may be believed, and until when at most.
    pub(crate) fn belief(&self, now: Moment) -> (Belief, Option<Moment>) {
        let claim = self.claim();
        (claim.belief(now), claim.deadline())
    }
}
