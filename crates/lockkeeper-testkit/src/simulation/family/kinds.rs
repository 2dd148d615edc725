//! The kinds of the names of a history, and what each is as a lock of its own, as a member of several, and as a model.

use std::sync::Arc;

use fastrand::Rng;
use lockkeeper::{Client, FairLock, Mutex, Owner, ReentrantLock, RwLock, Target};
use lockkeeper_memory::MemoryStore;

use super::Single;
use crate::simulation::plan::Plan;
use crate::simulation::site::Site;
use crate::simulation::species::{
    Fairs, Grant, Model, Mutexes, Reentrants, RwLocks, Species, Standing,
};
use crate::simulation::work::Worker;

/// A kind of lock on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutex,
    Reentrant,
    Fair,
    RwLock,
}

/// The kind of each name and the server it is on: of each kind at least one, and not all on the same server.
pub(super) fn kinds(plan: &Plan) -> Vec<(Kind, usize)> {
    const ALL: [Kind; 4] = [Kind::Mutex, Kind::Reentrant, Kind::Fair, Kind::RwLock];
    let mut random = Rng::with_seed(plan.seed_of(4));
    let servers = random.usize(2..=plan.servers);
    let kind = |name| match ALL.get(name) {
        Some(kind) => *kind,
        // Those that one script takes together.
        None => ALL[random.usize(..2)],
    };
    let kinds: Vec<Kind> = (0..plan.names).map(kind).collect();
    let place = |kind| (kind, random.usize(..servers));
    kinds.into_iter().map(place).collect()
}

impl Kind {
    pub(super) fn model(self) -> Arc<dyn Model> {
        match self {
            Self::Mutex => Arc::new(Mutexes),
            Self::Reentrant => Arc::new(Reentrants),
            Self::Fair => Arc::new(Fairs),
            Self::RwLock => Arc::new(RwLocks),
        }
    }

    /// A task's way to the name with this number on the server at `place`.
    pub(super) fn single(
        self,
        site: &Site,
        name: usize,
        place: usize,
        owner: Owner,
        random: Rng,
    ) -> Box<dyn Single> {
        match self {
            Self::Mutex => single::<Mutexes>(site, name, place, owner, random),
            Self::Reentrant => single::<Reentrants>(site, name, place, owner, random),
            Self::Fair => single::<Fairs>(site, name, place, owner, random),
            Self::RwLock => single::<RwLocks>(site, name, place, owner, random),
        }
    }

    /// As one of several locks; to read, if it can be.
    pub(super) fn member(self, client: &Client, name: &str, reads: bool) -> Target {
        match self {
            Self::Mutex => Mutex::new(client, name).target(),
            Self::Reentrant => ReentrantLock::new(client, name).target(),
            Self::Fair => FairLock::new(client, name).target(),
            Self::RwLock if reads => RwLock::new(client, name).reader().target(),
            Self::RwLock => RwLock::new(client, name).writer().target(),
        }
    }
}

fn single<S: Species>(
    site: &Site,
    name: usize,
    place: usize,
    owner: Owner,
    random: Rng,
) -> Box<dyn Single> {
    let lock = S::lock(&site.clients[place], &site.world.places()[name].name);
    Box::new(Worker::<S> {
        site: site.clone(),
        place,
        locks: vec![(name, lock)],
        owner,
        random,
    })
}

/// What one server has of a Redlock: a mutex to look at. That a few have a claim proves nothing; who is granted, and with which
/// token, a majority decides.
#[derive(Debug)]
pub(super) struct Parts;

impl Parts {
    pub(super) fn model() -> Arc<dyn Model> {
        Arc::new(Self)
    }
}

impl Model for Parts {
    fn together(&self, one: &Standing, other: &Standing) -> bool {
        Mutexes.together(one, other)
    }

    /// A claim that is granted again has the token that was written back meanwhile.
    fn follows(&self, last: &Grant, next: &Grant) -> bool {
        last.token < next.token || last.claim == next.claim && last.token == next.token
    }

    fn holders(&self, server: &MemoryStore, main: &str) -> Vec<String> {
        Mutexes.holders(server, main)
    }
}
