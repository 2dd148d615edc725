//! The contract suite, for every kind on every site.

use lockkeeper::{Election, FairLock, Mutex, Reader, Redlock, ReentrantLock, Semaphore, Writer};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Several;
use lockkeeper_testkit::{common_contract, contract};

/// A module of tests for each kind on each site.
macro_rules! on_every_site {
    ($($subject:ty: $memory:ident $server:ident $cluster:ident $sentinels:ident)*) => {
        $(
            contract!($memory, $subject, MemoryStore::new(), start_paused = true);
            on_every_site!(@real $server, $subject, Server::start());
            on_every_site!(@real $cluster, $subject, Cluster::pooled());
            on_every_site!(@real $sentinels, $subject, Watched::pooled());
        )*
    };
    (@real $module:ident, $subject:ty, $site:expr) => {
        contract!(
            $module,
            $subject,
            $site.await?,
            flavor = "multi_thread",
            worker_threads = 2
        );
    };
}

on_every_site! {
    Mutex: mutex_on_memory mutex_on_a_server mutex_on_a_cluster mutex_by_sentinels
    ReentrantLock: reentrant_on_memory reentrant_on_a_server reentrant_on_a_cluster reentrant_by_sentinels
    FairLock: fair_on_memory fair_on_a_server fair_on_a_cluster fair_by_sentinels
    Writer: writers_on_memory writers_on_a_server writers_on_a_cluster writers_by_sentinels
    Reader: readers_on_memory readers_on_a_server readers_on_a_cluster readers_by_sentinels
    Election: election_on_memory election_on_a_server election_on_a_cluster election_by_sentinels
    Semaphore: semaphore_on_memory semaphore_on_a_server semaphore_on_a_cluster semaphore_by_sentinels
}

common_contract!(
    redlock_on_memory,
    Redlock,
    Several((0..3).map(|_| MemoryStore::new()).collect()),
    start_paused = true
);
