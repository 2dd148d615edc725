//! What an event changes in one attempt or one client: an answer, a failure, the end of a client.

use lockkeeper_core::claim::{Claim, ReleaseNeeded, Validity, Verdict};
use lockkeeper_core::protocol::Verb;
use lockkeeper_core::store::Outcome;

use super::bounds::moment;
use super::model::Mode;
use super::state::{Asked, Attempt, Client, Message, Question, Stage, Told};

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

    /// Forgets what makes no difference from `now` on, and a claim for which nothing is left to do altogether.
    pub(super) fn fold(&mut self, now: u8) {
        let Stage::Living(claim) = &mut self.stage else {
            return;
        };
        claim.fold(moment(now));
        let ended = claim.deadline().is_none()
            && matches!(claim.validity(moment(now)), Validity::Ended(_))
            && claim.release_needed() == ReleaseNeeded::None;
        if !matches!(claim.validity(moment(now)), Validity::NotYet) {
            self.takes = None;
        }
        if ended && self.flight.is_none() {
            self.end_all();
        }
        self.fold_messages(now);
    }

    /// Nothing is left to do, or to be known.
    pub(super) fn end_all(&mut self) {
        (self.stage, self.mode, self.takes) = (Stage::Over, Mode::Only, None);
    }

    /// Forgets messages that can have no effect any more: to a claim that waits, those that are hints at best.
    pub(super) fn fold_messages(&mut self, now: u8) {
        let Some(claim) = self.claim() else {
            self.messages.clear();
            return;
        };
        if is_asking(claim, now) {
            return;
        }
        let heeded = |message: &Message| {
            let verdict =
                claim
                    .clone()
                    .granted_by_message(message.token, message.request, moment(now));
            matches!(verdict, Verdict::Granted(_))
        };
        let messages = self.messages.iter().copied().filter(heeded).collect();
        self.messages = messages;
    }
}

/// Whether the claim has not been told yet that it waits, or holds.
fn is_asking(claim: &Claim, now: u8) -> bool {
    claim.validity(moment(now)) == Validity::NotYet && claim.renewal() != Verb::Heartbeat
}

/// A message of a grant has arrived.
pub(super) fn told(attempt: &Attempt, message: Message, now: u8) -> Attempt {
    let mut changed = attempt.clone();
    changed.change(now, |claim| {
        claim.granted_by_message(message.token, message.request, moment(now))
    });
    changed
}

/// The reply to a request of the attempt at `place` has arrived.
pub(super) fn heard(
    client: &mut Client,
    place: usize,
    asked: Asked,
    (told, until): (Told, u8),
    now: u8,
) {
    let attempt = &mut client.attempts[place];
    attempt.flight = None;
    let number = asked.request;
    let verdict = attempt.change(now, |claim| match told {
        Told::Answer(answer) => {
            let verdict = claim.answered(number, answer, moment(now));
            // The engine gives up on such a name.
            if let Verdict::WrongKind | Verdict::WouldDeadlock | Verdict::Unexpected = verdict
                && claim.token().is_none()
            {
                claim.end(moment(now));
            }
            Some(verdict)
        }
        Told::Refused => {
            claim.failed(number, Outcome::Refused);
            None
        }
        Told::Unreadable => {
            claim.failed(number, Outcome::Unknown);
            None
        }
    });
    let verdict = verdict.flatten();
    if let Some(Verdict::Released { .. } | Verdict::WasGone) = verdict {
        attempt.gone = Some(until).filter(|until| *until >= now);
    }
    if let Question::Convert { old, .. } = asked.question {
        client.conversion_answered(place, usize::from(old), verdict, until, now);
    }
}

/// Whether the claim is believed in; `None` if it has never been.
pub(super) fn believed(attempt: &Attempt, now: u8) -> Option<bool> {
    match attempt.claim()?.validity(moment(now)) {
        Validity::Valid | Validity::Uncertain => Some(true),
        Validity::Ended(_) => Some(false),
        _ => None,
    }
}

/// The claim learns that there will be no answer.
pub(super) fn failed(client: &mut Client, place: usize, asked: Asked, outcome: Outcome, now: u8) {
    let attempt = &mut client.attempts[place];
    if outcome == Outcome::Unknown {
        attempt.stray();
    }
    attempt.flight = None;
    attempt.change(now, |claim| claim.failed(asked.request, outcome));
    if let Question::Convert { old, .. } = asked.question {
        client.conversion_failed(place, usize::from(old), outcome, now);
    }
}

/// A request is answered behind the leave that overtook it: the claim hears of it and must not mind.
pub(super) fn overtaken(attempt: &mut Attempt, asked: Asked, told: Told, now: u8) {
    let leaving = attempt
        .flight
        .as_ref()
        .is_some_and(|flight| flight.asked.question.verb() == Some(Verb::Release));
    if let (true, Told::Answer(answer)) = (leaving, told)
        && asked.question.verb() != Some(Verb::Release)
    {
        attempt.change(now, |claim| {
            claim.answered(asked.request, answer, moment(now))
        });
    }
}

/// The client after it was closed: what it held is lost to it and left to expire, what it asked for is given up, and it
/// begins nothing more. Leaves still go out.
pub(super) fn closed(client: &Client, now: u8) -> Client {
    let mut changed = client.clone();
    for attempt in &mut changed.attempts {
        attempt.sleeps = false;
        if let Stage::Unborn = attempt.stage {
            attempt.stage = Stage::Over;
        }
        attempt.change(now, |claim| {
            if !claim.give_up(moment(now)) {
                claim.end(moment(now));
            }
        });
    }
    changed
}

/// The client after its process died: it has forgotten everything, and what was on its way may yet be executed.
pub(super) fn crashed(client: &Client) -> Client {
    let mut changed = client.clone();
    changed.floor = 0;
    for attempt in &mut changed.attempts {
        attempt.stray();
        attempt.end_all();
        attempt.sleeps = false;
        attempt.gone = None;
        attempt.messages.clear();
    }
    changed
}
