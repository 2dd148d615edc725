//! What every kind must do on every site. [`contract!`](crate::contract!) makes a test of each promise.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lockkeeper::{Client, ClientBuilder, Error, LeaseState, LossReason};
use tokio::task::JoinSet;

use crate::history::{Belief, History, now};
use crate::site::Site;
use crate::stall::{Stalling, drop_after};
use crate::subject::Subject;

/// Long enough that nothing in a test ends by it unless the test says so.
const LONG: Duration = Duration::from_secs(30);

/// Far below [`LONG`]: what comes within this came by a message, not by a lease that ended.
const SOON: Duration = Duration::from_secs(10);

/// A lease that a test waits out.
const SHORT: Duration = Duration::from_millis(300);

/// Makes a module of tests: `contract!(mutex_on_memory, Mutex, MemoryStore::new(), start_paused = true)`.
#[macro_export]
macro_rules! contract {
    ($module:ident, $subject:ty, $site:expr, $($runtime:tt)*) => {
        mod $module {
            use super::*;
            $crate::contract!(@tests $subject, $site, [$($runtime)*],
                a_second_acquirer_waits_until_the_first_releases
                trying_never_waits
                waiting_ends_with_a_timeout
                a_waiter_is_woken_by_a_message_long_before_the_ttl
                every_waiter_of_many_clients_gets_its_turn
                believers_never_overlap_and_tokens_increase
                dropping_an_acquisition_after_any_poll_leaves_nothing
                dropping_a_contended_acquisition_after_any_poll_leaves_nothing
                dropping_a_release_after_any_poll_frees_the_lock
                a_guard_dropped_in_a_runtime_frees_the_lock
                a_guard_dropped_outside_of_a_runtime_frees_the_lock
                release_after_loss_says_lost
                a_fixed_lease_ends_by_itself
                a_renewed_lease_outlives_its_ttl
                a_deleted_key_is_noticed
                verify_asks_the_server
                run_stops_its_future_when_the_lease_is_lost
                hold_acquires_runs_and_releases
                ended_resolves_for_released_and_for_lost
                tokens_increase_over_many_grants_and_lost_fences
                another_kinds_data_is_refused
                bad_ttls_and_names_are_refused_before_anything_is_sent
                closing_cuts_leases_short_and_refuses_more
                a_free_lock_leaves_only_its_fence_behind
            );
        }
    };
    (@tests $subject:ty, $site:expr, $runtime:tt, $($test:ident)*) => {
        $($crate::contract!(@test $subject, $site, $runtime, $test);)*
    };
    (@test $subject:ty, $site:expr, [$($runtime:tt)*], $test:ident) => {
        #[tokio::test($($runtime)*)]
        async fn $test() -> anyhow::Result<()> {
            let limit = std::time::Duration::from_secs(600);
            let site = $site;
            tokio::time::timeout(limit, $crate::contract::$test::<$subject>(&site)).await?
        }
    };
}

fn settings() -> ClientBuilder {
    Client::builder().ttl(LONG)
}

async fn client(site: &impl Site) -> Result<Client> {
    site.client(settings()).await
}

/// The lock must become free soon, without waiting for a lease to end.
async fn expect_free<S: Subject>(lock: &S) -> Result<()> {
    let guard = lock.acquire().wait_for(SOON).await?;
    S::release(guard).await?;
    Ok(())
}

/// See the name.
pub async fn a_second_acquirer_waits_until_the_first_releases<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let (one, other) = (client(site).await?, client(site).await?);
    let guard = S::new(&one, "name").acquire().await?;
    let contender = S::new(&other, "name");
    let waiting = tokio::spawn(async move { contender.acquire().await });
    ensure!(S::new(&other, "name").try_acquire().await?.is_none());
    ensure!(!waiting.is_finished());
    ensure!(guard.state() == LeaseState::Held);
    let first = guard.fencing_token();
    S::release(guard).await?;
    let next = waiting.await??;
    ensure!(next.fencing_token() > first);
    S::release(next).await?;
    Ok(())
}

/// See the name.
pub async fn trying_never_waits<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let Some(guard) = lock.try_acquire().await? else {
        bail!("a free lock was refused")
    };
    ensure!(lock.try_acquire().await?.is_none(), "a held lock was given");
    S::release(guard).await?;
    ensure!(
        lock.try_acquire().await?.is_some(),
        "a released lock was refused"
    );
    Ok(())
}

/// See the name.
pub async fn waiting_ends_with_a_timeout<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let guard = lock.acquire().await?;
    for wait in [Duration::ZERO, Duration::from_millis(50)] {
        let begun = tokio::time::Instant::now();
        let error = lock.acquire().wait_for(wait).await.err();
        ensure!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
        ensure!(begun.elapsed() >= wait);
    }
    let instant = (tokio::time::Instant::now() + Duration::from_millis(50)).into_std();
    let error = lock.acquire().wait_until(instant).await.err();
    ensure!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
    ensure!(
        guard.state() == LeaseState::Held,
        "a waiter disturbed the holder"
    );
    S::release(guard).await?;
    expect_free(&lock).await
}

/// See the name.
pub async fn a_waiter_is_woken_by_a_message_long_before_the_ttl<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let (one, other) = (client(site).await?, client(site).await?);
    for _ in 0..5 {
        let guard = S::new(&one, "name").acquire().await?;
        let contender = S::new(&other, "name");
        let waiting = tokio::spawn(async move { contender.acquire().wait_for(SOON).await });
        // The waiter has subscribed once it is there for the server to see.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let released = tokio::time::Instant::now();
        S::release(guard).await?;
        S::release(waiting.await??).await?;
        ensure!(
            released.elapsed() < Duration::from_secs(2),
            "woken after {:?}",
            released.elapsed()
        );
    }
    Ok(())
}

/// See the name.
pub async fn every_waiter_of_many_clients_gets_its_turn<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let mut waiters = JoinSet::new();
    for _ in 0..4 {
        let client = client(site).await?;
        for _ in 0..8 {
            let lock = S::new(&client, "name");
            waiters.spawn(async move { S::release(lock.acquire().await?).await });
        }
    }
    while let Some(waiter) = waiters.join_next().await {
        waiter??;
    }
    Ok(())
}

/// See the name.
pub async fn believers_never_overlap_and_tokens_increase<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let history = Arc::new(History::default());
    let mut tasks = JoinSet::new();
    for client_number in 0..4 {
        let client = client(site).await?;
        for task in 0..16 {
            let (lock, history) = (S::new(&client, "name"), Arc::clone(&history));
            tasks.spawn(async move {
                for _ in 0..5 {
                    let guard = lock.acquire().await?;
                    let from = now();
                    tokio::task::yield_now().await;
                    guard.ensure_held()?;
                    let (until, token) = (now(), guard.fencing_token().get());
                    let who = format!("client {client_number}, task {task}");
                    history.record(Belief {
                        from,
                        until,
                        token,
                        who,
                    });
                    S::release(guard).await?;
                }
                Ok::<_, Error>(())
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let grants = history.check()?;
    ensure!(grants == 4 * 16 * 5, "{grants} grants");
    Ok(())
}

/// See the name.
pub async fn dropping_an_acquisition_after_any_poll_leaves_nothing<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let stalling = settings().build(Arc::new(Stalling(site.store().await?)))?;
    let other = client(site).await?;
    for polls in 0.. {
        let name = format!("name {polls}");
        let acquired = drop_after(S::new(&stalling, &name).acquire().into_future(), polls).await;
        let done = acquired.is_some();
        drop(acquired);
        expect_free(&S::new(&other, &name)).await?;
        if done {
            ensure!(polls > 2, "the acquisition was never in the middle");
            return Ok(());
        }
    }
    Ok(())
}

/// See the name.
pub async fn dropping_a_contended_acquisition_after_any_poll_leaves_nothing<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let stalling = settings().build(Arc::new(Stalling(site.store().await?)))?;
    let other = client(site).await?;
    for polls in 0..40 {
        let name = format!("name {polls}");
        let guard = S::new(&other, &name).acquire().await?;
        let lock = S::new(&stalling, &name);
        let waiter = tokio::spawn(drop_after(lock.acquire().into_future(), polls));
        let behind = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().wait_for(SOON).await }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        S::release(guard).await?;
        // Whoever stood in line behind the dropped one is not forgotten: its wake was handed on.
        let behind = tokio::spawn(async move {
            S::release(behind.await??)
                .await
                .map_err(anyhow::Error::from)
        });
        if let Some(acquired) = tokio::time::timeout(SOON, waiter).await?? {
            S::release(acquired?).await?;
        }
        behind.await??;
        expect_free(&S::new(&other, &name)).await?;
    }
    Ok(())
}

/// See the name.
pub async fn dropping_a_release_after_any_poll_frees_the_lock<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let stalling = settings().build(Arc::new(Stalling(site.store().await?)))?;
    let other = client(site).await?;
    for polls in 0.. {
        let name = format!("name {polls}");
        let guard = S::new(&stalling, &name).acquire().await?;
        let lease = (*guard).clone();
        let released = drop_after(S::release(guard), polls).await;
        ensure!(
            lease.state() == LeaseState::Released,
            "belief must end first"
        );
        expect_free(&S::new(&other, &name)).await?;
        if released.transpose()?.is_some() {
            ensure!(polls > 1, "the release was never in the middle");
            return Ok(());
        }
    }
    Ok(())
}

/// See the name.
pub async fn a_guard_dropped_in_a_runtime_frees_the_lock<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let guard = lock.acquire().await?;
    let lease = (*guard).clone();
    drop(guard);
    ensure!(lease.state() == LeaseState::Released);
    expect_free(&lock).await
}

/// See the name.
pub async fn a_guard_dropped_outside_of_a_runtime_frees_the_lock<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let guard = lock.acquire().await?;
    let dropped = std::thread::spawn(move || drop(guard)).join();
    ensure!(
        dropped.is_ok(),
        "dropping a guard outside of a runtime panicked"
    );
    expect_free(&lock).await
}

/// See the name.
pub async fn release_after_loss_says_lost<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "expired");
    let guard = lock.acquire().ttl(SHORT).no_renewal().await?;
    ensure!(guard.lost().await == LossReason::Expired);
    let error = S::release(guard).await.err();
    ensure!(
        matches!(
            error,
            Some(Error::Lost {
                reason: LossReason::Expired,
                ..
            })
        ),
        "{error:?}"
    );

    let lock = S::new(&client, "deleted");
    let guard = lock.acquire().await?;
    site.command(&["DEL", "lockkeeper:deleted"]).await?;
    let error = S::release(guard).await.err();
    ensure!(
        matches!(
            error,
            Some(Error::Lost {
                reason: LossReason::Gone,
                ..
            })
        ),
        "{error:?}"
    );
    expect_free(&lock).await
}

/// See the name.
pub async fn a_fixed_lease_ends_by_itself<S: Subject>(site: &impl Site) -> Result<()> {
    let (one, other) = (client(site).await?, client(site).await?);
    let guard = S::new(&one, "name")
        .acquire()
        .ttl(SHORT)
        .no_renewal()
        .await?;
    ensure!(guard.remaining() < SHORT);
    // Nobody releases: the holder forgets, and the waiter's look comes when the lease has ended.
    let next = S::new(&other, "name").acquire().wait_for(SOON).await?;
    ensure!(guard.state() == LeaseState::Lost(LossReason::Expired));
    ensure!(guard.ensure_held().is_err());
    ensure!(next.fencing_token() > guard.fencing_token());
    Ok(())
}

/// See the name.
pub async fn a_renewed_lease_outlives_its_ttl<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    let guard = S::new(&client, "name").acquire().ttl(SHORT).await?;
    let outlived = guard.run(tokio::time::sleep(SHORT * 4)).await;
    ensure!(outlived.is_ok(), "{outlived:?}");
    guard.verify().await?;
    S::release(guard).await?;
    Ok(())
}

/// See the name.
pub async fn a_deleted_key_is_noticed<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    let guard = S::new(&client, "name")
        .acquire()
        .ttl(Duration::from_secs(2))
        .await?;
    site.command(&["DEL", "lockkeeper:name"]).await?;
    ensure!(
        guard.lost().await == LossReason::Gone,
        "the next renewal finds out"
    );
    ensure!(guard.state() == LeaseState::Lost(LossReason::Gone));
    Ok(())
}

/// See the name.
pub async fn verify_asks_the_server<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    let guard = S::new(&client, "name").acquire().await?;
    guard.verify().await?;
    site.command(&["DEL", "lockkeeper:name"]).await?;
    ensure!(guard.state() == LeaseState::Held, "nobody has asked yet");
    let error = guard.verify().await.err();
    ensure!(
        matches!(
            error,
            Some(Error::Lost {
                reason: LossReason::Gone,
                ..
            })
        ),
        "{error:?}"
    );
    ensure!(guard.state() == LeaseState::Lost(LossReason::Gone));
    Ok(())
}

/// See the name.
pub async fn run_stops_its_future_when_the_lease_is_lost<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let client = client(site).await?;
    let guard = S::new(&client, "name")
        .acquire()
        .ttl(SHORT)
        .no_renewal()
        .await?;
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let error = guard
        .run(async move {
            std::future::pending::<()>().await;
            drop(held);
        })
        .await
        .err();
    ensure!(matches!(error, Some(Error::Lost { .. })), "{error:?}");
    ensure!(Arc::strong_count(&alive) == 1, "the future lives on");
    Ok(())
}

/// See the name.
pub async fn hold_acquires_runs_and_releases<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let state = S::hold(&lock, async |lease| lease.state()).await?;
    ensure!(state == LeaseState::Held);
    ensure!(lock.try_acquire().await?.is_some());
    Ok(())
}

/// See the name.
pub async fn ended_resolves_for_released_and_for_lost<S: Subject>(site: &impl Site) -> Result<()> {
    use lockkeeper::End;
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let guard = lock.acquire().await?;
    let watcher = tokio::spawn(guard.ended());
    tokio::task::yield_now().await;
    S::release(guard).await?;
    ensure!(watcher.await? == End::Released);

    let guard = lock.acquire().ttl(SHORT).no_renewal().await?;
    ensure!(guard.ended().await == End::Lost(LossReason::Expired));
    Ok(())
}

/// See the name.
pub async fn tokens_increase_over_many_grants_and_lost_fences<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let fence = "lockkeeper.fence:{lockkeeper:name}";
    let mut last = None;
    for grant in 0..10_000 {
        // Deleting the fence is what its expiry does, and what a careless operator does.
        if grant % 1_000 == 999 {
            ensure!(site.command(&["DEL", fence]).await? == "1");
        }
        let guard = lock.acquire().await?;
        let token = Some(guard.fencing_token());
        ensure!(token > last, "{token:?} after {last:?}");
        last = token;
        S::release(guard).await?;
    }
    // A lease that ends by itself, its key expiring.
    let guard = lock.acquire().ttl(SHORT).no_renewal().await?;
    ensure!(Some(guard.fencing_token()) > last);
    site.vanished("lockkeeper:name").await?;
    ensure!(lock.acquire().await?.fencing_token() > guard.fencing_token());
    Ok(())
}

/// See the name.
pub async fn another_kinds_data_is_refused<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    site.command(&["HSET", "lockkeeper:name", "kind", "something"])
        .await?;
    let lock = S::new(&client, "name");
    for error in [lock.acquire().await.err(), lock.try_acquire().await.err()] {
        ensure!(matches!(error, Some(Error::WrongKind { .. })), "{error:?}");
    }
    ensure!(
        site.keys().await? == ["lockkeeper:name"],
        "something was left behind"
    );
    Ok(())
}

/// See the name.
pub async fn bad_ttls_and_names_are_refused_before_anything_is_sent<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let client = client(site).await?;
    for name in ["", &"n".repeat(2048), "a}b", "a{}"] {
        let error = S::new(&client, name).acquire().await.err();
        ensure!(
            matches!(error, Some(Error::Config { .. })),
            "{name:?}: {error:?}"
        );
    }
    for ttl in [
        Duration::ZERO,
        Duration::from_micros(900),
        Duration::from_millis(5),
        Duration::MAX,
    ] {
        let error = S::new(&client, "name").acquire().ttl(ttl).await.err();
        ensure!(
            matches!(error, Some(Error::Config { .. })),
            "{ttl:?}: {error:?}"
        );
    }
    ensure!(site.keys().await?.is_empty(), "something was sent");
    Ok(())
}

/// See the name.
pub async fn closing_cuts_leases_short_and_refuses_more<S: Subject>(
    site: &impl Site,
) -> Result<()> {
    let (one, other) = (client(site).await?, client(site).await?);
    let held = S::new(&one, "held").acquire().await?;
    let dropped = S::new(&one, "dropped").acquire().await?;
    let busy = S::new(&other, "busy").acquire().await?;
    let waiter = S::new(&one, "busy");
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(dropped);

    let report = one.close().await;
    ensure!(
        (report.expiring, report.left, report.unanswered) == (1, 1, 0),
        "{report:?}"
    );
    ensure!(held.state() == LeaseState::Lost(LossReason::ClientClosed));
    let error = waiting.await?.err();
    ensure!(matches!(error, Some(Error::Closed)), "{error:?}");
    let error = S::new(&one, "more").acquire().await.err();
    ensure!(matches!(error, Some(Error::Closed)), "{error:?}");
    ensure!(
        S::new(&other, "held").try_acquire().await?.is_none(),
        "its work may still be running"
    );
    expect_free(&S::new(&other, "dropped")).await?;
    S::release(busy).await?;
    Ok(())
}

/// See the name.
pub async fn a_free_lock_leaves_only_its_fence_behind<S: Subject>(site: &impl Site) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    S::release(lock.acquire().await?).await?;
    ensure!(site.keys().await? == ["lockkeeper.fence:{lockkeeper:name}"]);
    let left: i64 = site
        .command(&["PTTL", "lockkeeper.fence:{lockkeeper:name}"])
        .await?
        .parse()?;
    ensure!(
        (1..=600_000).contains(&left),
        "the fence lives for {left} ms"
    );
    Ok(())
}
