//! The contract suite, for every kind on every site.

use lockkeeper::Mutex;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::contract;
use lockkeeper_testkit::server::Server;

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
