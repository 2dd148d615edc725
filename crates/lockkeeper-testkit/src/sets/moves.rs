//! What can happen next: every step from a state.

use std::time::Duration;

use anyhow::Result;
use lockkeeper_core::claim::Claim;
use lockkeeper_core::protocol::{Answer, Verb};

use super::rival::{Asked, Flight, Rival, Stage};
use super::server::{Run, Server, Standing};
use super::{NAMES, RIVALS, Search, Violation, World, moment};

/// How much earlier than on the server a lease ends for its holder: as little as there is, so that what is wrong by a tick
/// shows.
const MARGIN: Duration = Duration::from_millis(1);

/// A step, where it leads, and what must not be in it.
pub(super) type Move = (String, World, Option<Violation>);

impl Search {
    pub(super) fn moves(&mut self, world: World) -> Result<Vec<Move>> {
        let mut moves = Vec::new();
        if world.tick < self.bounds.ticks {
            moves.push(self.tick(world)?);
        }
        for place in 0..RIVALS {
            if self.bounds.sets[place].is_empty() {
                continue;
            }
            let rival = self.rival(&world, place);
            self.ask(world, place, &rival, &mut moves)?;
            self.on_its_way(world, place, &rival, &mut moves)?;
            self.hold(world, place, &rival, &mut moves)?;
            for (round, asked) in rival.strays.clone() {
                let (next, rival, run, violation) =
                    self.execute(world, place, rival.clone(), round, asked)?;
                let step = format!(
                    "{}'s {asked:?} of round {round} is executed late: {:?}",
                    name(place),
                    run.answers
                );
                self.push(&mut moves, step, (next, place, rival), violation)?;
            }
            if world.crashes < self.bounds.crashes && rival.stage != Stage::Dead {
                let mut dead = rival.clone();
                dead.die();
                let crashed = World {
                    crashes: world.crashes + 1,
                    ..world
                };
                let step = format!("{} dies", name(place));
                self.push(&mut moves, step, (crashed, place, dead), None)?;
            }
        }
        Ok(moves)
    }

    /// Time moves on for everybody.
    fn tick(&mut self, world: World) -> Result<Move> {
        let tick = world.tick + 1;
        let server = self.server.settle(world.server, tick)?;
        let mut next = World {
            tick,
            server,
            ..world
        };
        for place in 0..RIVALS {
            let mut rival = self.rival(&next, place);
            rival.left.retain(|&(_, _, until)| until >= tick);
            next = self.folded(next, place, rival)?;
        }
        Ok(("time moves on".to_owned(), next, None))
    }

    /// A rival begins a round, or asks again, or gives up.
    fn ask(
        &mut self,
        world: World,
        place: usize,
        rival: &Rival,
        moves: &mut Vec<Move>,
    ) -> Result<()> {
        let mut asking = rival.clone();
        match rival.stage {
            Stage::Idle if rival.begun < self.bounds.rounds => {
                asking.begun += 1;
                asking.stage = Stage::Asking;
                let claim = |&name: &usize| {
                    let id = self.server.claim(place, asking.begun, name);
                    Claim::new(id, self.server.ttl(), MARGIN)
                };
                asking.claims = self.bounds.sets[place].iter().map(claim).collect();
            }
            Stage::Asking => {
                let mut over = rival.clone();
                over.leave(moment(world.tick));
                let step = format!("{} gives up", name(place));
                self.push(moves, step, (world, place, over), None)?;
            }
            _ => return Ok(()),
        }
        self.send(world, place, asking, Asked::Acquire, moves)
    }

    /// A rival that holds renews a part, or lets go, or notices a loss.
    fn hold(
        &mut self,
        world: World,
        place: usize,
        rival: &Rival,
        moves: &mut Vec<Move>,
    ) -> Result<()> {
        if rival.stage != Stage::Held {
            return Ok(());
        }
        let now = moment(world.tick);
        let mut gone = rival.clone();
        gone.leave(now);
        let step = format!("{} lets go", name(place));
        self.push(moves, step, (world, place, gone), None)?;
        let full = now.after(self.server.ttl() - MARGIN);
        for (part, claim) in rival.claims.iter().enumerate() {
            let due = claim.deadline().is_some_and(|deadline| deadline < full);
            if !self.bounds.renews || !due {
                continue;
            }
            let asked = match (claim.renewal(), claim.token()) {
                (Verb::Acquire, Some(token)) => Asked::Repeat(part, token),
                _ => Asked::Renew(part),
            };
            self.send(world, place, rival.clone(), asked, moves)?;
        }
        Ok(())
    }

    /// A request goes well, or is in trouble.
    fn send(
        &mut self,
        world: World,
        place: usize,
        rival: Rival,
        asked: Asked,
        moves: &mut Vec<Move>,
    ) -> Result<()> {
        let round = rival.begun;
        let Some(sent) = rival.sent(asked, moment(world.tick)) else {
            return Ok(());
        };
        if world.faults < self.bounds.faults {
            let faulty = World {
                faults: world.faults + 1,
                ..world
            };
            let step = format!("{} sends {asked:?}, which is on its way", name(place));
            self.push(moves, step, (faulty, place, sent.clone()), None)?;
        }
        let (next, rival, run, violation) = self.execute(world, place, sent, round, asked)?;
        let heard = rival.heard(asked, &run.answers, world.tick);
        let step = format!(
            "{} sends {asked:?} and hears {:?}",
            name(place),
            run.answers
        );
        self.push(moves, step, (next, place, heard), violation)
    }

    /// What can become of a request in trouble.
    fn on_its_way(
        &mut self,
        world: World,
        place: usize,
        rival: &Rival,
        moves: &mut Vec<Move>,
    ) -> Result<()> {
        let Some(Flight { asked, answers }) = rival.flight.clone() else {
            return Ok(());
        };
        let text = |what: &str| format!("{}'s {asked:?} {what}", name(place));
        if let Some(answers) = answers {
            let heard = rival.clone().heard(asked, &answers, world.tick);
            self.push(
                moves,
                text("is answered at last"),
                (world, place, heard),
                None,
            )?;
        } else {
            let (next, mut late, run, violation) =
                self.execute(world, place, rival.clone(), rival.begun, asked)?;
            let answers = Some(run.answers.to_vec());
            late.flight = Some(Flight { asked, answers });
            self.push(moves, text("is executed"), (next, place, late), violation)?;
        }
        let mut lost = rival.clone();
        lost.give_up();
        self.push(moves, text("is given up"), (world, place, lost), None)
    }

    /// The server runs a script. The rival has noted who left.
    fn execute(
        &mut self,
        world: World,
        place: usize,
        mut rival: Rival,
        round: u8,
        asked: Asked,
    ) -> Result<(World, Rival, Run, Option<Violation>)> {
        let run = self
            .server
            .run(world.server, world.tick, place, round, asked)?;
        let before = self.server.standing(world.server, world.tick)?;
        let after = self.server.standing(run.server, world.tick)?;
        let mut next = World {
            server: run.server,
            ..world
        };
        let set = self.bounds.sets[place];
        let scene = Scene {
            before: &before,
            after: &after,
            run: &run,
            whose: (place, round),
            set,
            reentrant: self.bounds.reentrant,
            tick: world.tick,
        };
        let violation = match asked {
            Asked::Acquire => scene.acquired(&rival, &mut next),
            Asked::Repeat(part, _) | Asked::Renew(part) => scene.renewed(part),
            Asked::Leave(leaving) => {
                for (part, overtakes) in leaving.places() {
                    let until = if overtakes {
                        world.tick + self.bounds.ttl - 1
                    } else {
                        u8::MAX
                    };
                    rival.note_left(round, part, until);
                }
                scene.left(leaving.places())
            }
        };
        let unreadable = run.answers.iter().any(Option::is_none);
        let violation = violation.or(unreadable.then_some(Violation::Unreadable));
        Ok((next, rival, run, violation))
    }

    fn push(
        &mut self,
        moves: &mut Vec<Move>,
        step: String,
        (world, place, rival): (World, usize, Rival),
        violation: Option<Violation>,
    ) -> Result<()> {
        let world = self.folded(world, place, rival)?;
        moves.push((step, world, violation));
        Ok(())
    }

    /// The state with this rival, which has forgotten what makes no difference any more.
    fn folded(&mut self, mut world: World, place: usize, mut rival: Rival) -> Result<World> {
        let standing = self.server.standing(world.server, world.tick)?;
        let set = self.bounds.sets[place];
        let may_come: Vec<bool> = (0..=rival.begun)
            .map(|round| rival.may_come(round))
            .collect();
        // What is not there, and cannot come, can neither be renewed nor leave.
        rival.strays.retain(|&(round, asked)| {
            let there = |part: usize| standing.left(place, round, set[part]).is_some();
            may_come[usize::from(round)]
                || match asked {
                    Asked::Acquire => true,
                    Asked::Repeat(part, _) | Asked::Renew(part) => there(part),
                    Asked::Leave(leaving) => leaving.places().any(|(part, _)| there(part)),
                }
        });
        rival
            .left
            .retain(|&(round, ..)| may_come[usize::from(round)]);
        for claim in &mut rival.claims {
            if rival.stage != Stage::Held {
                claim.fold(moment(world.tick));
            }
        }
        world.rivals[place] = self.number(rival);
        Ok(world)
    }
}

/// One run of a script, to be judged.
struct Scene<'a> {
    before: &'a Standing,
    after: &'a Standing,
    run: &'a Run,
    whose: (usize, u8),
    set: &'static [usize],
    reentrant: [bool; NAMES],
    tick: u8,
}

impl Scene<'_> {
    fn held(&self, standing: &Standing, name: usize) -> bool {
        standing.left(self.whose.0, self.whose.1, name).is_some()
    }

    /// All of them or none, each answered by what is true of it, tokens in order, and none that had left.
    fn acquired(&self, rival: &Rival, world: &mut World) -> Option<Violation> {
        let granted = |answer: &Option<Answer>| matches!(answer, Some(Answer::Granted(_)));
        let all = self.run.answers.iter().all(granted);
        for (part, (&name, answer)) in self.set.iter().zip(&*self.run.answers).enumerate() {
            let (was, is) = (self.held(self.before, name), self.held(self.after, name));
            if is != (all || was) || granted(answer) != all {
                return Some(Violation::PartialGrant(name));
            }
            let taken = self
                .before
                .is_taken_beside(self.whose, name, self.reentrant[name]);
            let is_true = match answer {
                Some(Answer::Granted(_) | Answer::Free) => !taken,
                Some(Answer::Busy(_)) => taken,
                _ => true,
            };
            if !is_true {
                return Some(Violation::WrongOutcome(name));
            }
            if is && !was && rival.has_left(self.whose.1, part, self.tick) {
                return Some(Violation::Revived(name));
            }
            if let Some(Answer::Granted(token)) = *answer {
                let last = world.last[name];
                let own = last.filter(|(_, whose)| *whose == self.whose.0);
                if was && own.is_none_or(|(last, _)| last != token) {
                    return Some(Violation::TokenChanged(name));
                }
                // An earlier claim of the same owner may hold a re-entrant name still.
                let joins =
                    own.is_some_and(|(last, _)| last == token) && !self.before.is_free(name);
                if last.is_some_and(|(last, _)| token <= last) && !joins {
                    return Some(Violation::TokenNotLarger(name));
                }
                world.last[name] = Some((token, self.whose.0));
            }
        }
        None
    }

    fn renewed(&self, part: usize) -> Option<Violation> {
        let name = self.set[part];
        let creates = self.held(self.after, name) && !self.held(self.before, name);
        creates.then_some(Violation::Revived(name))
    }

    /// Each is gone, answered by whether it was there, and those who wait for what it freed are told.
    fn left(&self, places: impl Iterator<Item = (usize, bool)>) -> Option<Violation> {
        for ((part, _), answer) in places.zip(&*self.run.answers) {
            let name = self.set[part];
            if self.held(self.after, name) {
                return Some(Violation::NotLeft(name));
            }
            if Server::says_left(*answer) != Some(self.held(self.before, name)) {
                return Some(Violation::WrongOutcome(name));
            }
            let freed = !self.before.is_free(name) && self.after.is_free(name);
            if freed && !self.run.woken[name] {
                return Some(Violation::NotWoken(name));
            }
        }
        None
    }
}

/// The rival as traces call it.
fn name(place: usize) -> char {
    char::from(b'A' + u8::try_from(place).unwrap_or(0))
}
