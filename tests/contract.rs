//! The contract suite, for every kind on every site.

use lockkeeper::Mutex;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::contract;

contract!(
    mutex_on_memory,
    Mutex,
    MemoryStore::new(),
    start_paused = true
);
