//! The rules about names that are barred to newcomers: while a revoked claim holds, its lease is not extended, and no other claim
//! gets its place or joins it; after a release into a cooldown nobody is granted until the cooldown is over; what another library
//! holds nobody takes from it.
//!
//! Permits of a semaphore have nothing in common: when some are revoked, others may take what is left.

use std::time::Duration;

use anyhow::Result;
use lockkeeper_core::protocol::Answer;

use super::change::{Change, Event};
use super::standing::{Run, Standing};
use super::state::{Asked, Question, State, Told};
use super::{Incident, OneName, TICKS};
use crate::kinds::{Claimant, Mode};
use crate::search::rule::{Rule, Violation};

impl OneName {
    /// The state after the claims that hold have been revoked by this run.
    pub(super) fn was_revoked(&mut self, mut state: State, run: &Run) -> Result<State> {
        let standing = self.runs.standing(state.server, state.tick)?;
        for claimant in self.claimants() {
            let end = standing[claimant]
                .left
                .map(|left| TICKS.moment(state.tick).after(left));
            let before = self.client(state, claimant.client)[claimant.attempt].revoked;
            let revoked = Event::Revoked(before.or(end));
            let revoked = Change::Of(claimant.attempt, revoked);
            state = self.change(state, claimant.client, revoked);
        }
        state.server = run.server;
        Ok(self.publish(state, run))
    }

    /// Whether a claim was revoked and still holds.
    pub(super) fn is_revoked(&self, state: State, standing: &Standing, claimant: Claimant) -> bool {
        self.revoked(state, standing).any(|it| it == claimant)
    }

    /// The claims that were revoked and still hold.
    fn revoked<'a>(
        &'a self,
        state: State,
        standing: &'a Standing,
    ) -> impl Iterator<Item = Claimant> + 'a {
        self.claimants().filter(move |it| {
            let attempt = &self.client(state, it.client)[it.attempt];
            attempt.revoked.is_some() && standing[*it].left.is_some()
        })
    }

    /// Whether no waiter may be granted: the name cools down, or revoked claims hold that it would join.
    pub(super) fn is_barred(&self, state: State, standing: &Standing) -> bool {
        let is_revoked = || self.revoked(state, standing).next().is_some();
        state.cools_until.is_some() || !self.kind.has_permits() && is_revoked()
    }

    /// Notes the cooldown that a release begins, of a claim that held all of the name. `state` is the one before it.
    pub(super) fn note_cooldown(
        &mut self,
        state: &mut State,
        claimant: Claimant,
        asked: Asked,
        after: &Standing,
    ) -> Result<()> {
        if asked.cooldown == 0 {
            return Ok(());
        }
        let before = self.runs.standing(state.server, state.tick)?;
        let released = before[claimant].left.is_some() && after[claimant].left.is_none();
        if released && asked.mode == Mode::Write {
            let cooldown = Duration::from_millis(asked.cooldown.into());
            let end = TICKS.moment(state.tick).after(cooldown);
            state.cools_until = state.cools_until.max(Some(end));
        }
        Ok(())
    }

    /// The rule that a run breaks that extends a revoked claim, lets another join it, or grants a name in its cooldown. `state` is
    /// the one before it, but for a cooldown that the run begins.
    pub(super) fn judge_barred(
        &mut self,
        state: State,
        claimant: Claimant,
        asked: Asked,
        run: &Run,
    ) -> Result<Option<Violation>> {
        if self.bounds.incident == Some(Incident::TakenByOthers)
            && self.runs.is_taken_by_others(state.server, state.tick)?
            && !self.runs.is_taken_by_others(run.server, state.tick)?
        {
            return Ok(Some(Rule::TakenFromOthers.broken(claimant)));
        }
        if self.bounds.incident != Some(Incident::Revoked) && self.bounds.min_hold == 0 {
            return Ok(None);
        }
        let before = self.runs.standing(state.server, state.tick)?;
        let after = self.runs.standing(run.server, state.tick)?;
        let is_new = |it: &Claimant| before[*it].left.is_none() && after[*it].left.is_some();
        let newcomer = self.claimants().find(is_new);
        // An owner that still holds may come in again.
        let held = |it| before[it].left.is_some();
        let comes_in = newcomer.filter(|it| !self.joins_one_that(*it, &after, held));
        let skips = matches!(asked.question, Question::Convert { .. }) && asked.cooldown > 0;
        let comes_in = comes_in.filter(|_| state.cools_until.is_some());
        if let Some(newcomer) = comes_in.or(newcomer.filter(|_| skips)) {
            return Ok(Some(Rule::GrantedInCooldown.broken(newcomer)));
        }
        let newcomer = newcomer.filter(|_| !self.kind.has_permits());
        let goes_on = matches!(run.told, Told::Answer(Answer::Granted(_) | Answer::Renewed));
        for revoked in self.revoked(state, &before) {
            if goes_on && revoked == claimant {
                return Ok(Some(Rule::RevokedGoesOn.broken(claimant)));
            }
            let is_replaced = match asked.question {
                Question::Convert { old, .. } => {
                    let attempt = old;
                    revoked
                        == Claimant {
                            attempt,
                            ..claimant
                        }
                }
                _ => false,
            };
            if let Some(newcomer) = newcomer
                && (is_replaced || after[revoked].left.is_some())
            {
                let by = format!("{revoked}, and {newcomer} is granted");
                return Ok(Some(Rule::RevokedGoesOn.broken(by)));
            }
        }
        Ok(None)
    }

    /// Forgets that claims were revoked that hold no longer. `asking` is the client that asks: its place, and its number now.
    pub(super) fn forget_revoked(
        &mut self,
        state: &mut State,
        asking: (u8, &mut u32),
        standing: &Standing,
    ) {
        if self.bounds.incident != Some(Incident::Revoked) {
            return;
        }
        let (place, client) = asking;
        for claimant in self.claimants().filter(|it| standing[*it].left.is_none()) {
            let forget = Change::Of(claimant.attempt, Event::Revoked(None));
            if claimant.client == place {
                *client = self.changed(*client, forget);
            }
            *state = self.change(*state, claimant.client, forget);
        }
    }
}
