//! The conformance suite: runs for every store and every kind on every site.

use lockkeeper::Redlock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Several;
use lockkeeper_testkit::{common_contract, everything};

mod on_memory {
    use super::*;

    everything!(MemoryStore::new(), start_paused = true);

    common_contract!(
        redlock,
        Redlock,
        Several((0..3).map(|_| MemoryStore::new()).collect()),
        start_paused = true
    );
}

mod on_a_server {
    use super::*;

    everything!(
        Server::start().await?,
        flavor = "multi_thread",
        worker_threads = 2
    );
}

mod on_a_cluster {
    use super::*;

    everything!(
        Cluster::pooled().await?,
        flavor = "multi_thread",
        worker_threads = 2
    );
}

mod by_sentinels {
    use super::*;

    everything!(
        Watched::pooled().await?,
        flavor = "multi_thread",
        worker_threads = 2
    );
}
