//! The effect of an event on a client: an answer, a failure, its end.
//!
//! A conversion is one request of two attempts of a client, one of which replaces the other in another mode. As in the engine,
//! the new attempt sends it and receives the answer, and the old one is told. Giving up one of the two gives up both.

use std::ops::{Index, IndexMut};

use lockkeeper_core::claim::{Claim, Validity, Verdict};
use lockkeeper_core::protocol::Verb;
use lockkeeper_core::store::{Outcome, Request};

use super::bounds::TICKS;
use super::state::{Asked, Attempt, Client, Message, Question, Reply, Stage, Told};
use crate::kinds::Mode;
use crate::search::state::release_needed;

/// The request number of a conversion, as its old claim knows it. No other request has it.
pub(super) const CONVERT: Request = 0;

impl Index<u8> for Client {
    type Output = Attempt;

    fn index(&self, attempt: u8) -> &Attempt {
        &self.attempts[usize::from(attempt)]
    }
}

impl IndexMut<u8> for Client {
    fn index_mut(&mut self, attempt: u8) -> &mut Attempt {
        &mut self.attempts[usize::from(attempt)]
    }
}

impl Attempt {
    /// Changes the claim.
    pub(super) fn change<T>(&mut self, now: u8, change: impl FnOnce(&mut Claim) -> T) -> Option<T> {
        let Stage::Living(claim) = &mut self.stage else {
            return None;
        };
        let result = change(claim);
        self.fold(now);
        Some(result)
    }

    /// Forgets what makes no difference from `now` on; drops a claim that has nothing left to do.
    pub(super) fn fold(&mut self, now: u8) {
        let Stage::Living(claim) = &mut self.stage else {
            return;
        };
        claim.fold(TICKS.moment(now));
        let validity = claim.validity(TICKS.moment(now));
        let ended = claim.deadline().is_none()
            && matches!(validity, Validity::Ended(_))
            && release_needed(claim).is_none();
        if validity != Validity::NotYet {
            self.takes = None;
        }
        if ended && self.requests.under_way.is_none() {
            self.end_all();
        }
        self.fold_messages(now);
    }

    /// Ends the attempt, which has nothing left to do or to learn.
    fn end_all(&mut self) {
        (self.stage, self.mode, self.takes) = (Stage::Over, Mode::Write, None);
        self.over_limit = false;
        self.works_with = None;
    }

    /// Publishes a message to the claim.
    pub(super) fn publish(&mut self, message: Message, now: u8) {
        self.messages.insert(message);
        self.fold_messages(now);
    }

    /// Forgets messages that can have no effect any more: to a waiting claim, those that are hints at best.
    fn fold_messages(&mut self, now: u8) {
        let Stage::Living(claim) = &self.stage else {
            self.messages.clear();
            return;
        };
        let now = TICKS.moment(now);
        let is_asking =
            claim.validity(now) == Validity::NotYet && claim.renewal() != Verb::Heartbeat;
        self.messages.retain(|message| {
            let grant =
                |mut claim: Claim| claim.granted_by_message(message.token, message.request, now);
            is_asking || matches!(grant(claim.clone()), Verdict::Granted(_))
        });
    }

    /// Whether the claim is valid; `None` if it never was.
    pub(super) fn is_valid(&self, now: u8) -> Option<bool> {
        match self.claim()?.validity(TICKS.moment(now)) {
            Validity::NotYet => None,
            validity => Some(validity.holds()),
        }
    }

    /// Handles a message about a grant.
    pub(super) fn told(&mut self, message: Message, now: u8) {
        self.change(now, |claim| {
            claim.granted_by_message(message.token, message.request, TICKS.moment(now))
        });
    }

    /// Handles the answer to a request that a release has overtaken; it must not affect the claim.
    pub(super) fn overtaken(&mut self, asked: Asked, told: Told, now: u8) {
        let releases = |asked: Asked| asked.question.verb() == Verb::Release;
        let under_way = self.requests.under_way;
        if under_way.is_some_and(|it| releases(it.asked))
            && !releases(asked)
            && let Told::Answer(answer) = told
        {
            self.change(now, |claim| {
                claim.answered(asked.request, answer, TICKS.moment(now))
            });
        }
    }

    /// Records that the server has confirmed that the claim is gone, until this tick.
    fn confirmed(&mut self, until: u8, now: u8) {
        self.released = Some(until).filter(|until| *until >= now);
    }
}

impl Client {
    /// Handles the reply to the request of an attempt.
    pub(super) fn heard(&mut self, number: u8, asked: Asked, (told, until): Reply, now: u8) {
        let attempt = &mut self[number];
        attempt.requests.under_way = None;
        let verdict = attempt.change(now, |claim| match told {
            Told::Answer(answer) => {
                let verdict = claim.answered(asked.request, answer, TICKS.moment(now));
                // The engine gives up on such a name.
                if let Verdict::WrongKind
                | Verdict::WouldDeadlock
                | Verdict::QueueFull(_)
                | Verdict::Stored
                | Verdict::OverLimit(_)
                | Verdict::Unexpected = verdict
                    && claim.token().is_none()
                {
                    claim.end(TICKS.moment(now));
                }
                Some(verdict)
            }
            Told::Refused => {
                claim.failed(asked.request, Outcome::Refused);
                None
            }
            Told::Unreadable => {
                claim.failed(asked.request, Outcome::Unknown);
                None
            }
        });
        let verdict = verdict.flatten();
        if let (Mode::Stores, Some(Verdict::Granted(token))) = (attempt.mode, verdict) {
            attempt.works_with = Some(token);
        }
        let confirmed = matches!(
            verdict,
            Some(
                Verdict::Released { .. }
                    | Verdict::Cooldown { .. }
                    | Verdict::Dropped
                    | Verdict::WasGone
            )
        );
        if confirmed {
            attempt.confirmed(until, now);
        }
        if let Question::Convert { old, .. } = asked.question {
            self.conversion_answered(number, old, verdict, until, now);
        }
    }

    /// Tells the claim that there will be no answer.
    pub(super) fn failed(&mut self, number: u8, asked: Asked, outcome: Outcome, now: u8) {
        let attempt = &mut self[number];
        if outcome == Outcome::Unknown {
            attempt.requests.give_up();
        }
        attempt.requests.under_way = None;
        attempt.change(now, |claim| claim.failed(asked.request, outcome));
        if let Question::Convert { old, .. } = asked.question {
            self.conversion_failed(number, old, outcome, now);
        }
    }

    /// The attempt that asks to replace this one.
    pub(super) fn successor(&self, old: u8) -> Option<u8> {
        let mut numbers = (0..).zip(&self.attempts);
        let taker = numbers.find(|(_, attempt)| attempt.takes == Some(old));
        taker.map(|(number, _)| number)
    }

    /// Releases the attempt's claim or stops asking, also for the other attempt of a conversion.
    pub(super) fn end(&mut self, number: u8, now: u8) {
        let other = self[number].takes.or(self.successor(number));
        for number in [Some(number), other].into_iter().flatten() {
            let attempt = &mut self[number];
            attempt.sleeps = false;
            attempt.change(now, |claim| {
                claim.failed(CONVERT, Outcome::Unknown);
                claim.end(TICKS.moment(now));
            });
        }
    }

    /// Handles the answer to a conversion, which the new attempt receives.
    fn conversion_answered(
        &mut self,
        new: u8,
        old: u8,
        verdict: Option<Verdict>,
        until: u8,
        now: u8,
    ) {
        let moment = TICKS.moment(now);
        match verdict {
            Some(Verdict::Granted(_)) => {
                let attempt = &mut self[old];
                let before = attempt.claim().cloned();
                attempt.change(now, |claim| claim.converted(CONVERT, moment));
                if before.as_ref() != attempt.claim() {
                    attempt.confirmed(until, now);
                }
            }
            Some(Verdict::Busy(_)) => {
                self[old].change(now, |claim| claim.conversion_refused(CONVERT, moment));
                self[new].change(now, |claim| claim.end(moment));
            }
            Some(Verdict::Ignored) => {}
            _ => self.conversion_failed(new, old, Outcome::Refused, now),
        }
    }

    /// Handles a conversion without an answer. The engine sends another unless the server refused it.
    fn conversion_failed(&mut self, new: u8, old: u8, outcome: Outcome, now: u8) {
        self[old].change(now, |claim| claim.failed(CONVERT, outcome));
        if outcome == Outcome::Refused {
            for number in [new, old] {
                self[number].change(now, |claim| claim.end(TICKS.moment(now)));
            }
        }
    }

    /// Closes the client: it loses what it held and lets it expire, gives up what it asked for, and begins nothing more.
    /// Releases still go out.
    pub(super) fn close(&mut self, now: u8) {
        for attempt in &mut self.attempts {
            attempt.sleeps = false;
            if let Stage::Unborn = attempt.stage {
                attempt.stage = Stage::Over;
            }
            attempt.change(now, |claim| {
                if !claim.give_up(TICKS.moment(now)) {
                    claim.end(TICKS.moment(now));
                }
            });
        }
    }

    /// The client's process dies: it forgets everything, and requests in flight may still be executed.
    pub(super) fn crash(&mut self) {
        self.floor = 0;
        for attempt in &mut self.attempts {
            attempt.requests.give_up();
            attempt.end_all();
            attempt.sleeps = false;
            attempt.released = None;
            attempt.messages.clear();
        }
    }
}
