//! What must hold of a queue at every run of a script: its order, and that who is granted is told.

use anyhow::Result;
use lockkeeper_core::claim::{Claim, Validity};
use lockkeeper_core::protocol::Answer;

use super::bounds::moment;
use super::explore::Search;
use super::model::Seat;
use super::property::Violation;
use super::server::{Run, Standing};
use super::state::{Asked, Question, Told, World};

impl Search {
    /// The property of a queue that this run of a script breaks. `world` is the one before it.
    pub(super) fn judge_turns(
        &mut self,
        world: World,
        seat: Seat,
        asked: Asked,
        run: &Run,
    ) -> Result<Option<Violation>> {
        if self.model.protocol.queue().is_none() || run.server == world.server {
            return Ok(None);
        }
        let before = self.server.standing(world.server, world.tick)?;
        let after = self.server.standing(run.server, world.tick)?;
        Ok(self
            .passed_over(world, &before, &after, seat, asked)
            .or_else(|| self.granted_unasked(&before, &after, seat, run))
            .or_else(|| self.no_turn(&after, asked, run)))
    }

    /// Nobody gets past a claim that stays in the queue, but by joining its owner's, or converting. One that was not heard lately may have
    /// died, and stand up again at the end.
    fn passed_over(
        &self,
        world: World,
        before: &Standing,
        after: &Standing,
        asking: Seat,
        asked: Asked,
    ) -> Option<Violation> {
        let conversions = matches!(asked.question, Question::Convert { .. });
        let stays = |seat: &Seat| *seat != asking || self.was_heard_lately(world, *seat);
        for other in self.seats() {
            let place = self.server.place_of(other);
            let granted = before.left[place].is_none() && after.left[place].is_some();
            // One that conversions has held already.
            let granted = granted && !(conversions && other == asking);
            for seat in self.seats().filter(|seat| *seat != other).filter(stays) {
                let its = self.server.place_of(seat);
                let (Some(was), Some(is)) = (before.queued[its], after.queued[its]) else {
                    continue;
                };
                let granted = granted && !self.joins_past(before, after, other, was);
                let behind = before.queued[place].is_none_or(|place| place > was);
                let in_front = after.queued[place].is_some_and(|place| place < is);
                if behind && (granted || in_front) {
                    return Some(Violation::PassedOver(seat, other));
                }
            }
        }
        None
    }

    /// Whether a claim holds with this one that did before the run, or stood in front of this place.
    fn joins_past(&self, before: &Standing, after: &Standing, seat: Seat, passed: u64) -> bool {
        self.seats().any(|other| {
            let place = self.server.place_of(other);
            let in_front = before.queued[place].is_some_and(|place| place < passed);
            self.model.joins(seat, other)
                && (before.left[place].is_some() || in_front)
                && after.left[place].is_some()
        })
    }

    /// Whether a claim that holds with this one held before the run and does so still.
    pub(super) fn joins(&self, before: &Standing, after: &Standing, seat: Seat) -> bool {
        self.seats().any(|other| {
            let place = self.server.place_of(other);
            self.model.joins(seat, other)
                && before.left[place].is_some()
                && after.left[place].is_some()
        })
    }

    /// Whether the claim waits and the server has heard of it so lately that it is alive. It may hold without knowing, and then
    /// is so for a lease at least.
    pub(super) fn was_heard_lately(&self, world: World, seat: Seat) -> bool {
        let now = moment(world.tick);
        let client = self.clients.value(world.clients[usize::from(seat.client)]);
        let claim = client.attempts[usize::from(seat.attempt)].claim();
        let waiting = claim.filter(|claim| claim.validity(now) == Validity::NotYet);
        let heard = waiting.and_then(Claim::heard);
        let alive = self.bounds.waiter_ttl().min(self.bounds.ttl(seat.attempt));
        heard.is_some_and(|heard| heard.after(alive) >= now)
    }

    /// Who is granted by another's request is told of it, and holds for a waiter's ttl at most.
    fn granted_unasked(
        &self,
        before: &Standing,
        after: &Standing,
        asking: Seat,
        run: &Run,
    ) -> Option<Violation> {
        let longest = self.bounds.waiter_ttl().as_millis();
        for seat in self.seats().filter(|seat| *seat != asking) {
            let place = self.server.place_of(seat);
            let (None, Some(left)) = (before.left[place], after.left[place]) else {
                continue;
            };
            if !run.grants.iter().any(|(told, _)| *told == seat) {
                return Some(Violation::NotTold(seat));
            }
            if u128::from(left) > longest {
                return Some(Violation::GrantedTooLong(seat));
            }
        }
        None
    }

    /// Whoever asks, heartbeats or leaves sees to it that a free name is given to who waits; an acquire of a claim that is gone
    /// need not.
    fn no_turn(&self, after: &Standing, asked: Asked, run: &Run) -> Option<Violation> {
        let settles = match asked.question {
            Question::Acquire => run.told != Told::Answer(Answer::Gone),
            Question::Heartbeat | Question::Leave { .. } => true,
            Question::Convert { .. } => matches!(run.told, Told::Answer(Answer::Granted(_))),
            Question::Renew | Question::Verify => false,
        };
        let place = |seat: Seat| self.server.place_of(seat);
        let waits = |seat: &Seat| after.queued[place(*seat)].is_some();
        let is_next = |seat: &Seat| {
            let next = after.queued[place(*seat)] == Some(1);
            after.is_free() || next && after.reads(place(*seat)) && !after.is_exclusive()
        };
        let mut waiters = self.seats().filter(waits).filter(is_next);
        waiters.next().filter(|_| settles).map(Violation::NoTurn)
    }
}
