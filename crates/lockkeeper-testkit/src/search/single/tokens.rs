//! What must hold of fencing tokens: they increase between any two grants that exclude one another, and are shared by claims
//! that hold inside one of their owner's, and by those that read at one time.

use anyhow::Result;
use lockkeeper_core::FencingToken;

use super::OneName;
use super::runs::Standing;
use super::state::{Grant, State};
use crate::kinds::{Claimant, Holder, Mode};
use crate::search::rule::{Rule, Violation};

impl OneName {
    /// The rule that a grant breaks, by a conversion or otherwise. `state` is the one before it, `after` the server after it.
    pub(super) fn judge_grant(
        &mut self,
        state: State,
        after: &Standing,
        (claimant, token): (Claimant, FencingToken),
        converts: bool,
    ) -> Result<Option<Violation>> {
        let place = self.runs.place_of(claimant);
        let reads = after.reads(place);
        // The last one to read is there only if nobody has written since.
        let largest = state.last_read.or(state.last);
        let floor = if reads { state.last } else { largest };
        let before = self.runs.standing(state.server, state.tick)?;
        let again = before.left[place].is_some();
        let equal_is_fine = again || self.holds_beside(after, claimant);
        let not_larger = |last: Grant| token < last.token || token == last.token && !equal_is_fine;
        if floor.is_some_and(not_larger) {
            let what = "not larger than that of the grant before";
            let what = format!("{claimant} is granted token {token}, which is {what}");
            return Ok(Some(Rule::TokenNotLarger.broken(what)));
        }
        let drawn = largest.is_some_and(|last| token > last.token);
        // One that comes to read by its turn is of the phase, whatever else its owner has.
        let by_turn = reads && before.queued[place].is_some();
        let joins = !converts && !by_turn && self.joins(&before, after, claimant);
        let shares = reads && self.phase_goes_on(state.last_read, &before, after, claimant);
        let what = || format!("{claimant} joins others and is granted token {token}, not theirs");
        Ok((drawn && (joins || shares)).then(|| Rule::TokenNotShared.broken(what())))
    }

    /// Whether another claim of the same owner holds.
    fn holds_beside(&self, after: &Standing, claimant: Claimant) -> bool {
        self.claimants().any(|other| {
            self.kind.joins(claimant, other) && after.left[self.runs.place_of(other)].is_some()
        })
    }

    /// Whether the last one that was granted to read does so all the time, beside this claim.
    fn phase_goes_on(
        &self,
        last: Option<Grant>,
        before: &Standing,
        after: &Standing,
        claimant: Claimant,
    ) -> bool {
        last.is_some_and(|last| {
            let place = self.runs.place_of(last.claimant);
            let reads = |it: &Standing| it.left[place].is_some() && it.reads(place);
            last.claimant != claimant && reads(before) && reads(after)
        })
    }

    /// A claim is valid with a token although a larger one has been granted to one that excludes it.
    pub(super) fn token_passed(
        &self,
        state: State,
        valid: &[(Holder, FencingToken)],
    ) -> Option<Violation> {
        for (last, mode) in [(state.last, Mode::Write), (state.last_read, Mode::Read)] {
            let Some(Grant { token, claimant }) = last else {
                continue;
            };
            let later = (Holder { claimant, mode }, token);
            let mut passed = valid
                .iter()
                .filter(|held| self.kind.is_passed(**held, later));
            if let Some((holder, smaller)) = passed.next() {
                let what = format!("{} is valid with token {smaller}", holder.claimant);
                let what = format!("{what}, and {claimant} has been granted {token}");
                return Some(Rule::TokenPassed.broken(what));
            }
        }
        None
    }
}
