//! The rules about a queue, for every run of a script: its order, and that a granted claim is notified.

use std::time::Duration;

use anyhow::Result;
use lockkeeper_core::claim::{Claim, Validity};
use lockkeeper_core::protocol::Answer;

use super::standing::{Run, Standing, Stands};
use super::state::{Asked, Question, State, Told};
use super::{OneName, TICKS};
use crate::kinds::Claimant;
use crate::search::rule::{Rule, Violation};

impl OneName {
    /// The queue rule that this run of a script breaks. `state` is the one before it.
    pub(super) fn judge_queue(
        &mut self,
        state: State,
        claimant: Claimant,
        asked: Asked,
        run: &Run,
    ) -> Result<Option<Violation>> {
        if !self.kind.waits_in_a_queue || run.server == state.server {
            return Ok(None);
        }
        // An acquire, a heartbeat, a release and a granted conversion give a free name to the next waiter. An acquire of a
        // claim that is gone need not.
        let advances = match asked.question {
            Question::Acquire => run.told != Told::Answer(Answer::Gone),
            Question::Heartbeat | Question::Release { .. } => true,
            Question::Convert { .. } => matches!(run.told, Told::Answer(Answer::Granted(_))),
            Question::Renew => false,
        };
        if let Told::Answer(Answer::QueueFull(_)) = run.told
            && let Some(dead) = self.dead_waiter(run.server, state.tick)?
        {
            return Ok(Some(Rule::FullOfDead.broken(dead)));
        }
        let converts = matches!(asked.question, Question::Convert { .. });
        self.judge_turns(state, Some((claimant, converts)), advances, run)
    }

    /// The same for a run in which a claim asks, perhaps to convert; `advances` says whether the run must advance the queue.
    pub(super) fn judge_turns(
        &mut self,
        state: State,
        asks: Option<(Claimant, bool)>,
        advances: bool,
        run: &Run,
    ) -> Result<Option<Violation>> {
        let before = self.runs.standing(state.server, state.tick)?;
        let after = self.runs.standing(run.server, state.tick)?;
        let asking = asks.map(|(claimant, _)| claimant);
        Ok(self
            .passed_over(state, &before, &after, asks)
            .or(self.granted_unasked(state, &before, &after, asking, run)?)
            .or_else(|| {
                let advances = advances && self.kind.grants_in_turn();
                let advances = advances && !self.is_barred(state, &after);
                advances.then(|| self.not_advanced(&after, state.limit))?
            }))
    }

    /// No claim may pass one that stays in the queue, except by joining its owner's claims or by converting. A claim that the
    /// server has not heard from lately may count as dead and go back to the end of the queue.
    fn passed_over(
        &self,
        state: State,
        before: &Standing,
        after: &Standing,
        asks: Option<(Claimant, bool)>,
    ) -> Option<Violation> {
        let is_asking = |it: Claimant| asks.is_some_and(|(asking, _)| asking == it);
        let converts = |it| asks == Some((it, true));
        let stays = |it: &Claimant| !is_asking(*it) || self.was_heard_lately(state, *it);
        for other in self.claimants() {
            let (stood, stands) = (before[other], after[other]);
            // A converting claim held before.
            let granted = stood.left.is_none() && stands.left.is_some();
            let granted = granted && !converts(other);
            for passed in self.claimants().filter(|it| *it != other).filter(stays) {
                let (Some(was), Some(is)) = (before[passed].queued, after[passed].queued) else {
                    continue;
                };
                // It may join a claim that held before the run or was further in front.
                let is_ahead = |it| {
                    let Stands { left, queued, .. } = before[it];
                    left.is_some() || queued.is_some_and(|place| place < was)
                };
                let granted = granted && !self.joins_one_that(other, after, is_ahead);
                let behind = stood.queued.is_none_or(|place| place > was);
                let in_front = stands.queued.is_some_and(|place| place < is);
                if behind && (granted || in_front) {
                    let by = format!("{passed}, and {other} is in front");
                    return Some(Rule::PassedOver.broken(by));
                }
            }
        }
        None
    }

    /// The numbers that the server keeps about a queue or one of its waiters.
    fn numbers(&self, server: u32, tick: u8, field: &str) -> Result<Vec<i64>> {
        let fact = self.runs.fact(server, tick, field)?.unwrap_or_default();
        Ok(fact.split(':').map_while(|it| it.parse().ok()).collect())
    }

    /// For how much longer a waiter counts as alive, ms, by what the server knows of it; not positive: it is dead.
    fn alive_for(&self, server: u32, tick: u8, claimant: Claimant) -> Result<i64> {
        let now = TICKS.server_time(tick, 0) / 1000;
        let claim = self.runs.claim(claimant).as_str();
        let [until, waiter_ttl, ..] = self.numbers(server, tick, claim)?[..] else {
            return Ok(0);
        };
        Ok(match self.numbers(server, tick, "grace")?[..] {
            [from, at, _] if until >= from => until.max(at + waiter_ttl) - now,
            _ => until - now,
        })
    }

    /// A claim that is in the queue and dead.
    fn dead_waiter(&mut self, server: u32, tick: u8) -> Result<Option<Claimant>> {
        let standing = self.runs.standing(server, tick)?;
        for claimant in self.claimants().filter(|it| standing[*it].queued.is_some()) {
            if self.alive_for(server, tick, claimant)? <= 0 {
                return Ok(Some(claimant));
            }
        }
        Ok(None)
    }

    /// Whether another claim of the same owner, for which the condition is true, holds together with this one.
    pub(super) fn joins_one_that(
        &self,
        claimant: Claimant,
        after: &Standing,
        condition: impl Fn(Claimant) -> bool,
    ) -> bool {
        let joined = |other| self.kind.joins(claimant, other) && after[other].left.is_some();
        self.claimants()
            .any(|other| joined(other) && condition(other))
    }

    /// Whether the claim waits and the server heard from it so recently that it counts as alive. It may hold without knowing,
    /// and then counts as alive for at least a lease.
    pub(super) fn was_heard_lately(&self, state: State, claimant: Claimant) -> bool {
        let now = TICKS.moment(state.tick);
        let client = self.client(state, claimant.client);
        let claim = client[claimant.attempt].claim();
        let waiting = claim.filter(|claim| claim.validity(now) == Validity::NotYet);
        let heard = waiting.and_then(Claim::heard);
        let alive = self.bounds.waiter_ttl();
        let alive = alive.min(self.bounds.ttl(claimant.attempt));
        heard.is_some_and(|heard| heard.after(alive) >= now)
    }

    /// A claim that another's request grants is notified, and holds for no longer than it was alive as a waiter: for at most
    /// a waiter's ttl if no script has read the queue for half of that.
    fn granted_unasked(
        &self,
        state: State,
        before: &Standing,
        after: &Standing,
        asking: Option<Claimant>,
        run: &Run,
    ) -> Result<Option<Violation>> {
        let waiter_ttl = self.bounds.waiter_ttl();
        for claimant in self.claimants().filter(|it| Some(*it) != asking) {
            let (None, Some(left)) = (before[claimant].left, after[claimant].left) else {
                continue;
            };
            if !run.grants.iter().any(|(told, _)| *told == claimant) {
                return Ok(Some(Rule::NotTold.broken(claimant)));
            }
            let now = TICKS.server_time(state.tick, 0) / 1000;
            let seen = self.numbers(state.server, state.tick, "seen")?;
            let was_seen = seen.first().is_some_and(|seen| {
                u128::try_from(now - seen).is_ok_and(|gap| gap <= waiter_ttl.as_millis() / 2)
            });
            let alive = self.alive_for(state.server, state.tick, claimant)?;
            let alive = Duration::from_millis(u64::try_from(alive).unwrap_or(0));
            if left > if was_seen { alive } else { waiter_ttl } {
                return Ok(Some(Rule::GrantedTooLong.broken(claimant)));
            }
        }
        Ok(None)
    }

    /// A claim is next although no other is in its way, or although it asks for more than the limit.
    fn not_advanced(&self, after: &Standing, limit: Option<u8>) -> Option<Violation> {
        let held = self.permits_held(after);
        let is_next = |claimant: &Claimant| {
            let Stands { queued, mode, .. } = after[*claimant];
            let reads_next = queued == Some(1) && mode.reads() && !after.is_exclusive();
            let permits = mode.permits();
            let fits = |limit| permits > limit || held + permits <= limit;
            let fits_next = queued == Some(1) && limit.is_some_and(fits);
            queued.is_some() && (after.is_free() || reads_next || fits_next)
        };
        let waiter = self.claimants().find(is_next)?;
        Some(Rule::NotAdvanced.broken(waiter))
    }
}
