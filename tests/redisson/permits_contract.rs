//! What every kind must do, by semaphores of Redisson's with one permit: then each excludes every other claim, as a lock.

use lockkeeper::redisson::{
    RedissonPermitExpirableSemaphore, RedissonPermitGuard, RedissonSemaphore,
    RedissonSemaphoreGuard,
};
use lockkeeper::{Client, Lock};
use lockkeeper_core::Plan;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::subject::Subject;

/// An `RSemaphore`, whose key the suite knows.
#[derive(Debug, Clone)]
struct Semaphore(RedissonSemaphore);

/// An `RPermitExpirableSemaphore`.
#[derive(Debug, Clone)]
struct Leased(RedissonPermitExpirableSemaphore);

impl Lock for Semaphore {
    type Guard = RedissonSemaphoreGuard;

    fn plan(&self) -> Plan {
        self.0.plan()
    }
}

impl Subject for Semaphore {
    type Contender = Self;

    fn new(client: &Client, name: &str) -> Self {
        Self(RedissonSemaphore::new(client, name).key_prefix("lockkeeper:"))
    }
}

impl Lock for Leased {
    type Guard = RedissonPermitGuard;

    fn plan(&self) -> Plan {
        self.0.plan()
    }
}

impl Subject for Leased {
    type Contender = Self;

    fn new(client: &Client, name: &str) -> Self {
        Self(RedissonPermitExpirableSemaphore::new(client, name).key_prefix("lockkeeper:"))
    }
}

/// The names that the suite has, each set up with one permit.
async fn set_up(site: &impl Site) -> anyhow::Result<()> {
    let of_polls = (0..100).map(|polls| format!("name {polls}"));
    let name = ["name".to_owned()];
    for name in name.into_iter().chain(of_polls) {
        let key = format!("lockkeeper:{name}");
        site.command(&["SET", &key, "1"]).await?;
    }
    Ok(())
}

/// Promises of the suite that expect no empty server, and in which nobody deletes a key and goes on: a semaphore is set up before.
macro_rules! promises {
    ($module:ident, $subject:ty, $site:expr, $runtime:tt, $($test:ident)*) => {
        mod $module {
            use super::*;

            $(promises!(@test $subject, $site, $runtime, $test);)*
        }
    };
    (@test $subject:ty, $site:expr, [$($runtime:tt)*], $test:ident) => {
        #[tokio::test($($runtime)*)]
        async fn $test() -> anyhow::Result<()> {
            let site = $site;
            set_up(&site).await?;
            let test = lockkeeper_testkit::contract::$test::<$subject>(&site);
            tokio::time::timeout(std::time::Duration::from_secs(600), test).await?
        }
    };
}

macro_rules! all_promises {
    ($module:ident, $subject:ty, $site:expr, $runtime:tt) => {
        promises!($module, $subject, $site, $runtime,
            a_second_acquirer_waits_until_the_first_releases
            trying_never_waits
            waiting_ends_with_a_timeout
            a_waiter_is_woken_by_a_message_long_before_the_ttl
            every_waiter_of_many_clients_gets_its_turn
            holders_never_overlap_and_tokens_increase
            dropping_an_acquisition_after_any_poll_leaves_nothing
            dropping_a_contended_acquisition_after_any_poll_leaves_nothing
            dropping_a_release_after_any_poll_frees_the_lock
            a_guard_dropped_in_a_runtime_frees_the_lock
            a_guard_dropped_outside_of_a_runtime_frees_the_lock
            a_fixed_lease_ends_by_itself
            a_renewed_lease_outlives_its_ttl
            max_hold_ends_validity_and_renewal
            a_deleted_key_is_noticed
            run_stops_its_future_when_the_lease_is_lost
            hold_acquires_runs_and_releases
        );
    };
}

all_promises!(
    semaphore_on_memory,
    Semaphore,
    MemoryStore::new(),
    [start_paused = true]
);
all_promises!(
    leased_on_memory,
    Leased,
    MemoryStore::new(),
    [start_paused = true]
);
all_promises!(
    semaphore_on_a_server,
    Semaphore,
    Server::start().await?,
    [flavor = "multi_thread", worker_threads = 2]
);
all_promises!(
    leased_on_a_server,
    Leased,
    Server::start().await?,
    [flavor = "multi_thread", worker_threads = 2]
);

promises!(leased_is_kept_on_memory, Leased, MemoryStore::new(), [start_paused = true],
    min_hold_keeps_everybody_out_after_a_release
    a_release_after_min_hold_frees_at_once
    min_hold_may_outlast_the_ttl_of_a_renewed_lease
);
