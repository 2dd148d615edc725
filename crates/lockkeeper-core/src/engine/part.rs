//! A claim as the engine keeps it: one part of a grant, from before its first request until it is released.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Claim, Ending, ReleaseNeeded, Validity};
use crate::engine::grant::Grant;
use crate::engine::requester::Requester;
use crate::engine::sync::{Mutex, MutexGuard};
use crate::engine::terms::Terms;
use crate::seam::observer::LeaseEvent;
use crate::seam::protocol::Protocol;
use crate::words::agenda::Number;
use crate::words::ending::{LossReason, Lost};
use crate::words::error::{Error, Result};
use crate::words::moment::Moment;
use crate::words::owner::ClaimId;

/// A claim with all that goes with it, shared by its guard, its leases, the renewer and the releaser.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) number: Number,
    pub(crate) id: ClaimId,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) terms: Terms,
    /// The claim that this one replaces: that of its owner in another mode, or the one before it in its cohort. Its part lives while
    /// the conversion is asked for.
    predecessor: OnceLock<(ClaimId, Weak<Self>)>,
    /// The way to its server.
    pub(crate) requester: Arc<Requester>,
    claim: Mutex<Claim>,
    /// Somebody else was in the way when it asked: others of its client may be polling the name.
    polled: AtomicBool,
    /// What was noted of it, for people.
    pub(crate) note: Option<Arc<str>>,
    /// The note is shown where people look.
    shown: AtomicBool,
    /// Its place in the queue as last heard, counted from one; 0: none.
    place: AtomicU64,
    /// The observer has been told how the lease ended.
    end_told: AtomicBool,
    /// The grant that it is a part of.
    grant: Mutex<Weak<Grant>>,
    /// Notified when the claim comes to another phase, above all when its validity ends.
    changed: Notify,
}

impl Part {
    pub(crate) fn new(
        number: Number,
        id: ClaimId,
        protocol: Arc<dyn Protocol>,
        terms: Terms,
        requester: Arc<Requester>,
    ) -> Self {
        let claim = Claim::new(id.clone(), terms.ttl, terms.margin)
            .with_max_hold(terms.max_hold)
            .with_min_hold(terms.min_hold)
            .with_upkeep(
                terms.pace.map(|pace| pace.of(number)),
                terms.heartbeats.of(number),
                terms.waiter_ttl,
                terms.wait_until,
            );
        let claim = if protocol.queue().is_some() {
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
            predecessor: OnceLock::new(),
            requester,
            claim: Mutex::new(claim),
            polled: AtomicBool::new(terms.polled),
            note: None,
            shown: AtomicBool::new(false),
            place: AtomicU64::new(0),
            end_told: AtomicBool::new(false),
            grant: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// With this note.
    pub(crate) fn with(mut self, note: Option<Arc<str>>) -> Self {
        self.note = note;
        self
    }

    /// Whether its note is to be shown from now on. True once.
    pub(crate) fn begins_to_show(&self) -> bool {
        !self.shown.swap(true, Ordering::Relaxed)
    }

    /// It has been heard to stand at this place of the queue, counted from one.
    pub(crate) fn stands_at(&self, place: u64) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// Its place in the queue, as last heard.
    pub(crate) fn place(&self) -> Option<u64> {
        Some(self.place.load(Ordering::Relaxed)).filter(|place| *place > 0)
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

    /// The key by which the server knows the name.
    pub(crate) fn main(&self) -> &str {
        self.protocol.name().main()
    }

    /// Tells the client's observer that this has happened.
    pub(crate) fn tell(&self, event: LeaseEvent) {
        let audience = &self.requester.audience;
        audience.on_lease(&*self.protocol, &self.id, event);
    }

    /// Tells it how the lease has ended, of which the holder had been told, and how long it was held. Only the first end is told.
    pub(crate) fn tell_end(&self, event: impl FnOnce(Duration) -> LeaseEvent) {
        let (granted, told) = {
            let claim = self.claim();
            (claim.granted(), claim.is_told())
        };
        // Of a grant that nobody has taken nobody was told.
        if let (Some(granted), true) = (granted, told)
            && !self.end_told.swap(true, Ordering::Relaxed)
        {
            self.tell(event(self.now().since(granted)));
        }
    }

    /// The present moment, by the clock that its deadline is compared with.
    pub(crate) fn now(&self) -> Moment {
        self.requester.clock.now()
    }

    /// On the server another limit stands than this client was given: says so, once.
    pub(crate) fn hears_limit(&self, limit: u32) {
        let limited = self.protocol.limited();
        if limited.is_some_and(|limited| limited.hears_limit(limit)) {
            tracing::warn!(
                name = self.name(),
                limit,
                "others hold this semaphore with another limit, which stands until nobody holds it or set_limit is called"
            );
            self.tell(LeaseEvent::OtherLimit { limit });
        }
    }

    /// Somebody else was in the way.
    pub(crate) fn was_refused(&self) {
        self.polled.store(true, Ordering::Relaxed);
    }

    /// Whether others of its client may be polling the name.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed)
    }

    /// Lets the claim replace `old`, and limits it to what that was limited to.
    pub(crate) fn in_place_of(self, old: &Arc<Self>) -> Self {
        self.lock().succeed(&old.claim());
        self.follow(old);
        self
    }

    /// Lets the claim replace `old`, if it is to replace none yet.
    pub(crate) fn follow(&self, old: &Arc<Self>) {
        let old = (old.id.clone(), Arc::downgrade(old));
        let _ = self.predecessor.set(old);
    }

    /// The claim that this one is converted from, and whether a release of that must leave a tombstone.
    pub(crate) fn predecessor(&self) -> Option<(&ClaimId, bool)> {
        let (id, part) = self.predecessor.get()?;
        let in_doubt = part.upgrade().is_none_or(|old| {
            let needed = old.claim().release_needed();
            needed == ReleaseNeeded::WithTombstone
        });
        Some((id, in_doubt))
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

    fn lock(&self) -> MutexGuard<'_, Claim> {
        lock(&self.claim)
    }

    /// The claim as it is now, for a look: it is changed by [`change`](Self::change) alone.
    pub(crate) fn claim(&self) -> Look<'_> {
        Look(self.lock())
    }

    /// Changes the claim by one transition, and its place among the claims of its client with it. Then tells of what has come
    /// of it.
    pub(crate) fn change<T>(self: &Arc<Self>, transition: impl FnOnce(&mut Claim) -> T) -> T {
        let changed = self.change_silently(transition);
        changed.effects.tell(self);
        changed.result
    }

    /// The same, and leaves it to the caller to tell.
    pub(super) fn change_silently<T>(
        self: &Arc<Self>,
        transition: impl FnOnce(&mut Claim) -> T,
    ) -> Changed<T> {
        let mut claim = self.lock();
        let (phase, agenda, told) = (claim.phase(), claim.agenda(), claim.is_told());
        let result = transition(&mut claim);
        let moved = claim.phase() != phase;
        let next = claim.agenda();
        // Also one that was lost before its holder was told of the grant, which he is by this transition.
        let lost = claim.loss();
        let lost = lost.filter(|_| claim.is_told() && (moved || !told));
        let hands_over = agenda.known && !next.known && claim.may_hand_over();
        let _locked = (!mutant!(IndexBehindClaim)).then_some(claim);
        let claims = &self.requester.claims;
        let called = match next != agenda {
            true => claims.follow(self, agenda, next, hands_over),
            false => None,
        };
        Changed {
            result,
            effects: Effects {
                moved,
                lost,
                called,
            },
        }
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

/// A claim, locked, to be looked at.
pub(crate) struct Look<'a>(MutexGuard<'a, Claim>);

impl Deref for Look<'_> {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.0
    }
}

/// What came of a transition, and what is to be told of it.
#[must_use = "others wait to be told"]
pub(super) struct Changed<T> {
    pub(super) result: T,
    pub(super) effects: Effects,
}

/// What others are to be told of a transition.
#[must_use = "others wait to be told"]
pub(super) struct Effects {
    /// The claim came to another phase.
    moved: bool,
    /// The lease of a holder who had been told of it was lost.
    lost: Option<LossReason>,
    /// It is the turn of another one of its cohort.
    called: Option<Arc<Part>>,
}

impl Effects {
    pub(super) fn tell(&self, part: &Part) {
        if self.moved {
            part.changed.notify_waiters();
            let grant = lock(&part.grant).upgrade();
            if let Some(grant) = grant {
                grant.changed.notify_waiters();
            }
        }
        if let Some(called) = &self.called {
            called.changed.notify_waiters();
        }
        if let Some(reason) = self.lost {
            tracing::warn!(name = part.name(), claim = %part.id, %reason, "lost");
            part.tell_end(|held| LeaseEvent::Lost { reason, held });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
