//! One contender: its claims, its requests, and its reactions to answers.

use std::rc::Rc;

use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::{Claim, Ending, Validity, Verdict};
use lockkeeper_core::clock::Moment;
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::store::Outcome;

use super::NAMES;
use crate::search::state::{Requests, Sorted, release_needed};

/// A claim has only one request at a time here, so all have this number.
const NUMBER: u64 = 1;

/// The answer for each requested name; `None` if it cannot be read.
pub(super) type Answers = Rc<[Option<Answer>]>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    /// How many attempts it has begun; each has its own claims.
    pub(super) begun: u8,
    pub(super) stage: Stage,
    /// The claims of the present attempt, in the order of its set.
    pub(super) claims: Vec<Claim>,
    /// The attempt and the request. Requests in doubt may be executed any number of times.
    pub(super) requests: Requests<(u8, Asked), Answers>,
    /// Claims whose release was executed, by attempt and part, and the last tick at which they must stay gone.
    pub(super) released: Sorted<(u8, usize, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Asking,
    Held,
    Dead,
}

/// A request of a contender; a part is an index into its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Asked {
    /// Acquires its whole set.
    Acquire,
    /// Repeats the acquire of one part, by its own kind's script.
    Repeat(usize, FencingToken),
    Renew(usize),
    Release(Releases),
}

/// The parts that are released, and for each whether an acquire is unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Releases([Option<bool>; NAMES]);

impl Releases {
    pub(super) const fn of_one(part: usize, overtakes: bool) -> Self {
        let mut releases = [None; NAMES];
        releases[part] = Some(overtakes);
        Self(releases)
    }

    pub(super) fn parts(self) -> impl Iterator<Item = (usize, bool)> {
        let parts = self.0.into_iter().enumerate();
        parts.filter_map(|(part, overtakes)| Some((part, overtakes?)))
    }
}

impl Contender {
    pub(super) const fn new() -> Self {
        Self {
            begun: 0,
            stage: Stage::Idle,
            claims: Vec::new(),
            requests: Requests::new(),
            released: Sorted::new(),
        }
    }

    /// The number of the present attempt.
    pub(super) const fn attempt(&self) -> u8 {
        self.begun.saturating_sub(1)
    }

    /// Sends a request that its claims allow.
    pub(super) fn sent(mut self, asked: Asked, now: Moment) -> Option<Self> {
        if self.requests.under_way.is_some() {
            return None;
        }
        let parts = 0..self.claims.len();
        let mut send = |part: usize, verb| self.claims[part].send(verb, NUMBER, now).is_ok();
        let permitted = match asked {
            Asked::Acquire => parts.into_iter().all(|part| send(part, Verb::Acquire)),
            Asked::Repeat(part, _) => send(part, Verb::Acquire),
            Asked::Renew(part) => send(part, Verb::Renew),
            Asked::Release(_) => false,
        };
        self.requests.send((self.attempt(), asked));
        permitted.then_some(self)
    }

    /// Handles the answers.
    pub(super) fn heard(mut self, asked: Asked, answers: &[Option<Answer>], now: Moment) -> Self {
        self.requests.under_way = None;
        match asked {
            Asked::Acquire => self.acquire_heard(answers, now),
            Asked::Repeat(part, _) | Asked::Renew(part) => {
                match answers[0] {
                    Some(answer) => {
                        self.claims[part].answered(NUMBER, answer, now);
                    }
                    None => self.claims[part].failed(NUMBER, Outcome::Unknown),
                }
                // After one part is lost, release the others at once.
                let lost =
                    |it: &Claim| matches!(it.validity(now), Validity::Ended(Ending::Lost(_)));
                if self.stage == Stage::Held && self.claims.iter().any(lost) {
                    self.release(now);
                }
            }
            Asked::Release(_) => {}
        }
        self
    }

    fn acquire_heard(&mut self, answers: &[Option<Answer>], now: Moment) {
        let mut verdicts = Vec::new();
        for (claim, answer) in self.claims.iter_mut().zip(answers) {
            match answer {
                // The remaining time makes no difference.
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
            // A request that was given up may have granted a part.
            || self.claims.iter().any(|claim| release_needed(claim).is_some())
        {
            self.release(now);
        }
    }

    /// Ends all claims. One release for those that need it is sent; it may be executed at any time, or never.
    pub(super) fn release(&mut self, now: Moment) {
        self.give_up();
        let mut releases = Releases([None; NAMES]);
        for (part, mut claim) in std::mem::take(&mut self.claims).into_iter().enumerate() {
            claim.end(now);
            releases.0[part] = release_needed(&claim);
        }
        if releases.parts().next().is_some() {
            let asked = (self.attempt(), Asked::Release(releases));
            self.requests.in_doubt.insert(asked);
        }
        self.stage = Stage::Idle;
    }

    /// The contender's process dies.
    pub(super) fn die(&mut self) {
        self.give_up();
        self.claims.clear();
        self.stage = Stage::Dead;
    }

    /// Stops waiting for the answer.
    pub(super) fn give_up(&mut self) {
        let parts = match self.requests.give_up() {
            Some((_, Asked::Acquire)) => 0..self.claims.len(),
            Some((_, Asked::Repeat(part, _) | Asked::Renew(part))) => part..part + 1,
            Some((_, Asked::Release(_))) | None => 0..0,
        };
        for claim in &mut self.claims[parts] {
            claim.failed(NUMBER, Outcome::Unknown);
        }
    }

    /// Records that the release of a claim was executed.
    pub(super) fn note_released(&mut self, attempt: u8, part: usize, until: u8) {
        let of_claim = |it: &&(u8, usize, u8)| (it.0, it.1) == (attempt, part);
        let noted = self
            .released
            .iter()
            .find(of_claim)
            .map_or(0, |noted| noted.2);
        self.released.retain(|it| !of_claim(&it));
        self.released.insert((attempt, part, until.max(noted)));
    }

    pub(super) fn is_released(&self, attempt: u8, part: usize, tick: u8) -> bool {
        let mut released = self.released.iter();
        released.any(|&(its, which, until)| (its, which) == (attempt, part) && tick <= until)
    }
}
