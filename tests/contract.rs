//! The contract suite, for every kind on every site.

use lockkeeper::{FairLock, Mutex, RwLock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::common::Majority;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Several;
use lockkeeper_testkit::subject::{Readers, Reentrant};
use lockkeeper_testkit::{common_contract, contract};

contract!(
    mutex_on_memory,
    Mutex,
    MemoryStore::new(),
    start_paused = true
);
contract!(
    mutex_on_a_server,
    Mutex,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    mutex_on_a_cluster,
    Mutex,
    Cluster::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    mutex_by_sentinels,
    Mutex,
    Watched::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    reentrant_on_memory,
    Reentrant,
    MemoryStore::new(),
    start_paused = true
);
contract!(
    reentrant_on_a_server,
    Reentrant,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    reentrant_on_a_cluster,
    Reentrant,
    Cluster::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    reentrant_by_sentinels,
    Reentrant,
    Watched::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    fair_on_memory,
    FairLock,
    MemoryStore::new(),
    start_paused = true
);
contract!(
    fair_on_a_server,
    FairLock,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    fair_on_a_cluster,
    FairLock,
    Cluster::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    fair_by_sentinels,
    FairLock,
    Watched::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    writers_on_memory,
    RwLock,
    MemoryStore::new(),
    start_paused = true
);
contract!(
    writers_on_a_server,
    RwLock,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    writers_on_a_cluster,
    RwLock,
    Cluster::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    writers_by_sentinels,
    RwLock,
    Watched::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    readers_on_memory,
    Readers,
    MemoryStore::new(),
    start_paused = true
);
contract!(
    readers_on_a_server,
    Readers,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
common_contract!(
    redlock_on_memory,
    Majority,
    Several((0..3).map(|_| MemoryStore::new()).collect()),
    start_paused = true
);
contract!(
    readers_on_a_cluster,
    Readers,
    Cluster::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    readers_by_sentinels,
    Readers,
    Watched::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
