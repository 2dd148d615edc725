//! The rules about fencing tokens: they increase between any two grants that exclude one another. Claims inside one of their
//! owner's share its token, and so do readers at the same time.

use anyhow::Result;
use lockkeeper_core::FencingToken;

use super::OneName;
use super::standing::{Standing, Stands};
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
        let before = self.runs.standing(state.server, state.tick)?;
        if self.kind.has_permits() {
            let not_larger = |last: Grant| {
                token < last.token || token == last.token && last.claimant != claimant
            };
            let is_new = before[claimant].left.is_none();
            let by = || format!("{claimant} with {token}");
            let broken = is_new && state.last.is_some_and(not_larger);
            return Ok(broken.then(|| Rule::TokenNotLarger.broken(by())));
        }
        let reads = after[claimant].mode.reads();
        // The last reader's grant is set only if there was no write since.
        let largest = state.last_read.or(state.last);
        let floor = if reads { state.last } else { largest };
        let may_be_equal =
            before[claimant].left.is_some() || self.joins_one_that(claimant, after, |_| true);
        let not_larger = |last: Grant| token < last.token || token == last.token && !may_be_equal;
        if floor.is_some_and(not_larger) {
            let by = format!("{claimant} with {token}");
            return Ok(Some(Rule::TokenNotLarger.broken(by)));
        }
        let drawn = largest.is_some_and(|last| token > last.token);
        // A claim that gets its turn to read belongs to the present group of readers, whatever else its owner holds.
        let by_turn = reads && before[claimant].queued.is_some();
        let held_before = |other| before[other].left.is_some();
        let joins = !converts && !by_turn && self.joins_one_that(claimant, after, held_before);
        // The last granted reader reads before and after.
        let shares = |last: Grant| {
            let reads = |it: Stands| it.left.is_some() && it.mode.reads();
            let goes_on = reads(before[last.claimant]) && reads(after[last.claimant]);
            last.claimant != claimant && goes_on
        };
        let shares = reads && state.last_read.is_some_and(shares);
        let by = || format!("{claimant} with {token}");
        Ok((drawn && (joins || shares)).then(|| Rule::TokenNotShared.broken(by())))
    }

    /// A claim is valid although a larger token has been granted to one that excludes it.
    pub(super) fn token_passed(
        &self,
        state: State,
        valid: &[(Holder, FencingToken)],
    ) -> Option<Violation> {
        if self.kind.has_permits() {
            // Claims granted later may hold beside it; the limit says how many.
            return None;
        }
        for (last, mode) in [(state.last, Mode::Write), (state.last_read, Mode::Read)] {
            let Some(Grant { token, claimant }) = last else {
                continue;
            };
            let later = (Holder { claimant, mode }, token);
            let mut passed = valid
                .iter()
                .filter(|held| self.kind.is_passed(**held, later));
            if let Some((holder, smaller)) = passed.next() {
                let by = format!(
                    "{} with {smaller}, {claimant} with {token}",
                    holder.claimant
                );
                return Some(Rule::TokenPassed.broken(by));
            }
        }
        None
    }
}
