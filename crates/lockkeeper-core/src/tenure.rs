//! A claim with everything that belongs to it, as the engine keeps it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Belief, Claim, Departure};
use crate::clock::Moment;
use crate::lease::LossReason;
use crate::majority::Shared;
use crate::owner::{ClaimId, Owner};
use crate::protocol::{FencingToken, Protocol};
use crate::renewal::schedule::{LeaseId, Pace};
use crate::whole::Whole;

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
    /// How often a waiting claim says that it is alive.
    pub(crate) beats: Pace,
    /// How long the claim may hold, however often it is renewed.
    pub(crate) max_hold: Option<Duration>,
    /// How long a waiting claim is taken to be alive after each sign of it.
    pub(crate) waiter_ttl: Duration,
    /// How much earlier a grant by message ends for its holder than on the server.
    pub(crate) margin_of_waiting: Duration,
    /// How many may wait, this claim included; `None`: any number.
    pub(crate) queue_limit: Option<u64>,
    /// How long nobody else may hold from the grant on.
    pub(crate) min_hold: Option<Duration>,
    /// The owner was not made for this claim alone.
    pub(crate) known_owner: bool,
    /// When the acquisition stops waiting; `None`: never.
    pub(crate) wait_until: Option<Moment>,
}

/// A claim with all that goes with it, shared by its guard, its observers, the renewals and the reaper.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) number: LeaseId,
    pub(crate) id: ClaimId,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) terms: Terms,
    /// The tenure whose claim this one takes the place of.
    pub(crate) predecessor: Option<Arc<Self>>,
    claim: Mutex<Claim>,
    /// The owner is known to others than this claim.
    known_owner: AtomicBool,
    /// The acquisition has taken its grant. Until then the grant is not renewed: the future may never be polled again. Changed
    /// with the claim locked.
    taken: AtomicBool,
    /// It was granted, and nobody has been given the hold. Changed with the claim locked.
    pending: AtomicBool,
    /// A leave for the claim has been posted.
    posted: AtomicBool,
    /// What it holds together with.
    whole: OnceLock<Weak<Whole>>,
    /// Rings when the claim comes to another phase, above all when belief ends.
    bell: Notify,
    /// The grant of several servers that this claim is a part of.
    majority: OnceLock<Weak<Shared>>,
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
        let claim = if protocol.queues() {
            let trust = terms.waiter_ttl.saturating_sub(terms.margin_of_waiting);
            // A message grants for a waiter's ttl; a fixed lease has its own, which only an answer gives.
            let least = match terms.pace {
                Some(_) => terms.waiter_ttl / 3,
                None => Duration::MAX,
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
            claim: Mutex::new(claim),
            known_owner: AtomicBool::new(terms.known_owner),
            taken: AtomicBool::new(false),
            pending: AtomicBool::new(false),
            posted: AtomicBool::new(false),
            whole: OnceLock::new(),
            bell: Notify::new(),
            majority: OnceLock::new(),
        }
    }

    /// The owner, to be handed out: from now on it may have other claims.
    pub(crate) fn hand_out_owner(&self) -> Owner {
        self.known_owner.store(true, Ordering::Relaxed);
        self.id.owner()
    }

    /// Takes the grant, if the claim holds at `now`; the token of what was taken, what may be believed, and when the last
    /// request was sent that has been answered while it waits.
    pub(crate) fn take(&self, now: Moment) -> (Option<FencingToken>, Belief, Option<Moment>) {
        self.change(|claim| {
            let belief = claim.belief(now);
            let held = matches!(belief, Belief::Held | Belief::Uncertain);
            let token = claim.token().filter(|_| held);
            self.taken.fetch_or(token.is_some(), Ordering::Relaxed);
            (token, belief, claim.heard())
        })
    }

    /// The acquisition has its grant.
    pub(crate) fn set_taken(&self) {
        self.change(|_| self.taken.store(true, Ordering::Relaxed));
    }

    /// Ends a claim whose acquisition has not taken a grant of it; false if it has. Nobody has worked under it, so it is kept
    /// from nobody.
    pub(crate) fn end_untaken(&self, now: Moment) -> bool {
        self.change(|claim| {
            let untaken = !self.is_taken();
            if untaken {
                claim.end(now);
                claim.keep_no_more();
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

    /// Whether a leave for the claim is to be posted. True once: then it is posted.
    pub(crate) fn take_departure(&self) -> bool {
        self.claim().departure() != Departure::None && !self.posted.swap(true, Ordering::Relaxed)
    }

    /// From now on the hold is nobody's yet, or somebody's.
    pub(crate) fn set_pending(&self, pending: bool) {
        self.change(|_| self.pending.store(pending, Ordering::Relaxed));
    }

    /// The client closes, see [`Claim::forsake`]. A hold that is nobody's yet is not left to expire: no work has begun under it,
    /// and who asks for it will leave.
    pub(crate) fn forsake(&self, now: Moment) -> bool {
        self.change(|claim| !self.pending.load(Ordering::Relaxed) && claim.forsake(now))
    }

    /// Whether the owner may have other claims.
    pub(crate) fn has_known_owner(&self) -> bool {
        self.known_owner.load(Ordering::Relaxed)
    }

    /// Lets the claim hold together with others: what one of them loses all lose.
    pub(crate) fn bind(&self, whole: &Arc<Whole>) {
        // A claim lives once, and so belongs to one whole at most.
        let _ = self.whole.set(Arc::downgrade(whole));
    }

    /// What the claim holds together with, if that is still there.
    pub(crate) fn whole(&self) -> Option<Arc<Whole>> {
        self.whole.get().and_then(Weak::upgrade)
    }

    /// Lets the claim take the place of `old`, and binds it to what that was bound to.
    pub(crate) fn in_place_of(mut self, old: Arc<Self>) -> Self {
        self.claim().succeed(&old.claim());
        self.known_owner
            .store(old.has_known_owner(), Ordering::Relaxed);
        self.predecessor = Some(old);
        self
    }

    /// The claim is a part of this grant from now on.
    pub(crate) fn join(&self, lease: &Arc<Shared>) {
        let _ = self.majority.set(Arc::downgrade(lease));
    }

    /// Whether the claim is a part of a grant that has ended: keeping the part would only keep others out.
    pub(crate) fn is_remnant(&self) -> bool {
        let majority = self.majority.get();
        majority.is_some_and(|lease| lease.upgrade().is_none_or(|lease| lease.end().is_some()))
    }

    pub(crate) fn claim(&self) -> MutexGuard<'_, Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the claim and rings if it came to another phase by it.
    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut Claim) -> T) -> T {
        let (result, moved) = {
            let mut claim = self.claim();
            let before = claim.phase();
            let result = f(&mut claim);
            (result, before != claim.phase())
        };
        if moved {
            self.bell.notify_waiters();
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

    /// Rings when the claim is granted and when belief ends. To miss nothing, call this, then look at the belief, then await.
    pub(crate) fn bell(&self) -> &Notify {
        &self.bell
    }

    /// What may be believed, and until when at most.
    pub(crate) fn belief(&self, now: Moment) -> (Belief, Option<Moment>) {
        let claim = self.claim();
        (claim.belief(now), claim.deadline())
    }
}
