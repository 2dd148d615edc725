//! The effects of an incident on the server's keys and on clients.

use anyhow::Result;
use lockkeeper_core::store::Value;

use super::change::Change;
use super::runs::Runs;
use super::standing::{Run, Stands};
use super::state::{Grant, State};
use super::{Incident, OneName, TICKS};
use crate::kinds::Claimant;
use crate::search::explore::Moves;
use crate::search::rule::{Rule, Violation};

/// The value that another library's client writes.
const ANOTHERS: &str = "3fd5b2a1";

impl OneName {
    /// Adds what can happen to the name; `state` counts it already.
    pub(super) fn incident(
        &mut self,
        incident: Incident,
        state: State,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let (server, tick) = (state.server, state.tick);
        let what = || incident.what().to_owned();
        match incident {
            Incident::CounterLost | Incident::CounterBehind => {
                // Every draw takes time, so the clock is ahead of the last token.
                let now = u64::try_from(TICKS.server_time(tick, 0))?;
                let is_drawn = |last: Grant| last.token.get() >= now;
                if !self.bounds.clock_behind
                    && [state.last, state.last_read]
                        .into_iter()
                        .flatten()
                        .any(is_drawn)
                {
                    return Ok(());
                }
                let server = match incident {
                    Incident::CounterBehind => self.runs.with_counter_behind(server, tick)?,
                    _ => self.runs.without_counter(server, tick)?,
                };
                moves.add(what, State { server, ..state }, None);
            }
            Incident::MainKeyLost => {
                let stands = |its: &Stands| its.left.is_some() || its.queued.is_some();
                let crashed = self.with_crashed(state, stands)?;
                let server = self.runs.without_main_key(server, tick)?;
                moves.add(what, State { server, ..crashed }, None);
            }
            Incident::HoldersLost => {
                let without = self.runs.without_holders(server, tick)?;
                // A name that is not inflated has no such key.
                if without != server {
                    let crashed = self.with_crashed(state, |its| its.left.is_some())?;
                    let server = without;
                    moves.add(what, State { server, ..crashed }, None);
                }
            }
            Incident::InflationLost => {
                if let Some(server) = self.runs.without_inflation(server, tick)? {
                    let crashed = self.with_crashed(state, |its| its.queued.is_some())?;
                    moves.add(what, State { server, ..crashed }, None);
                }
            }
            Incident::TakenByOthers => {
                let taken = self.runs.taken_by_others(server, tick)?;
                // A queue keeps its name, and so do the remains of a re-entry for some time.
                let shares = !self.kind.waits_in_a_queue && !self.kind.reenters;
                let is_free = shares
                    && state.cools_until.is_none()
                    && self.runs.standing(server, tick)?.is_free();
                let is_theirs = self.runs.is_taken_by_others(server, tick)?;
                match taken {
                    Some(server) => moves.add(what, State { server, ..state }, None),
                    None if is_free && !is_theirs => {
                        let broken = Rule::KeptFromOthers.broken("the name");
                        moves.add(what, state, Some(broken));
                    }
                    None => {}
                }
            }
            Incident::LimitSet => {
                for limit in [1, 2, 3] {
                    let run = self.runs.set_limit(server, tick, limit)?;
                    if run.server != server {
                        let (next, broken) = self.limit_was_set(state, limit, &run)?;
                        moves.add(|| format!("{} to {limit}", what()), next, broken);
                    }
                }
            }
            Incident::Revoked => {
                let run = self.runs.administer(server, tick, None)?;
                if run.server != server {
                    let next = self.was_revoked(state, &run)?;
                    moves.add(what, next, None);
                }
            }
            Incident::Forced | Incident::HoldersBack => {
                let standing = self.runs.standing(server, tick)?;
                let holds = |it: &Claimant| standing[*it].left.is_some();
                let Some(holder) = self.claimants().find(holds) else {
                    return Ok(());
                };
                let run = self.runs.administer(server, tick, Some(holder))?;
                let after = self.runs.standing(run.server, tick)?;
                let stays = self
                    .claimants()
                    .filter(holds)
                    .find(|it| after[*it].left.is_some());
                let broken = stays.map(|claimant| Rule::NotReleased.broken(claimant));
                let crashed = self.with_crashed(state, |its| its.left.is_some())?;
                let server = match incident {
                    Incident::HoldersBack => self.runs.with_old_holders(run.server, tick)?,
                    _ => Some(run.server),
                };
                if let Some(server) = server {
                    let next = State { server, ..crashed };
                    moves.add(what, self.publish(next, &run), broken);
                }
            }
        }
        Ok(())
    }

    /// The state after the clients have crashed with a claim on the server for which this is true.
    fn with_crashed(
        &mut self,
        mut state: State,
        crashes: impl Fn(&Stands) -> bool,
    ) -> Result<State> {
        let standing = self.runs.standing(state.server, state.tick)?;
        for claimant in self.claimants().filter(|it| crashes(&standing[*it])) {
            state = self.change(state, claimant.client, Change::Crash);
        }
        Ok(state)
    }

    /// Sets the limit of a semaphore.
    fn limit_was_set(
        &mut self,
        mut state: State,
        limit: u8,
        run: &Run,
    ) -> Result<(State, Option<Violation>)> {
        let after = self.runs.standing(run.server, state.tick)?;
        let mut broken = self.judge_permits(&mut state, &after, Some(limit), None)?.1;
        broken = broken.or(self.judge_messages(&mut state, &after, run)?);
        broken = broken.or(self.judge_turns(state, None, true, run)?);
        state.server = run.server;
        Ok((self.publish(state, run), broken))
    }
}

impl Runs {
    /// The state after a failover put the counter back to a token from long ago.
    fn with_counter_behind(&mut self, server: u32, tick: u8) -> Result<u32> {
        self.server.restore(server, tick);
        self.server.put_counter_back(self.name())?;
        Ok(self.server.number())
    }

    /// The state without the counter.
    fn without_counter(&mut self, server: u32, tick: u8) -> Result<u32> {
        let key = self.name().counter();
        self.without(&key, server, tick)
    }

    /// The state without the main key.
    fn without_main_key(&mut self, server: u32, tick: u8) -> Result<u32> {
        let key = self.name().main().to_owned();
        self.without(&key, server, tick)
    }

    /// The state without the holders of an inflated name.
    fn without_holders(&mut self, server: u32, tick: u8) -> Result<u32> {
        let key = self.name().part("holders");
        self.without(&key, server, tick)
    }

    /// The state with the only holder of an inflated name as a thin value, if it takes all of the name.
    fn without_inflation(&mut self, server: u32, tick: u8) -> Result<Option<u32>> {
        self.server.restore(server, tick);
        let name = self.name();
        let main = name.main();
        let derived = ["holders", "queue", "state"].map(|part| name.part(part));
        let marker = self.server.execute(&["TYPE", main])?;
        if marker.as_str() != Some("list") {
            return Ok(None);
        }
        let marker = self.server.execute(&["LINDEX", main, "0"])?;
        let marker: Vec<&str> = marker.as_str().unwrap_or_default().split(' ').collect();
        let [kind, "*", "1", "1", "0", token, "-" | "-e", _] = marker[..] else {
            return Ok(None);
        };
        let holders = self
            .server
            .execute(&["ZRANGE", &derived[0], "0", "-1", "WITHSCORES"])?;
        let Value::List(holders) = holders else {
            return Ok(None);
        };
        let [Some(member), Some(ends)] = [0, 1].map(|at| holders.get(at).and_then(Value::as_str))
        else {
            return Ok(None);
        };
        let left = ends.parse::<i64>()? - TICKS.server_time(tick, 0) / 1_000;
        let Some(claim) = member.strip_prefix("x:").filter(|_| left > 0) else {
            return Ok(None);
        };
        let value = format!("{kind} x {claim} {token}");
        self.server.execute(&["LSET", main, "0", &value])?;
        self.server.execute(&["PEXPIRE", main, &left.to_string()])?;
        for key in &derived {
            self.server.execute(&["DEL", key])?;
        }
        Ok(Some(self.server.number()))
    }

    /// The state of an inflated name with a holder from an earlier time, whom its marker does not count and whose lease lasts for
    /// another tick.
    fn with_old_holders(&mut self, server: u32, tick: u8) -> Result<Option<u32>> {
        self.server.restore(server, tick);
        let name = self.name();
        if self.server.execute(&["EXISTS", name.main()])? == Value::Integer(0) {
            return Ok(None);
        }
        let ends = TICKS.server_time(tick + 1, 0) / 1_000;
        let (ends, holders) = (ends.to_string(), name.part("holders"));
        self.server
            .execute(&["ZADD", &holders, &ends, "x:of-an-earlier-time"])?;
        self.server.execute(&["PEXPIRE", &holders, "600000"])?;
        Ok(Some(self.server.number()))
    }

    /// The state after another library's client has taken the name, if it can.
    fn taken_by_others(&mut self, server: u32, tick: u8) -> Result<Option<u32>> {
        self.server.restore(server, tick);
        let ttl = TICKS.lease(1).as_millis().to_string();
        let main = self.name().main();
        let taken = self
            .server
            .execute(&["SET", main, ANOTHERS, "NX", "PX", &ttl])?;
        Ok((taken != Value::Nil).then(|| self.server.number()))
    }

    /// Whether another library's client holds the name.
    pub(super) fn is_taken_by_others(&self, server: u32, tick: u8) -> Result<bool> {
        self.server.restore(server, tick);
        let value = self.server.execute(&["MGET", self.name().main()])?;
        Ok(matches!(value, Value::List(found) if found[0].as_str() == Some(ANOTHERS)))
    }

    fn without(&mut self, key: &str, server: u32, tick: u8) -> Result<u32> {
        self.server.restore(server, tick);
        self.server.execute(&["DEL", key])?;
        Ok(self.server.number())
    }
}
