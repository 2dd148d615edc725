//! The requests that a client may send for an attempt, as the engine's own claim decides.

use std::time::Duration;

use lockkeeper_core::claim::{Claim, Validity};
use lockkeeper_core::protocol::Verb;

use super::client::CONVERT;
use super::state::{Asked, Attempt, Client, Question, Stage};
use super::{OneName, TICKS};
use crate::kinds::{Claimant, Mode};
use crate::search::state::{MARGIN, release_needed};

/// Why a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sending {
    First(Mode),
    /// It asks to replace another attempt.
    Takes(u8),
    Again,
    Heartbeat,
    Renewal,
    Release,
    /// The first release, which ends validity.
    LetsGo,
}

impl OneName {
    /// The client with such a request in flight, if it may be sent.
    pub(super) fn sent(
        &self,
        client: &Client,
        number: u8,
        sending: Sending,
        now: u8,
    ) -> Option<(Asked, Client)> {
        let mut changed = client.clone();
        match sending {
            Sending::First(mode) if self.may_begin(client, number, now) => {
                self.bear(&mut changed[number], number, mode);
            }
            Sending::Takes(old) if self.may_take(client, number, old) => {
                let mode = match self.kind.hands_over {
                    true => client[old].mode,
                    false => client[old].mode.other(),
                };
                self.bear(&mut changed[number], number, mode);
                changed[number].takes = Some(old);
            }
            Sending::First(_) | Sending::Takes(_) => return None,
            _ => {}
        }
        let asked = match changed[number].takes {
            Some(old) if matches!(sending, Sending::Takes(_) | Sending::Again) => {
                conversion(&mut changed, number, old, now, sending)?
            }
            takes => {
                // A release gives up a conversion.
                let converting = takes.is_some() || client.successor(number).is_some();
                if converting && sending == Sending::Release {
                    changed.end(number, now);
                }
                let floor = changed.floor;
                self.asks(&mut changed[number], floor, sending, now)?
            }
        };
        let attempt = &mut changed[number];
        // After a release the client waits for no earlier request; its answer would change nothing.
        attempt.requests.give_up();
        attempt.requests.send(asked);
        attempt.sleeps = false;
        Some((asked, changed))
    }

    /// Whether a client may begin this attempt. It begins them in order, and begins one before the last has ended only if both
    /// can hold together.
    fn may_begin(&self, client: &Client, number: u8, now: u8) -> bool {
        let ended = |attempt: &Attempt| match &attempt.stage {
            Stage::Unborn => false,
            Stage::Living(claim) => {
                let validity = claim.validity(TICKS.moment(now));
                self.kind.reenters || matches!(validity, Validity::Ended(_))
            }
            Stage::Over => true,
        };
        number < self.bounds.attempts() - self.bounds.takers
            && matches!(client[number].stage, Stage::Unborn)
            && client.attempts[..number.into()].iter().all(ended)
    }

    /// Whether an attempt may begin by replacing the one at `old`. Both claims of a conversion have the same terms.
    fn may_take(&self, client: &Client, number: u8, old: u8) -> bool {
        let unborn = |number: u8| matches!(client[number].stage, Stage::Unborn);
        self.kind.converts()
            && self.bounds.ttl(old) == self.bounds.ttl(number)
            && unborn(number)
            && !(0..number).any(unborn)
            && client.successor(old).is_none()
    }

    /// Begins the attempt with a new claim. Attempts already distinguish claims, so all have the same id.
    fn bear(&self, attempt: &mut Attempt, number: u8, mode: Mode) {
        let (client, first) = (0, 0);
        let id = self.runs.claim(Claimant {
            client,
            attempt: first,
        });
        let mut claim = Claim::new(id.clone(), self.bounds.ttl(number), MARGIN);
        if self.kind.waits_in_a_queue {
            let waiter_ttl = self.bounds.waiter_ttl();
            claim = claim.with_queue(waiter_ttl - MARGIN, waiter_ttl / 3);
        }
        if self.bounds.min_hold > 0 {
            claim = claim.with_min_hold(Some(TICKS.lease(self.bounds.min_hold)));
        }
        attempt.stage = Stage::Living(claim);
        attempt.mode = mode;
    }

    /// The request of a living attempt, if it may send one.
    fn asks(&self, attempt: &mut Attempt, floor: u64, sending: Sending, now: u8) -> Option<Asked> {
        let mode = attempt.mode;
        let Stage::Living(claim) = &mut attempt.stage else {
            return None;
        };
        let question = match (sending, claim.validity(TICKS.moment(now))) {
            (Sending::First(_) | Sending::Again, Validity::NotYet) => Question::Acquire,
            (Sending::Heartbeat, Validity::NotYet) if claim.renewal() == Verb::Heartbeat => {
                Question::Heartbeat
            }
            (Sending::Renewal, validity) if validity.holds() => match claim.renewal() {
                Verb::Acquire => Question::Acquire,
                _ => Question::Renew,
            },
            (Sending::Release, Validity::Ended(_)) => Question::Release {
                overtakes: release_needed(claim)?,
            },
            _ => return None,
        };
        let token = match question {
            // A result is stored with the token of the work.
            Question::Release { .. } => attempt.works_with,
            _ => claim.token(),
        };
        let noted = self.kind.waits_in_a_queue && token.is_none();
        let asked = Asked {
            question,
            mode,
            request: question.number(noted, now),
            floor,
            token,
            inflated: claim.may_be_inflated(),
            drawn: claim.drawn(),
            cooldown: match question {
                Question::Release { .. } => cooldown(claim, now),
                _ => 0,
            },
        };
        let sent = claim.send(question.verb(), asked.request, TICKS.moment(now));
        sent.ok().map(|()| asked)
    }
}

/// For how many ms from now a release keeps the name from others.
fn cooldown(claim: &Claim, now: u8) -> u16 {
    let until = claim.cooldown_until();
    let left = until.map_or(Duration::ZERO, |until| until.since(TICKS.moment(now)));
    u16::try_from(left.as_millis()).unwrap_or(u16::MAX)
}

/// Sends a conversion for a living attempt, if its old claim may be converted.
fn conversion(client: &mut Client, new: u8, old: u8, now: u8, sending: Sending) -> Option<Asked> {
    let moment = TICKS.moment(now);
    // Only a claim that has let go can pass over the rest of its minimum time: one that holds goes on in its successor.
    let has_let_go = |claim: &&Claim| {
        matches!(sending, Sending::Takes(_)) && matches!(claim.validity(moment), Validity::Ended(_))
    };
    let old_claim = client[old].claim().filter(has_let_go);
    let skipped = old_claim.map_or(0, |claim| cooldown(claim, now));
    let keeps_valid = client[old].mode.reads();
    let began = client[old].change(now, |claim| {
        let began = claim.begin_conversion(CONVERT, keeps_valid, moment);
        began.map(|()| release_needed(claim) == Some(true))
    });
    let overtakes = began?.ok()?;
    let floor = client.floor;
    let attempt = &mut client[new];
    let question = Question::Convert { old, overtakes };
    let asked = Asked {
        question,
        mode: attempt.mode,
        request: question.number(false, now),
        floor,
        token: None,
        inflated: true,
        drawn: None,
        cooldown: skipped,
    };
    let sent = attempt.change(now, |claim| {
        claim.send(Verb::Acquire, asked.request, moment)
    });
    sent?.ok().map(|()| asked)
}
