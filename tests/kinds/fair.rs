//! The fair lock: arrival order, hand-over by one message, and a queue that keeps moving when a client dies.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Error, FairGuard, FairLock, FencingToken, LossReason, Released};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::{client, faulty, patient, polling, until};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(30);
const WAITER_TTL: Duration = Duration::from_secs(10);
const HEARTBEAT: Duration = Duration::from_millis(3_334);
const QUEUE: &str = "lockkeeper.queue:{lockkeeper:name}";
const STATE: &str = "lockkeeper.state:{lockkeeper:name}";

/// Waits until this many claims are queued.
async fn queued(lock: &FairLock, number: u64) -> Result<()> {
    until(async || Ok(lock.queue_len().await? == number)).await
}

/// A served waiter: its place in the queue, the token and the time.
type Served = (u64, FencingToken, Instant);

/// Queues this many waiters one after the other, using these locks in turn; each reports when it is served.
async fn line_up(locks: &[FairLock], number: u64) -> Result<mpsc::UnboundedReceiver<Served>> {
    let (sender, served) = mpsc::unbounded_channel();
    for (place, lock) in (0..number).zip(locks.iter().cycle()) {
        let (waiting, sender) = (lock.clone(), sender.clone());
        tokio::spawn(async move {
            let guard = waiting.acquire().await?;
            // The receiver is gone if the test has failed.
            let _ = sender.send((place, guard.fencing_token(), Instant::now()));
            guard.release().await
        });
        queued(lock, place + 1).await?;
    }
    Ok(served)
}

/// Releases `guard` and checks that the waiters are served in arrival order, each with a larger token than the one before.
/// Returns the time of the release, and of each grant.
async fn serves_in_order(
    guard: FairGuard,
    mut served: mpsc::UnboundedReceiver<Served>,
    number: u64,
) -> Result<Vec<Instant>> {
    let (mut last, mut times) = (guard.fencing_token(), vec![Instant::now()]);
    timeout(PATIENCE, guard.release()).await??;
    for place in 0..number {
        let (who, token, at) = timeout(PATIENCE, served.recv())
            .await?
            .context("all have gone")?;
        ensure!(who == place, "{who} was served in place of {place}");
        ensure!(token > last, "{token} after {last}");
        last = token;
        times.push(at);
    }
    Ok(times)
}

/// Queues this many waiters of four clients one after the other, and checks that they are served in that order.
async fn are_served_in_order(site: &impl Site, number: u64) -> Result<()> {
    let holder = FairLock::new(&site.client(patient()).await?, "name");
    let mut locks = Vec::new();
    for _ in 0..4 {
        locks.push(FairLock::new(&site.client(patient()).await?, "name"));
    }
    let guard = holder.acquire().await?;
    let served = line_up(&locks, number).await?;
    serves_in_order(guard, served, number).await?;
    ensure!(holder.queue_len().await? == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_hundred_waiters_are_served_in_the_order_of_asking_on_memory() -> Result<()> {
    are_served_in_order(&MemoryStore::new(), 200).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiters_are_served_in_the_order_of_asking_on_a_server() -> Result<()> {
    are_served_in_order(&Server::start().await?, 200).await
}

/// One acquire and one release per holder, however many wait; heartbeats depend only on time.
#[tokio::test(start_paused = true)]
async fn a_hand_over_costs_one_acquire_and_one_leave_whatever_the_number_of_waiters() -> Result<()>
{
    for number in [2, 64, 1_000] {
        let server = MemoryStore::new();
        let (client, store) = faulty(&server, TTL)?;
        let lock = FairLock::new(&client, "name");
        // Loads the scripts on the server.
        let guard = lock.acquire().await?;
        let next = tokio::spawn(lock.acquire().into_future());
        queued(&lock, 1).await?;
        guard.release().await?;
        next.await??.release().await?;
        let guard = lock.acquire().await?;
        let before = (store.sent(&lock::ACQUIRE), store.sent(&lock::RELEASE));
        let mut waiters = JoinSet::new();
        for _ in 0..number {
            let lock = lock.clone();
            waiters.spawn(async move { lock.acquire().await?.release().await });
        }
        queued(&lock, number).await?;
        guard.release().await?;
        while let Some(waiter) = waiters.join_next().await {
            ensure!(waiter?? == Released::Free);
        }
        let after = (store.sent(&lock::ACQUIRE), store.sent(&lock::RELEASE));
        let number = usize::try_from(number)?;
        ensure!(
            after.0 - before.0 == number,
            "{number}: {before:?} {after:?}"
        );
        ensure!(
            after.1 - before.1 == number + 1,
            "{number}: {before:?} {after:?}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_messages_every_waiter_is_served_in_order_within_a_heartbeat() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    server.mute(true);
    let lock = FairLock::new(&client, "name");
    let guard = lock.acquire().await?;
    let served = line_up(&[lock], 5).await?;
    let times = serves_in_order(guard, served, 5).await?;
    for two in times.windows(2) {
        ensure!(two[1] - two[0] <= HEARTBEAT, "after {:?}", two[1] - two[0]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_waiting_delays_nobody_and_leaves_no_trace() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let lock = FairLock::new(&client, "name");
    let guard = lock.acquire().await?;
    let cancelled = tokio::spawn(lock.acquire().into_future());
    queued(&lock, 1).await?;
    let impatient = tokio::spawn(
        lock.acquire()
            .wait_for(Duration::from_secs(1))
            .into_future(),
    );
    queued(&lock, 2).await?;
    let next = tokio::spawn(lock.acquire().into_future());
    queued(&lock, 3).await?;
    cancelled.abort();
    ensure!(matches!(impatient.await?, Err(Error::Timeout { .. })));
    queued(&lock, 1).await?;
    let released = Instant::now();
    guard.release().await?;
    let next = next.await??;
    ensure!(released.elapsed() <= Duration::from_millis(2));
    next.release().await?;
    for key in [QUEUE, STATE, "lockkeeper:name"] {
        ensure!(
            server.execute(&["EXISTS", key])?.as_i64() == Some(0),
            "{key}"
        );
    }
    Ok(())
}

/// Five thousand claims without a client, written directly into the keys, in front of a live one.
#[tokio::test(start_paused = true)]
async fn thousands_of_dead_waiters_delay_the_next_by_one_waiter_ttl_and_a_heartbeat_at_most()
-> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let lock = FairLock::new(&client, "name");
    let guard = lock.acquire().await?;
    let first = tokio::spawn(lock.acquire().into_future());
    queued(&lock, 1).await?;
    // The server has last heard from them as recently as from a live waiter.
    let script = "local t = redis.call('TIME')
        local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
        for i = 1, 5000 do
          local claim = string.format('00000000-0000-4000-8000-000000000000:%d/%016x', i, i)
          redis.call('ZADD', KEYS[1], i + 10, 'x:' .. claim)
          redis.call('HSET', KEYS[2], claim, string.format('%.0f:1', now + 10000))
        end
        return 1";
    server.execute(&["EVAL", script, "2", QUEUE, STATE])?;
    let live = tokio::spawn(lock.acquire().into_future());
    queued(&lock, 5_002).await?;
    let released = Instant::now();
    guard.release().await?;
    first.await??.release().await?;
    let live = live.await??;
    let waited = released.elapsed();
    // One of the dead waiters is granted while it counts as alive, and holds for one waiter ttl.
    let late = Duration::from_millis(100);
    ensure!(waited <= WAITER_TTL + HEARTBEAT + late, "after {waited:?}");
    live.release().await?;
    for key in [QUEUE, STATE, "lockkeeper:name"] {
        ensure!(
            server.execute(&["EXISTS", key])?.as_i64() == Some(0),
            "{key}"
        );
    }
    Ok(())
}

/// The grant comes at 0.30 by a heartbeat sent before, the next heartbeat is lost, and the message comes late. The lease
/// counts from the request that the message names.
#[tokio::test(start_paused = true)]
async fn a_grant_by_message_is_valid_no_longer_than_from_the_request_it_names() -> Result<()> {
    let server = MemoryStore::new();
    let (waiting, store) = faulty(&server, TTL)?;
    let holder = client(&server, TTL).await?;
    let guard = FairLock::new(&holder, "name").acquire().await?;
    let begun = Instant::now();
    let lock = FairLock::new(&waiting, "name");
    let acquiring = tokio::spawn(lock.acquire().into_future());
    queued(&lock, 1).await?;
    // The heartbeat after the subscription is the last one that arrives.
    sleep(Duration::from_millis(10)).await;
    for _ in 0..10 {
        store.plan(&lock::HEARTBEAT, Fate::LoseRequest);
    }
    for _ in 0..20 {
        store.plan(&lock::RENEW_INFLATED, Fate::LoseRequest);
    }
    sleep(Duration::from_secs(5)).await;
    guard.release().await?;
    let granted = acquiring.await??;
    let margin = WAITER_TTL / 100 + Duration::from_millis(5);
    ensure!(granted.lost().await.reason == LossReason::Expired);
    let until = begun.elapsed();
    ensure!(
        until <= WAITER_TTL - margin + Duration::from_millis(15),
        "{until:?}"
    );
    Ok(())
}

/// A message for a released claim, one for a foreign claim, and one that names no request of the claim.
#[tokio::test(start_paused = true)]
async fn a_foreign_or_repeated_message_changes_nothing() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let lock = FairLock::new(&client, "name");
    let guard = lock.acquire().await?;
    let waiting = tokio::spawn(lock.acquire().into_future());
    queued(&lock, 1).await?;
    sleep(Duration::from_millis(1)).await;
    let claim = server.execute(&[
        "EVAL",
        "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]",
        "1",
        QUEUE,
    ])?;
    let claim = claim.as_str().context("one waits")?.to_owned();
    let channel = format!("lockkeeper.grant:{{lockkeeper:name}}:{}", &claim[..36]);
    for message in [
        format!("G {claim} 12345 999999"),
        format!("G {}x 12345 1", &claim[..claim.len() - 1]),
        format!("G {claim} x y"),
        "nonsense".to_owned(),
    ] {
        server.execute(&["PUBLISH", &channel, &message])?;
    }
    sleep(Duration::from_millis(1)).await;
    ensure!(
        !waiting.is_finished(),
        "a message alone makes nobody a holder"
    );
    guard.release().await?;
    let next = waiting.await??;
    // The message of the same grant again.
    let token = next.fencing_token();
    server.execute(&["PUBLISH", &channel, &format!("G {claim} {token} 1")])?;
    next.verify().await?;
    ensure!(next.release().await? == Released::Free);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_holds_gets_in_past_the_queue_and_a_try_does_not() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let (lock, owner) = (FairLock::new(&client, "name"), client.new_owner());
    let outer = lock.acquire().owner(&owner).await?;
    let other = client.new_owner();
    let waiting = tokio::spawn(lock.acquire().owner(&other).into_future());
    queued(&lock, 1).await?;
    ensure!(lock.position(&other).await? == Some(1));
    ensure!(lock.position(&owner).await?.is_none());
    let inner = lock.acquire().owner(&owner).await?;
    let innermost = inner.reenter().await?;
    ensure!(lock.try_acquire().await?.is_none());
    ensure!(innermost.fencing_token() == outer.fencing_token());
    for (guard, left) in [(innermost, 2), (outer, 1)] {
        ensure!(guard.release().await? == Released::StillHeld(left));
        ensure!(!waiting.is_finished());
    }
    ensure!(inner.release().await? == Released::Free);
    let next = waiting.await??;
    ensure!(next.owner() == other);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_told_at_once_and_bounds_that_mean_nothing_are_refused() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let lock = FairLock::new(&client, "name");
    let _guard = lock.acquire().await?;
    let _waiting = tokio::spawn(lock.acquire().max_queue(1).into_future());
    queued(&lock, 1).await?;
    let error = lock.acquire().max_queue(1).await.err();
    ensure!(
        matches!(error, Some(Error::QueueFull { length: 1, .. })),
        "{error:?}"
    );
    ensure!(lock.queue_len().await? == 1);
    let none = lock.acquire().max_queue(0).await.err();
    let sharing = polling().build(std::sync::Arc::new(server.sibling()))?;
    let mutex = lockkeeper::Mutex::new(&sharing, "mutex");
    let mutexes = lockkeeper::MultiLock::new([&mutex])?;
    for error in [none, mutexes.acquire().max_queue(3).await.err()] {
        ensure!(matches!(error, Some(Error::Config { .. })), "{error:?}");
    }
    Ok(())
}

/// The end of a lease sends no message: the first waiter asks at that time, even between two of its heartbeats.
#[tokio::test(start_paused = true)]
async fn the_first_waiter_notices_the_end_of_a_lease_when_it_ends() -> Result<()> {
    let server = MemoryStore::new();
    let (dying, store) = faulty(&server, TTL)?;
    let other = client(&server, TTL).await?;
    let ttl = Duration::from_secs(8);
    let dead = FairLock::new(&dying, "name").acquire().ttl(ttl);
    let _dead = std::mem::ManuallyDrop::new(dead.no_renewal().await?);
    let begun = Instant::now();
    store.silence("name");
    drop(FairLock::new(&other, "name").acquire().await?);
    let late = begun.elapsed() - ttl;
    ensure!(
        late <= Duration::from_millis(10),
        "{late:?} after the end of the lease"
    );
    Ok(())
}

/// The server loses everything: waiters queue up again, and the holder is told.
#[tokio::test(start_paused = true)]
async fn after_the_server_lost_its_data_waiters_queue_up_again() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let lock = FairLock::new(&client, "name");
    let guard = lock.acquire().await?;
    let empty = MemoryStore::new().snapshot();
    let waiting = tokio::spawn(lock.acquire().into_future());
    queued(&lock, 1).await?;
    server.restore(&empty);
    let next = timeout(PATIENCE, waiting).await???;
    ensure!(guard.lost().await.reason == LossReason::Gone);
    ensure!(next.fencing_token() > guard.fencing_token());
    next.release().await?;
    Ok(())
}

/// A message grants for one waiter ttl; a fixed lease lasts for its own ttl, shorter or longer.
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_lasts_for_its_own_ttl_also_if_a_message_grants_it() -> Result<()> {
    for ttl in [Duration::from_millis(500), Duration::from_secs(60)] {
        let server = MemoryStore::new();
        let client = client(&server, TTL).await?;
        let lock = FairLock::new(&client, "name");
        let guard = lock.acquire().await?;
        let waiting = tokio::spawn(lock.acquire().ttl(ttl).no_renewal().into_future());
        queued(&lock, 1).await?;
        guard.release().await?;
        let next = timeout(PATIENCE, waiting).await???;
        let margin = ttl / 100 + Duration::from_millis(5);
        ensure!(next.remaining() <= ttl - margin, "{:?}", next.remaining());
        ensure!(
            next.remaining() > ttl - margin - Duration::from_millis(50),
            "{:?}",
            next.remaining()
        );
        ensure!(next.lost().await.reason == LossReason::Expired);
    }
    Ok(())
}

/// A real server that is frozen for longer than a waiter's ttl: it heard from no waiter, and none loses its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_server_was_stopped_for_longer_than_the_waiter_ttl_live_waiters_keep_their_order()
-> Result<()> {
    let server = Server::start().await?;
    // While the server runs, only a machine that stands still for so long keeps heartbeats from it.
    let waiter_ttl = Duration::from_secs(4);
    let settings = || Client::builder().waiter_ttl(waiter_ttl);
    let locks = [
        FairLock::new(&server.client(settings()).await?, "name"),
        FairLock::new(&server.client(settings()).await?, "name"),
    ];
    let guard = locks[0].acquire().await?;
    let served = line_up(&locks, 6).await?;
    server.freeze()?;
    sleep(waiter_ttl + Duration::from_secs(1)).await;
    server.thaw()?;
    serves_in_order(guard, served, 6).await?;
    Ok(())
}

/// The subscription of earlier waiters lingers while an acquire is in flight, and must not end before its reply.
#[tokio::test(start_paused = true)]
async fn a_grant_that_overtakes_the_answer_is_heard_though_nobody_else_waits_any_more() -> Result<()>
{
    let server = MemoryStore::new();
    let (waiting, store) = faulty(&server, TTL)?;
    let guard = FairLock::new(&client(&server, TTL).await?, "name")
        .acquire()
        .await?;
    let lock = FairLock::new(&waiting, "name");
    let second = Duration::from_secs(1);
    ensure!(lock.acquire().wait_for(second).await.is_err());
    // The subscription lingers for five seconds.
    sleep(Duration::from_millis(4_900)).await;
    store.slow_down(&lock::ACQUIRE, second);
    let begun = Instant::now();
    let acquiring = tokio::spawn(lock.acquire().into_future());
    sleep(second / 2).await;
    guard.release().await?;
    let next = acquiring.await??;
    let waited = begun.elapsed();
    ensure!(
        waited <= second + Duration::from_millis(10),
        "after {waited:?}"
    );
    next.release().await?;
    Ok(())
}
