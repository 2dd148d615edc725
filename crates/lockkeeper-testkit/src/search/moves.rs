//! What can happen next: every step that a state allows.
//!
//! A request goes well or is in trouble. One that goes well is sent, executed and answered in one step. One in trouble takes a
//! fault, and then anything can become of it: it is executed at once, later or never, its answer is heard, late or never,
//! it is given up, refused, not sent; and once it is given up it may be executed whenever and as often as it likes. Nothing
//! is lost by taking a request that goes well as one step: between its parts only others could act, and they cannot tell
//! when within the tick it was sent, nor does it help them that an answer is heard later than it could be.
//!
//! The steps may do more than the engine does, never less: a waiter may look, a holder may renew and anybody may let go
//! at any moment, and requests overtake one another. What they may *not* do is decided by the engine's own [`Claim`].

use anyhow::Result;
use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::{Claim, ReleaseNeeded, Validity};
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::store::Outcome;

use super::bounds::{MARGIN, moment};
use super::effect::{believed, closed, crashed, failed, heard, overtaken, told};
use super::explore::Search;
use super::model::{Mode, Seat};
use super::property::Violation;
use super::server::Run;
use super::state::{Asked, Attempt, Client, Flight, Message, Question, Stage, Told, World};
use super::step::{Sending, Step};

/// A step, where it leads to, and the property that the step itself breaks.
pub(super) type Move = (Step, World, Option<Violation>);

impl Search {
    /// Every step from `world`, in an order that depends on `world` alone.
    pub(super) fn moves(&mut self, world: World) -> Result<Vec<Move>> {
        let mut moves = Vec::new();
        for seat in self.seats() {
            let client = self.clients.value(world.clients[usize::from(seat.client)]);
            for &asked in &client.attempts[usize::from(seat.attempt)].strays {
                moves.push(self.execute(world, Client::clone(&client), seat, asked, true)?);
            }
            self.on_its_way(world, &client, seat, &mut moves)?;
            self.told(world, &client, seat, &mut moves);
            self.of_its_own(world, &client, seat, &mut moves)?;
        }
        for client in 0..self.bounds.clients {
            let value = self.clients.value(world.clients[usize::from(client)]);
            if world.endings == self.bounds.endings {
                break;
            }
            for (step, changed) in [
                (Step::Closes(client), closed(&value, world.tick)),
                (Step::Crashes(client), crashed(&value)),
            ] {
                if changed != *value {
                    let mut next = self.with(world, client, changed);
                    next.endings += 1;
                    moves.push((step, next, None));
                }
            }
        }
        if self.bounds.forgets && world.endings < self.bounds.endings {
            let mut next = world;
            next.endings += 1;
            next.server = self.server.without_fence(world.server, world.tick)?;
            moves.push((Step::Forgets, next, None));
        }
        if world.tick < self.bounds.ticks {
            let tick = Step::Tick(world.tick + 1);
            moves.push((tick, self.tick(world), None));
        }
        Ok(moves)
    }

    /// What can become of a request in trouble.
    fn on_its_way(
        &mut self,
        world: World,
        client: &Client,
        seat: Seat,
        moves: &mut Vec<Move>,
    ) -> Result<()> {
        let attempt = &client.attempts[usize::from(seat.attempt)];
        let Some(Flight { asked, reply }) = attempt.flight else {
            return Ok(());
        };
        let mut ways = vec![(Step::GivesUp(seat, reply.is_some()), Outcome::Unknown)];
        if let Some((told, until)) = reply {
            let mut changed = client.clone();
            let violation = self.hears(&mut changed, seat, asked, (told, until), world.tick);
            let next = self.with(world, seat.client, changed);
            moves.push((Step::Hears(seat, told), next, violation));
        } else {
            moves.push(self.execute(world, client.clone(), seat, asked, false)?);
            ways.push((Step::NotSent(seat), Outcome::NotSent));
            ways.push((Step::Refuses(seat), Outcome::Refused));
        }
        for (step, outcome) in ways {
            let mut changed = client.clone();
            let place = usize::from(seat.attempt);
            failed(&mut changed, place, asked, outcome, world.tick);
            moves.push((step, self.with(world, seat.client, changed), None));
        }
        Ok(())
    }

    /// The messages that may reach a claim.
    fn told(&mut self, world: World, client: &Client, seat: Seat, moves: &mut Vec<Move>) {
        let place = usize::from(seat.attempt);
        let attempt = &client.attempts[place];
        for &message in &attempt.messages {
            let mut changed = client.clone();
            changed.attempts[place] = told(attempt, message, world.tick);
            if changed != *client {
                let violation = believes_again(attempt, &changed.attempts[place], seat, world.tick);
                self.raise_floor(&mut changed, message.token);
                let next = self.with(world, seat.client, changed);
                moves.push((Step::HearsGrant(seat, message), next, violation));
            }
        }
    }

    /// What a client can do by itself for one of its attempts.
    fn of_its_own(
        &mut self,
        world: World,
        client: &Client,
        seat: Seat,
        moves: &mut Vec<Move>,
    ) -> Result<()> {
        let (place, now) = (usize::from(seat.attempt), world.tick);
        let living = |attempt: &Attempt| {
            attempt.claim().is_some_and(|claim| {
                claim.deadline().is_some() || claim.validity(moment(now)) == Validity::NotYet
            })
        };
        let mut sends = Vec::new();
        let first = self.model.modes().iter().copied().map(Sending::First);
        let takes = (0..seat.attempt).map(Sending::Takes);
        let others = [
            Sending::Again,
            Sending::Heartbeat,
            Sending::Renewal,
            Sending::Leave,
        ];
        for sending in first.chain(takes).chain(others) {
            let sent = self.sent(client, seat, sending, now);
            sends.extend(sent.map(|(asked, sent)| (asked, sending, sent)));
        }
        if living(&client.attempts[place]) {
            let mut ended = client.clone();
            ended.end(place, now);
            let leave = self.sent(&ended, seat, Sending::Leave, now);
            // Whoever lets go leaves at once. To leave later is to have held on until then, unless an answer comes between.
            if leave.is_none() || client.attempts[place].flight.is_some() {
                let next = self.with(world, seat.client, ended);
                moves.push((Step::Ends(seat), next, None));
            }
            sends.extend(leave.map(|(asked, sent)| (asked, Sending::LetsGo, sent)));
        }
        for (asked, sending, changed) in sends {
            if world.faults < self.bounds.faults {
                let mut next = self.with(world, seat.client, changed.clone());
                next.faults += 1;
                moves.push((Step::Sends(seat, asked, sending), next, None));
            }
            moves.push(self.exchange(world, changed, seat, asked, sending)?);
        }
        Ok(())
    }

    /// A request that goes well: executed and answered.
    fn exchange(
        &mut self,
        mut world: World,
        mut client: Client,
        seat: Seat,
        asked: Asked,
        sending: Sending,
    ) -> Result<Move> {
        let (run, mut violation) = self.run_script(&mut world, &mut client, seat, asked, false)?;
        let flight = &client.attempts[usize::from(seat.attempt)].flight;
        if let Some(Flight {
            reply: Some((told, until)),
            ..
        }) = *flight
        {
            let heard = self.hears(&mut client, seat, asked, (told, until), world.tick);
            violation = violation.or(heard);
        }
        let next = self.after_run(world, client, seat, &run);
        let step = Step::Exchanges(seat, asked, sending, run.told);
        Ok((step, next, violation))
    }

    /// The server executes one request; `late` if nobody waits for it any more.
    pub(super) fn execute(
        &mut self,
        mut world: World,
        mut client: Client,
        seat: Seat,
        asked: Asked,
        late: bool,
    ) -> Result<Move> {
        let (run, violation) = self.run_script(&mut world, &mut client, seat, asked, late)?;
        let step = if late {
            Step::ExecutesLate(seat, asked, run.told)
        } else {
            Step::Executes(seat, asked, run.told)
        };
        Ok((step, self.after_run(world, client, seat, &run), violation))
    }

    /// Runs a script, and puts its reply on the way.
    fn run_script(
        &mut self,
        world: &mut World,
        client: &mut Client,
        seat: Seat,
        asked: Asked,
        late: bool,
    ) -> Result<(Run, Option<Violation>)> {
        let run = self.server.run(world.server, world.tick, seat, asked)?;
        let mut violation = None;
        let after = self.server.standing(run.server, world.tick)?;
        let before = *world;
        for &(grantee, Message { token, .. }) in &*run.grants {
            let broken = self.judge_grant(before, &after, (grantee, token), false)?;
            violation = violation.or(broken);
            world.note_grant(grantee, after.reads(self.server.place_of(grantee)), token);
        }
        if let Told::Answer(Answer::Granted(token)) = run.told {
            let conversions = matches!(asked.question, Question::Convert { .. });
            let broken = self.judge_grant(before, &after, (seat, token), conversions)?;
            violation = violation.or(broken);
            world.note_grant(seat, asked.mode.reads(), token);
        }
        if !late {
            let lost = self.lost_to_itself(client, seat, run.told, &after);
            violation = violation.or(lost);
        }
        violation = violation.or(self.judge_revival(*world, seat, asked, run.told)?);
        if let Question::Leave { .. } = asked.question {
            violation = violation.or(self.judge_wake(*world, &run)?);
        }
        violation = violation.or(self.judge_turns(*world, seat, asked, &run)?);
        world.server = run.server;
        let until = self.gone_until(seat, asked, world.tick);
        let attempt = &mut client.attempts[usize::from(seat.attempt)];
        if late {
            overtaken(attempt, asked, run.told, world.tick);
            return Ok((run, violation));
        }
        let mut told = run.told;
        // For how long, and how many are in front, makes no difference to the claim: all such answers are one.
        match &mut told {
            Told::Answer(Answer::Busy(left)) => {
                attempt.sleeps = asked.question == Question::Acquire;
                *left = None;
            }
            Told::Answer(Answer::Waiting(place)) => *place = 1,
            _ => {}
        }
        attempt.flight = Some(Flight {
            asked,
            reply: Some((told, until)),
        });
        Ok((run, violation))
    }

    /// The reply has arrived at its client.
    fn hears(
        &self,
        client: &mut Client,
        seat: Seat,
        asked: Asked,
        (told, until): (Told, u8),
        now: u8,
    ) -> Option<Violation> {
        if let Told::Answer(Answer::Granted(token)) = told {
            self.raise_floor(client, token);
        }
        let place = usize::from(seat.attempt);
        let before = client.attempts[place].clone();
        heard(client, place, asked, (told, until), now);
        believes_again(&before, &client.attempts[place], seat, now)
    }

    fn raise_floor(&self, client: &mut Client, token: FencingToken) {
        if self.bounds.forgets {
            client.floor = client.floor.max(token.get());
        }
    }

    fn after_run(&mut self, world: World, client: Client, seat: Seat, run: &Run) -> World {
        let mut world = self.with(world, seat.client, client);
        for &(grantee, message) in &*run.grants {
            let client = self
                .clients
                .value(world.clients[usize::from(grantee.client)]);
            let mut changed = Client::clone(&client);
            changed.attempts[usize::from(grantee.attempt)].publish(message, world.tick);
            world = self.with(world, grantee.client, changed);
        }
        if run.published {
            self.wake_all(world)
        } else {
            world
        }
    }

    /// The world with one client changed.
    pub(super) fn with(&mut self, mut world: World, client: u8, changed: Client) -> World {
        world.clients[usize::from(client)] = self.clients.number(changed);
        world
    }

    /// Until when nothing of a claim may be on the server after this leave: as long as its mark lives, or for ever if no
    /// acquire of it is unanswered.
    fn gone_until(&self, seat: Seat, asked: Asked, tick: u8) -> u8 {
        match asked.question {
            Question::Leave { overtakes: true }
            | Question::Convert {
                overtakes: true, ..
            } => tick + self.bounds.leases[usize::from(seat.attempt)] - 1,
            Question::Leave { overtakes: false } | Question::Convert { .. } => u8::MAX,
            _ => 0,
        }
    }

    /// A message has gone out. It may arrive late or never: a waiter may look at any moment anyhow.
    fn wake_all(&mut self, mut world: World) -> World {
        for client in 0..self.bounds.clients {
            let value = self.clients.value(world.clients[usize::from(client)]);
            if value.attempts.iter().any(|attempt| attempt.sleeps) {
                let mut changed = Client::clone(&value);
                for attempt in &mut changed.attempts {
                    attempt.sleeps = false;
                }
                world = self.with(world, client, changed);
            }
        }
        world
    }

    /// Time moves on, for the server and the clients alike.
    pub(super) fn tick(&mut self, mut world: World) -> World {
        world.tick += 1;
        let now = world.tick;
        world.server = self.server.settle(world.server, now);
        for client in 0..self.bounds.clients {
            let value = self.clients.value(world.clients[usize::from(client)]);
            let mut changed = Client::clone(&value);
            for attempt in &mut changed.attempts {
                attempt.fold(now);
                attempt.gone = attempt.gone.filter(|until| *until >= now);
            }
            if changed != *value {
                world = self.with(world, client, changed);
            }
        }
        world
    }

    /// The client with a request of that sort on its way, if it may be sent.
    pub(super) fn sent(
        &self,
        client: &Client,
        seat: Seat,
        sending: Sending,
        now: u8,
    ) -> Option<(Asked, Client)> {
        let place = usize::from(seat.attempt);
        let mut changed = client.clone();
        let attempt = &mut changed.attempts[place];
        match sending {
            Sending::First(mode) if self.may_begin(client, seat, now) => {
                self.bear(attempt, seat, mode);
            }
            Sending::Takes(old) if self.may_take(client, seat, old.into()) => {
                self.bear(
                    attempt,
                    seat,
                    client.attempts[usize::from(old)].mode.other(),
                );
                attempt.takes = Some(old);
            }
            Sending::First(_) | Sending::Takes(_) => return None,
            _ => {}
        }
        let asked = match attempt.takes {
            Some(old) if matches!(sending, Sending::Takes(_) | Sending::Again) => {
                self.conversion_for(&mut changed, seat, old, now)?
            }
            _ => {
                // Whoever leaves gives a conversion up.
                let converting = attempt.takes.is_some() || client.successor(place).is_some();
                if converting && sending == Sending::Leave {
                    changed.end(place, now);
                }
                let floor = changed.floor;
                self.asks(&mut changed.attempts[place], floor, sending, now)?
            }
        };
        let attempt = &mut changed.attempts[place];
        // Behind a leave, whatever was on its way is waited for no longer; its answer would change nothing.
        attempt.stray();
        attempt.sleeps = false;
        attempt.flight = Some(Flight { asked, reply: None });
        Some((asked, changed))
    }

    /// The attempt begins with a new claim. Claims are told apart by their seats.
    fn bear(&self, attempt: &mut Attempt, seat: Seat, mode: Mode) {
        let of_all = Seat {
            client: 0,
            attempt: 0,
        };
        let claim = self.server.claim(of_all).clone();
        let mut claim = Claim::new(claim, self.bounds.ttl(seat.attempt), MARGIN);
        if self.model.protocol.queue().is_some() {
            let waiter_ttl = self.bounds.waiter_ttl();
            claim = claim.with_queue(waiter_ttl - MARGIN, waiter_ttl / 3);
        }
        attempt.stage = Stage::Living(claim);
        attempt.mode = mode;
    }

    /// What an attempt that lives asks, if it may.
    fn asks(&self, attempt: &mut Attempt, floor: u64, sending: Sending, now: u8) -> Option<Asked> {
        let mode = attempt.mode;
        let Stage::Living(claim) = &mut attempt.stage else {
            return None;
        };
        let verb = match (sending, claim.validity(moment(now))) {
            (Sending::First(_) | Sending::Again, Validity::NotYet) => Verb::Acquire,
            (Sending::Heartbeat, Validity::NotYet) if claim.renewal() == Verb::Heartbeat => {
                Verb::Heartbeat
            }
            (Sending::Renewal, Validity::Valid | Validity::Uncertain) => claim.renewal(),
            (Sending::Leave, Validity::Ended(_))
                if claim.release_needed() != ReleaseNeeded::None =>
            {
                Verb::Release
            }
            _ => return None,
        };
        let question = match verb {
            Verb::Acquire => Question::Acquire,
            Verb::Heartbeat => Question::Heartbeat,
            Verb::Renew => Question::Renew,
            Verb::Release => Question::Leave {
                overtakes: claim.release_needed() == ReleaseNeeded::WithTombstone,
            },
            _ => return None,
        };
        let token = claim.token();
        let noted = self.model.protocol.queue().is_some() && token.is_none();
        let asked = Asked {
            question,
            mode,
            request: question.number(noted, now),
            floor,
            token,
        };
        claim.send(verb, asked.request, moment(now)).ok()?;
        Some(asked)
    }

    /// Whether a client may begin this attempt: it begins them in order, and the next before the last has ended only if
    /// they can hold together.
    fn may_begin(&self, client: &Client, seat: Seat, now: u8) -> bool {
        let place = usize::from(seat.attempt);
        let only_takes = self.bounds.attempts() - self.bounds.takers;
        let ended = |attempt: &Attempt| match &attempt.stage {
            Stage::Unborn => false,
            Stage::Living(claim) => {
                self.model.together || matches!(claim.validity(moment(now)), Validity::Ended(_))
            }
            Stage::Over => true,
        };
        seat.attempt < only_takes
            && matches!(client.attempts[place].stage, Stage::Unborn)
            && client.attempts[..place].iter().all(ended)
    }
}

fn believes_again(before: &Attempt, after: &Attempt, seat: Seat, now: u8) -> Option<Violation> {
    let (was, is) = (believed(before, now), believed(after, now));
    (was == Some(false) && is == Some(true)).then_some(Violation::BelievesAgain(seat))
}
