//! What can happen next: every step from a state.

use anyhow::Result;
use lockkeeper_core::claim::Claim;
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::quorum::{Round, Step};

use super::contender::{Asked, Contender, NUMBER, Stage};
use super::{CONTENDERS, Keys, Majority, SERVERS, State, TICKS};
use crate::kinds::{Claimant, letter};
use crate::search::explore::Moves;
use crate::search::rule::{Rule, Violation};
use crate::search::state::{MARGIN, UnderWay};

impl Majority {
    /// What a contender can do, and what can happen to it.
    pub(super) fn moves_of(
        &mut self,
        state: State,
        client: u8,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let contender = self.contender(state, client);
        let name = letter(client);
        match contender.stage {
            Stage::Idle if contender.begun < self.bounds.rounds[usize::from(client)] => {
                let mut asking = Contender::clone(&contender);
                self.begin(&mut asking, state, client);
                let (next, broken) = self.with(state, client, asking)?;
                moves.add(
                    || format!("{name} begins round {}", contender.begun + 1),
                    next,
                    broken,
                );
            }
            Stage::Held => {
                let mut idle = Contender::clone(&contender);
                idle.release(TICKS.moment(state.tick), |_| true);
                idle.stage = Stage::Idle;
                let (next, broken) = self.with(state, client, idle)?;
                moves.add(|| format!("{name} lets go"), next, broken);
                self.renew(state, client, &contender, moves)?;
            }
            _ => {}
        }
        for server in 0..SERVERS {
            self.under_way(state, client, &contender, server, moves)?;
            for &late in contender.requests[server].in_doubt.iter() {
                let (round, asked) = late;
                let (next, _) = self.execute(state, server, client, round, asked)?;
                let mut contender = Contender::clone(&contender);
                contender.requests[server].in_doubt.retain(|it| *it != late);
                let (next, broken) = self.with(next, client, contender)?;
                let step = || {
                    format!(
                        "{name}{}'s {asked:?} on {server} is executed late",
                        round + 1
                    )
                };
                moves.add(step, next, broken);
            }
        }
        Ok(())
    }

    /// Time moves on for everybody.
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

    /// A contender asks all servers at once.
    fn begin(&self, contender: &mut Contender, state: State, client: u8) {
        let now = TICKS.moment(state.tick);
        contender.begun += 1;
        let attempt = contender.round();
        let id = self.runs.claim(Claimant { client, attempt });
        let mut claim = Claim::new(id, self.runs.ttl(), MARGIN);
        // It has asked for nothing yet, so it may.
        let _ = claim.send(Verb::Acquire, NUMBER, now);
        contender.claims = vec![claim; SERVERS];
        for server in 0..SERVERS {
            contender.send(server, Asked::Acquire);
        }
        contender.stage = Stage::Asking(Round::new(self.quorum, self.runs.ttl(), MARGIN, now));
    }

    /// A contender renews one of the claims that it holds.
    fn renew(
        &mut self,
        state: State,
        client: u8,
        contender: &Contender,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let now = TICKS.moment(state.tick);
        let full = now.after(self.runs.ttl() - MARGIN);
        let renews = self.bounds.renews;
        for server in (0..SERVERS).filter(|_| renews) {
            let deadline = contender.claims[server].deadline();
            if contender.requests[server].under_way.is_some()
                || deadline.is_none_or(|it| it >= full)
            {
                continue;
            }
            let mut renewed = contender.clone();
            if renewed.claims[server]
                .send(Verb::Renew, NUMBER, now)
                .is_ok()
            {
                renewed.send(server, Asked::Renew);
                let (next, broken) = self.with(state, client, renewed)?;
                moves.add(
                    || format!("{} renews on {server}", letter(client)),
                    next,
                    broken,
                );
            }
        }
        Ok(())
    }

    /// A request is executed and answered; or answered late, or given up.
    fn under_way(
        &mut self,
        state: State,
        client: u8,
        contender: &Contender,
        server: usize,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let Some(UnderWay { asked, reply }) = contender.requests[server].under_way else {
            return Ok(());
        };
        let (round, what) = asked;
        let step = |how: &str| format!("{}'s {what:?} on {server} {how}", letter(client));
        let now = TICKS.moment(state.tick);
        let faulty = |state: State| State {
            faults: state.faults + 1,
            ..state
        };
        let may_fail = state.faults < self.bounds.faults;
        let mut hears = contender.clone();
        if let Some(answer) = reply {
            hears.hear(server, what, answer, now);
            let (next, broken) = self.with(state, client, hears)?;
            moves.add(|| step("is answered at last"), next, broken);
        } else {
            let (executed, answer) = self.execute(state, server, client, round, what)?;
            hears.hear(server, what, answer, now);
            let (next, broken) = self.with(executed, client, hears)?;
            moves.add(|| step(&format!("is answered by {answer:?}")), next, broken);
            if may_fail {
                let mut late = contender.clone();
                let reply = Some(answer);
                late.requests[server].under_way = Some(UnderWay { asked, reply });
                let (next, broken) = self.with(faulty(executed), client, late)?;
                moves.add(|| step("is executed, the answer late"), next, broken);
            }
        }
        if may_fail {
            let mut lost = contender.clone();
            lost.lose(server);
            let (next, broken) = self.with(faulty(state), client, lost)?;
            moves.add(|| step("is given up"), next, broken);
        }
        Ok(())
    }

    /// A server loses its data, or a contender dies.
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
            let (next, broken) = self.with(state, client, contender)?;
            moves.add(|| format!("{} dies", letter(client)), next, broken);
        }
        Ok(())
    }

    fn execute(
        &mut self,
        mut state: State,
        server: usize,
        client: u8,
        attempt: u8,
        asked: Asked,
    ) -> Result<(State, Answer)> {
        let keys = &mut state.servers[server];
        let claimant = Claimant { client, attempt };
        let (number, answer) = self.runs.run(server, *keys, state.tick, claimant, asked)?;
        keys.number = number;
        Ok((state, answer))
    }

    /// The state when the contender has done what its round says, and has forgotten what makes no difference any more.
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
            // What is executed for a claim that is not there and cannot come changes nothing.
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
