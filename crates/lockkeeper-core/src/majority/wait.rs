//! Waiting for a name on several servers: a place in the line of each client. Messages from so many of them that a majority may
//! be free are reason to look. One from a single server seldom is: of a minority that a holder does not have, waiters take and
//! leave claims in vain, and each leave is told to all of them.

use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

use super::QuorumLock;
use crate::clock::{Moment, sleep_until, sleep_until_some};
use crate::error::{Error, Result};
use crate::notify::Place;
use crate::owner::Owner;
use crate::pause::Pauses;

/// How long the first message waits for those of the other servers, at most: who holds leaves all of them, one after the other,
/// and a round between would find the rest held. Jitter, too: those who were told together do not ask together.
const GATHER: Duration = Duration::from_millis(5);

/// Places in the lines of all clients.
pub(super) struct Watch {
    lock: QuorumLock,
    /// `None`: the server does not allow to wait there.
    places: Vec<Option<Place>>,
    /// Whose turn has come since the last round.
    looking: Vec<bool>,
    /// Which servers granted nothing in the last round, because others held or they took no part.
    shut: Vec<bool>,
    /// Before a look for which there is reason on fewer servers than a majority.
    doubts: Pauses,
    /// Jitter comes from here.
    random: fastrand::Rng,
    /// When to look whatever is said, by the first server's clock.
    look_at: Option<Moment>,
}

impl Watch {
    /// Whether anybody of these clients already waits for the name.
    pub(super) fn crowded(lock: &QuorumLock) -> bool {
        let mut nodes = lock.nodes.iter();
        nodes.any(|node| node.engine.hub.crowded(&node.protocol.channel()))
    }

    pub(super) fn new(lock: &QuorumLock, owner: Owner, patience: Duration, seed: u64) -> Self {
        let places = lock.nodes.iter().map(|node| {
            let hub = &node.engine.hub;
            Some(Place::new(hub, &node.protocol, owner, patience, None))
        });
        let places: Vec<_> = places.collect();
        Self {
            looking: vec![false; places.len()],
            shut: vec![false; places.len()],
            doubts: Pauses::new(seed),
            places,
            lock: lock.clone(),
            random: fastrand::Rng::with_seed(seed),
            look_at: None,
        }
    }

    /// Whether a majority may be free if these servers have told of a change since the last round. Of one that does not allow
    /// to wait there nobody knows.
    fn may_be_free(&self, told: &[usize]) -> bool {
        let shut = |number: &usize| {
            self.shut[*number] && self.places[*number].is_some() && !told.contains(number)
        };
        let shut = (0..self.places.len()).filter(shut).count();
        !self.lock.quorum.is_prevented(shut)
    }

    /// Waits until it is this waiter's turn to ask: a majority has told, or the time is over for which others hold; or, after a
    /// pause that grows from time to time, fewer have told and a majority may be free.
    pub(super) async fn turn(&mut self) -> Result<()> {
        let clock = self.lock.first().clock();
        let turns = self.places.iter().enumerate();
        let mut turns: FuturesUnordered<_> = turns
            .filter_map(|(number, place)| Some((number, place.as_ref()?)))
            .map(async |(number, place)| (number, place.turn().await))
            .collect();
        let (mut told, mut refused) = (Vec::new(), Vec::new());
        let mut pause = None;
        while !self.lock.quorum.is_reached(told.len()) {
            // With nobody left to hear of it there is no other reason to look.
            let may_be_free = !told.is_empty() && self.may_be_free(&told);
            if pause.is_none() && (may_be_free || turns.is_empty()) {
                pause = Some(clock.now().after(self.doubts.next()));
            }
            let until = self.look_at.into_iter().chain(pause).min();
            tokio::select! {
                biased;
                () = sleep_until_some(clock, until) => break,
                Some(turn) = turns.next() => match turn {
                    (number, Ok(())) => told.push(number),
                    (number, Err(error)) => refused.push((number, error)),
                },
            }
            if self.places.iter().flatten().count() == refused.len() {
                let context = format!("wait for lock {:?}", self.lock.name());
                return Err(match refused.pop() {
                    Some((_, error)) => Error::backend(context, error),
                    None => Error::Closed,
                });
            }
        }
        if pause.is_none() || self.lock.quorum.is_reached(told.len()) {
            self.doubts = Pauses::new(self.random.u64(..));
        }
        let gather = GATHER.mul_f64(self.random.f64());
        sleep_until(clock, clock.now().after(gather)).await;
        while let Some(Some((number, Ok(())))) = turns.next().now_or_never() {
            told.push(number);
        }
        drop(turns);
        for number in told {
            self.looking[number] = true;
        }
        for (number, _) in refused {
            self.places[number] = None;
        }
        self.look_at = None;
        Ok(())
    }

    /// The round that followed granted nothing, because of these servers: others hold, perhaps for so long.
    pub(super) fn looked(&mut self, free: Option<Duration>, shut: Vec<bool>) {
        self.shut = shut;
        for (number, place) in self.places.iter().enumerate() {
            let looked = std::mem::take(&mut self.looking[number]);
            if let Some(place) = place.as_ref().filter(|_| looked) {
                let now = self.lock.nodes[number].now();
                place.busy(free.map(|free| now.after(free)));
            }
        }
        let now = self.lock.first().now();
        self.look_at = free.map(|free| now.after(free));
    }

    /// The next turn is now.
    pub(super) fn look_now(&mut self) {
        self.look_at = Some(self.lock.first().now());
    }

    /// This waiter holds, for so long if nothing else happens.
    pub(super) fn granted(self, remaining: Duration) {
        for (number, place) in self.places.into_iter().enumerate() {
            if let Some(place) = place {
                place.granted(self.lock.nodes[number].now().after(remaining));
            }
        }
    }
}
