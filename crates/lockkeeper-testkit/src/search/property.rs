//! What must hold in every state and at every step.

use std::fmt;

use anyhow::Result;
use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::Belief;
use lockkeeper_core::protocol::Answer;

use super::bounds::moment;
use super::explore::Search;
use super::model::Seat;
use super::server::Run;
use super::state::{Asked, Told, World};

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
    /// Belief had ended and has come back.
    BelievesAgain(Seat),
    /// A request that may not create has made a claim hold that did not.
    Revived(Seat),
    /// The leave was confirmed, and the server has the claim.
    NotGone(Seat),
    /// A leave has made the name free, a waiter sleeps, and nobody has told it.
    NotWoken(Seat),
    /// Without any further fault, a waiter is not served.
    NotServed(Seat),
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
        let prolongs = match told {
            Told::Answer(Answer::Renewed) => true,
            Told::Answer(Answer::Granted(_)) => asked.token.is_some(),
            _ => false,
        };
        let revived =
            prolongs && self.server.alive(world.server, world.tick)? & self.server.bit(seat) == 0;
        Ok(revived.then_some(Violation::Revived(seat)))
    }

    /// The property that a grant breaks. `world` is the one before it.
    pub(super) fn judge_grant(
        &mut self,
        world: World,
        seat: Seat,
        told: Told,
    ) -> Result<Option<Violation>> {
        let (Told::Answer(Answer::Granted(token)), Some(last)) = (told, world.last) else {
            return Ok(None);
        };
        if token < last.token || token == last.token && self.model.exclude(seat, last.seat) {
            return Ok(Some(Violation::TokenNotLarger(seat, token)));
        }
        if token == last.token || !self.model.together {
            return Ok(None);
        }
        let alive = self.server.alive(world.server, world.tick)?;
        let joined = self
            .seats()
            .any(|other| !self.model.exclude(seat, other) && alive & self.server.bit(other) != 0);
        Ok(joined.then_some(Violation::TokenNotShared(seat, token)))
    }

    /// The property that does not hold in this state, progress apart.
    pub(super) fn judge(&mut self, world: World) -> Result<Option<Violation>> {
        let now = moment(world.tick);
        let clients: Vec<_> = (0..self.bounds.clients)
            .map(|client| self.clients.value(world.clients[usize::from(client)]))
            .collect();
        let mut believed: Vec<(Seat, FencingToken)> = Vec::new();
        let mut gone = Vec::new();
        for seat in self.seats() {
            let client = &clients[usize::from(seat.client)];
            let attempt = &client.attempts[usize::from(seat.attempt)];
            gone.extend(attempt.gone.map(|_| seat));
            if let Some(claim) = attempt.claim()
                && let Belief::Held | Belief::Uncertain = claim.belief(now)
                && let Some(token) = claim.token()
            {
                believed.push((seat, token));
            }
        }
        for (place, (one, _)) in believed.iter().enumerate() {
            for (other, _) in &believed[..place] {
                if self.model.exclude(*one, *other) {
                    return Ok(Some(Violation::Overlap(*other, *one)));
                }
            }
        }
        if let Some(last) = world.last {
            let passed = |(seat, token): &&(Seat, FencingToken)| {
                last.token > *token && self.model.exclude(*seat, last.seat)
            };
            if let Some((seat, token)) = believed.iter().find(passed) {
                return Ok(Some(Violation::TokenPassed(*seat, *token, last.seat)));
            }
        }
        if gone.is_empty() {
            return Ok(None);
        }
        let alive = self.server.alive(world.server, world.tick)?;
        let back = gone
            .into_iter()
            .find(|seat| alive & self.server.bit(*seat) != 0);
        Ok(back.map(Violation::NotGone))
    }

    /// The waiter that sleeps on, though this run of a leave has made the name free. `world` is the one before it.
    pub(super) fn judge_wake(&mut self, world: World, run: Run) -> Result<Option<Violation>> {
        let sleeper = self.seats().find(|seat| {
            let client = self.clients.value(world.clients[usize::from(seat.client)]);
            client.attempts[usize::from(seat.attempt)].sleeps
        });
        let freed = !run.published
            && sleeper.is_some()
            && self.server.alive(world.server, world.tick)? != 0
            && self.server.alive(run.server, world.tick)? == 0;
        Ok(sleeper.filter(|_| freed).map(Violation::NotWoken))
    }

    /// Every seat there is.
    pub(super) fn seats(&self) -> impl Iterator<Item = Seat> + use<> {
        let attempts = self.bounds.attempts();
        (0..self.bounds.clients)
            .flat_map(move |client| (0..attempts).map(move |attempt| Seat { client, attempt }))
    }

    /// Who asks and would be served one day, in order.
    pub(super) fn waiters(&self, world: World) -> Vec<Seat> {
        let now = moment(world.tick);
        self.seats()
            .filter(|seat| {
                let client = self.clients.value(world.clients[usize::from(seat.client)]);
                let claim = client.attempts[usize::from(seat.attempt)].claim();
                claim.is_some_and(|claim| claim.belief(now) == Belief::None)
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
        for (last, seat, passed) in [(5, seat(0), false), (6, seat(0), false), (6, seat(1), true)] {
            let token = token(last);
            world.last = Some(Grant { token, seat });
            let judged = search.judge(world).unwrap();
            assert_eq!(judged.is_some(), passed, "{judged:?}");
        }
    }
}
