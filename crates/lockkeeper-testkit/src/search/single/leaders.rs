//! The rules about what leaders proclaim: the value belongs to the leading claim and no other, and proclaiming changes nothing
//! else.

use std::collections::BTreeSet;

use anyhow::Result;
use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::Claim;

use super::OneName;
use super::standing::{Run, Standing};
use super::state::State;
use crate::kinds::Claimant;
use crate::search::explore::Moves;
use crate::search::rule::{Rule, Violation};

impl OneName {
    /// Adds proclamations: a granted claim proclaims at any later moment, any number of times, also late and after its end.
    pub(super) fn proclamations(
        &mut self,
        state: State,
        claimant: Claimant,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        if !self.kind.proclaims() {
            return Ok(());
        }
        let client = self.client(state, claimant.client);
        let own = client[claimant.attempt].claim().and_then(Claim::token);
        let last = state.last.filter(|last| last.claimant == claimant);
        let terms: BTreeSet<FencingToken> =
            own.into_iter().chain(last.map(|last| last.token)).collect();
        for term in terms {
            let run = self
                .runs
                .proclaim(state.server, state.tick, claimant, term)?;
            let broken = self.judge_proclamation(state, claimant, term, &run)?;
            if run.server != state.server || broken.is_some() {
                let next = State {
                    server: run.server,
                    ..state
                };
                let step =
                    || format!("the server executes a proclamation of {claimant} in term {term}");
                moves.add(step, next, broken);
            }
        }
        Ok(())
    }

    fn judge_proclamation(
        &mut self,
        state: State,
        claimant: Claimant,
        term: FencingToken,
        run: &Run,
    ) -> Result<Option<Violation>> {
        let before = self.runs.standing(state.server, state.tick)?;
        let after = self.runs.standing(run.server, state.tick)?;
        let stands = |standing: &Standing, it| (standing[it].left, standing[it].queued);
        let others = self.claimants();
        let is_same = others
            .into_iter()
            .all(|it| stands(&before, it) == stands(&after, it));
        // A revoked leader proclaims nothing more.
        let leads = before[claimant].left.is_some()
            && !self.is_revoked(state, &before, claimant)
            && state
                .last
                .is_some_and(|last| last.claimant == claimant && last.token == term);
        let claim = self.runs.claim(claimant).as_str();
        let is_known = match leads {
            true => after
                .leader
                .as_ref()
                .is_some_and(|(_, value)| value == claim),
            false => before.leader == after.leader,
        };
        Ok((!is_same || !is_known).then(|| Rule::WrongLeader.broken(claimant)))
    }

    /// The leader is the holder, and its value is empty or what it has proclaimed.
    pub(super) fn judge_leader(&self, standing: &Standing) -> Option<Violation> {
        if !self.kind.proclaims() {
            return None;
        }
        let holds = |it: &Claimant| standing[*it].left.is_some();
        let holder = self.claimants().find(holds);
        let holder = holder.map(|it| self.runs.claim(it).as_str());
        let leader = standing.leader.as_ref();
        let is_right = match (holder, leader) {
            (None, None) => true,
            (Some(holder), Some((claim, value))) => {
                claim == holder && (value.is_empty() || value == holder)
            }
            _ => false,
        };
        (!is_right).then(|| Rule::WrongLeader.broken(holder.unwrap_or("nobody")))
    }
}
