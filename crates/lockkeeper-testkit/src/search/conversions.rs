//! Conversions: one request of two attempts of a client, of which one takes the place of the other in another mode.
//!
//! The new attempt sends it and hears the answer, as the engine does; the old one is told. Whoever gives one of the two up
//! gives up both.

use lockkeeper_core::claim::{Claim, ReleaseNeeded, Verdict};
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::store::{Outcome, Request};

use super::bounds::moment;
use super::explore::Search;
use super::model::Seat;
use super::property::Violation;
use super::server::Standing;
use super::state::{Asked, Client, Question, Stage, Told};

/// The number of a conversion, as its old claim knows it. Unlike those of all other requests.
const CONVERT: Request = 0;

impl Client {
    /// The attempt that asks to take the place of the one at `place`.
    pub(super) fn successor(&self, place: usize) -> Option<usize> {
        let takes = |takes: Option<u8>| takes.map(usize::from) == Some(place);
        self.attempts
            .iter()
            .position(|attempt| takes(attempt.takes))
    }

    /// The attempt at `place` lets go, or stops asking, and with it the other one of a conversion.
    pub(super) fn end(&mut self, place: usize, now: u8) {
        let takes = self.attempts[place].takes.map(usize::from);
        let other = takes.or(self.successor(place));
        for place in [Some(place), other].into_iter().flatten() {
            let attempt = &mut self.attempts[place];
            attempt.sleeps = false;
            attempt.change(now, |claim| {
                claim.failed(CONVERT, Outcome::Unknown);
                claim.end(moment(now));
            });
        }
    }

    /// The new attempt has heard this of the conversion.
    pub(super) fn conversion_answered(
        &mut self,
        new: usize,
        old: usize,
        verdict: Option<Verdict>,
        until: u8,
        now: u8,
    ) {
        match verdict {
            Some(Verdict::Granted(_) | Verdict::More) => {
                let attempt = &mut self.attempts[old];
                let before = attempt.claim().cloned();
                attempt.change(now, |claim| claim.converted(CONVERT, moment(now)));
                if before.as_ref() != attempt.claim() {
                    attempt.gone = Some(until).filter(|until| *until >= now);
                }
            }
            Some(Verdict::Busy(_)) => {
                let refused = |claim: &mut Claim| claim.conversion_refused(CONVERT, moment(now));
                self.attempts[old].change(now, refused);
                self.attempts[new].change(now, |claim| claim.end(moment(now)));
            }
            Some(Verdict::Ignored) => {}
            _ => self.conversion_failed(new, old, Outcome::Refused, now),
        }
    }

    /// There will be no answer to the conversion. The engine sends another unless the server refused it.
    pub(super) fn conversion_failed(&mut self, new: usize, old: usize, outcome: Outcome, now: u8) {
        self.attempts[old].change(now, |claim| claim.failed(CONVERT, outcome));
        if outcome == Outcome::Refused {
            self.attempts[new].change(now, |claim| claim.end(moment(now)));
            self.attempts[old].change(now, |claim| claim.end(moment(now)));
        }
    }
}

impl Search {
    /// Whether an attempt may begin by taking the place of the one at `old`. Of a conversion both claims have the same terms.
    pub(super) fn may_take(&self, client: &Client, seat: Seat, old: usize) -> bool {
        let place = usize::from(seat.attempt);
        let unborn = |place: usize| matches!(client.attempts[place].stage, Stage::Unborn);
        self.model.reading.is_some()
            && self.bounds.leases[old] == self.bounds.leases[place]
            && unborn(place)
            && !(0..place).any(unborn)
            && client.successor(old).is_none()
    }

    /// Sends a conversion for the attempt of `seat`, which lives: what it asks for, if its old claim may be converted.
    pub(super) fn conversion_for(
        &self,
        client: &mut Client,
        seat: Seat,
        old: u8,
        now: u8,
    ) -> Option<Asked> {
        let keeps_belief = client.attempts[usize::from(old)].mode.reads();
        let began = client.attempts[usize::from(old)].change(now, |claim| {
            let began = claim.begin_conversion(CONVERT, keeps_belief, moment(now));
            began.map(|()| claim.release_needed() == ReleaseNeeded::WithTombstone)
        });
        let overtakes = began?.ok()?;
        let floor = client.floor;
        let attempt = &mut client.attempts[usize::from(seat.attempt)];
        let asked = Asked {
            question: Question::Convert { old, overtakes },
            mode: attempt.mode,
            request: Question::Convert { old, overtakes }.number(false, now),
            floor,
            token: None,
        };
        let sent = |claim: &mut Claim| claim.send(Verb::Acquire, asked.request, moment(now));
        attempt.change(now, sent)?.ok()?;
        Some(asked)
    }

    /// Whoever asks to go on is not told that it is gone when it is its own client's other claim that has its place.
    pub(super) fn lost_to_itself(
        &self,
        client: &Client,
        seat: Seat,
        told: Told,
        after: &Standing,
    ) -> Option<Violation> {
        if told != Told::Answer(Answer::Gone) {
            return None;
        }
        let place = usize::from(seat.attempt);
        client.attempts[place].claim()?.deadline()?;
        let attempt = u8::try_from(client.successor(place)?).ok()?;
        let other = Seat { attempt, ..seat };
        after.left[self.server.place_of(other)]?;
        Some(Violation::LostToItself(seat, other))
    }
}
