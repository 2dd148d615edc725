//! A claim as the engine keeps it: one part of a grant, from before its first request until it is released.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::claim::{Claim, Ending, ReleaseNeeded, Validity};
use crate::engine::grant::Grant;
use crate::engine::requester::Requester;
use crate::engine::terms::Terms;
use crate::schedule::LeaseId;
use crate::seam::observer::LeaseEvent;
use crate::seam::protocol::Protocol;
use crate::words::ending::{LossReason, Lost};
use crate::words::error::{Error, Result};
use crate::words::moment::Moment;
use crate::words::owner::{ClaimId, Owner};
use crate::words::token::FencingToken;

/// A claim with all that goes with it, shared by its guard, its leases, the renewer and the releaser.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) number: LeaseId,
    pub(crate) id: ClaimId,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) terms: Terms,
    /// The part that this one replaces: the same owner in another mode.
    pub(crate) predecessor: Option<Arc<Self>>,
    /// The way to its server.
    pub(crate) requester: Arc<Requester>,
    claim: Mutex<Claim>,
    /// The owner is known to others than this claim.
    known_owner: AtomicBool,
    /// The acquisition has taken its grant. Until then the grant is not renewed: the future may never be polled again. Changed
    /// with the claim locked.
    taken: AtomicBool,
    /// It was granted, and nobody has been given the hold. Changed with the claim locked.
    pending: AtomicBool,
    /// A release of the claim has been posted.
    posted: AtomicBool,
    /// The grant that it is a part of.
    grant: Mutex<Weak<Grant>>,
    /// Notified when the claim comes to another phase, above all when its validity ends.
    changed: Notify,
}

impl Part {
    pub(crate) fn new(
        number: LeaseId,
        id: ClaimId,
        protocol: Arc<dyn Protocol>,
        terms: Terms,
        requester: Arc<Requester>,
    ) -> Self {
        let claim = Claim::new(id.clone(), terms.ttl, terms.margin)
            .with_max_hold(terms.max_hold)
            .with_min_hold(terms.min_hold);
        let claim = if protocol.queues() {
            let trust = terms.waiter_ttl.saturating_sub(terms.margin_of_waiting);
            // A message grants for a waiter's ttl; a fixed lease has its own, which only an answer gives.
            let least = match terms.pace {
                Some(_) => terms.waiter_ttl / 3,
                None => std::time::Duration::MAX,
            };
            claim.with_queue(trust, least)
        } else {
            claim
        };
        Self {
            number,
            id,
            protocol,
            terms,
            predecessor: None,
            requester,
            claim: Mutex::new(claim),
            known_owner: AtomicBool::new(terms.known_owner),
            taken: AtomicBool::new(false),
            pending: AtomicBool::new(false),
            posted: AtomicBool::new(false),
            grant: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// The loss of this part for that reason.
    pub(crate) fn lost(&self, reason: LossReason) -> Lost {
        Lost {
            name: self.name().to_owned(),
            server: self.requester.server(),
            reason,
        }
    }

    /// Checks that the claim is valid now.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] or [`Error::NotHeld`].
    pub(crate) fn ensure_valid(&self) -> Result<()> {
        match self.validity().0 {
            belief if belief.holds() => Ok(()),
            Validity::Ended(Ending::Lost(reason)) => Err(self.lost(reason).into()),
            _ => Err(Error::not_held(self.name())),
        }
    }

    /// The name of the lock.
    pub(crate) fn name(&self) -> &str {
        self.protocol.name().as_str()
    }

    /// Tells the client's observer that this has happened.
    pub(crate) fn tell(&self, event: LeaseEvent) {
        self.requester
            .observed
            .tell(&*self.protocol, &self.id, event);
    }

    /// The present moment, by the clock that its deadline is compared with.
    pub(crate) fn now(&self) -> Moment {
        self.requester.clock.now()
    }

    /// The owner, to be handed out: from now on it may have other claims.
    pub(crate) fn hand_out_owner(&self) -> Owner {
        self.known_owner.store(true, Ordering::Relaxed);
        self.id.owner()
    }

    /// Takes the grant, if the claim is valid at `now`; the token of what was taken, its validity, and when the last request
    /// was sent that has been answered while it waits.
    pub(crate) fn take(&self, now: Moment) -> (Option<FencingToken>, Validity, Option<Moment>) {
        self.change(|claim| {
            let belief = claim.validity(now);
            let token = claim.token().filter(|_| belief.holds());
            self.taken.fetch_or(token.is_some(), Ordering::Relaxed);
            (token, belief, claim.heard())
        })
    }

    /// The acquisition has its grant.
    pub(crate) fn set_taken(&self) {
        self.change(|_| self.taken.store(true, Ordering::Relaxed));
    }

    /// Ends a claim whose acquisition has not taken a grant of it; false if it has. Nobody has worked under it, so there is no
    /// cooldown.
    pub(crate) fn end_untaken(&self, now: Moment) -> bool {
        self.change(|claim| {
            let untaken = !self.is_taken();
            if untaken {
                claim.end(now);
                claim.no_cooldown();
            }
            untaken
        })
    }

    /// Whether the acquisition has taken its grant.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether somebody works under the hold, or may.
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_taken() && !self.pending.load(Ordering::Relaxed)
    }

    /// Whether a release of the claim is to be posted. True once: then it is posted.
    pub(crate) fn take_release(&self) -> bool {
        self.claim().release_needed() != ReleaseNeeded::None
            && !self.posted.swap(true, Ordering::Relaxed)
    }

    /// From now on the hold is nobody's yet, or somebody's.
    pub(crate) fn set_pending(&self, pending: bool) {
        self.change(|_| self.pending.store(pending, Ordering::Relaxed));
    }

    /// The client closes, see [`Claim::give_up`]. A hold that is nobody's yet is not left to expire: no work has begun under
    /// it, and whoever asks for it will release it.
    pub(crate) fn give_up(&self, now: Moment) -> bool {
        self.change(|claim| !self.pending.load(Ordering::Relaxed) && claim.give_up(now))
    }

    /// Whether the owner may have other claims.
    pub(crate) fn has_known_owner(&self) -> bool {
        self.known_owner.load(Ordering::Relaxed)
    }

    /// Lets the claim replace `old`, and limits it to what that was limited to.
    pub(crate) fn in_place_of(mut self, old: Arc<Self>) -> Self {
        self.claim().succeed(&old.claim());
        self.known_owner
            .store(old.has_known_owner(), Ordering::Relaxed);
        self.predecessor = Some(old);
        self
    }

    /// The claim is a part of this grant from now on.
    pub(crate) fn join(&self, grant: &Arc<Grant>) {
        *lock(&self.grant) = Arc::downgrade(grant);
    }

    /// Whether the claim is a part of a grant that has ended: renewing it would only keep others out.
    pub(crate) fn is_remnant(&self) -> bool {
        let grant = lock(&self.grant).upgrade();
        grant.is_some_and(|grant| grant.end().is_some())
    }

    pub(crate) fn claim(&self) -> MutexGuard<'_, Claim> {
        lock(&self.claim)
    }

    /// Changes the claim, and notifies if it came to another phase by it.
    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut Claim) -> T) -> T {
        let (result, moved) = {
            let mut claim = self.claim();
            let before = claim.phase();
            let result = f(&mut claim);
            (result, before != claim.phase())
        };
        if moved {
            self.changed.notify_waiters();
            let grant = lock(&self.grant).upgrade();
            if let Some(grant) = grant {
                grant.changed.notify_waiters();
            }
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

    /// Notified when the claim is granted and when its validity ends. To miss nothing, call this, then look, then await.
    pub(crate) const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// What may be assumed of it now, and until when at most.
    pub(crate) fn validity(&self) -> (Validity, Option<Moment>) {
        let now = self.now();
        let claim = self.claim();
        (claim.validity(now), claim.deadline())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
