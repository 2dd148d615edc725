//! Waiting for the turn to ask again, where there is no queue on the server: a place in the local queue of a name that
//! others hold; for a lock on several servers, one place for each server. [`registry`](crate::registry) says whose turn
//! it is.
//!
//! With several servers, a waiter asks again only when enough of them have sent messages that a majority may be free. A
//! message from a single server seldom means that: competing callers take and release claims on a minority in vain, and
//! every release sends a message to all waiters.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::acquire::stage::{Busy, Stage};
use crate::engine::subscriptions::{Over, Place};
use crate::grant::hold::Hold;
use crate::quorum::Quorum;
use crate::schedule::pause::Pauses;
use crate::seam::clock::{sleep_until, sleep_until_some};
use crate::seam::protocol::Foreign;
use crate::words::chance::{Chance, Purpose};
use crate::words::error::{Error, Result};
use crate::words::moment::Moment;
use crate::words::record::Record;
use crate::words::store_error::StoreError;

/// How long to wait at most for the messages of the remaining servers once some have sent theirs: a holder releases the
/// servers one after the other, and a round in between would find the rest still held. There is no such wait if all
/// servers have sent messages, unless there is a crowd.
const GATHER: Duration = Duration::from_millis(5);

/// How long a client assumes that there is a crowd after competing callers have kept a claim from a majority. During
/// this time, waiters that receive a message together do not ask together. It covers many hand-overs of a contended
/// lock, and is over soon after the crowd is gone.
const CROWD: Duration = Duration::from_secs(1);

/// See the module documentation.
pub(super) enum Turn {
    /// On one server.
    One(Place),
    /// On every server.
    Majority(Box<Watch>),
}

/// Places in the local queues of all servers.
pub(super) struct Watch {
    quorum: Quorum,
    /// `None`: this server does not allow its user to subscribe.
    places: Vec<Option<Place>>,
    /// The servers whose turn has come since the last round.
    looking: Vec<bool>,
    /// The servers that granted nothing in the last round, because others held or they were quarantined.
    shut: Vec<bool>,
    /// The pauses before a round, if fewer servers than a majority have sent messages.
    doubts: Pauses,
    chance: Chance,
    /// How often it has waited for its turn.
    turns: u64,
    /// When to ask even without messages, by the first server's clock.
    look_at: Option<Moment>,
}

impl Turn {
    /// A turn behind waiters of this client that must not be overtaken; `None` if there are none.
    pub(super) fn behind_others(stage: &Stage, chance: Chance) -> Option<Self> {
        stage.is_crowded().then(|| Self::new(stage, chance, None))
    }

    /// The turn after an attempt that found others holding, or the first turn.
    pub(super) fn after(turn: Option<Self>, stage: &Stage, chance: Chance, busy: &Busy) -> Self {
        let mut turn = match turn {
            Some(Self::One(place)) => {
                let foreign = stage.first().protocol.foreign();
                place.busy(busy.until, foreign.and_then(Foreign::parts_known));
                return Self::One(place);
            }
            Some(turn) => turn,
            None => Self::new(stage, chance, busy.until),
        };
        if let Self::Majority(watch) = &mut turn {
            watch.looked(stage, busy);
        }
        turn
    }

    fn new(stage: &Stage, chance: Chance, until: Option<Moment>) -> Self {
        match stage.quorum {
            Some(quorum) => Self::Majority(Box::new(Watch::new(stage, chance, quorum))),
            None => {
                let spec = stage.first();
                let (subscriptions, protocol) = (&spec.engine.subscriptions, &spec.protocol);
                let place = Place::new(subscriptions, protocol, spec.owner, stage.patience, until);
                Self::One(place)
            }
        }
    }

    /// Waits until it is this waiter's turn to ask.
    pub(super) async fn come(&mut self, stage: &Stage) -> Result<()> {
        match self {
            Self::One(place) => {
                let turn = place.turn().await;
                turn.map_err(|over| over.error(stage))
            }
            // Boxed, so that a wait on one server needs no memory for it.
            Self::Majority(watch) => Box::pin(watch.turn(stage)).await,
        }
    }

    /// The last request got no answer: who has less patience asks too.
    pub(super) fn silent(&self) {
        if let Self::One(place) = self {
            place.silent();
        }
    }

    /// The server was unreachable for too long: all local waiters with no more patience than this one give up together.
    pub(super) fn unreachable(&self, error: &StoreError) {
        if let Self::One(place) = self {
            place.unreachable(error);
        }
    }

    /// There is nothing to hold any more: all local waiters that were here before the poll stop waiting.
    pub(super) fn done(&self, record: &Arc<Record>) {
        if let Self::One(place) = self {
            place.done(record);
        }
    }

    /// This waiter holds now, until its lease ends if nothing else happens.
    pub(super) fn granted(self, stage: &Stage, hold: &Hold) {
        match self {
            Self::One(place) => {
                let (_, deadline) = hold.lease().grant().part(0).validity();
                place.granted(deadline.unwrap_or_else(|| stage.clock().now()));
            }
            Self::Majority(watch) => watch.granted(stage, hold.remaining()),
        }
    }
}

impl Over {
    fn error(self, stage: &Stage) -> Error {
        match self {
            Self::Impossible(error) => stage.backend(0, "wait for", error),
            Self::Done(record) => stage.done(record),
        }
    }
}

impl Watch {
    fn new(stage: &Stage, chance: Chance, quorum: Quorum) -> Self {
        let places = stage.specs.iter().map(|spec| {
            let (subscriptions, protocol) = (&spec.engine.subscriptions, &spec.protocol);
            let place = Place::new(subscriptions, protocol, spec.owner, stage.patience, None);
            Some(place)
        });
        let places: Vec<_> = places.collect();
        Self {
            quorum,
            looking: vec![false; places.len()],
            shut: vec![false; places.len()],
            doubts: Pauses::new(chance.draw(Purpose::Doubts, 0)),
            places,
            chance,
            turns: 0,
            look_at: None,
        }
    }

    /// Whether a majority may be free if these servers have reported a change since the last round. A server on which
    /// the client may not subscribe always counts as possibly free.
    fn may_be_free(&self, told: &[usize]) -> bool {
        let shut = |number: &usize| {
            self.shut[*number] && self.places[*number].is_some() && !told.contains(number)
        };
        let shut = (0..self.places.len()).filter(shut).count();
        !self.quorum.is_prevented(shut)
    }

    /// Waits until it is this waiter's turn to ask. That is when:
    ///
    /// - a majority of servers has sent messages;
    /// - the holders' leases are over;
    /// - fewer servers have sent messages, but a majority may be free, and a pause is over that grows each time.
    ///
    /// If not all servers have sent messages, or there is a crowd, it waits a moment longer.
    async fn turn(&mut self, stage: &Stage) -> Result<()> {
        self.turns += 1;
        let clock = Arc::clone(stage.clock());
        let turns = self.places.iter().enumerate();
        let mut turns: FuturesUnordered<_> = turns
            .filter_map(|(number, place)| Some((number, place.as_ref()?)))
            .map(async |(number, place)| (number, place.turn().await))
            .collect();
        let (mut told, mut refused) = (Vec::new(), Vec::new());
        let mut pause = None;
        while !self.quorum.is_reached(told.len()) {
            // If no server is left that could send a message, only the pause leads to another round.
            let may_be_free = !told.is_empty() && self.may_be_free(&told);
            if pause.is_none() && (may_be_free || turns.is_empty()) {
                pause = Some(clock.now().after(self.doubts.next()));
            }
            let until = self.look_at.into_iter().chain(pause).min();
            tokio::select! {
                biased;
                () = sleep_until_some(&clock, until) => break,
                Some(turn) = turns.next() => match turn {
                    (number, Ok(())) => told.push(number),
                    (number, Err(error)) => refused.push((number, error)),
                },
            }
            if self.places.iter().flatten().count() == refused.len() {
                return Err(match refused.pop() {
                    Some((_, over)) => over.error(stage),
                    None => Error::Closed,
                });
            }
        }
        if pause.is_none() || self.quorum.is_reached(told.len()) {
            self.doubts = Pauses::new(self.chance.draw(Purpose::Doubts, self.turns));
        }
        let gather = self.chance.within(GATHER, Purpose::Gather, self.turns);
        let gather = clock.now().after(gather);
        let crowd = stage.first().engine.requester.was_split_within(CROWD);
        while !told.is_empty() && (crowd || !turns.is_empty()) {
            tokio::select! {
                biased;
                Some(turn) = turns.next() => match turn {
                    (number, Ok(())) => told.push(number),
                    (number, Err(error)) => refused.push((number, error)),
                },
                () = sleep_until(&clock, gather) => break,
            }
        }
        drop(turns);
        for (number, place) in self.places.iter().enumerate() {
            // The round that follows also sees what other messages have reported meanwhile. If this waiter did not take those
            // turns, the next one would ask because of them as soon as this one holds, and take some of the servers as soon as
            // it begins to release.
            let takes = place.as_ref().is_some_and(Place::try_turn);
            self.looking[number] |= takes || told.contains(&number);
        }
        for (number, _) in refused {
            self.places[number] = None;
        }
        self.look_at = None;
        Ok(())
    }

    /// The round that followed granted nothing, because others hold.
    fn looked(&mut self, stage: &Stage, busy: &Busy) {
        let now = stage.clock().now();
        let left = busy.until.map(|until| until.since(now));
        for (number, place) in self.places.iter().enumerate() {
            self.shut[number] = busy.specs.iter().any(|(it, _)| *it == number);
            let looked = std::mem::take(&mut self.looking[number]);
            if let Some(place) = place.as_ref().filter(|_| looked) {
                let now = stage.specs[number].engine.requester.clock.now();
                place.busy(left.map(|left| now.after(left)), None);
            }
        }
        self.look_at = busy.until;
    }

    /// This waiter holds now, for this long if nothing else happens.
    fn granted(self, stage: &Stage, remaining: Duration) {
        for (spec, place) in stage.specs.iter().zip(self.places) {
            if let Some(place) = place {
                place.granted(spec.engine.requester.clock.now().after(remaining));
            }
        }
    }
}
