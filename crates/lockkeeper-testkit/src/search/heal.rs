//! Progress: from every state, once nothing goes wrong any more, every waiter is served.
//!
//! One run is followed from each state, not all of them: first everything that was on its way is executed, stray or not,
//! and answered; then whoever holds lets go, whoever waits asks again and again, and time passes. Whoever still waits after
//! every lease there can be has ended is never served.

use anyhow::Result;
use lockkeeper_core::claim::Validity;
use lockkeeper_core::protocol::Answer;

use super::bounds::moment;
use super::effect::heard;
use super::explore::Search;
use super::model::{Mode, Seat};
use super::property::Violation;
use super::state::{Asked, Attempt, Client, Flight, Question, Told, World};
use super::step::Sending;

/// A client that is served lets go, and leaves: at most so many requests of one attempt within a tick.
const REQUESTS: usize = 8;

impl Search {
    /// The waiter that is never served from here, if there is one.
    pub(super) fn judge_progress(&mut self, world: World) -> Result<Option<Violation>> {
        let queues = self.model.protocol.queue().is_some();
        if self.waiters(world).is_empty() && !queues {
            return Ok(None);
        }
        let mut world = self.calm(world)?;
        let folded = self.folded(world);
        if !self.healthy.insert(folded) {
            return Ok(None);
        }
        for _ in 0..=self.patience() {
            for seat in self.seats() {
                world = self.proceed(world, seat)?;
            }
            if self.waiters(world).is_empty() {
                return if queues {
                    self.judge_remains(world)
                } else {
                    Ok(None)
                };
            }
            world = self.tick(world);
        }
        Ok(self
            .waiters(world)
            .first()
            .copied()
            .map(Violation::NotServed))
    }

    /// After so many ticks every lease has ended that was not renewed, and every turn that was given to the dead.
    fn patience(&self) -> u8 {
        let leases = 2 * self.bounds.longest() + 1;
        if self.model.protocol.queue().is_some() {
            // Each of them may be pardoned, and then be granted.
            leases + 3 * self.bounds.waiter * self.bounds.clients * self.bounds.attempts()
        } else {
            leases
        }
    }

    /// Nobody of the model wants the name any more: what remains of it must not stay in the way of a late comer, and when that
    /// one has left nothing may remain.
    fn judge_remains(&mut self, world: World) -> Result<Option<Violation>> {
        if !self.server.tidy.insert((world.server, world.tick)) {
            return Ok(None);
        }
        let comer = Seat {
            client: self.bounds.clients,
            attempt: 0,
        };
        let (mut server, mut tick) = (world.server, world.tick);
        for _ in 0..=self.patience() {
            let run = self
                .server
                .run(server, tick, comer, asks(Question::Acquire))?;
            server = run.server;
            if let Told::Answer(Answer::Granted(_)) = run.told {
                let leave = asks(Question::Leave { overtakes: false });
                server = self.server.run(server, tick, comer, leave)?.server;
                if self.model.reading.is_some() {
                    // What the readers had in common lives as long as the longest lease that any of them asked for.
                    tick += self.bounds.longest();
                    server = self.server.settle(server, tick);
                }
                let remains = self.server.has_remains(server, tick);
                return Ok(remains.then_some(Violation::Remains));
            }
            tick += 1;
            server = self.server.settle(server, tick);
        }
        Ok(Some(Violation::Remains))
    }

    /// Executes what is astray, and forgets what does not matter to progress.
    fn calm(&mut self, mut world: World) -> Result<World> {
        for seat in self.seats() {
            let strays = self.attempt(world, seat).strays;
            for asked in strays {
                let client = self.clients.value(world.clients[usize::from(seat.client)]);
                world = self
                    .execute(world, Client::clone(&client), seat, asked, true)?
                    .1;
            }
        }
        for seat in self.seats() {
            let mut attempt = self.attempt(world, seat);
            attempt.strays.clear();
            (attempt.sleeps, attempt.gone) = (false, None);
            // All of them are lost.
            attempt.messages.clear();
            world = self.change(world, seat, attempt);
        }
        (world.faults, world.endings, world.last) = (0, 0, None);
        world.last_read = None;
        Ok(world)
    }

    /// Does for one attempt what a client does that lets go as soon as it holds.
    fn proceed(&mut self, mut world: World, seat: Seat) -> Result<World> {
        let mut asked_now = false;
        for _ in 0..REQUESTS {
            let now = moment(world.tick);
            let client = self.clients.value(world.clients[usize::from(seat.client)]);
            let attempt = &client.attempts[usize::from(seat.attempt)];
            if let Some(Flight { asked, reply }) = attempt.flight {
                world = match reply {
                    None => {
                        self.execute(world, Client::clone(&client), seat, asked, false)?
                            .1
                    }
                    Some((told, until)) => {
                        let mut changed = Client::clone(&client);
                        let place = usize::from(seat.attempt);
                        heard(&mut changed, place, asked, (told, until), world.tick);
                        self.with(world, seat.client, changed)
                    }
                };
                continue;
            }
            let Some(belief) = attempt.claim().map(|claim| claim.validity(now)) else {
                return Ok(world);
            };
            let (sleeps, mut client) = (attempt.sleeps, Client::clone(&client));
            let sent = match belief {
                Validity::NotYet
                    if asked_now && (sleeps || self.model.protocol.queue().is_some()) =>
                {
                    return Ok(world);
                }
                Validity::NotYet => self
                    .sent(&client, seat, Sending::Again, world.tick)
                    .or_else(|| self.sent(&client, seat, Sending::Heartbeat, world.tick)),
                _ => None,
            };
            let sent = sent.or_else(|| {
                // It lets go, or conversions and can do so no more.
                client.end(usize::from(seat.attempt), world.tick);
                self.sent(&client, seat, Sending::Leave, world.tick)
            });
            let Some((_, sent)) = sent else {
                return Ok(self.with(world, seat.client, client));
            };
            world = self.with(world, seat.client, sent);
            asked_now = true;
        }
        Ok(world)
    }

    fn attempt(&self, world: World, seat: Seat) -> Attempt {
        let client = self.clients.value(world.clients[usize::from(seat.client)]);
        client.attempts[usize::from(seat.attempt)].clone()
    }

    fn change(&mut self, world: World, seat: Seat, attempt: Attempt) -> World {
        let client = self.clients.value(world.clients[usize::from(seat.client)]);
        let changed = with(&client, seat, attempt);
        self.with(world, seat.client, changed)
    }
}

fn with(client: &Client, seat: Seat, attempt: Attempt) -> Client {
    let mut changed = client.clone();
    changed.attempts[usize::from(seat.attempt)] = attempt;
    changed
}

fn asks(question: Question) -> Asked {
    Asked {
        question,
        mode: Mode::Write,
        request: question.number(false, 0),
        floor: 0,
        token: None,
    }
}
