//! What every kind must do, by each side of an `RReadWriteLock`.

use lockkeeper::redisson::{
    RedissonReadGuard, RedissonReadWriteLock, RedissonReader, RedissonWriteGuard, RedissonWriter,
};
use lockkeeper::{Client, Lock};
use lockkeeper_core::Plan;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::common_contract;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::subject::Subject;

/// Those that write, by the key that the suite knows.
#[derive(Debug, Clone)]
struct Writers(RedissonWriter);

/// Those that read.
#[derive(Debug, Clone)]
struct Readers(RedissonReader);

fn lock(client: &Client, name: &str) -> RedissonReadWriteLock {
    RedissonReadWriteLock::new(client, name).key_prefix("lockkeeper:")
}

impl Lock for Writers {
    type Guard = RedissonWriteGuard;

    fn plan(&self) -> Plan {
        self.0.plan()
    }
}

impl Subject for Writers {
    type Contender = Self;

    fn new(client: &Client, name: &str) -> Self {
        Self(lock(client, name).writer())
    }
}

impl Lock for Readers {
    type Guard = RedissonReadGuard;

    fn plan(&self) -> Plan {
        self.0.plan()
    }
}

impl Subject for Readers {
    type Contender = Writers;

    const SHARED: bool = true;

    fn new(client: &Client, name: &str) -> Self {
        Self(lock(client, name).reader())
    }
}

common_contract!(
    writers_on_memory,
    Writers,
    MemoryStore::new(),
    start_paused = true
);
common_contract!(
    readers_on_memory,
    Readers,
    MemoryStore::new(),
    start_paused = true
);
common_contract!(
    writers_on_a_server,
    Writers,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);
common_contract!(
    readers_on_a_server,
    Readers,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);

/// What concerns the shortest time to hold.
macro_rules! kept {
    ($module:ident, $subject:ty) => {
        mod $module {
            use super::*;

            kept! { @tests $subject:
                min_hold_keeps_everybody_out_after_a_release
                a_release_after_min_hold_frees_at_once
                min_hold_may_outlast_the_ttl_of_a_renewed_lease
                bad_bounds_of_holding_are_refused_before_anything_is_sent
                bad_ttls_and_names_are_refused_before_anything_is_sent
            }
        }
    };
    (@tests $subject:ty: $($test:ident)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $test() -> anyhow::Result<()> {
                lockkeeper_testkit::contract::$test::<$subject>(&MemoryStore::new()).await
            }
        )*
    };
}

kept!(kept_by_writers, Writers);
kept!(kept_by_readers, Readers);
