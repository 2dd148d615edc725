//! What every kind must do on every site. [`contract!`](crate::contract!) makes a test of each promise.
#![expect(missing_docs, reason = "a test says by its name what it tests")]

mod alone;
mod dropping;
mod edges;
mod exclusion;
mod keeping;
mod leases;
mod outside;
mod shared;
mod waiting;

pub use alone::*;
pub use dropping::*;
pub use edges::*;
pub use exclusion::*;
pub use keeping::*;
pub use leases::*;
pub use outside::*;
pub use waiting::*;

/// Makes a module of tests: `contract!(mutex, Mutex, MySite::start().await?, flavor = "multi_thread")`. For a
/// [`Redlock`](lockkeeper::Redlock) use `common_contract!`, which has the tests that apply to it.
#[macro_export]
macro_rules! contract {
    ($module:ident, $subject:ty, $site:expr, $($runtime:tt)*) => {
        mod $module {
            use super::*;
            $crate::common_contract!(@common $subject, $site, $($runtime)*);
            $crate::common_contract!(@tests $subject, $site, [$($runtime)*],
                min_hold_keeps_everybody_out_after_a_release
                a_release_after_min_hold_frees_at_once
                min_hold_may_outlast_the_ttl_of_a_renewed_lease
                bad_bounds_of_holding_are_refused_before_anything_is_sent
                inspection_shows_who_holds_and_how_many_wait
                a_revoked_holder_is_told_at_once_and_holds_until_it_leaves
                a_revoked_lease_ends_although_its_guard_lives
                force_takes_the_lock_from_the_claim_that_is_meant_and_from_no_other
                bad_ttls_and_names_are_refused_before_anything_is_sent
                closing_cuts_leases_short_and_refuses_more
            );
        }
    };
}

/// The part of the contract that also applies to a lock over several servers.
#[macro_export]
macro_rules! common_contract {
    ($module:ident, $subject:ty, $site:expr, $($runtime:tt)*) => {
        mod $module {
            use super::*;
            $crate::common_contract!(@common $subject, $site, $($runtime)*);
        }
    };
    (@common $subject:ty, $site:expr, $($runtime:tt)*) => {
        $crate::common_contract!(@tests $subject, $site, [$($runtime)*],
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
            release_after_loss_says_lost
            a_fixed_lease_ends_by_itself
            a_renewed_lease_outlives_its_ttl
            max_hold_ends_validity_and_renewal
            a_deleted_key_is_noticed
            verify_asks_the_server
            run_stops_its_future_when_the_lease_is_lost
            hold_acquires_runs_and_releases
            ended_resolves_for_released_and_for_lost
            tokens_increase_over_many_grants_and_lost_counters
            another_kinds_data_is_refused
            a_free_lock_leaves_only_its_counter_behind
        );
        $crate::common_contract!(@test $subject, $site, [$($runtime)*],
            #[ignore = "long: `cargo xtask prove` runs it"]
            tokens_increase_over_ten_thousand_grants
        );
    };
    (@tests $subject:ty, $site:expr, $runtime:tt, $($test:ident)*) => {
        $($crate::common_contract!(@test $subject, $site, $runtime, $test);)*
    };
    (@test $subject:ty, $site:expr, [$($runtime:tt)*], $(#[$attribute:meta])* $test:ident) => {
        #[::tokio::test($($runtime)*)]
        $(#[$attribute])*
        async fn $test() -> $crate::Result<()> {
            let limit = ::std::time::Duration::from_secs(600);
            let site = $site;
            ::tokio::time::timeout(limit, $crate::contract::$test::<$subject>(&site)).await?
        }
    };
}
