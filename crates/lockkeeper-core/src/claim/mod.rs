//! The client's half of the protocol: what one claim may ask next, and what its holder may assume about it.
//!
//! Pure: events go in with the current [`Moment`], validity and permission come out. The engine drives it with a real
//! store; a simulator or an exhaustive search drives the same code with a model of a store. It enforces these laws:
//!
//! - A claim lives once: after it has ended, only a release is sent for it.
//! - One request at a time: until a request is answered or abandoned, only a release may follow it.
//! - An abandoned request may still be executed later. So it can only be repeated, and it counts as unanswered even
//!   when the repeat is answered. For the same reason, a lease with an abandoned acquire is renewed by repeating the
//!   acquire: the token shows whether a late copy has created the claim again after the server had lost it.
//! - A deadline counts from before the send of the request that was answered, or that the message of a grant names.
//! - Validity begins with an answer or with the message of a grant, ends before the first byte of a release is sent,
//!   and never comes back.
//! - A missing answer means "unknown", never "no".

mod bounds;
mod convert;
mod fold;
mod queue;
mod release;
mod state;
mod upkeep;

use std::time::Duration;

use bounds::Bounds;
use queue::Queue;
pub use state::{Ending, NotNow, ReleaseNeeded, Validity, Verdict};
pub(crate) use upkeep::Passed;
use upkeep::Upkeep;

use crate::words::answer::{Answer, Verb};
use crate::words::ending::LossReason;
use crate::words::moment::Moment;
use crate::words::owner::ClaimId;
use crate::words::store_error::{Outcome, Request};
use crate::words::token::FencingToken;

/// One claim, from before its first request until after its release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    id: ClaimId,
    /// How long the claim is valid after the send of a granting or renewing request: ttl − margin.
    trust: Duration,
    /// The limits on the time of holding, if there are any.
    bounds: Option<Box<Bounds>>,
    /// Another claim is taking this one's place.
    converting: bool,
    /// A request for that conversion was abandoned and may still be executed.
    conversion_in_doubt: bool,
    /// When the granting request was sent.
    granted: Option<Moment>,
    phase: Phase,
    pending: Option<Pending>,
    /// The server may hold something for this claim.
    present: bool,
    /// Requests name all of the name's keys: it may not be free, or others may hold or wait beside this claim.
    inflated: bool,
    /// The token with which the claim was granted. It stays when the claim has ended.
    drawn: Option<FencingToken>,
    /// A release was refused: some of the name's keys may be on another node, so the next one names the main key alone if it can.
    release_refused: bool,
    /// An acquire was abandoned and may still be executed.
    acquire_in_doubt: bool,
    /// A release was abandoned and may have been executed.
    release_in_doubt: bool,
    /// For a kind with a queue, until the claim is granted.
    queue: Option<Box<Queue>>,
    /// For a claim that an engine keeps alive.
    upkeep: Option<Box<Upkeep>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Asking,
    /// It waits in the queue on the server.
    Waiting,
    Held {
        token: FencingToken,
        deadline: Moment,
        doubtful: bool,
    },
    Ended(Ending),
}

/// An unanswered request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pending {
    request: Request,
    verb: Verb,
    sent: Moment,
    /// Whether the server might have held something for this claim before the send.
    present_before: bool,
}

impl Claim {
    /// Creates a claim that has not asked for anything yet; `ttl` and `margin` are those of its lease.
    pub const fn new(id: ClaimId, ttl: Duration, margin: Duration) -> Self {
        Self {
            id,
            trust: ttl.saturating_sub(margin),
            bounds: None,
            converting: false,
            conversion_in_doubt: false,
            granted: None,
            phase: Phase::Asking,
            pending: None,
            present: false,
            inflated: false,
            drawn: None,
            release_refused: false,
            acquire_in_doubt: false,
            release_in_doubt: false,
            queue: None,
            upkeep: None,
        }
    }

    /// Returns the id of the claim.
    pub const fn id(&self) -> &ClaimId {
        &self.id
    }

    /// Returns the token of the grant; `None` while the claim does not hold.
    pub const fn token(&self) -> Option<FencingToken> {
        match self.phase {
            Phase::Held { token, .. } => Some(token),
            _ => None,
        }
    }

    /// Returns the token with which the claim was granted; `None` before that.
    pub const fn drawn(&self) -> Option<FencingToken> {
        self.drawn
    }

    /// Whether it has ended, and others may have to be told of that.
    pub(crate) const fn leaves_to_others(&self) -> bool {
        matches!(self.phase, Phase::Ended(_)) && !self.release_refused
    }

    /// Notes that the server stores a larger token with the claim now, if it was not larger already.
    pub(crate) fn raised(&mut self, token: FencingToken) {
        self.drawn = self.drawn.map(|drawn| drawn.max(token));
    }

    /// Returns until when the claim is valid; `None` while it does not hold.
    pub const fn deadline(&self) -> Option<Moment> {
        match self.phase {
            Phase::Held { deadline, .. } => Some(deadline),
            _ => None,
        }
    }

    /// Expects that others hold or wait: the first request is the one that can wait, rather than one for a free name.
    #[must_use]
    pub const fn expecting_others(mut self, expects: bool) -> Self {
        self.inflated = expects;
        self
    }

    /// Returns whether the name may be inflated, so that requests must name all of its keys. It may not, as far as is known, if the
    /// claim has not asked yet or was granted at once, and nothing has said otherwise since.
    pub const fn may_be_inflated(&self) -> bool {
        self.inflated
    }

    /// Returns when the granting request was sent; `None` before the grant.
    pub const fn granted(&self) -> Option<Moment> {
        self.granted
    }

    /// Returns why the lease was lost; `None` if it was not, as far as the claim knows.
    pub const fn loss(&self) -> Option<LossReason> {
        match self.phase {
            Phase::Ended(Ending::Lost(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Returns what the holder may assume at `now`. It compares `now` with the deadline, so the result is correct even
    /// if nothing else ran in time.
    pub fn validity(&self, now: Moment) -> Validity {
        if mutant!(ValidWhileReleasing) && self.pending.is_some_and(|it| it.verb == Verb::Release) {
            return Validity::Valid;
        }
        match self.phase {
            Phase::Asking | Phase::Waiting => Validity::NotYet,
            Phase::Held { deadline, .. } if now >= deadline => {
                Validity::Ended(Ending::Lost(self.reason(now)))
            }
            Phase::Held { doubtful: true, .. } => Validity::Uncertain,
            Phase::Held { .. } => Validity::Valid,
            Phase::Ended(ending) => Validity::Ended(ending),
        }
    }

    /// Returns the request that keeps the claim alive: a heartbeat for a waiting claim, a renewal for a held one, or
    /// the acquire again if a copy of it was abandoned.
    pub const fn renewal(&self) -> Verb {
        if matches!(self.phase, Phase::Waiting) {
            Verb::Heartbeat
        } else if self.acquire_in_doubt {
            Verb::Acquire
        } else {
            Verb::Renew
        }
    }

    /// Whether it holds and no other claim is taking its place.
    pub(crate) const fn is_held_alone(&self) -> bool {
        matches!(self.phase, Phase::Held { .. }) && !self.converting && !self.conversion_in_doubt
    }

    /// Records a request that is sent next. `now` must be before its first byte is sent.
    ///
    /// # Errors
    ///
    /// [`NotNow`] if the laws forbid the request. Then nothing has changed and nothing may be sent.
    pub fn send(&mut self, verb: Verb, request: Request, now: Moment) -> Result<(), NotNow> {
        match (verb, self.phase, self.pending) {
            (Verb::Release, Phase::Ended(_), None) => {}
            (Verb::Release, Phase::Ended(_), Some(pending)) => match pending.verb {
                Verb::Release => return Err(NotNow::Unanswered),
                Verb::Acquire => self.acquire_in_doubt = true,
                Verb::Renew | Verb::Heartbeat | Verb::Convert => {}
            },
            (Verb::Convert, phase, _) if self.may_convert(phase, now) => {}
            (Verb::Acquire, Phase::Asking, _) | (Verb::Heartbeat, Phase::Waiting, _) => {}
            (verb, Phase::Held { deadline, .. }, _)
                if verb == self.renewal()
                    && now < deadline
                    && (!self.converting || mutant!(RenewWhileConverting)) => {}
            _ => return Err(NotNow::OutOfOrder),
        }
        if verb != Verb::Release && self.pending.is_some() && !mutant!(RequestsAbreast) {
            return Err(NotNow::Unanswered);
        }
        self.pending = Some(Pending {
            request,
            verb,
            sent: now,
            present_before: self.present,
        });
        self.upkeep_sent();
        self.present |= verb == Verb::Acquire;
        self.converting = verb == Verb::Convert;
        if let (Some(queue), Verb::Acquire | Verb::Heartbeat) = (&mut self.queue, verb) {
            queue.sent(request, now);
        }
        Ok(())
    }

    /// Returns whether a request that the server did not execute (`NOSCRIPT`) may be sent again under the same number.
    /// It may not after the claim has ended, because a release may have been sent in between.
    pub fn may_resend(&self, request: Request) -> bool {
        mutant!(ResendAfterRelease)
            || self.pending.is_some_and(|pending| {
                pending.request == request
                    && (pending.verb == Verb::Release || !matches!(self.phase, Phase::Ended(_)))
            })
    }

    /// Records an answer.
    pub fn answered(&mut self, request: Request, answer: Answer, now: Moment) -> Verdict {
        let Some(mut pending) = self.pending.take_if(|pending| pending.request == request) else {
            return Verdict::Ignored;
        };
        if mutant!(DeadlineFromAnswer) {
            pending.sent = now;
        }
        let verdict = match (pending.verb, self.phase) {
            (Verb::Release, _) => self.release_answered(answer),
            (Verb::Acquire | Verb::Heartbeat, Phase::Asking | Phase::Waiting) => {
                self.acquire_answered(pending, answer, now)
            }
            (
                _,
                Phase::Held {
                    token, deadline, ..
                },
            ) => self.renewal_answered(pending, token, deadline, answer, now),
            _ => Verdict::Ignored,
        };
        let end = match answer {
            Answer::Waiting { left, .. } => left.map(|left| now.after(left)),
            _ => None,
        };
        self.upkeep_answered(pending.sent, verdict, end, now);
        verdict
    }

    fn acquire_answered(&mut self, pending: Pending, answer: Answer, now: Moment) -> Verdict {
        if let Some(refused) = Verdict::of_refusal(answer) {
            self.present = self.acquire_in_doubt;
            return refused;
        }
        match answer {
            Answer::Granted(token) => {
                let deadline = self.deadline_of_grant(pending.sent, self.trust);
                if now >= deadline {
                    self.phase = Phase::Ended(Ending::Withdrawn);
                    return Verdict::Stale;
                }
                self.hold(token, pending.sent, deadline, now)
            }
            Answer::Waiting { place, .. } => self.placed(pending, place, now),
            Answer::More => self.must_ask_again(pending),
            // The server did nothing for this request.
            Answer::Inflated => {
                self.inflated = true;
                self.present = self.acquire_in_doubt;
                Verdict::More
            }
            Answer::Gone => {
                self.present = self.acquire_in_doubt;
                self.phase = Phase::Ended(Ending::Withdrawn);
                Verdict::Stale
            }
            // It was granted, and revoked before this client knew of the grant.
            Answer::Revoked => {
                self.phase = Phase::Ended(Ending::Withdrawn);
                Verdict::Stale
            }
            _ => Verdict::Unexpected,
        }
    }

    /// Makes the claim hold from `now` on, because of a request sent at `sent`.
    fn hold(
        &mut self,
        token: FencingToken,
        sent: Moment,
        deadline: Moment,
        now: Moment,
    ) -> Verdict {
        self.granted = Some(sent);
        self.inflated |= self.phase == Phase::Waiting;
        self.drawn = Some(token);
        self.begin_cooldown(now);
        self.upkeep_granted(deadline, self.phase == Phase::Waiting, now);
        self.queue = None;
        self.phase = Phase::Held {
            token,
            deadline,
            doubtful: false,
        };
        Verdict::Granted(token)
    }

    fn renewal_answered(
        &mut self,
        pending: Pending,
        token: FencingToken,
        deadline: Moment,
        answer: Answer,
        now: Moment,
    ) -> Verdict {
        match (pending.verb, answer) {
            (Verb::Renew, Answer::Renewed)
            | (Verb::Acquire | Verb::Heartbeat, Answer::Granted(_))
                if now >= deadline =>
            {
                self.lost(self.reason(now))
            }
            (Verb::Renew, Answer::Renewed) => self.renewed(pending, token, deadline),
            (Verb::Renew, Answer::Inflated) => {
                self.inflated = true;
                Verdict::More
            }
            (Verb::Acquire | Verb::Heartbeat, Answer::Granted(again)) if again == token => {
                self.renewed(pending, token, deadline)
            }
            // The token differs: the server had lost the claim, and a late copy of its acquire has created it again.
            (Verb::Acquire | Verb::Heartbeat, Answer::Granted(_)) => self.lost(LossReason::Gone),
            // The server executed this heartbeat before the grant that a message has reported.
            (Verb::Heartbeat, Answer::Waiting { place, .. }) => Verdict::Waiting(place),
            (Verb::Heartbeat, Answer::More) => Verdict::More,
            (_, Answer::Revoked) => self.lost(LossReason::Revoked),
            (Verb::Renew | Verb::Heartbeat, Answer::Gone)
            | (Verb::Acquire, Answer::Gone | Answer::Busy(_) | Answer::WrongKind) => {
                self.present = self.acquire_in_doubt;
                self.lost(LossReason::Gone)
            }
            _ => {
                self.doubt();
                Verdict::Unexpected
            }
        }
    }

    fn renewed(&mut self, pending: Pending, token: FencingToken, deadline: Moment) -> Verdict {
        self.phase = Phase::Held {
            token,
            deadline: self.limited(deadline.max(pending.sent.after(self.trust))),
            doubtful: false,
        };
        Verdict::Renewed
    }

    /// Records that the answer is a grant that the client refuses. The claim has ended, and must be released.
    pub(crate) fn refuses_grant(&mut self, request: Request) {
        let answered = self.pending.take_if(|pending| pending.request == request);
        if answered.is_some() && matches!(self.phase, Phase::Asking | Phase::Waiting) {
            self.phase = Phase::Ended(Ending::Withdrawn);
        }
    }

    /// A value that differs between phases: asking, waiting, held, ended.
    pub(crate) fn phase(&self) -> impl PartialEq + use<> {
        std::mem::discriminant(&self.phase)
    }

    /// Records that a request was abandoned or refused.
    pub fn failed(&mut self, request: Request, outcome: Outcome) {
        let Some(pending) = self.pending.take_if(|pending| pending.request == request) else {
            return;
        };
        match (pending.verb, outcome) {
            (Verb::Acquire, Outcome::NotSent) => self.present = pending.present_before,
            (Verb::Acquire, Outcome::Unknown) if mutant!(UnknownIsNo) => self.present = false,
            (Verb::Acquire, Outcome::Unknown) => {
                self.acquire_in_doubt = true;
                // A request for a free name would take the claim's own for another's.
                self.inflated = true;
            }
            (Verb::Release, Outcome::Unknown) => self.release_in_doubt = true,
            (Verb::Convert, Outcome::Unknown) => self.conversion_in_doubt = true,
            // Some of its keys may be on another node. So the next renewal first names the main key alone.
            (Verb::Renew, Outcome::Refused) => self.inflated = false,
            (Verb::Release, Outcome::Refused) => {
                (self.inflated, self.release_refused) = (false, true);
            }
            _ => {}
        }
        self.doubt();
        self.keep_later(pending.sent);
    }

    /// Records that the server did not know the claim when `verify` asked. Only for a question that was sent while the
    /// claim held.
    pub fn seen_gone(&mut self) {
        if let Phase::Held { .. } = self.phase {
            self.present = self.acquire_in_doubt;
            self.lost(LossReason::Gone);
        }
    }

    /// Records that somebody has revoked the claim: it is no longer valid, but stays on the server until it is
    /// released.
    pub fn revoke(&mut self) {
        if let Phase::Held { .. } = self.phase {
            self.lost(LossReason::Revoked);
        }
    }

    /// Ends the lease if its deadline has passed; returns true if this call ended it.
    pub fn expire(&mut self, now: Moment) -> bool {
        let expired = matches!(self.phase, Phase::Held { deadline, .. } if now >= deadline);
        if expired {
            self.lost(self.reason(now));
        }
        expired
    }

    /// Gives up the claim because the client closes. A held lease is lost to its holder and is not released but expires
    /// on the server, because the work under it may not have stopped. Returns true if this call ended the lease.
    pub fn give_up(&mut self, now: Moment) -> bool {
        let held = !self.expire(now) && matches!(self.phase, Phase::Held { .. });
        if held {
            self.present = false;
            self.acquire_in_doubt = false;
            // If it turns out that an unanswered repeat was not sent, that must not set either of them again.
            if let Some(pending) = &mut self.pending {
                pending.present_before = false;
            }
            self.lost(LossReason::ClientClosed);
        }
        held
    }

    /// Ends the claim because its holder releases it or its acquisition gives up: validity ends now, and a release
    /// may be sent from now on.
    pub fn end(&mut self, now: Moment) {
        self.expire(now);
        self.phase = match self.phase {
            Phase::Asking | Phase::Waiting => Phase::Ended(Ending::Withdrawn),
            Phase::Held { .. } => Phase::Ended(Ending::Released),
            Phase::Ended(ending) => Phase::Ended(ending),
        };
    }

    fn lost(&mut self, reason: LossReason) -> Verdict {
        self.phase = Phase::Ended(Ending::Lost(reason));
        Verdict::Lost(reason)
    }

    fn doubt(&mut self) {
        if let Phase::Held { doubtful, .. } = &mut self.phase {
            *doubtful = true;
        }
    }
}

#[cfg(test)]
mod tests;
