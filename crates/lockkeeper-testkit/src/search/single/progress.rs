//! Progress: once nothing goes wrong any more, every waiter is served, from every state.
//!
//! From each state only one run is followed: first everything in flight or in doubt is executed and answered; then holders
//! release, waiters ask again and again, and time passes. A claim that still waits after every possible lease has ended is
//! never served.

use anyhow::Result;
use lockkeeper_core::claim::Validity;

use super::change::{Change, Event};
use super::send::Sending;
use super::state::State;
use super::{OneName, TICKS};
use crate::kinds::Claimant;
use crate::search::explore::Model as _;
use crate::search::rule::{Rule, Violation};
use crate::search::state::UnderWay;

/// How many requests an attempt may need within a tick to be served and release.
const REQUESTS: usize = 8;

impl OneName {
    /// Finds a waiter that is never served from here.
    pub(super) fn judge_progress(&mut self, state: State) -> Result<Option<Violation>> {
        let queues = self.kind.waits_in_a_queue;
        if !queues && self.waiters(state).next().is_none() {
            return Ok(None);
        }
        let mut state = self.calm(state)?;
        let key = self.canonical(state);
        if self.healthy.contains(&key) {
            return Ok(None);
        }
        for _ in 0..=self.patience() {
            for claimant in self.claimants() {
                state = self.proceed(state, claimant)?;
            }
            if self.waiters(state).next().is_none() {
                if queues
                    && !self
                        .runs
                        .is_tidy(state.server, state.tick, self.patience())?
                {
                    return Ok(Some(Rule::Remains.broken("a late comer")));
                }
                self.healthy.insert(key);
                return Ok(None);
            }
            state = self.tick(state);
        }
        let waiter = self.waiters(state).next();
        Ok(waiter.map(|waiter| Rule::NotServed.broken(waiter)))
    }

    /// The number of ticks after which every unrenewed lease has ended, and every grant to a dead waiter.
    fn patience(&self) -> u8 {
        let leases = 2 * self.bounds.longest() + self.bounds.min_hold + 1;
        if self.kind.waits_in_a_queue {
            // Each of them may have a grace and then be granted.
            leases + 3 * self.bounds.waiter * self.bounds.clients * self.bounds.attempts()
        } else {
            leases
        }
    }

    /// Executes everything in doubt and forgets what does not matter to progress. All messages are lost.
    fn calm(&mut self, mut state: State) -> Result<State> {
        for claimant in self.claimants() {
            let in_doubt = self.client(state, claimant.client)[claimant.attempt]
                .requests
                .in_doubt
                .clone();
            for &asked in in_doubt.iter() {
                let client = state.clients[usize::from(claimant.client)];
                state = self.execute(state, client, claimant, asked, true)?.1;
            }
        }
        for claimant in self.claimants() {
            let calm = Change::Of(claimant.attempt, Event::Calm);
            state = self.change(state, claimant.client, calm);
        }
        (state.faults, state.endings) = (0, 0);
        (state.last, state.last_read) = (None, None);
        (state.limit, state.granted_in, state.cools_until) = (None, None, None);
        Ok(state)
    }

    /// Does for one attempt what a client does that releases as soon as it holds.
    fn proceed(&mut self, mut state: State, claimant: Claimant) -> Result<State> {
        let (number, now) = (claimant.attempt, TICKS.moment(state.tick));
        let place = usize::from(claimant.client);
        let mut has_asked = false;
        for _ in 0..REQUESTS {
            let client = self.client(state, claimant.client);
            let attempt = &client[number];
            match attempt.requests.under_way {
                Some(UnderWay { asked, reply: None }) => {
                    let client = state.clients[place];
                    state = self.execute(state, client, claimant, asked, false)?.1;
                    continue;
                }
                Some(UnderWay { reply: Some(_), .. }) => {
                    let heard = Change::Of(number, Event::Heard(state.tick));
                    state = self.change(state, claimant.client, heard);
                    continue;
                }
                None => {}
            }
            let Some(validity) = attempt.claim().map(|claim| claim.validity(now)) else {
                return Ok(state);
            };
            let mut sent = None;
            if validity == Validity::NotYet {
                if has_asked && (attempt.sleeps || self.kind.waits_in_a_queue) {
                    return Ok(state);
                }
                let asks = [Sending::Again, Sending::Heartbeat];
                sent = asks
                    .into_iter()
                    .find_map(|it| self.send(state.clients[place], number, it, state.tick));
            }
            if sent.is_none() {
                // It releases, or wants to convert and cannot any more.
                let end = Change::Of(number, Event::End(state.tick));
                state = self.change(state, claimant.client, end);
                sent = self.send(state.clients[place], number, Sending::Release, state.tick);
            }
            let Some((_, sent)) = sent else {
                return Ok(state);
            };
            state.clients[place] = sent;
            has_asked = true;
        }
        Ok(state)
    }
}
