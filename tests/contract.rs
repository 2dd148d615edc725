//! The contract suite, for every kind on every site.

use lockkeeper::{FairLock, Mutex, Reader, Redlock, ReentrantLock, Writer};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Several;
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
    ReentrantLock,
    MemoryStore::new(),
    start_paused = true
);
contract!(
    reentrant_on_a_server,
    ReentrantLock,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    reentrant_on_a_cluster,
    ReentrantLock,
    Cluster::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    reentrant_by_sentinels,
    ReentrantLock,
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
    Writer,
    MemoryStore::new(),
    start_paused = true
);
contract!(
    writers_on_a_server,
    Writer,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    writers_on_a_cluster,
    Writer,
    Cluster::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    writers_by_sentinels,
    Writer,
    Watched::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    readers_on_memory,
    Reader,
    MemoryStore::new(),
    start_paused = true
);
contract!(
    readers_on_a_server,
    Reader,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
common_contract!(
    redlock_on_memory,
    Redlock,
    Several((0..3).map(|_| MemoryStore::new()).collect()),
    start_paused = true
);
contract!(
    readers_on_a_cluster,
    Reader,
    Cluster::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
contract!(
    readers_by_sentinels,
    Reader,
    Watched::pooled().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
