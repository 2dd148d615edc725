//! What must hold of fencing tokens: they increase between any two grants that exclude one another, and are shared by claims
//! that hold inside one of their owner's, and by those who read at one time.

use anyhow::Result;
use lockkeeper_core::FencingToken;

use super::explore::Search;
use super::model::{Mode, Seat};
use super::property::Violation;
use super::server::Standing;
use super::state::{Grant, World};

impl Search {
    /// The property that a grant breaks, by a conversion or otherwise. `world` is the one before it, `after` the server after it.
    pub(super) fn judge_grant(
        &mut self,
        world: World,
        after: &Standing,
        (seat, token): (Seat, FencingToken),
        conversions: bool,
    ) -> Result<Option<Violation>> {
        let place = self.server.place_of(seat);
        let reads = after.reads(place);
        // The last one to read is there only if nobody has written since.
        let floor = if reads {
            world.last
        } else {
            world.last_read.or(world.last)
        };
        let before = self.server.standing(world.server, world.tick)?;
        let beside = self.own_beside(after, seat);
        let again = before.left[place].is_some();
        let not_larger = floor.is_some_and(|last| {
            token < last.token || token == last.token && !again && beside.is_none()
        });
        if not_larger {
            return Ok(Some(Violation::TokenNotLarger(seat, token)));
        }
        let largest = world.last_read.or(world.last);
        let drawn = largest.is_some_and(|last| token > last.token);
        // One that comes to read by its turn is of the phase, whatever else its owner has.
        let by_turn = reads && before.queued[place].is_some();
        let joins = !conversions && !by_turn && self.joins(&before, after, seat);
        let shares = reads && self.phase_goes_on(world.last_read, &before, after, seat);
        Ok((drawn && (joins || shares)).then_some(Violation::TokenNotShared(seat, token)))
    }

    /// Another claim of the same owner that holds.
    fn own_beside(&self, after: &Standing, seat: Seat) -> Option<Seat> {
        self.seats().find(|other| {
            self.model.joins(seat, *other) && after.left[self.server.place_of(*other)].is_some()
        })
    }

    /// Whether the last one that was granted to read does so all the time, beside this claim.
    fn phase_goes_on(
        &self,
        last: Option<Grant>,
        before: &Standing,
        after: &Standing,
        seat: Seat,
    ) -> bool {
        last.is_some_and(|last| {
            let place = self.server.place_of(last.seat);
            let reads = |it: &Standing| it.left[place].is_some() && it.reads(place);
            last.seat != seat && reads(before) && reads(after)
        })
    }

    /// Who is believed in with a token although a larger one has been granted to somebody whom it excludes.
    pub(super) fn token_passed(
        &self,
        world: World,
        believed: &[(Seat, Mode, FencingToken)],
    ) -> Option<Violation> {
        // The mode of the last but to read: any that does not read.
        for (last, mode) in [(world.last, Mode::Write), (world.last_read, Mode::Read)] {
            let Some(last) = last else { continue };
            let passed = |(seat, its, token): &&(Seat, Mode, FencingToken)| {
                last.token > *token && self.model.exclude((*seat, *its), (last.seat, mode))
            };
            if let Some((seat, _, token)) = believed.iter().find(passed) {
                return Some(Violation::TokenPassed(*seat, *token, last.seat));
            }
        }
        None
    }
}
