//! The next steps: every step from a state.

use anyhow::Result;
use lockkeeper_core::claim::Claim;
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::quorum::{Round, Step};

use super::contender::{Asked, Contender, NUMBER, Stage};
use super::{CONTENDERS, Keys, Majority, SERVERS, State, TICKS};
use crate::kinds::{Claimant, letter};
use crate::search::explore::Moves;
use crate::search::rule::{Rule, Violation};
use crate::search::state::{self, MARGIN, UnderWay};

/// How far ahead of the first server's clock a token may be, ms: the other clocks are by less than a second, and a server follows a
/// proposal for less than one.
const FURTHEST: i64 = 2_000;

type Here = state::Here<State, Contender>;

impl Majority {
    /// Adds everything that a contender can do or that can happen to it.
    pub(super) fn moves_of(
        &mut self,
        state: State,
        client: u8,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let contender = self.contender(state, client);
        let here = Here {
            state,
            client,
            contender,
            now: TICKS.moment(state.tick),
        };
        let (name, begun) = (letter(client), here.contender.begun);
        match here.contender.stage {
            Stage::Idle if begun < self.bounds.rounds[usize::from(client)] => {
                let to = (state, client, self.begun(&here));
                self.add(moves, || format!("{name} begins round {}", begun + 1), to)?;
            }
            Stage::Held => {
                let mut idle = here.copy();
                idle.release(here.now, |_| true);
                idle.stage = Stage::Idle;
                self.add(moves, || format!("{name} lets go"), (state, client, idle))?;
                if self.bounds.renews {
                    self.renew(&here, moves)?;
                }
            }
            _ => {}
        }
        for server in 0..SERVERS {
            self.under_way(&here, server, moves)?;
            for &late in here.contender.requests[server].in_doubt.iter() {
                let (round, asked) = late;
                let (next, _) = self.execute(&here, server, late)?;
                let mut contender = here.copy();
                contender.requests[server].in_doubt.retain(|it| *it != late);
                let step = || format!("{asked:?} of {name}{} on {server} comes late", round + 1);
                self.add(moves, step, (next, client, contender))?;
            }
        }
        Ok(())
    }

    /// Adds a step to a state with this contender.
    fn add(
        &mut self,
        moves: &mut Moves<State>,
        step: impl FnOnce() -> String,
        (state, client, contender): (State, u8, Contender),
    ) -> Result<()> {
        let (next, broken) = self.with(state, client, contender)?;
        moves.add(step, next, broken);
        Ok(())
    }

    /// Advances time for all.
    pub(super) fn tick(&mut self, mut state: State) -> Result<(State, Option<Violation>)> {
        state.tick += 1;
        let mut violation = None;
        for client in 0..CONTENDERS as u8 {
            let contender = Contender::clone(&self.contender(state, client));
            let (next, broken) = self.with(state, client, contender)?;
            state = next;
            violation = violation.or(broken);
        }
        Ok((state, violation))
    }

    /// Begins a round: the contender asks all servers at once.
    fn begun(&self, here: &Here) -> Contender {
        let (client, now) = (here.client, here.now);
        let mut contender = here.copy();
        contender.begun += 1;
        let attempt = contender.round();
        let id = self.runs.claim(Claimant { client, attempt });
        let mut claim = Claim::new(id, self.runs.ttl(), MARGIN);
        // A new claim may send.
        let _ = claim.send(Verb::Acquire, NUMBER, now);
        contender.claims = vec![claim; SERVERS];
        for server in 0..SERVERS {
            contender.send(server, Asked::Acquire);
        }
        contender.stage = Stage::Asking(Round::new(self.quorum, self.runs.ttl(), MARGIN, now));
        contender
    }

    /// Renews one of the contender's claims.
    fn renew(&mut self, here: &Here, moves: &mut Moves<State>) -> Result<()> {
        let full = here.now.after(self.runs.ttl() - MARGIN);
        for server in 0..SERVERS {
            let mut renewed = here.copy();
            let deadline = renewed.claims[server].deadline();
            let due = deadline.is_some_and(|deadline| deadline < full);
            if due
                && renewed.requests[server].under_way.is_none()
                && renewed.claims[server]
                    .send(Verb::Renew, NUMBER, here.now)
                    .is_ok()
            {
                renewed.send(server, Asked::Renew);
                let step = || format!("{} renews on {server}", letter(here.client));
                self.add(moves, step, (here.state, here.client, renewed))?;
            }
        }
        Ok(())
    }

    /// Adds the fates of a request: executed and answered, answered late, or given up.
    fn under_way(&mut self, here: &Here, server: usize, moves: &mut Moves<State>) -> Result<()> {
        let (state, client) = (here.state, here.client);
        let Some(UnderWay { asked, reply }) = here.contender.requests[server].under_way else {
            return Ok(());
        };
        let (_, what) = asked;
        let step = |how: &str| format!("{}'s {what:?} on {server} is {how}", letter(client));
        let faulty = |state: State| State {
            faults: state.faults + 1,
            ..state
        };
        let may_fail = state.faults < self.bounds.faults;
        let mut hears = here.copy();
        if let Some(answer) = reply {
            hears.hear(server, what, answer, here.now);
            self.add(moves, || step("answered at last"), (state, client, hears))?;
        } else {
            let (next, answer) = self.execute(here, server, asked)?;
            hears.hear(server, what, answer, here.now);
            let answered = || step(&format!("answered by {answer:?}"));
            self.add(moves, answered, (next, client, hears))?;
            if may_fail {
                let mut late = here.copy();
                let reply = Some(answer);
                late.requests[server].under_way = Some(UnderWay { asked, reply });
                let executed = || step("executed, the answer late");
                self.add(moves, executed, (faulty(next), client, late))?;
            }
        }
        if may_fail {
            let mut lost = here.copy();
            lost.lose(server);
            self.add(moves, || step("given up"), (faulty(state), client, lost))?;
        }
        Ok(())
    }

    /// Adds the ends: a server loses its data, or a contender dies.
    pub(super) fn endings(&mut self, mut state: State, moves: &mut Moves<State>) -> Result<()> {
        state.endings += 1;
        for server in 0..SERVERS {
            let mut next = state;
            let (number, lost) = (0, Some(state.tick));
            next.servers[server] = Keys { number, lost };
            moves.add(|| format!("server {server} loses its data"), next, None);
        }
        for client in 0..CONTENDERS as u8 {
            let mut contender = Contender::clone(&self.contender(state, client));
            if let Stage::Dead | Stage::Idle = contender.stage {
                continue;
            }
            for requests in &mut contender.requests {
                requests.give_up();
            }
            contender.forget_round(Stage::Dead);
            let step = || format!("{} dies", letter(client));
            self.add(moves, step, (state, client, contender))?;
        }
        Ok(())
    }

    fn execute(
        &mut self,
        here: &Here,
        server: usize,
        (attempt, asked): (u8, Asked),
    ) -> Result<(State, Answer)> {
        let (mut state, client) = (here.state, here.client);
        let keys = &mut state.servers[server];
        let claimant = Claimant { client, attempt };
        let (number, answer) = self.runs.run(server, *keys, state.tick, claimant, asked)?;
        keys.number = number;
        Ok((state, answer))
    }

    /// The state after the contender has done what its round decides and has forgotten what makes no difference.
    fn with(
        &mut self,
        mut state: State,
        client: u8,
        mut contender: Contender,
    ) -> Result<(State, Option<Violation>)> {
        let mut broken = None;
        let now = TICKS.moment(state.tick);
        while let Stage::Asking(round) = &mut contender.stage {
            let step = round.step(now);
            match step {
                Step::WriteBack(token, behind) => {
                    contender.give_all_up();
                    for server in behind {
                        contender.send(server, Asked::WriteBack(token));
                    }
                }
                Step::Granted(token) => {
                    let round = round.clone();
                    contender.give_all_up();
                    contender.release(now, |server| !round.holds_on(server));
                    contender.stage = Stage::Held;
                    let answered = std::mem::take(&mut contender.tokens);
                    let answered = answered.iter().filter(|it| **it == Some(token)).count();
                    if !self.quorum.is_reached(answered) {
                        broken = Some(Rule::NoMajority.broken(format!("token {token}")));
                    }
                    let most = TICKS.server_time(state.tick, FURTHEST);
                    if i64::try_from(token.get())? > most {
                        broken = Some(Rule::FollowedTooFar.broken(format!("token {token}")));
                    }
                    if token <= state.last {
                        let what = format!("token {token} after {}", state.last);
                        broken = Some(Rule::TokenNotLarger.broken(what));
                    }
                    state.last = token;
                }
                Step::Failed(_) => {
                    contender.give_all_up();
                    contender.release(now, |_| true);
                    contender.stage = Stage::Idle;
                }
                _ => break,
            }
        }
        if contender.stage == Stage::Idle {
            contender.forget_round(Stage::Idle);
        }
        for (server, requests) in contender.requests.iter_mut().enumerate() {
            let keys = state.servers[server];
            // Executing a request for a claim that is gone and cannot come back changes nothing.
            let mut useless = Vec::new();
            for &(attempt, asked) in requests.in_doubt.iter() {
                let comes = asked == Asked::Acquire || requests.may_come((attempt, Asked::Acquire));
                let claimant = Claimant { client, attempt };
                if !comes && !self.runs.holds(server, keys, claimant)? {
                    useless.push((attempt, asked));
                }
            }
            requests.in_doubt.retain(|it| !useless.contains(it));
        }
        for claim in &mut contender.claims {
            claim.fold(now);
        }
        state.contenders[usize::from(client)] = self.contenders.number(contender);
        Ok((state, broken))
    }
}
