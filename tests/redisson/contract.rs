//! What every kind must do, by the locks of Redisson. A semaphore with one permit excludes every other claim, as a lock does.

use lockkeeper::redisson::{
    RedissonFairGuard, RedissonFairLock, RedissonFencedGuard, RedissonFencedLock, RedissonGuard,
    RedissonLock, RedissonPermitExpirableSemaphore, RedissonPermitGuard, RedissonReadGuard,
    RedissonReadWriteLock, RedissonReader, RedissonSemaphore, RedissonSemaphoreGuard,
    RedissonWriteGuard, RedissonWriter,
};
use lockkeeper::{Client, Lock};
use lockkeeper_core::Plan;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::common_contract;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::subject::Subject;

/// The namespace of the keys that the suite knows.
const PREFIX: &str = "lockkeeper:";

/// Defines a subject of the suite: its lock and guard, who contends with it, and whether several hold it together.
macro_rules! subject {
    ($name:ident, $lock:ty, $guard:ty, $contender:ty, $shared:literal, $new:expr) => {
        #[derive(Debug, Clone)]
        struct $name($lock);

        impl Lock for $name {
            type Guard = $guard;

            fn plan(&self) -> Plan {
                self.0.plan()
            }
        }

        impl Subject for $name {
            type Contender = $contender;

            const SHARED: bool = $shared;

            fn new(client: &Client, name: &str) -> Self {
                let new: fn(&Client, &str) -> $lock = $new;
                Self(new(client, name))
            }
        }
    };
}

subject!(
    Plain,
    RedissonLock,
    RedissonGuard,
    Self,
    false,
    |client, name| RedissonLock::new(client, name).key_prefix(PREFIX)
);
subject!(
    Fenced,
    RedissonFencedLock,
    RedissonFencedGuard,
    Plain,
    false,
    |client, name| RedissonFencedLock::new(client, name).key_prefix(PREFIX)
);
subject!(
    Fair,
    RedissonFairLock,
    RedissonFairGuard,
    Self,
    false,
    |client, name| RedissonFairLock::new(client, name).key_prefix(PREFIX)
);
subject!(
    Writers,
    RedissonWriter,
    RedissonWriteGuard,
    Self,
    false,
    |client, name| rwlock(client, name).writer()
);
subject!(
    Readers,
    RedissonReader,
    RedissonReadGuard,
    Writers,
    true,
    |client, name| rwlock(client, name).reader()
);
subject!(
    Semaphore,
    RedissonSemaphore,
    RedissonSemaphoreGuard,
    Self,
    false,
    |client, name| RedissonSemaphore::new(client, name).key_prefix(PREFIX)
);
subject!(
    Leased,
    RedissonPermitExpirableSemaphore,
    RedissonPermitGuard,
    Self,
    false,
    |client, name| RedissonPermitExpirableSemaphore::new(client, name).key_prefix(PREFIX)
);

fn rwlock(client: &Client, name: &str) -> RedissonReadWriteLock {
    RedissonReadWriteLock::new(client, name).key_prefix(PREFIX)
}

/// Defines the whole suite for a subject, on the embedded engine and on a server.
macro_rules! whole {
    ($($subject:ident: $on_memory:ident, $on_a_server:ident;)*) => {$(
        common_contract!($on_memory, $subject, MemoryStore::new(), start_paused = true);
        common_contract!(
            $on_a_server,
            $subject,
            Server::start().await?,
            flavor = "multi_thread",
            worker_threads = 2
        );
    )*};
}

whole! {
    Plain: plain_on_memory, plain_on_a_server;
    Fair: fair_on_memory, fair_on_a_server;
    Writers: writers_on_memory, writers_on_a_server;
    Readers: readers_on_memory, readers_on_a_server;
}

/// Defines some tests of the suite for a subject. Each begins with `set_up`.
macro_rules! promises {
    ($module:ident, $subject:ty, $site:expr, $set_up:expr, $runtime:tt, $($test:ident)*) => {
        mod $module {
            use super::*;

            $(promises!(@test $subject, $site, $set_up, $runtime, $test);)*
        }
    };
    (@test $subject:ty, $site:expr, $set_up:expr, [$($runtime:tt)*], $test:ident) => {
        #[tokio::test($($runtime)*)]
        async fn $test() -> anyhow::Result<()> {
            let site = $site;
            $set_up(&site).await?;
            let test = lockkeeper_testkit::contract::$test::<$subject>(&site);
            tokio::time::timeout(std::time::Duration::from_secs(600), test).await?
        }
    };
}

/// Nothing is set up.
async fn empty(_: &impl Site) -> anyhow::Result<()> {
    Ok(())
}

// What of the suite is not about the tokens of ours.
promises!(fenced_on_memory, Fenced, MemoryStore::new(), empty, [start_paused = true],
    trying_never_waits
    waiting_ends_with_a_timeout
    dropping_an_acquisition_after_any_poll_leaves_nothing
    dropping_a_contended_acquisition_after_any_poll_leaves_nothing
    dropping_a_release_after_any_poll_frees_the_lock
    a_renewed_lease_outlives_its_ttl
    a_deleted_key_is_noticed
    another_kinds_data_is_refused
);

/// What concerns the shortest time to hold.
macro_rules! kept {
    ($($module:ident: $subject:ty;)*) => {$(
        promises!($module, $subject, MemoryStore::new(), empty, [start_paused = true],
            min_hold_keeps_everybody_out_after_a_release
            a_release_after_min_hold_frees_at_once
            min_hold_may_outlast_the_ttl_of_a_renewed_lease
            bad_bounds_of_holding_are_refused_before_anything_is_sent
            bad_ttls_and_names_are_refused_before_anything_is_sent
        );
    )*};
}

kept! {
    kept_by_a_lock: Plain;
    kept_by_a_fair_lock: Fair;
    kept_by_writers: Writers;
    kept_by_readers: Readers;
}

/// A semaphore is set up before: the names that the suite has, each with one permit.
async fn one_permit(site: &impl Site) -> anyhow::Result<()> {
    let of_polls = (0..100).map(|polls| format!("name {polls}"));
    let name = ["name".to_owned()];
    for name in name.into_iter().chain(of_polls) {
        let key = format!("{PREFIX}{name}");
        site.command(&["SET", &key, "1"]).await?;
    }
    Ok(())
}

/// Promises of the suite that expect no empty server, and in which nobody deletes a key and goes on.
macro_rules! of_permits {
    ($($module:ident: $subject:ty, $site:expr, $runtime:tt;)*) => {$(
        promises!($module, $subject, $site, one_permit, $runtime,
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
    )*};
}

of_permits! {
    semaphore_on_memory: Semaphore, MemoryStore::new(), [start_paused = true];
    leased_on_memory: Leased, MemoryStore::new(), [start_paused = true];
    semaphore_on_a_server: Semaphore, Server::start().await?, [flavor = "multi_thread", worker_threads = 2];
    leased_on_a_server: Leased, Server::start().await?, [flavor = "multi_thread", worker_threads = 2];
}

promises!(leased_is_kept_on_memory, Leased, MemoryStore::new(), one_permit, [start_paused = true],
    min_hold_keeps_everybody_out_after_a_release
    a_release_after_min_hold_frees_at_once
    min_hold_may_outlast_the_ttl_of_a_renewed_lease
);
