//! A claim as the engine stores it: one part of a grant, from before its first request until it is released.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
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
use crate::words::store_error::StoreError;
use crate::words::token::FencingToken;

/// The largest token that the client had seen in a name's slot before something was asked for it; none before that.
#[derive(Debug)]
pub(crate) struct Floor(AtomicU64);

impl Floor {
    /// No token.
    const NONE: u64 = u64::MAX;

    pub(crate) const fn none() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }

    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|floor| *floor != Self::NONE)
    }

    /// Sets it, unless it is set.
    pub(crate) fn set(&self, floor: u64) {
        // Requests of one claim, and claims of one acquisition, follow each other.
        if self.get().is_none() {
            self.0.store(floor, Ordering::Relaxed);
        }
    }
}

impl Clone for Floor {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

/// A claim with all its data, shared by its guard, its leases, the renewer and the releaser.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) number: Number,
    pub(crate) id: ClaimId,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) terms: Terms,
    /// The claim that this one replaces: one of its owner in another mode, or the previous one of its cohort. Its
    /// part lives while the conversion is in progress.
    predecessor: OnceLock<(ClaimId, Weak<Self>)>,
    /// Sends requests to its server.
    pub(crate) requester: Arc<Requester>,
    claim: Mutex<Claim>,
    /// Others held the lock when the claim asked, so other claims of its client may be polling the name.
    polled: AtomicBool,
    /// Its note, for people.
    pub(crate) note: Option<Arc<str>>,
    /// The note has been written to the server.
    shown: AtomicBool,
    /// Its last known place in the queue, counted from 1; 0: none.
    place: AtomicU32,
    /// The observer has been told how the lease ended.
    end_told: AtomicBool,
    /// That of the claim's first request, or of the first claim of its acquisition.
    pub(crate) floor: Floor,
    /// The grant that it is a part of.
    grant: Mutex<Weak<Grant>>,
    /// Notified when the claim changes its phase, above all when its validity ends.
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
            .expecting_others(terms.expects_others)
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
            // A grant by message lasts for a waiter ttl; the ttl of a fixed lease comes only with an answer. Heartbeats in
            // time leave two thirds of the waiter ttl. If that is as long as the lease, the holder may count on half a lease.
            let least = match terms.pace {
                Some(_) if terms.waiter_ttl >= terms.ttl => terms.waiter_ttl * 3 / 5,
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
            place: AtomicU32::new(0),
            end_told: AtomicBool::new(false),
            floor: Floor::none(),
            grant: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Sets the note.
    pub(crate) fn with(mut self, note: Option<Arc<str>>) -> Self {
        self.note = note;
        self
    }

    /// Whether its note must be written now. True only once.
    pub(crate) fn begins_to_show(&self) -> bool {
        !self.shown.swap(true, Ordering::Relaxed)
    }

    /// Checks the token of a grant.
    ///
    /// # Errors
    ///
    /// If the counter is at its end, or has gone back: the token is not larger than one that the client had seen before it asked.
    pub(crate) fn trusts(&self, token: FencingToken) -> std::result::Result<(), StoreError> {
        let name = self.protocol.name();
        if token >= FencingToken::END {
            let counter = name.counter();
            return Err(StoreError::distrusted(format!(
                "the fencing tokens of {counter} are used up: delete this key, restart the clients that use it, and reset the \
                 tokens that resources have recorded; the next token is the server's time"
            )));
        }
        let draws = self.terms.draws && self.predecessor.get().is_none();
        if let Some(floor) = self.floor.get().filter(|_| draws)
            && token.get() <= floor
        {
            let counter = name.counter();
            return Err(StoreError::distrusted(format!(
                "the server granted with fencing token {token} after {floor}: {counter} has gone back; ask again, since every \
                 request raises it to what its client has seen"
            )));
        }
        Ok(())
    }

    /// Notes its place in the queue, counted from 1.
    pub(crate) fn stands_at(&self, place: u64) {
        let place = place.try_into().unwrap_or(u32::MAX);
        self.place.store(place, Ordering::Relaxed);
    }

    /// Its last known place in the queue.
    pub(crate) fn place(&self) -> Option<u64> {
        Some(self.place.load(Ordering::Relaxed).into()).filter(|place| *place > 0)
    }

    /// Describes the loss of this part for this reason.
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
            validity if validity.holds() => Ok(()),
            Validity::Ended(Ending::Lost(reason)) => Err(self.lost(reason).into()),
            _ => Err(Error::not_held(self.name())),
        }
    }

    /// The name of the lock.
    pub(crate) fn name(&self) -> &str {
        self.protocol.name().as_str()
    }

    /// The main key of the name.
    pub(crate) fn main(&self) -> &str {
        self.protocol.name().main()
    }

    /// Reports this event to the client's observer.
    pub(crate) fn tell(&self, event: LeaseEvent) {
        let audience = &self.requester.audience;
        audience.on_lease(&*self.protocol, &self.id, event);
    }

    /// Reports to the observer how the lease ended and how long it was held. Does nothing if the grant was not
    /// reported, or if an end was reported before.
    pub(crate) fn tell_end(&self, event: impl FnOnce(Duration) -> LeaseEvent) {
        let (granted, told) = {
            let claim = self.claim();
            (claim.granted(), claim.is_told())
        };
        // A grant that nobody has taken was not reported.
        if let (Some(granted), true) = (granted, told)
            && !self.end_told.swap(true, Ordering::Relaxed)
        {
            self.tell(event(self.now().since(granted)));
        }
    }

    /// The current moment, by the clock that measures its deadline.
    pub(crate) fn now(&self) -> Moment {
        self.requester.clock.now()
    }

    /// Reports, once, that the limit on the server is not the one that this client was given.
    pub(crate) fn hears_limit(&self, limit: u32) {
        let limited = self.protocol.limited();
        if limited.is_some_and(|limited| limited.hears_limit(limit)) {
            tracing::warn!(
                name = self.name(),
                limit,
                "this semaphore is in use with another limit, which applies until nobody holds or waits, or set_limit is called"
            );
            self.tell(LeaseEvent::OtherLimit { limit });
        }
    }

    /// Notes that others held the lock when the claim asked.
    pub(crate) fn was_refused(&self) {
        self.polled.store(true, Ordering::Relaxed);
    }

    /// Whether other claims of its client may be polling the name.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed)
    }

    /// Makes the claim replace `old`, and take over its limits.
    pub(crate) fn in_place_of(self, old: &Arc<Self>) -> Self {
        self.lock().succeed(&old.claim());
        self.follow(old);
        self
    }

    /// Makes the claim replace `old`, unless it already replaces another.
    pub(crate) fn follow(&self, old: &Arc<Self>) {
        let old = (old.id.clone(), Arc::downgrade(old));
        let _ = self.predecessor.set(old);
    }

    /// The claim that this one replaces, and whether its release must leave a tombstone.
    pub(crate) fn predecessor(&self) -> Option<(&ClaimId, bool)> {
        let (id, part) = self.predecessor.get()?;
        let in_doubt = part.upgrade().is_none_or(|old| {
            let needed = old.claim().release_needed();
            needed == ReleaseNeeded::WithTombstone
        });
        Some((id, in_doubt))
    }

    /// Makes the claim a part of this grant.
    pub(crate) fn join(&self, grant: &Arc<Grant>) {
        *self.grant.lock() = Arc::downgrade(grant);
    }

    /// Whether the grant of which the claim is a part has ended. Renewing the claim would then only keep others out.
    pub(crate) fn is_remnant(&self) -> bool {
        let grant = self.grant.lock().upgrade();
        grant.is_some_and(|grant| grant.end().is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Claim> {
        self.claim.lock()
    }

    /// Locks the claim for reading; only [`change`](Self::change) changes it.
    pub(crate) fn claim(&self) -> Locked<'_> {
        Locked(self.lock())
    }

    /// Changes the claim by one transition, and its index entry with it. Then reports the effects.
    pub(crate) fn change<T>(self: &Arc<Self>, transition: impl FnOnce(&mut Claim) -> T) -> T {
        let changed = self.change_silently(transition);
        changed.effects.tell(self);
        changed.result
    }

    /// Like [`change`](Self::change), but the caller must report the effects.
    pub(super) fn change_silently<T>(
        self: &Arc<Self>,
        transition: impl FnOnce(&mut Claim) -> T,
    ) -> Changed<T> {
        let mut claim = self.lock();
        let (phase, agenda, told) = (claim.phase(), claim.agenda(), claim.is_told());
        let result = transition(&mut claim);
        let moved = claim.phase() != phase;
        let next = claim.agenda();
        // A claim can be lost before its holder learns of the grant. Then the transition that tells the holder also
        // reports the loss.
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

    /// Notified when the claim is granted and when its validity ends. To miss nothing, call this first, then check,
    /// then await.
    pub(crate) const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// What may be assumed about it now, and until when at most.
    pub(crate) fn validity(&self) -> (Validity, Option<Moment>) {
        let now = self.now();
        let claim = self.claim();
        (claim.validity(now), claim.deadline())
    }
}

/// A locked claim, for reading.
pub(crate) struct Locked<'a>(MutexGuard<'a, Claim>);

impl Deref for Locked<'_> {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.0
    }
}

/// The result of a transition, and the effects to report.
#[must_use = "others wait to be told"]
pub(super) struct Changed<T> {
    pub(super) result: T,
    pub(super) effects: Effects,
}

/// The effects of a transition on others.
#[must_use = "others wait to be told"]
pub(super) struct Effects {
    /// The claim changed its phase.
    moved: bool,
    /// The lease was lost by a holder that had been told of it.
    lost: Option<LossReason>,
    /// The claim of its cohort whose turn it is now.
    called: Option<Arc<Part>>,
}

impl Effects {
    pub(super) fn tell(&self, part: &Part) {
        if self.moved {
            part.changed.notify_waiters();
            let grant = part.grant.lock().upgrade();
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
