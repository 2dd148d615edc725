//! What every kind must do, by an `RFairLock`.

use lockkeeper::redisson::{RedissonFairGuard, RedissonFairLock};
use lockkeeper::{Client, Lock};
use lockkeeper_core::Plan;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::common_contract;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::subject::Subject;

/// An `RFairLock`, whose key the suite knows.
#[derive(Debug, Clone)]
struct Fair(RedissonFairLock);

impl Lock for Fair {
    type Guard = RedissonFairGuard;

    fn plan(&self) -> Plan {
        self.0.plan()
    }
}

impl Subject for Fair {
    type Contender = Self;

    fn new(client: &Client, name: &str) -> Self {
        Self(RedissonFairLock::new(client, name).key_prefix("lockkeeper:"))
    }
}

common_contract!(
    fair_on_memory,
    Fair,
    MemoryStore::new(),
    start_paused = true
);
common_contract!(
    fair_on_a_server,
    Fair,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);

mod kept_on_memory {
    use super::*;

    macro_rules! tests {
        ($($test:ident)*) => {
            $(
                #[tokio::test(start_paused = true)]
                async fn $test() -> anyhow::Result<()> {
                    lockkeeper_testkit::contract::$test::<Fair>(&MemoryStore::new()).await
                }
            )*
        };
    }

    tests!(
        min_hold_keeps_everybody_out_after_a_release
        a_release_after_min_hold_frees_at_once
        min_hold_may_outlast_the_ttl_of_a_renewed_lease
        bad_bounds_of_holding_are_refused_before_anything_is_sent
        bad_ttls_and_names_are_refused_before_anything_is_sent
    );
}
