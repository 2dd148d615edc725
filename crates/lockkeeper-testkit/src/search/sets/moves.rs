//! The next steps: every step from a state.

use anyhow::Result;
use lockkeeper_core::claim::Claim;
use lockkeeper_core::protocol::{Answer, Verb};

use super::contender::{Asked, Contender, Releases, Stage};
use super::judge::Scene;
use super::runs::Run;
use super::{CONTENDERS, SeveralNames, State, TICKS};
use crate::kinds::{Claimant, letter};
use crate::search::explore::Moves;
use crate::search::rule::{Rule, Violation};
use crate::search::state::{self, MARGIN, UnderWay};

type Here = state::Here<State, Contender>;

impl SeveralNames {
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
        let name = letter(client);
        let stage = here.contender.stage;
        if stage == Stage::Idle && here.contender.begun < self.bounds.attempts {
            let asking = self.begun(&here);
            self.send(&here, asking, Asked::Acquire, moves)?;
        }
        if let Stage::Asking | Stage::Held = stage {
            let mut over = here.copy();
            over.release(here.now);
            let next = self.with(state, client, over)?;
            moves.add(|| format!("{name} lets go, or gives up"), next, None);
        }
        match stage {
            Stage::Asking => self.send(&here, here.copy(), Asked::Acquire, moves)?,
            Stage::Held => self.renew(&here, moves)?,
            _ => {}
        }
        self.under_way(&here, moves)?;
        for &(attempt, asked) in here.contender.requests.in_doubt.iter() {
            let (next, run, broken) =
                self.execute(&here, here.copy(), attempt, asked, |it, _| it)?;
            let step = || {
                let (number, answers) = (attempt + 1, &run.answers);
                format!("{name}{number}'s {asked:?} is executed late: {answers:?}")
            };
            moves.add(step, next, broken);
        }
        if state.endings < self.bounds.endings && stage != Stage::Dead {
            let mut dead = here.copy();
            dead.die();
            let mut next = self.with(state, client, dead)?;
            next.endings += 1;
            moves.add(|| format!("{name} dies"), next, None);
        }
        Ok(())
    }

    /// Advances time for all.
    pub(super) fn tick(&mut self, mut state: State) -> Result<State> {
        state.tick += 1;
        state.server = self.runs.later(state.server, state.tick);
        for client in 0..CONTENDERS as u8 {
            let mut contender = Contender::clone(&self.contender(state, client));
            let released = &mut contender.released;
            released.retain(|&(.., until)| until >= state.tick);
            state = self.with(state, client, contender)?;
        }
        Ok(state)
    }

    fn begun(&self, here: &Here) -> Contender {
        let (client, mut asking) = (here.client, here.copy());
        asking.begun += 1;
        asking.stage = Stage::Asking;
        let attempt = asking.attempt();
        let claim = |&name: &usize| {
            let id = self.runs.claim(Claimant { client, attempt }, name);
            Claim::new(id, self.runs.ttl(), MARGIN)
        };
        asking.claims = self.set(client).iter().map(claim).collect();
        asking
    }

    /// Renews a part that is held.
    fn renew(&mut self, here: &Here, moves: &mut Moves<State>) -> Result<()> {
        let full = here.now.after(self.runs.ttl() - MARGIN);
        for (part, claim) in here.contender.claims.iter().enumerate() {
            if claim.deadline().is_none_or(|deadline| deadline >= full) {
                continue;
            }
            let asked = match (claim.renewal(), claim.token()) {
                (Verb::Acquire, Some(token)) => Asked::Repeat(part, token),
                _ => Asked::Renew(part),
            };
            self.send(here, here.copy(), asked, moves)?;
        }
        Ok(())
    }

    /// Sends a request that goes well or gets into trouble.
    fn send(
        &mut self,
        here: &Here,
        contender: Contender,
        asked: Asked,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let (name, now) = (letter(here.client), here.now);
        let Some(sent) = contender.sent(asked, now) else {
            return Ok(());
        };
        if here.state.faults < self.bounds.faults {
            let mut next = self.with(here.state, here.client, sent.clone())?;
            next.faults += 1;
            let step = || format!("{name} sends {asked:?}, which is on its way");
            moves.add(step, next, None);
        }
        let attempt = sent.attempt();
        let heard = |it: Contender, run: &Run| it.heard(asked, &run.answers, now);
        let (next, run, broken) = self.execute(here, sent, attempt, asked, heard)?;
        let step = || format!("{name} sends {asked:?} and hears {:?}", run.answers);
        moves.add(step, next, broken);
        Ok(())
    }

    /// Adds the fates of a request in trouble.
    fn under_way(&mut self, here: &Here, moves: &mut Moves<State>) -> Result<()> {
        let Some(UnderWay { asked, reply }) = here.contender.requests.under_way.clone() else {
            return Ok(());
        };
        let (attempt, what) = asked;
        let step = |how: &str| format!("{}'s {what:?} is {how}", letter(here.client));
        if let Some(answers) = reply {
            let heard = here.copy().heard(what, &answers, here.now);
            let next = self.with(here.state, here.client, heard)?;
            moves.add(|| step("answered at last"), next, None);
        } else {
            let replied = |mut it: Contender, run: &Run| {
                let reply = Some(run.answers.clone());
                it.requests.under_way = Some(UnderWay { asked, reply });
                it
            };
            let (next, _, broken) = self.execute(here, here.copy(), attempt, what, replied)?;
            moves.add(|| step("executed"), next, broken);
        }
        let mut lost = here.copy();
        lost.give_up();
        let next = self.with(here.state, here.client, lost)?;
        moves.add(|| step("given up"), next, None);
        Ok(())
    }

    /// Runs a script on the server and then changes the contender, which has recorded what was released.
    fn execute(
        &mut self,
        here: &Here,
        mut contender: Contender,
        attempt: u8,
        asked: Asked,
        becomes: impl FnOnce(Contender, &Run) -> Contender,
    ) -> Result<(State, Run, Option<Violation>)> {
        let (state, client) = (here.state, here.client);
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
                for ((part, overtakes), answer) in releases.parts().zip(&*run.answers) {
                    if *answer == Some(Answer::Inflated) {
                        // Nothing was done for this name, so it is released on its own.
                        let alone = Asked::Release(Releases::of_one(part, overtakes));
                        contender.requests.in_doubt.insert((attempt, alone));
                        continue;
                    }
                    let tombstone = state.tick + self.bounds.ttl - 1;
                    let until = if overtakes { tombstone } else { u8::MAX };
                    contender.note_released(attempt, part, until);
                }
                scene.released(releases)
            }
        };
        let unreadable = run.answers.iter().any(Option::is_none);
        let unreadable = unreadable.then(|| Rule::Unreadable.broken(format!("{asked:?}")));
        let next = self.with(next, client, becomes(contender, &run))?;
        Ok((next, run, broken.or(unreadable)))
    }

    /// The state with this contender, which forgets what makes no difference any more.
    fn with(&mut self, mut state: State, client: u8, mut contender: Contender) -> Result<State> {
        let standing = self.runs.standing(state.server, state.tick)?;
        let set = self.set(client);
        let attempts = 0..contender.begun.max(1);
        let may_come = |attempt| contender.requests.may_come((attempt, Asked::Acquire));
        let may_come: Vec<bool> = attempts.map(may_come).collect();
        // A claim that is gone and cannot come back can be neither renewed nor released.
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
