//! What every kind must do, by the locks of Redisson.

use lockkeeper::redisson::{RedissonFencedGuard, RedissonFencedLock, RedissonGuard, RedissonLock};
use lockkeeper::{Client, Lock};
use lockkeeper_core::Plan;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::common_contract;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::subject::Subject;

/// An `RLock`, whose key the suite knows.
#[derive(Debug, Clone)]
struct Plain(RedissonLock);

/// An `RFencedLock`.
#[derive(Debug, Clone)]
struct Fenced(RedissonFencedLock);

impl Lock for Plain {
    type Guard = RedissonGuard;

    fn plan(&self) -> Plan {
        self.0.plan()
    }
}

impl Subject for Plain {
    type Contender = Self;

    fn new(client: &Client, name: &str) -> Self {
        Self(RedissonLock::new(client, name).key_prefix("lockkeeper:"))
    }
}

impl Lock for Fenced {
    type Guard = RedissonFencedGuard;

    fn plan(&self) -> Plan {
        self.0.plan()
    }
}

impl Subject for Fenced {
    type Contender = Plain;

    fn new(client: &Client, name: &str) -> Self {
        Self(RedissonFencedLock::new(client, name).key_prefix("lockkeeper:"))
    }
}

common_contract!(
    plain_on_memory,
    Plain,
    MemoryStore::new(),
    start_paused = true
);
common_contract!(
    plain_on_a_server,
    Plain,
    Server::start().await?,
    flavor = "multi_thread",
    worker_threads = 2
);

/// What of the suite is not about the tokens of ours.
macro_rules! without_our_tokens {
    ($subject:ty, $site:expr, $($test:ident)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $test() -> anyhow::Result<()> {
                lockkeeper_testkit::contract::$test::<$subject>(&$site).await
            }
        )*
    };
}

mod fenced_on_memory {
    use super::*;

    without_our_tokens!(Fenced, MemoryStore::new(),
        trying_never_waits
        waiting_ends_with_a_timeout
        dropping_an_acquisition_after_any_poll_leaves_nothing
        dropping_a_contended_acquisition_after_any_poll_leaves_nothing
        dropping_a_release_after_any_poll_frees_the_lock
        a_renewed_lease_outlives_its_ttl
        a_deleted_key_is_noticed
        another_kinds_data_is_refused
    );
}

mod kept_on_memory {
    use super::*;

    without_our_tokens!(Plain, MemoryStore::new(),
        min_hold_keeps_everybody_out_after_a_release
        a_release_after_min_hold_frees_at_once
        min_hold_may_outlast_the_ttl_of_a_renewed_lease
        bad_bounds_of_holding_are_refused_before_anything_is_sent
        bad_ttls_and_names_are_refused_before_anything_is_sent
    );
}
