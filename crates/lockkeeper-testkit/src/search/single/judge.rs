//! The rules about claims, for every state and every run of a script.

use anyhow::Result;
use lockkeeper_core::claim::Validity;
use lockkeeper_core::protocol::{Answer, Verb};

use super::standing::{Run, Standing};
use super::state::{Asked, Client, Question, State, Told};
use super::{OneName, TICKS};
use crate::kinds::{Claimant, Holder};
use crate::search::explore::Judgement;
use crate::search::rule::{Rule, Violation};

impl OneName {
    /// The rule that this state breaks, if any, apart from progress. An overlap comes first because it is the worst.
    pub(super) fn judge_claims(&mut self, state: State) -> Result<Judgement> {
        let now = TICKS.moment(state.tick);
        let standing = self.runs.standing(state.server, state.tick)?;
        let (mut broken, mut valid) = (None, Vec::new());
        for claimant in self.claimants() {
            let client = self.client(state, claimant.client);
            let attempt = &client[claimant.attempt];
            let its = standing[claimant];
            let is_there = its.left.is_some() || its.queued.is_some();
            let mut breaks = |rule: Rule| {
                broken.get_or_insert_with(|| rule.broken(claimant));
            };
            if attempt.released.is_some() && is_there {
                breaks(Rule::NotReleased);
            }
            if let (Some(until), Some(left)) = (attempt.revoked, its.left)
                && now.after(left) > until
            {
                breaks(Rule::RevokedGoesOn);
            }
            let Some(claim) = attempt.claim() else {
                continue;
            };
            if claim.validity(now).holds()
                && let (Some(token), Some(deadline)) = (claim.token(), claim.deadline())
            {
                let mode = attempt.mode;
                valid.push((Holder { claimant, mode }, token));
                // During a conversion the other claim may already have its place.
                let taker = client.successor(claimant.attempt);
                let taker = taker.map(|attempt| Claimant {
                    attempt,
                    ..claimant
                });
                let left = its.left.max(taker.and_then(|taker| standing[taker].left));
                if left.is_none_or(|left| now.after(left) < deadline) {
                    breaks(Rule::ValidTooLong);
                }
            }
            if !is_there && !attempt.over_limit && self.was_heard_lately(state, claimant) {
                breaks(Rule::PlaceLost);
            }
        }
        let holders = || valid.iter().map(|(holder, _)| *holder);
        let mut numbered = (0..).zip(holders());
        let fits = |(place, holder)| {
            self.kind
                .fits_in(state.granted_in, holders().take(place), holder)
        };
        let overlap = !numbered.all(fits);
        let names = || {
            holders()
                .map(|it| it.claimant.to_string())
                .collect::<Vec<_>>()
        };
        let overlap = overlap.then(|| Rule::Overlap.broken(names().join(", ")));
        let passed = || self.token_passed(state, &valid);
        Ok(Judgement {
            held: !valid.is_empty(),
            broken: overlap
                .or_else(passed)
                .or(broken)
                .or_else(|| self.judge_leader(&standing)),
        })
    }

    /// The rule that an answer breaks by creating a hold: only an acquire that may create does so. `state` is the one before
    /// it.
    pub(super) fn judge_revival(
        &mut self,
        state: State,
        claimant: Claimant,
        asked: Asked,
        told: Told,
    ) -> Result<Option<Violation>> {
        let heartbeats = asked.question == Question::Heartbeat;
        let converts = match asked.question {
            Question::Convert { old, .. } => Some(old),
            _ => None,
        };
        let prolongs = match told {
            Told::Answer(Answer::Renewed) => true,
            Told::Answer(Answer::Granted(_)) => {
                heartbeats || converts.is_some() || asked.token.is_some()
            }
            Told::Answer(Answer::Waiting { .. } | Answer::More) => heartbeats,
            _ => false,
        };
        if !prolongs {
            return Ok(None);
        }
        let standing = self.runs.standing(state.server, state.tick)?;
        let holds = |attempt| {
            standing[Claimant {
                attempt,
                ..claimant
            }]
            .left
            .is_some()
        };
        let there = heartbeats && standing[claimant].queued.is_some()
            || holds(claimant.attempt)
            || converts.is_some_and(holds);
        Ok((!there).then(|| Rule::Revived.broken(claimant)))
    }

    /// A renewal is told that its claim is gone although the server has it. `state` is the one before it.
    pub(super) fn judge_end(
        &mut self,
        state: State,
        claimant: Claimant,
        asked: Asked,
        told: Told,
    ) -> Result<Option<Violation>> {
        let ends = asked.question == Question::Renew && told == Told::Answer(Answer::Gone);
        if !ends {
            return Ok(None);
        }
        let standing = self.runs.standing(state.server, state.tick)?;
        let stands = standing[claimant].left.is_some();
        Ok(stands.then(|| Rule::WrongAnswer.broken(claimant)))
    }

    /// The rules about results: only a claim that holds stores one, with the token of the last grant; the work is not granted
    /// again while there is one; and every answer about them is true. `state` is the one before the run.
    pub(super) fn judge_record(
        &mut self,
        state: State,
        claimant: Claimant,
        asked: Asked,
        run: &Run,
    ) -> Result<Option<Violation>> {
        if !self.kind.stores() {
            return Ok(None);
        }
        let before = self.runs.standing(state.server, state.tick)?;
        let after = self.runs.standing(run.server, state.tick)?;
        let claim = self.runs.claim(claimant).as_str();
        let is_its = |standing: &Standing| {
            let record = standing.record.as_ref();
            record.is_some_and(|(whose, _)| whose == claim)
        };
        if let Some((_, token)) = after
            .record
            .as_ref()
            .filter(|_| after.record != before.record)
        {
            let is_last = state.last.is_some_and(|last| last.token == *token);
            if !is_last || !is_its(&after) || before[claimant].left.is_none() {
                return Ok(Some(Rule::StoredLate.broken(claimant)));
            }
        }
        let stores = asked.question.verb() == Verb::Release && asked.token.is_some();
        let rule = match run.told {
            Told::Answer(Answer::Granted(_))
                if before.record.is_some() && asked.token.is_none() =>
            {
                Some(Rule::DoneAgain)
            }
            Told::Answer(Answer::Stored) => before.record.is_none().then_some(Rule::WrongAnswer),
            Told::Answer(Answer::Released { .. }) if stores => {
                (!is_its(&after)).then_some(Rule::WrongAnswer)
            }
            Told::Answer(Answer::Gone) if stores => is_its(&after).then_some(Rule::WrongAnswer),
            _ => None,
        };
        Ok(rule.map(|rule| rule.broken(claimant)))
    }

    /// A waiter sleeps on although this release has made the name free. `state` is the one before it.
    pub(super) fn judge_wake(&mut self, state: State, run: &Run) -> Result<Option<Violation>> {
        let sleeps = |it: &Claimant| self.client(state, it.client)[it.attempt].sleeps;
        let Some(sleeper) = self.claimants().find(sleeps) else {
            return Ok(None);
        };
        let freed = !run.woke
            && !self.runs.standing(state.server, state.tick)?.is_free()
            && self.runs.standing(run.server, state.tick)?.is_free();
        Ok(freed.then(|| Rule::NotWoken.broken(sleeper)))
    }

    /// A claim that asks to continue must not be told that it is gone when another claim of its own client has its place.
    pub(super) fn lost_to_itself(
        &self,
        client: &Client,
        claimant: Claimant,
        told: Told,
        after: &Standing,
    ) -> Option<Violation> {
        if told != Told::Answer(Answer::Gone) {
            return None;
        }
        client[claimant.attempt].claim()?.deadline()?;
        let attempt = client.successor(claimant.attempt)?;
        after[Claimant {
            attempt,
            ..claimant
        }]
        .left?;
        Some(Rule::LostToItself.broken(claimant))
    }

    /// The claims that ask and must be served eventually, in order.
    pub(super) fn waiters(&self, state: State) -> impl Iterator<Item = Claimant> {
        let now = TICKS.moment(state.tick);
        self.claimants().filter(move |claimant| {
            let client = self.client(state, claimant.client);
            let claim = client[claimant.attempt].claim();
            claim.is_some_and(|claim| claim.validity(now) == Validity::NotYet)
        })
    }
}
