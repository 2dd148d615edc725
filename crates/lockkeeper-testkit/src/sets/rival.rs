//! One rival: its claims, what it has asked, and what it does when it hears.

use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::{Claim, Ending, ReleaseNeeded, Validity, Verdict};
use lockkeeper_core::clock::Moment;
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::store::Outcome;

use super::{NAMES, moment};

/// A request of a claim is numbered by nothing but its being the only one.
pub(super) const NUMBER: u64 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rival {
    /// How many rounds it has begun: each has claims of its own.
    pub(super) begun: u8,
    pub(super) stage: Stage,
    /// Of the present round, in the order of its set.
    pub(super) claims: Vec<Claim>,
    pub(super) flight: Option<Flight>,
    /// Nobody waits for these, and they may be executed at any time, any number of times: round, what. Ordered.
    pub(super) strays: Vec<(u8, Asked)>,
    /// Claims whose leave was executed, by round and place, and the last tick at which nothing may bring them back. Ordered.
    pub(super) left: Vec<(u8, usize, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Asking,
    Held,
    Dead,
}

/// A request on its way, or its answers on the way back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    pub(super) asked: Asked,
    pub(super) answers: Option<Vec<Option<Answer>>>,
}

/// What a rival asks; a place is one in its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Asked {
    /// For all of its set.
    Acquire,
    /// The grant of one once more, by its own kind's script.
    Repeat(usize, FencingToken),
    Renew(usize),
    Leave(Leaving),
}

/// Which places of a set leave; whether an acquire of each is unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Leaving([Option<bool>; NAMES]);

impl Leaving {
    pub(super) fn places(self) -> impl Iterator<Item = (usize, bool)> {
        let marked = self.0.into_iter().enumerate();
        marked.filter_map(|(place, overtakes)| Some((place, overtakes?)))
    }
}

/// The token and the deadline of a claim that is believed in.
pub(super) fn belief(claim: &Claim, now: Moment) -> Option<(FencingToken, Moment)> {
    match claim.validity(now) {
        Validity::Valid | Validity::Uncertain => claim.token().zip(claim.deadline()),
        _ => None,
    }
}

impl Rival {
    pub(super) const fn new() -> Self {
        Self {
            begun: 0,
            stage: Stage::Idle,
            claims: Vec::new(),
            flight: None,
            strays: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Sends a request that its claims allow.
    pub(super) fn sent(mut self, asked: Asked, now: Moment) -> Option<Self> {
        if self.flight.is_some() {
            return None;
        }
        let permitted = match asked {
            Asked::Acquire => {
                let mut claims = self.claims.iter_mut();
                claims.all(|claim| claim.send(Verb::Acquire, NUMBER, now).is_ok())
            }
            Asked::Repeat(place, _) => self.claims[place].send(Verb::Acquire, NUMBER, now).is_ok(),
            Asked::Renew(place) => self.claims[place].send(Verb::Renew, NUMBER, now).is_ok(),
            Asked::Leave(_) => false,
        };
        let answers = None;
        self.flight = Some(Flight { asked, answers });
        permitted.then_some(self)
    }

    /// The answers have come.
    pub(super) fn heard(mut self, asked: Asked, answers: &[Option<Answer>], tick: u8) -> Self {
        let now = moment(tick);
        self.flight = None;
        match asked {
            Asked::Acquire => self.acquire_heard(answers, now),
            Asked::Repeat(place, _) | Asked::Renew(place) => {
                match answers[0] {
                    Some(answer) => {
                        self.claims[place].answered(NUMBER, answer, now);
                    }
                    None => self.claims[place].failed(NUMBER, Outcome::Unknown),
                }
                // Whoever hears of a loss lets go of the others at once.
                if self.is_broken(now) {
                    self.leave(now);
                }
            }
            Asked::Leave(_) => {}
        }
        self
    }

    fn acquire_heard(&mut self, answers: &[Option<Answer>], now: Moment) {
        let mut verdicts = Vec::new();
        for (claim, answer) in self.claims.iter_mut().zip(answers) {
            match answer {
                // For how long makes no difference.
                Some(Answer::Busy(_)) => {
                    verdicts.push(claim.answered(NUMBER, Answer::Busy(None), now));
                }
                Some(answer) => verdicts.push(claim.answered(NUMBER, *answer, now)),
                None => claim.failed(NUMBER, Outcome::Unknown),
            }
        }
        let kept_out = |it: &Verdict| matches!(it, Verdict::Busy(_) | Verdict::Free);
        if verdicts.iter().all(|it| matches!(it, Verdict::Granted(_))) {
            self.stage = Stage::Held;
        } else if !verdicts.iter().all(kept_out)
            // Of a request that was given up they may hold a part.
            || self.claims.iter().any(|claim| claim.release_needed() != ReleaseNeeded::None)
        {
            self.leave(now);
        }
    }

    /// Whether it holds no longer what it held.
    pub(super) fn is_broken(&self, now: Moment) -> bool {
        let lost = |claim: &Claim| matches!(claim.validity(now), Validity::Ended(Ending::Lost(_)));
        self.stage == Stage::Held && self.claims.iter().any(lost)
    }

    /// All claims end; one leave for those that need it is on its way, to arrive at any time, or never.
    pub(super) fn leave(&mut self, now: Moment) {
        self.give_up();
        let mut leaving = Leaving([None; NAMES]);
        for (place, mut claim) in std::mem::take(&mut self.claims).into_iter().enumerate() {
            claim.end(now);
            leaving.0[place] = match claim.release_needed() {
                ReleaseNeeded::WithTombstone => Some(true),
                ReleaseNeeded::Plain => Some(false),
                _ => None,
            };
        }
        if leaving.places().next().is_some() {
            self.put_stray(Asked::Leave(leaving));
        }
        self.stage = Stage::Idle;
    }

    /// The process is gone.
    pub(super) fn die(&mut self) {
        self.give_up();
        self.claims.clear();
        self.stage = Stage::Dead;
    }

    /// Nobody waits for the answer any more.
    pub(super) fn give_up(&mut self) {
        let Some(Flight { asked, answers }) = self.flight.take() else {
            return;
        };
        if answers.is_none() {
            self.put_stray(asked);
        }
        let places = match asked {
            Asked::Acquire => 0..self.claims.len(),
            Asked::Repeat(place, _) | Asked::Renew(place) => place..place + 1,
            Asked::Leave(_) => 0..0,
        };
        for claim in &mut self.claims[places] {
            claim.failed(NUMBER, Outcome::Unknown);
        }
    }

    fn put_stray(&mut self, asked: Asked) {
        if let Err(at) = self.strays.binary_search(&(self.begun, asked)) {
            self.strays.insert(at, (self.begun, asked));
        }
    }

    /// Whether an acquire of this round may yet be executed.
    pub(super) fn may_come(&self, round: u8) -> bool {
        let on_its_way =
            |flight: &Flight| flight.asked == Asked::Acquire && flight.answers.is_none();
        self.strays.contains(&(round, Asked::Acquire))
            || round == self.begun && self.flight.as_ref().is_some_and(on_its_way)
    }

    /// The leave of a claim was executed.
    pub(super) fn note_left(&mut self, round: u8, place: usize, until: u8) {
        let same = |it: &&mut (u8, usize, u8)| (it.0, it.1) == (round, place);
        match self.left.iter_mut().find(same) {
            Some(noted) => noted.2 = noted.2.max(until),
            None => {
                self.left.push((round, place, until));
                self.left.sort_unstable();
            }
        }
    }

    pub(super) fn has_left(&self, round: u8, place: usize, tick: u8) -> bool {
        let mut left = self.left.iter();
        left.any(|&(its, which, until)| (its, which) == (round, place) && tick <= until)
    }
}
