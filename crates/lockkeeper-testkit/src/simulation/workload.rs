//! What the hosts of a history work with: the names, the servers that these are on, and the tasks.

use std::pin::Pin;

use fastrand::Rng;
use lockkeeper::Client;

use super::host::Host;
use super::kind::KindModel;
use super::latches;
use super::observers::observe;
use super::place::{Place, REDLOCK};
use super::plan::Plan;
use super::work::Worker;

/// What a task of a host does, from its beginning to its end.
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the hosts of a history work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Workload {
    /// Mutexes of one server.
    Mutex,
    /// Re-entrant locks of one server.
    Reentrant,
    /// Fair locks of one server.
    Fair,
    /// Read-write locks of one server.
    RwLock,
    /// Semaphores of one server, whose limits are set in some histories.
    Semaphore,
    /// Elections of one server, and those who observe them.
    Election,
    /// Work of one server that is done once, whose results are kept for a short time.
    Once,
    /// Latches of one server, which live for a short time.
    Latch,
    /// A Redlock over five servers.
    Redlock,
    /// Locks of every kind on five servers: names that are taken one by one, and any of them together by multi-locks, on
    /// whichever servers they are; and a Redlock over all. So what one way of taking a name leaves behind, the others meet.
    Mixed,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Mutex,
        Self::Reentrant,
        Self::Fair,
        Self::RwLock,
        Self::Semaphore,
        Self::Election,
        Self::Once,
        Self::Latch,
        Self::Redlock,
        Self::Mixed,
    ];

    /// How it is called on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Reentrant => "reentrant",
            Self::Fair => "fair",
            Self::RwLock => "rwlock",
            Self::Semaphore => "semaphore",
            Self::Election => "election",
            Self::Once => "once",
            Self::Latch => "latch",
            Self::Redlock => "redlock",
            Self::Mixed => "mixed",
        }
    }

    /// The kind of all its names, if they have but one.
    const fn kind(self) -> Option<KindModel> {
        match self {
            Self::Mutex => Some(KindModel::Mutex),
            Self::Reentrant => Some(KindModel::Reentrant),
            Self::Fair => Some(KindModel::Fair),
            Self::RwLock => Some(KindModel::RwLock),
            Self::Semaphore => Some(KindModel::Semaphore),
            Self::Election => Some(KindModel::Election),
            Self::Once => Some(KindModel::Once),
            Self::Latch => Some(KindModel::Latch),
            Self::Redlock | Self::Mixed => None,
        }
    }

    /// Whether all its names are on one server, which histories beyond the guarantees are about.
    #[must_use]
    pub const fn is_of_one_server(self) -> bool {
        self.kind().is_some()
    }

    pub(super) fn plan(self, seed: u64) -> Plan {
        match self {
            Self::Redlock => Plan::of_a_redlock(seed),
            Self::Mixed => Plan::of_all_kinds(seed),
            Self::Semaphore => Plan::of_a_semaphore(seed),
            _ => Plan::of_one_kind(seed),
        }
    }

    /// The names, and what the Redlock has on each server.
    pub(super) fn places(self, plan: &Plan) -> Vec<Place> {
        let name = |name: usize| format!("name{name}");
        if let Some(kind) = self.kind() {
            let names = (0..plan.names).map(|number| Place::new(0, name(number), kind));
            return names.collect();
        }
        let names = kinds(plan).into_iter().enumerate();
        let names = names.map(|(number, (kind, server))| Place::new(server, name(number), kind));
        let parts = (0..plan.servers)
            .map(|server| Place::new(server, REDLOCK.to_owned(), KindModel::RedlockPart));
        names.chain(parts).collect()
    }

    /// What the tasks of a new host do.
    pub(super) fn jobs(self, host: &Host) -> Vec<Job> {
        // Tasks of one host share the owners of its single locks.
        let owners: Vec<_> = host.clients.iter().map(Client::new_owner).collect();
        let job = |task: usize| {
            let random = Rng::with_seed(host.seed(1 + task as u64));
            if self == Self::Latch {
                return Box::pin(latches::work(host.clone(), random)) as Job;
            }
            let worker = Worker::new(self, host.clone(), owners.clone(), random);
            Box::pin(worker.run()) as Job
        };
        let mut jobs: Vec<Job> = (0..host.world.plan.tasks).map(job).collect();
        if self == Self::Election {
            let observed = 0..host.world.plan.names;
            jobs.extend(observed.map(|name| Box::pin(observe(host.clone(), name)) as Job));
        }
        jobs
    }
}

/// The kind of each name and the server it is on: of each kind at least one, a semaphore if there are six, and not all on the same server.
fn kinds(plan: &Plan) -> Vec<(KindModel, usize)> {
    const ALL: [KindModel; 4] = [
        KindModel::Mutex,
        KindModel::Reentrant,
        KindModel::Fair,
        KindModel::RwLock,
    ];
    const SIXTH: usize = 5;
    let mut random = Rng::with_seed(plan.seed_of(4));
    let servers = random.usize(2..=plan.servers);
    let kind = |name| match ALL.get(name) {
        Some(kind) => *kind,
        None if name == SIXTH => KindModel::Semaphore,
        // Those that one script takes together.
        None => ALL[random.usize(..2)],
    };
    let kinds: Vec<KindModel> = (0..plan.names).map(kind).collect();
    let place = |kind| (kind, random.usize(..servers));
    kinds.into_iter().map(place).collect()
}
