//! What can happen next: every step from a state.

use std::time::Duration;

use anyhow::Result;
use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::{Claim, ReleaseNeeded, Verdict};
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::quorum::{Reply, Round, Step, WrittenBack};
use lockkeeper_core::store::Outcome;

use super::{
    Asked, Flight, RIVALS, Rival, SERVERS, Search, Server, Stage, Violation, World, moment,
};

/// How much earlier than on the server a lease ends for its holder: as little as there is, so that what is wrong by a tick
/// shows.
const MARGIN: Duration = Duration::from_millis(1);

/// A step, where it leads, and what must not be in it.
pub(super) type Move = (String, World, Option<Violation>);

/// A request of a claim is numbered by nothing but its being the only one.
const NUMBER: u64 = 1;

impl Search {
    pub(super) fn moves(&mut self, world: World) -> Result<Vec<Move>> {
        let mut moves = Vec::new();
        if world.tick < self.bounds.ticks {
            moves.push(self.tick(world));
        }
        for place in 0..RIVALS {
            let rival = self.rival(&world, place);
            self.begin(world, place, &rival, &mut moves);
            self.hold(world, place, &rival, &mut moves);
            for server in 0..SERVERS {
                self.flight(world, place, &rival, server, &mut moves)?;
            }
            self.strays(world, place, &rival, &mut moves)?;
        }
        if world.crashes < self.bounds.crashes {
            self.crash(world, &mut moves);
        }
        Ok(moves)
    }

    /// Time moves on for everybody.
    fn tick(&mut self, world: World) -> Move {
        let mut next = world;
        next.tick += 1;
        let mut violation = None;
        for place in 0..RIVALS {
            let rival = self.rival(&next, place);
            let (changed, broken) = self.decided(next, place, rival);
            next = changed;
            violation = violation.or(broken);
        }
        ("time moves on".to_owned(), next, violation)
    }

    /// A rival begins a round: all servers are asked at once.
    fn begin(&mut self, world: World, place: usize, rival: &Rival, moves: &mut Vec<Move>) {
        if rival.stage != Stage::Idle || rival.begun >= self.bounds.rounds[place] {
            return;
        }
        let now = moment(world.tick);
        let mut rival = rival.clone();
        rival.begun += 1;
        let id = self.servers.claim(place, rival.begun);
        let mut claim = Claim::new(id, self.servers.ttl(), MARGIN);
        // It has asked for nothing yet, so it may.
        let _ = claim.send(Verb::Acquire, NUMBER, now);
        rival.claims = vec![claim; SERVERS];
        rival.flights = [Some(Flight {
            asked: Asked::Acquire,
            answer: None,
        }); SERVERS];
        let round = Round::new(self.quorum, self.servers.ttl(), MARGIN, now);
        rival.stage = Stage::Asking(round);
        self.push(
            moves,
            format!("{} begins round {}", name(place), rival.begun),
            world,
            place,
            rival,
        );
    }

    /// A rival that holds renews a part, or lets go.
    fn hold(&mut self, world: World, place: usize, rival: &Rival, moves: &mut Vec<Move>) {
        if rival.stage != Stage::Held {
            return;
        }
        let now = moment(world.tick);
        let mut gone = rival.clone();
        gone.leave(now, |_| true);
        gone.stage = Stage::Idle;
        self.push(
            moves,
            format!("{} lets go", name(place)),
            world,
            place,
            gone,
        );
        let trust = self.servers.ttl() - MARGIN;
        for server in 0..SERVERS {
            let mut renewed = rival.clone();
            let due = renewed.claims[server]
                .deadline()
                .is_some_and(|deadline| deadline < now.after(trust));
            if !self.bounds.renews || !due || renewed.flights[server].is_some() {
                continue;
            }
            if renewed.claims[server]
                .send(Verb::Renew, NUMBER, now)
                .is_ok()
            {
                renewed.flights[server] = Some(Flight {
                    asked: Asked::Renew,
                    answer: None,
                });
                let step = format!("{} renews on {server}", name(place));
                self.push(moves, step, world, place, renewed);
            }
        }
    }

    /// A request is executed and answered; or answered late, or given up.
    fn flight(
        &mut self,
        world: World,
        place: usize,
        rival: &Rival,
        server: usize,
        moves: &mut Vec<Move>,
    ) -> Result<()> {
        let Some(Flight { asked, answer }) = rival.flights[server] else {
            return Ok(());
        };
        let text = |what: &str| format!("{}'s {asked:?} on {server} {what}", name(place));
        if let Some(answer) = answer {
            let heard = rival.heard(server, asked, answer, world.tick);
            self.push(moves, text("is answered at last"), world, place, heard);
        } else {
            let (executed, answer) = self.executed(world, server, place, rival.begun, asked)?;
            let heard = rival.heard(server, asked, answer, world.tick);
            self.push(
                moves,
                text(&format!("is answered by {answer:?}")),
                executed,
                place,
                heard,
            );
            if world.faults < self.bounds.faults {
                let mut late = rival.clone();
                late.flights[server] = Some(Flight {
                    asked,
                    answer: Some(answer),
                });
                let executed = World {
                    faults: world.faults + 1,
                    ..executed
                };
                self.push(
                    moves,
                    text("is executed, the answer late"),
                    executed,
                    place,
                    late,
                );
            }
        }
        if world.faults < self.bounds.faults {
            let faulty = World {
                faults: world.faults + 1,
                ..world
            };
            let lost = rival.lost(server);
            self.push(moves, text("is given up"), faulty, place, lost);
        }
        Ok(())
    }

    /// What nobody waits for is executed after all.
    fn strays(
        &mut self,
        world: World,
        place: usize,
        rival: &Rival,
        moves: &mut Vec<Move>,
    ) -> Result<()> {
        for (index, (server, round, asked)) in rival.strays.iter().copied().enumerate() {
            let (executed, _) = self.executed(world, server, place, round, asked)?;
            let mut rival = rival.clone();
            rival.strays.remove(index);
            let step = format!(
                "{}'s {asked:?} of round {round} on {server} is executed late",
                name(place)
            );
            self.push(moves, step, executed, place, rival);
        }
        Ok(())
    }

    /// A server loses its data, or a rival dies.
    fn crash(&mut self, world: World, moves: &mut Vec<Move>) {
        let crashed = World {
            crashes: world.crashes + 1,
            ..world
        };
        for place in 0..SERVERS {
            let mut world = crashed;
            world.servers[place] = Server {
                keys: self.servers.empty(),
                restarted: Some(world.tick),
            };
            moves.push((format!("server {place} loses its data"), world, None));
        }
        for place in 0..RIVALS {
            let mut rival = self.rival(&world, place);
            if rival.stage == Stage::Dead || rival.stage == Stage::Idle {
                continue;
            }
            for server in 0..SERVERS {
                rival.stray(server);
            }
            rival.stage = Stage::Dead;
            rival.claims.clear();
            rival.tokens = [None; SERVERS];
            self.push(
                moves,
                format!("{} dies", name(place)),
                crashed,
                place,
                rival,
            );
        }
    }

    fn executed(
        &mut self,
        world: World,
        server: usize,
        rival: usize,
        round: u8,
        asked: Asked,
    ) -> Result<(World, Answer)> {
        let mut next = world;
        let state = world.servers[server];
        let (keys, answer) = self
            .servers
            .run(server, state, world.tick, rival, round, asked)?;
        next.servers[server].keys = keys;
        Ok((next, answer))
    }

    fn push(
        &mut self,
        moves: &mut Vec<Move>,
        step: String,
        world: World,
        place: usize,
        rival: Rival,
    ) {
        let (world, violation) = self.decided(world, place, rival);
        moves.push((step, world, violation));
    }

    /// The state when the rival has done what its round says.
    fn decided(
        &mut self,
        world: World,
        place: usize,
        mut rival: Rival,
    ) -> (World, Option<Violation>) {
        let mut world = world;
        let mut violation = None;
        let now = moment(world.tick);
        while let Stage::Asking(mut round) = rival.stage.clone() {
            let step = round.step(now);
            rival.stage = Stage::Asking(round.clone());
            match step {
                Step::WriteBack(token, behind) => {
                    for server in 0..SERVERS {
                        rival = rival.given_up(server);
                    }
                    for server in behind {
                        rival.flights[server] = Some(Flight {
                            asked: Asked::WriteBack(token),
                            answer: None,
                        });
                    }
                }
                Step::Granted(token) => {
                    for server in 0..SERVERS {
                        rival = rival.given_up(server);
                    }
                    rival.leave(now, |server| !round.holds_on(server));
                    rival.stage = Stage::Held;
                    let last = FencingToken::new(world.last);
                    let tokens = std::mem::take(&mut rival.tokens);
                    let answered = tokens.iter().filter(|answered| **answered == Some(token));
                    if !self.quorum.is_reached(answered.count()) {
                        violation = Some(Violation::NoMajority(token));
                    }
                    if token <= last {
                        violation = Some(Violation::TokenNotLarger(last, token));
                    }
                    world.last = token.get();
                }
                Step::Failed(_) => {
                    for server in 0..SERVERS {
                        rival = rival.given_up(server);
                    }
                    rival.leave(now, |_| true);
                    rival.stage = Stage::Idle;
                }
                _ => break,
            }
        }
        if rival.stage == Stage::Idle {
            rival.claims.clear();
            rival.tokens = [None; SERVERS];
        }
        self.forget(&world, place, &mut rival);
        for claim in &mut rival.claims {
            claim.fold(now);
        }
        world.rivals[place] = self.number(rival);
        (world, violation)
    }

    /// Forgets what would change nothing, whenever it is executed: the claim is not there, and no acquire can bring it.
    fn forget(&mut self, world: &World, place: usize, rival: &mut Rival) {
        let strays = rival.strays.clone();
        rival.strays.retain(|stray| {
            let (server, round, asked) = *stray;
            let comes = strays.contains(&(server, round, Asked::Acquire))
                || round == rival.begun
                    && matches!(
                        rival.flights[server],
                        Some(Flight {
                            asked: Asked::Acquire,
                            answer: None
                        })
                    );
            asked == Asked::Acquire
                || comes
                || self.servers.holds(world.servers[server].keys, place, round)
        });
    }
}

impl Rival {
    /// The claim hears the answer, and so does its round.
    fn heard(&self, server: usize, asked: Asked, answer: Answer, tick: u8) -> Self {
        let mut rival = self.clone();
        rival.flights[server] = None;
        let now = moment(tick);
        let asking = matches!(rival.stage, Stage::Asking(_));
        match (asked, answer) {
            (Asked::Acquire, Answer::Granted(token))
            | (Asked::WriteBack(token), Answer::Raised)
                if asking =>
            {
                rival.tokens[server] = Some(token);
            }
            _ => {}
        }
        match asked {
            Asked::Acquire => {
                let reply = match rival.claims[server].answered(NUMBER, answer, now) {
                    Verdict::Granted(token) => Reply::Granted(token),
                    Verdict::Busy(left) => Reply::Busy(left),
                    Verdict::Quarantined(left) => Reply::Out(left),
                    _ => Reply::Failed,
                };
                if let Stage::Asking(round) = &mut rival.stage {
                    round.answered(server, reply, now);
                }
            }
            Asked::WriteBack(_) => {
                let outcome = match answer {
                    Answer::Raised => WrittenBack::Accepted,
                    _ => WrittenBack::Refused,
                };
                if let Stage::Asking(round) = &mut rival.stage {
                    round.written_back(server, outcome);
                }
            }
            Asked::Renew => {
                rival.claims[server].answered(NUMBER, answer, now);
            }
            Asked::Leave { .. } => {}
        }
        rival
    }

    /// A request gets no answer; the round hears of it.
    fn lost(&self, server: usize) -> Self {
        let asked = self.flights[server].map(|flight| flight.asked);
        let mut rival = self.clone().given_up(server);
        if let Stage::Asking(round) = &mut rival.stage {
            match asked {
                Some(Asked::Acquire) => {
                    // A failure has no time.
                    round.answered(server, Reply::Failed, moment(0));
                }
                Some(Asked::WriteBack(_)) => round.written_back(server, WrittenBack::Failed),
                _ => {}
            }
        }
        rival
    }

    /// Nobody waits for the answer any more.
    fn given_up(mut self, server: usize) -> Self {
        let asked = self.flights[server].map(|flight| flight.asked);
        self.stray(server);
        if let Some(Asked::Acquire | Asked::Renew) = asked {
            self.claims[server].failed(NUMBER, Outcome::Unknown);
        }
        self
    }

    /// What was asked may be executed at any time, unless it was already. A renewal that comes late creates nothing.
    fn stray(&mut self, server: usize) {
        if let Some(Flight {
            asked,
            answer: None,
        }) = self.flights[server].take()
        {
            self.put_stray((server, self.begun, asked));
        }
    }

    fn put_stray(&mut self, stray: (usize, u8, Asked)) {
        let at = self.strays.partition_point(|other| *other < stray);
        if self.strays.get(at) != Some(&stray) {
            self.strays.insert(at, stray);
        }
    }

    /// The claims on these servers end, and leave: at any time, or never.
    fn leave(&mut self, now: lockkeeper_core::clock::Moment, whose: impl Fn(usize) -> bool) {
        for server in (0..SERVERS).filter(|server| whose(*server)) {
            self.stray(server);
            let Some(claim) = self.claims.get_mut(server) else {
                continue;
            };
            claim.end(now);
            let overtakes = match claim.release_needed() {
                ReleaseNeeded::WithTombstone => true,
                ReleaseNeeded::Plain => false,
                _ => continue,
            };
            self.put_stray((server, self.begun, Asked::Leave { overtakes }));
        }
    }
}

/// The rival as traces call it.
fn name(place: usize) -> char {
    char::from(b'A' + u8::try_from(place).unwrap_or(0))
}
