//! What can happen next: every step from a state.

use anyhow::Result;
use lockkeeper_core::claim::Claim;
use lockkeeper_core::protocol::Verb;

use super::contender::{Asked, Contender, Stage};
use super::judge::Scene;
use super::runs::Run;
use super::{CONTENDERS, SeveralNames, State, TICKS};
use crate::kinds::{Claimant, letter};
use crate::search::explore::Moves;
use crate::search::rule::{Rule, Violation};
use crate::search::state::{MARGIN, UnderWay};

impl SeveralNames {
    /// What a contender can do, and what can happen to it.
    pub(super) fn moves_of(
        &mut self,
        state: State,
        client: u8,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let contender = self.contender(state, client);
        let name = letter(client);
        let copy = || Contender::clone(&contender);
        match contender.stage {
            Stage::Idle if contender.begun < self.bounds.attempts => {
                let mut asking = copy();
                asking.begun += 1;
                asking.stage = Stage::Asking;
                let attempt = asking.attempt();
                let claim = |&name: &usize| {
                    let id = self.runs.claim(Claimant { client, attempt }, name);
                    Claim::new(id, self.runs.ttl(), MARGIN)
                };
                asking.claims = self.set(client).iter().map(claim).collect();
                self.send(state, client, asking, Asked::Acquire, moves)?;
            }
            Stage::Asking => {
                self.release(state, client, copy(), moves)?;
                self.send(state, client, copy(), Asked::Acquire, moves)?;
            }
            Stage::Held => {
                self.release(state, client, copy(), moves)?;
                self.renew(state, client, &contender, moves)?;
            }
            _ => {}
        }
        self.under_way(state, client, &contender, moves)?;
        for &(attempt, asked) in contender.requests.in_doubt.iter() {
            let (next, contender, run, broken) =
                self.execute(state, client, copy(), attempt, asked)?;
            let next = self.with(next, client, contender)?;
            let step = || {
                let answers = &run.answers;
                format!(
                    "{name}{}'s {asked:?} is executed late: {answers:?}",
                    attempt + 1
                )
            };
            moves.add(step, next, broken);
        }
        if state.endings < self.bounds.endings && contender.stage != Stage::Dead {
            let mut dead = copy();
            dead.die();
            let mut next = self.with(state, client, dead)?;
            next.endings += 1;
            moves.add(|| format!("{name} dies"), next, None);
        }
        Ok(())
    }

    /// Time moves on for everybody.
    pub(super) fn tick(&mut self, mut state: State) -> Result<State> {
        state.tick += 1;
        state.server = self.runs.later(state.server, state.tick);
        for client in 0..CONTENDERS as u8 {
            let mut contender = Contender::clone(&self.contender(state, client));
            contender
                .released
                .retain(|&(_, _, until)| until >= state.tick);
            state = self.with(state, client, contender)?;
        }
        Ok(state)
    }

    fn release(
        &mut self,
        state: State,
        client: u8,
        mut contender: Contender,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        contender.release(TICKS.moment(state.tick));
        let next = self.with(state, client, contender)?;
        moves.add(
            || format!("{} lets go, or gives up", letter(client)),
            next,
            None,
        );
        Ok(())
    }

    /// Renews a part that is held.
    fn renew(
        &mut self,
        state: State,
        client: u8,
        contender: &Contender,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let full = TICKS.moment(state.tick).after(self.runs.ttl() - MARGIN);
        for (part, claim) in contender.claims.iter().enumerate() {
            if claim.deadline().is_none_or(|deadline| deadline >= full) {
                continue;
            }
            let asked = match (claim.renewal(), claim.token()) {
                (Verb::Acquire, Some(token)) => Asked::Repeat(part, token),
                _ => Asked::Renew(part),
            };
            self.send(state, client, contender.clone(), asked, moves)?;
        }
        Ok(())
    }

    /// A request goes well, or is in trouble.
    fn send(
        &mut self,
        state: State,
        client: u8,
        contender: Contender,
        asked: Asked,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let now = TICKS.moment(state.tick);
        let Some(sent) = contender.sent(asked, now) else {
            return Ok(());
        };
        let name = letter(client);
        if state.faults < self.bounds.faults {
            let mut next = self.with(state, client, sent.clone())?;
            next.faults += 1;
            moves.add(
                || format!("{name} sends {asked:?}, which is on its way"),
                next,
                None,
            );
        }
        let attempt = sent.attempt();
        let (next, contender, run, broken) = self.execute(state, client, sent, attempt, asked)?;
        let next = self.with(next, client, contender.heard(asked, &run.answers, now))?;
        let step = || format!("{name} sends {asked:?} and hears {:?}", run.answers);
        moves.add(step, next, broken);
        Ok(())
    }

    /// What can become of a request in trouble.
    fn under_way(
        &mut self,
        state: State,
        client: u8,
        contender: &Contender,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let Some(UnderWay { asked, reply }) = contender.requests.under_way.clone() else {
            return Ok(());
        };
        let (attempt, what) = asked;
        let name = letter(client);
        if let Some(answers) = reply {
            let heard = contender.clone();
            let heard = heard.heard(what, &answers, TICKS.moment(state.tick));
            let next = self.with(state, client, heard)?;
            moves.add(
                || format!("{name}'s {what:?} is answered at last"),
                next,
                None,
            );
        } else {
            let (next, mut late, run, broken) =
                self.execute(state, client, contender.clone(), attempt, what)?;
            let reply = Some(run.answers);
            late.requests.under_way = Some(UnderWay { asked, reply });
            let next = self.with(next, client, late)?;
            moves.add(|| format!("{name}'s {what:?} is executed"), next, broken);
        }
        let mut lost = contender.clone();
        lost.give_up();
        let next = self.with(state, client, lost)?;
        moves.add(|| format!("{name}'s {what:?} is given up"), next, None);
        Ok(())
    }

    /// The server runs a script. The contender has noted what was released.
    fn execute(
        &mut self,
        state: State,
        client: u8,
        mut contender: Contender,
        attempt: u8,
        asked: Asked,
    ) -> Result<(State, Contender, Run, Option<Violation>)> {
        let claimant = Claimant { client, attempt };
        let run = self.runs.run(state.server, state.tick, claimant, asked)?;
        let mut next = state;
        next.server = run.server;
        let scene = Scene {
            before: &*self.runs.standing(state.server, state.tick)?,
            after: &*self.runs.standing(run.server, state.tick)?,
            run: &run,
            claimant,
            set: self.set(client),
            kinds: self.bounds.kinds,
            tick: state.tick,
        };
        let broken = match asked {
            Asked::Acquire => scene.acquired(&contender, &mut next),
            Asked::Repeat(part, _) | Asked::Renew(part) => scene.renewed(part),
            Asked::Release(releases) => {
                for (part, overtakes) in releases.parts() {
                    let tombstone = state.tick + self.bounds.ttl - 1;
                    let until = if overtakes { tombstone } else { u8::MAX };
                    contender.note_released(attempt, part, until);
                }
                scene.released(releases)
            }
        };
        let unreadable = run.answers.iter().any(Option::is_none);
        let unreadable = unreadable.then(|| Rule::Unreadable.broken(format!("{asked:?}")));
        Ok((next, contender, run, broken.or(unreadable)))
    }

    /// The state with this contender, which has forgotten what makes no difference any more.
    fn with(&mut self, mut state: State, client: u8, mut contender: Contender) -> Result<State> {
        let standing = self.runs.standing(state.server, state.tick)?;
        let set = self.set(client);
        let attempts = 0..contender.begun.max(1);
        let may_come = |attempt| contender.requests.may_come((attempt, Asked::Acquire));
        let may_come: Vec<bool> = attempts.map(may_come).collect();
        // What is not there, and cannot come, can neither be renewed nor released.
        contender.requests.in_doubt.retain(|&(attempt, asked)| {
            let claimant = Claimant { client, attempt };
            let there = |part: usize| standing.left(claimant, set[part]).is_some();
            may_come[usize::from(attempt)]
                || match asked {
                    Asked::Acquire => true,
                    Asked::Repeat(part, _) | Asked::Renew(part) => there(part),
                    Asked::Release(releases) => releases.parts().any(|(part, _)| there(part)),
                }
        });
        let noted = &mut contender.released;
        noted.retain(|&(attempt, ..)| may_come[usize::from(attempt)]);
        if contender.stage != Stage::Held {
            for claim in &mut contender.claims {
                claim.fold(TICKS.moment(state.tick));
            }
        }
        state.contenders[usize::from(client)] = self.contenders.number(contender);
        Ok(state)
    }
}
