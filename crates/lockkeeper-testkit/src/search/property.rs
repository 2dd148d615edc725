//! What must hold in every state and at every step.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::Validity;
use lockkeeper_core::protocol::Answer;

use super::bounds::moment;
use super::explore::Search;
use super::model::{Mode, Seat, seats};
use super::server::Run;
use super::state::{Asked, Question, Told, World};

/// A property that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two claims that exclude one another are believed in.
    Overlap(Seat, Seat),
    /// A grant does not have a larger token than the grant before, which excludes it.
    TokenNotLarger(Seat, FencingToken),
    /// A re-entry does not share the token of those it joins.
    TokenNotShared(Seat, FencingToken),
    /// A claim is believed in, and a larger token has been granted to one that excludes it.
    TokenPassed(Seat, FencingToken, Seat),
    /// Validity had ended and has come back.
    BelievesAgain(Seat),
    /// The first claim is told that it is gone, and it is the second one, of its own client, that has its place.
    LostToItself(Seat, Seat),
    /// A request that may not create has made a claim hold that did not.
    Revived(Seat),
    /// The leave was confirmed, and the server has the claim.
    NotGone(Seat),
    /// A leave has made the name free, a waiter sleeps, and nobody has told it.
    NotWoken(Seat),
    /// Without any further fault, a waiter is not served.
    NotServed(Seat),
    /// A claim is believed in for longer than the server keeps it.
    BelievesTooLong(Seat),
    /// A claim was heard not long ago, and is neither in the queue nor holds.
    PlaceLost(Seat),
    /// The first claim has stood in the queue, and the second one has got past it.
    PassedOver(Seat, Seat),
    /// A claim waits and nobody holds, though a script has looked.
    NoTurn(Seat),
    /// A claim has been granted by a request of another, and its client is not told.
    NotTold(Seat),
    /// A claim has been granted by a request of another, and for longer than a waiter's ttl: it may be dead.
    GrantedTooLong(Seat),
    /// When nobody wants the name any more, a late comer is not served, or something of the name remains.
    Remains,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Overlap(one, other) => write!(f, "{one} and {other} both believe that they hold"),
            Self::TokenNotLarger(seat, token) => write!(
                f,
                "{seat} is granted token {token}, which is not larger than that of the grant before"
            ),
            Self::TokenNotShared(seat, token) => write!(
                f,
                "{seat} joins its owner's other claims and is granted token {token}, which is not theirs"
            ),
            Self::TokenPassed(seat, token, other) => write!(
                f,
                "{seat} believes in token {token}, and {other} has been granted a larger one"
            ),
            Self::BelievesAgain(seat) => {
                write!(
                    f,
                    "{seat} had ceased to believe that it holds, and believes again"
                )
            }
            Self::LostToItself(seat, other) => write!(
                f,
                "{seat} is told that it is gone, and it is {other} that has taken its place"
            ),
            Self::Revived(seat) => {
                write!(
                    f,
                    "{seat} held no longer, and a request that may not create has brought it back"
                )
            }
            Self::NotGone(seat) => {
                write!(
                    f,
                    "the leave of {seat} was confirmed, and the server has its claim"
                )
            }
            Self::NotWoken(seat) => {
                write!(
                    f,
                    "the leave has made the name free, {seat} sleeps, and nobody has told it"
                )
            }
            Self::NotServed(seat) => {
                write!(
                    f,
                    "{seat} is never served, though nothing goes wrong any more"
                )
            }
            Self::BelievesTooLong(seat) => write!(
                f,
                "{seat} believes that it holds for longer than the server keeps its claim"
            ),
            Self::PlaceLost(seat) => write!(
                f,
                "{seat} was heard not long ago, and neither waits nor holds on the server"
            ),
            Self::PassedOver(seat, other) => write!(f, "{other} has got past {seat} in the queue"),
            Self::NoTurn(seat) => {
                write!(f, "{seat} waits, the name is free, and a script has let it be")
            }
            Self::NotTold(seat) => write!(f, "{seat} is granted, and its client is not told"),
            Self::GrantedTooLong(seat) => write!(
                f,
                "{seat} is granted unasked, and for longer than the ttl of a waiter"
            ),
            Self::Remains => f.write_str(
                "when nobody wants the name any more, a late comer is not served, or something remains",
            ),
        }
    }
}

impl Search {
    /// The property that an answer breaks, other than that of an acquire that may create: only those create. `world` is the
    /// one before it.
    pub(super) fn judge_revival(
        &mut self,
        world: World,
        seat: Seat,
        asked: Asked,
        told: Told,
    ) -> Result<Option<Violation>> {
        let heartbeats = asked.question == Question::Heartbeat;
        let conversions = matches!(asked.question, Question::Convert { .. });
        let prolongs = match told {
            Told::Answer(Answer::Renewed) => true,
            Told::Answer(Answer::Granted(_)) => heartbeats || conversions || asked.token.is_some(),
            Told::Answer(Answer::Waiting(_) | Answer::More) => heartbeats,
            _ => false,
        };
        if !prolongs {
            return Ok(None);
        }
        let standing = self.server.standing(world.server, world.tick)?;
        let place = self.server.place_of(seat);
        let converted = match asked.question {
            Question::Convert { old, .. } => {
                let attempt = old;
                standing.left[self.server.place_of(Seat { attempt, ..seat })].is_some()
            }
            _ => false,
        };
        let there = converted
            || standing.left[place].is_some()
            || heartbeats && standing.queued[place].is_some();
        Ok((!there).then_some(Violation::Revived(seat)))
    }

    /// The property that does not hold in this state, progress apart.
    pub(super) fn judge(&mut self, world: World) -> Result<Option<Violation>> {
        let now = moment(world.tick);
        let clients: Vec<_> = (0..self.bounds.clients)
            .map(|client| self.clients.value(world.clients[usize::from(client)]))
            .collect();
        let (mut broken, mut believed) = (None, Vec::<(Seat, Mode, FencingToken)>::new());
        let standing = self.server.standing(world.server, world.tick)?;
        for seat in self.seats() {
            let client = &clients[usize::from(seat.client)];
            let attempt = &client.attempts[usize::from(seat.attempt)];
            let place = self.server.place_of(seat);
            let (left, queued) = (standing.left[place], standing.queued[place]);
            if attempt.gone.is_some() && (left.is_some() || queued.is_some()) {
                broken = broken.or(Some(Violation::NotGone(seat)));
            }
            let Some(claim) = attempt.claim() else {
                continue;
            };
            if let Validity::Valid | Validity::Uncertain = claim.validity(now)
                && let (Some(token), Some(deadline)) = (claim.token(), claim.deadline())
            {
                believed.push((seat, attempt.mode, token));
                // As long as it is being converted its place may be the other's already.
                let taker = client.successor(seat.attempt.into());
                let taken = taker
                    .and_then(|taker| standing.left[place + taker - usize::from(seat.attempt)]);
                let left = left.max(taken);
                let end = left.map(|left| now.after(Duration::from_millis(left)));
                if end.is_none_or(|end| end < deadline) {
                    broken = broken.or(Some(Violation::BelievesTooLong(seat)));
                }
            }
            if left.is_none() && queued.is_none() && self.was_heard_lately(world, seat) {
                broken = broken.or(Some(Violation::PlaceLost(seat)));
            }
        }
        for (place, &(one, its, _)) in believed.iter().enumerate() {
            for &(other, others, _) in &believed[..place] {
                if self.model.exclude((one, its), (other, others)) {
                    return Ok(Some(Violation::Overlap(other, one)));
                }
            }
        }
        Ok(self.token_passed(world, &believed).or(broken))
    }

    /// The waiter that sleeps on, though this run of a leave has made the name free. `world` is the one before it.
    pub(super) fn judge_wake(&mut self, world: World, run: &Run) -> Result<Option<Violation>> {
        let sleeper = self.seats().find(|seat| {
            let client = self.clients.value(world.clients[usize::from(seat.client)]);
            client.attempts[usize::from(seat.attempt)].sleeps
        });
        let freed = !run.published
            && sleeper.is_some()
            && !self.server.standing(world.server, world.tick)?.is_free()
            && self.server.standing(run.server, world.tick)?.is_free();
        Ok(sleeper.filter(|_| freed).map(Violation::NotWoken))
    }

    /// Every seat there is.
    pub(super) fn seats(&self) -> impl Iterator<Item = Seat> + use<> {
        seats(self.bounds.clients, self.bounds.attempts())
    }

    /// Who asks and would be served one day, in order.
    pub(super) fn waiters(&self, world: World) -> Vec<Seat> {
        let now = moment(world.tick);
        self.seats()
            .filter(|seat| {
                let client = self.clients.value(world.clients[usize::from(seat.client)]);
                let claim = client.attempts[usize::from(seat.attempt)].claim();
                claim.is_some_and(|claim| claim.validity(now) == Validity::NotYet)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::claim::Claim;
    use lockkeeper_core::protocol::Verb;

    use super::super::bounds::{Bounds, MARGIN};
    use super::super::model::Model;
    use super::super::state::{Client, Grant, Stage};
    use super::*;

    #[test]
    fn a_claim_is_not_to_be_believed_in_when_a_larger_token_has_been_granted_to_another() {
        let bounds = Bounds::small();
        let mut search = Search::new(&Model::mutex().unwrap(), &bounds, None).unwrap();
        let seat = |client| Seat { client, attempt: 0 };
        let token = FencingToken::new;
        let mut client = Client::new(bounds.attempts());
        let id = search.server.claim(seat(0)).clone();
        let mut claim = Claim::new(id, bounds.ttl(0), MARGIN);
        claim.send(Verb::Acquire, 1, moment(0)).unwrap();
        claim.answered(1, Answer::Granted(token(5)), moment(0));
        client.attempts[0].stage = Stage::Living(claim);
        let world = search.beginning;
        let mut world = search.with(world, 0, client);
        // Of what it believes the server has nothing; that is judged last.
        let alone = Violation::BelievesTooLong(seat(0));
        let passed = Violation::TokenPassed(seat(0), token(5), seat(1));
        for (last, grantee, expected) in [
            (5, seat(0), alone),
            (6, seat(0), alone),
            (6, seat(1), passed),
        ] {
            world.last = Some(Grant {
                token: token(last),
                seat: grantee,
            });
            assert_eq!(search.judge(world).unwrap(), Some(expected));
        }
    }
}
