//! The rules for every state and every run of a script.

use anyhow::Result;
use lockkeeper_core::protocol::Answer;

use super::contender::{Contender, Releases};
use super::runs::{Run, Standing};
use super::{NAMES, SeveralNames, State, TICKS};
use crate::kinds::{Claimant, Holder, KindModel, Mode};
use crate::search::explore::Judgement;
use crate::search::rule::{Rule, Violation};

fn of_name(rule: Rule, name: usize) -> Violation {
    rule.broken(format!("name {name}"))
}

const fn holder(client: u8, attempt: u8) -> Holder {
    Holder {
        claimant: Claimant { client, attempt },
        mode: Mode::Write,
    }
}

impl SeveralNames {
    /// Whether a whole set is valid, and the rule that this state breaks, if any. An overlap comes first because it is the
    /// worst.
    pub(super) fn judge_claims(&mut self, state: State) -> Result<Judgement> {
        let now = TICKS.moment(state.tick);
        let standing = self.runs.standing(state.server, state.tick)?;
        let mut holders = [const { Vec::new() }; NAMES];
        let (mut held, mut overlap, mut broken) = (false, None, None);
        for (client, set) in (0..).zip(self.bounds.sets) {
            let contender = self.contender(state, client);
            let newcomer = holder(client, contender.attempt());
            let mut valid = 0;
            for (claim, &name) in contender.claims.iter().zip(set) {
                let (true, Some((token, deadline))) = (
                    claim.validity(now).holds(),
                    claim.token().zip(claim.deadline()),
                ) else {
                    continue;
                };
                valid += 1;
                let kind = self.bounds.kinds[name];
                if !kind.fits(holders[name].iter().copied(), newcomer) {
                    overlap = overlap.or(Some(of_name(Rule::Overlap, name)));
                }
                holders[name].push(newcomer);
                let left = standing.left(newcomer.claimant, name);
                if left.is_none_or(|left| now.after(left) < deadline) {
                    broken = broken.or(Some(of_name(Rule::ValidTooLong, name)));
                }
                // All claims of its own contender but these have ended.
                let later = |(last, whose)| (holder(whose, contender.attempt()), last);
                let passed = |last| kind.is_passed((newcomer, token), later(last));
                if state.last[name].is_some_and(passed) {
                    broken = broken.or(Some(of_name(Rule::TokenPassed, name)));
                }
            }
            held |= set.len() > 1 && valid == set.len();
        }
        let broken = overlap.or(broken);
        Ok(Judgement { held, broken })
    }
}

/// One run of a script to check.
pub(super) struct Scene<'a> {
    pub(super) before: &'a Standing,
    pub(super) after: &'a Standing,
    pub(super) run: &'a Run,
    pub(super) claimant: Claimant,
    pub(super) set: &'static [usize],
    pub(super) kinds: [KindModel; NAMES],
    pub(super) tick: u8,
}

impl Scene<'_> {
    fn held(&self, standing: &Standing, name: usize) -> bool {
        standing.left(self.claimant, name).is_some()
    }

    /// Checks an acquire: all names are granted or none, every answer is true, tokens increase, and no released claim comes
    /// back.
    pub(super) fn acquired(&self, contender: &Contender, state: &mut State) -> Option<Violation> {
        let Claimant { client, attempt } = self.claimant;
        let granted = |answer: &Option<Answer>| matches!(answer, Some(Answer::Granted(_)));
        let all = self.run.answers.iter().all(granted);
        for (part, (&name, answer)) in self.set.iter().zip(&*self.run.answers).enumerate() {
            let (was, is) = (self.held(self.before, name), self.held(self.after, name));
            if is != (all || was) || granted(answer) != all {
                return Some(of_name(Rule::PartialGrant, name));
            }
            let standing = self.before.holders(name);
            let fits = self.kinds[name].fits(standing, holder(client, attempt));
            let is_true = match answer {
                Some(Answer::Granted(_) | Answer::Free) => fits,
                Some(Answer::Busy(_)) => !fits,
                _ => true,
            };
            if !is_true {
                return Some(of_name(Rule::WrongAnswer, name));
            }
            if is && !was && contender.is_released(attempt, part, self.tick) {
                return Some(of_name(Rule::Revived, name));
            }
            if let Some(Answer::Granted(token)) = *answer {
                let last = state.last[name];
                let again = last == Some((token, client));
                if was && !again {
                    return Some(of_name(Rule::TokenChanged, name));
                }
                // An earlier claim of the same owner may still hold a re-entrant name.
                let joins = again && !self.before.is_free(name);
                if last.is_some_and(|(last, _)| token <= last) && !joins {
                    return Some(of_name(Rule::TokenNotLarger, name));
                }
                state.last[name] = Some((token, client));
            }
        }
        None
    }

    pub(super) fn renewed(&self, part: usize) -> Option<Violation> {
        let name = self.set[part];
        let creates = self.held(self.after, name) && !self.held(self.before, name);
        creates.then(|| of_name(Rule::Revived, name))
    }

    /// Checks a release: every claim is gone, every answer says truly whether it was there, and the waiters of each freed name
    /// are notified.
    pub(super) fn released(&self, releases: Releases) -> Option<Violation> {
        for ((part, _), answer) in releases.parts().zip(&*self.run.answers) {
            let name = self.set[part];
            let (was, is) = (self.held(self.before, name), self.held(self.after, name));
            if *answer == Some(Answer::Inflated) && was == is {
                continue;
            }
            if is {
                return Some(of_name(Rule::NotReleased, name));
            }
            let was_there = match answer {
                Some(Answer::Released { .. } | Answer::Cooldown { .. }) => Some(true),
                Some(Answer::NotHeld { .. }) => Some(false),
                _ => None,
            };
            // The same release withdraws a claim that waits in a queue.
            let withdrawn = self.kinds[name].waits_in_a_queue && was_there == Some(true);
            if was_there != Some(was) && !withdrawn {
                return Some(of_name(Rule::WrongAnswer, name));
            }
            let freed = !self.before.is_free(name) && self.after.is_free(name);
            // Waiters in a queue do not poll.
            let polled = !self.kinds[name].waits_in_a_queue;
            if freed && polled && !self.run.woken[name] {
                return Some(of_name(Rule::NotWoken, name));
            }
        }
        None
    }
}
