//! The parts that the states of all searches share: time, interned values, and the requests of a client.

use std::hash::Hash;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use indexmap::IndexSet;
use lockkeeper_core::Owner;
use lockkeeper_core::claim::{Claim, ReleaseNeeded};
use lockkeeper_core::clock::Moment;
use rustc_hash::FxBuildHasher;

/// How much earlier than on the server a lease ends for its holder: as little as possible, so that an error of one tick shows.
pub(super) const MARGIN: Duration = Duration::from_millis(1);

/// How long before a whole number of ticks a lease ends on the server, ms.
const EARLY: u64 = 5;

/// The server's clock at tick zero, ms.
const BEGINNING: u64 = 1_000_000;

/// A contender within a state.
pub(super) struct Here<S, C> {
    pub(super) state: S,
    pub(super) client: u8,
    pub(super) contender: Rc<C>,
    /// The clients' time.
    pub(super) now: Moment,
}

impl<S, C: Clone> Here<S, C> {
    pub(super) fn copy(&self) -> C {
        C::clone(&self.contender)
    }
}

/// The length of a tick, ms. Time moves in ticks, and nothing happens between two of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks(pub(super) u64);

impl Ticks {
    /// The clients' time at a tick.
    pub(super) const fn moment(self, tick: u8) -> Moment {
        Moment::from_elapsed(Duration::from_millis(tick as u64 * self.0))
    }

    /// The duration of a lease of this many ticks on the server.
    pub(super) const fn lease(self, ticks: u8) -> Duration {
        Duration::from_millis(ticks as u64 * self.0 - EARLY)
    }

    /// The time at a tick on a server whose clock is this many milliseconds ahead, µs.
    pub(super) fn server_time(self, tick: u8, ahead: i64) -> i64 {
        let millis = BEGINNING + u64::from(tick) * self.0;
        i64::try_from(millis).map_or(i64::MAX, |millis| (millis + ahead) * 1000)
    }
}

/// The end of every client's uuid; the digit before it distinguishes the clients.
pub(super) const TAIL: &str = "-0000-4000-8000-000000000000";

/// The owner of all claims of a client.
///
/// # Errors
///
/// If a digit cannot name the client.
pub fn owner(client: u8) -> Result<Owner> {
    Ok(format!("0000000{client}{TAIL}:1").parse()?)
}

/// Whether a claim needs a release, and then whether with a tombstone.
pub(super) fn release_needed(claim: &Claim) -> Option<bool> {
    match claim.release_needed() {
        ReleaseNeeded::WithTombstone => Some(true),
        ReleaseNeeded::Plain => Some(false),
        _ => None,
    }
}

/// Interned values: equal values share one number, in order of appearance.
#[derive(Debug)]
pub(super) struct Interned<T>(IndexSet<Rc<T>, FxBuildHasher>);

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self(IndexSet::default())
    }
}

impl<T: Eq + Hash> Interned<T> {
    pub(super) fn number(&mut self, value: T) -> u32 {
        let index = match self.0.get_index_of(&value) {
            Some(index) => index,
            None => self.0.insert_full(Rc::new(value)).0,
        };
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    pub(super) fn value(&self, number: u32) -> Rc<T> {
        Rc::clone(&self.0[number as usize])
    }
}

/// A few different values, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sorted<T>(Vec<T>);

impl<T> Sorted<T> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }
}

impl<T: Ord> Sorted<T> {
    pub(super) fn insert(&mut self, value: T) {
        if let Err(place) = self.0.binary_search(&value) {
            self.0.insert(place, value);
        }
    }
}

impl<T> Deref for Sorted<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// A client's requests to a server that have no answer yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Requests<A, R> {
    /// The request that the client waits for.
    pub(super) under_way: Option<UnderWay<A, R>>,
    /// Requests that were given up and may not have been executed, so they may be at any time.
    pub(super) in_doubt: Sorted<A>,
}

/// A request in flight to the server, or its reply in flight back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct UnderWay<A, R> {
    pub(super) asked: A,
    /// Set if the server has executed the request.
    pub(super) reply: Option<R>,
}

impl<A: Copy + Ord, R> Requests<A, R> {
    pub(super) const fn new() -> Self {
        let in_doubt = Sorted::new();
        Self {
            under_way: None,
            in_doubt,
        }
    }

    pub(super) fn send(&mut self, asked: A) {
        self.under_way = Some(UnderWay { asked, reply: None });
    }

    /// Stops waiting for an answer. Returns the request, if there was one.
    pub(super) fn give_up(&mut self) -> Option<A> {
        let UnderWay { asked, reply } = self.under_way.take()?;
        if reply.is_none() {
            self.in_doubt.insert(asked);
        }
        Some(asked)
    }

    /// Whether this request may still be executed.
    pub(super) fn may_come(&self, asked: A) -> bool {
        let on_its_way = |it: &UnderWay<A, R>| it.asked == asked && it.reply.is_none();
        self.in_doubt.contains(&asked) || self.under_way.as_ref().is_some_and(on_its_way)
    }
}
