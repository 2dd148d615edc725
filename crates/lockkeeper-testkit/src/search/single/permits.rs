//! The rule about permits: at every grant, the permits held on the server do not exceed the limit in force. That limit is
//! derived from the requests, not from the server's data.

use anyhow::Result;

use super::OneName;
use super::change::{Change, Event};
use super::standing::Standing;
use super::state::State;
use crate::kinds::{Claimant, Mode};
use crate::search::rule::{Rule, Violation};

impl OneName {
    /// How many permits are held on the server.
    pub(super) fn permits_held(&self, standing: &Standing) -> u8 {
        let held = |it| Some(standing[it]).filter(|it| it.left.is_some());
        let held = self.claimants().filter_map(held);
        held.map(|it| it.mode.permits()).sum()
    }

    /// The limit in force after a run that sets it or in which a claim states one, and the rule that the run breaks. `state`
    /// is the one before it, and has the new limit afterwards.
    pub(super) fn judge_permits(
        &mut self,
        state: &mut State,
        after: &Standing,
        set: Option<u8>,
        asks: Option<(Claimant, Mode)>,
    ) -> Result<(Option<u8>, Option<Violation>)> {
        let before = self.runs.standing(state.server, state.tick)?;
        // If no claim holds or waits, the limit is the one that the next claim states.
        let stood = state.limit.filter(|_| before.has_limit);
        let said = asks.and_then(|(_, mode)| mode.limit());
        let limit = set.or(stood).or(said);
        let earlier = *state;
        for claimant in self.claimants() {
            if self.is_over_limit(earlier, limit, after, claimant)? {
                *state = self.change(
                    *state,
                    claimant.client,
                    Change::Of(claimant.attempt, Event::OverLimit(true)),
                );
            }
        }
        state.limit = limit.filter(|_| after.has_limit);
        let is_new = |it: &Claimant| before[*it].left.is_none() && after[*it].left.is_some();
        let Some(granted) = self.claimants().find(is_new) else {
            return Ok((limit, None));
        };
        state.granted_in = limit;
        let held = self.permits_held(after);
        let by = || format!("{granted}: {held} permits of {}", limit.unwrap_or(0));
        let too_many = limit.is_none_or(|limit| held > limit);
        Ok((limit, too_many.then(|| Rule::Overlap.broken(by()))))
    }

    /// Whether a run takes a claim's place because it asks for more than this limit. `state` is the one before.
    pub(super) fn is_over_limit(
        &mut self,
        state: State,
        limit: Option<u8>,
        after: &Standing,
        claimant: Claimant,
    ) -> Result<bool> {
        let before = self.runs.standing(state.server, state.tick)?;
        let (was, is) = (before[claimant], after[claimant]);
        let lost = was.queued.is_some() && is.queued.is_none() && is.left.is_none();
        Ok(lost && limit.is_some_and(|limit| was.mode.permits() > limit))
    }
}
