//! Workloads: the names in a history, the servers that have them, and the tasks.

use std::pin::Pin;

use fastrand::Rng;
use lockkeeper::Client;

use super::host::Host;
use super::latches;
use super::observers::observe;
use super::place::{Place, REDLOCK};
use super::plan::Plan;
use super::work::Worker;
use crate::kinds::KindModel;

/// The whole run of one task of a host.
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the hosts of a history work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Workload {
    /// Mutexes on one server.
    Mutex,
    /// Re-entrant locks on one server.
    Reentrant,
    /// Fair locks on one server.
    Fair,
    /// Read-write locks on one server.
    RwLock,
    /// Semaphores on one server, whose limits change in some histories.
    Semaphore,
    /// Elections on one server, with observers.
    Election,
    /// Work that is done once, on one server; its results are kept for a short time.
    Once,
    /// Latches on one server, which live for a short time.
    Latch,
    /// A Redlock over five servers.
    Redlock,
    /// Locks of every kind on five servers, taken one by one or by multi-locks across servers, and a Redlock over all servers.
    /// So each way of taking a name meets what the others leave behind.
    Mixed,
}

impl Workload {
    /// All workloads.
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

    /// The name on the command line.
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

    /// The kind of all its names, if there is only one.
    const fn kind(self) -> Option<KindModel> {
        match self {
            Self::Mutex => Some(KindModel::COHORT),
            Self::Reentrant => Some(KindModel::QUEUED_REENTRANT),
            Self::Fair => Some(KindModel::FAIR),
            Self::RwLock => Some(KindModel::RWLOCK),
            Self::Semaphore => Some(KindModel::SEMAPHORE),
            Self::Election => Some(KindModel::ELECTION),
            Self::Once => Some(KindModel::ONCE),
            Self::Latch => Some(KindModel::LATCH),
            Self::Redlock | Self::Mixed => None,
        }
    }

    /// Whether all its names are on one server, as histories beyond the guarantees require.
    #[must_use]
    pub const fn is_of_one_server(self) -> bool {
        self.kind().is_some()
    }

    pub(super) fn plan(self, seed: u64) -> Plan {
        match self {
            Self::Redlock => Plan::of_a_redlock(seed),
            Self::Mixed => Plan::of_all_kinds(seed),
            Self::Semaphore => Plan::of_a_semaphore(seed),
            // With the same plan it would have the history of a fair lock: both wait in a queue, and both let an owner in again.
            Self::Reentrant => Plan::of_one_kind(!seed),
            _ => Plan::of_one_kind(seed),
        }
    }

    /// The names, and the Redlock's parts on each server.
    pub(super) fn places(self, plan: &Plan) -> Vec<Place> {
        let name = |name: usize| format!("name{name}");
        if let Some(kind) = self.kind() {
            let names = (0..plan.names).map(|number| Place::new(0, name(number), kind));
            return names.collect();
        }
        let names = kinds(plan).into_iter().enumerate();
        let names = names.map(|(number, (kind, server))| Place::new(server, name(number), kind));
        let parts = (0..plan.servers)
            .map(|server| Place::new(server, REDLOCK.to_owned(), KindModel::REDLOCK));
        names.chain(parts).collect()
    }

    /// The tasks of a new host.
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

/// The kind and the server of each name: at least one of each kind, a semaphore if there are six names, and not all on the
/// same server.
fn kinds(plan: &Plan) -> Vec<(KindModel, usize)> {
    const ALL: [KindModel; 4] = [
        KindModel::COHORT,
        KindModel::QUEUED_REENTRANT,
        KindModel::FAIR,
        KindModel::RWLOCK,
    ];
    const SIXTH: usize = 5;
    let mut random = Rng::with_seed(plan.seed_of(4));
    let servers = random.usize(2..=plan.servers);
    let kind = |name| match ALL.get(name) {
        Some(kind) => *kind,
        None if name == SIXTH => KindModel::SEMAPHORE,
        // The kinds that one script takes together.
        None => ALL[random.usize(..2)],
    };
    let kinds: Vec<KindModel> = (0..plan.names).map(kind).collect();
    let place = |kind| (kind, random.usize(..servers));
    kinds.into_iter().map(place).collect()
}
