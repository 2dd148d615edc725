//! The queue of an `RFairLock` on the server: exactly what Redisson writes, and what others can do to it.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lockkeeper::redisson::{RedissonFairGuard, RedissonFairLock, RedissonLock};
use lockkeeper::{Client, Error, Lock as _, Mutex, Owner, Released};
use lockkeeper_lua::{Status, redisson};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site;
use tokio::task::JoinHandle;

use crate::support::{TTL, client, faulty};

/// How long a dead waiter is waited for, ms.
const WAIT: u64 = 300_000;

/// Less than a waiter's ttl and a holder's lease: what comes within this came by a message.
const SOON: Duration = Duration::from_secs(1);

/// A holder and a waiter that are none of ours: threads of a client of Redisson.
const HOLDER: &str = "7f2c1c9e-08a4-4c35-9d3e-5b1f1a2b3c4d:44";
const THREAD: &str = "7f2c1c9e-08a4-4c35-9d3e-5b1f1a2b3c4d:45";

const QUEUE: &str = "redisson_lock_queue:{order}";
const TIMEOUTS: &str = "redisson_lock_timeout:{order}";

/// The owners that wait, in order.
async fn queue(site: &MemoryStore) -> Result<Vec<String>> {
    let mut owners = Vec::new();
    for index in 0.. {
        let owner = site.command(&["LINDEX", QUEUE, &index.to_string()]).await?;
        if owner.is_empty() {
            break;
        }
        owners.push(owner);
    }
    Ok(owners)
}

/// From when on nobody waits for this owner, epoch ms; once it stands there.
async fn waited_for(site: &MemoryStore, owner: &str) -> Result<u64> {
    const SCRIPT: &str = "return redis.call('ZMSCORE', KEYS[1], ARGV[1])[1]";
    let words = ["EVAL", SCRIPT, "1", TIMEOUTS, owner];
    let score = async {
        loop {
            let score = site.command(&words).await?;
            if !score.is_empty() {
                return anyhow::Ok(score.parse()?);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, score).await?
}

/// The server's time, epoch ms.
async fn now(site: &MemoryStore) -> Result<u64> {
    let script = "local time = redis.call('TIME')
        return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))";
    Ok(site.command(&["EVAL", script, "0"]).await?.parse()?)
}

/// A thread of Redisson's holds.
async fn held_by_java(site: &MemoryStore) -> Result<()> {
    site.command(&["HSET", "order", HOLDER, "1"]).await?;
    site.command(&["PEXPIRE", "order", "30000"]).await?;
    Ok(())
}

/// A thread of Redisson's stands at the end of the queue, waited for until so many ms from now.
async fn stands(site: &MemoryStore, owner: &str, left: i64) -> Result<()> {
    let until = i64::try_from(now(site).await?)? + left;
    site.command(&["ZADD", TIMEOUTS, &until.to_string(), owner])
        .await?;
    site.command(&["RPUSH", QUEUE, owner]).await?;
    Ok(())
}

type Waiting = JoinHandle<lockkeeper::Result<RedissonFairGuard>>;

/// An acquisition for a new owner, once it stands in the queue as the `place`th.
async fn waiting(
    site: &MemoryStore,
    client: &Client,
    lock: &RedissonFairLock,
    place: usize,
) -> Result<(Owner, Waiting)> {
    let owner = client.new_owner();
    let acquire = lock.acquire().owner(&owner).into_future();
    let waiting = tokio::spawn(acquire);
    let channel = format!("redisson_lock__channel:{{order}}:{owner}");
    while queue(site).await?.get(place - 1) != Some(&owner.to_string())
        || site.listeners(&channel).await? == 0
    {
        ensure!(!waiting.is_finished(), "it did not wait");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok((owner, waiting))
}

async fn soon(waiting: Waiting) -> Result<RedissonFairGuard> {
    Ok(tokio::time::timeout(SOON, waiting).await???)
}

/// Waits until nothing of the name is left but tombstones.
async fn is_empty(site: &MemoryStore) -> Result<()> {
    let is_its = |key: &String| key.contains("order") && !key.contains(".gone:");
    let empty = async {
        while site.keys().iter().any(is_its) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let end = tokio::time::timeout(SOON, empty).await;
    ensure!(end.is_ok(), "{:?}", site.keys());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiters_stand_in_redissons_queue_one_behind_the_other() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    held_by_java(&site).await?;
    let began = now(&site).await?;
    let (first, one) = waiting(&site, &client, &lock, 1).await?;
    let (second, other) = waiting(&site, &client, &lock, 2).await?;
    ensure!(queue(&site).await? == [first.to_string(), second.to_string()]);
    ensure!(site.command(&["ZCARD", TIMEOUTS]).await? == "2");
    // After the lease of the holder, and then one after the other.
    let until = waited_for(&site, &first.to_string()).await?;
    ensure!((began + 29_000 + WAIT..=began + 31_000 + WAIT).contains(&until));
    ensure!(waited_for(&site, &second.to_string()).await? == until + WAIT);
    ensure!(lock.queue_len().await? == 2);
    ensure!(lock.inspect().await?[0].waiters == Some(2));

    ensure!(lock.force_release(HOLDER).await?);
    let guard = soon(one).await?;
    ensure!(queue(&site).await? == [second.to_string()]);
    // Nobody waits for the first any more.
    ensure!(waited_for(&site, &second.to_string()).await? == until);
    ensure!(guard.release().await? == Released::Free);
    ensure!(soon(other).await?.release().await? == Released::Free);
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_leaves_nothing_and_those_behind_it_move_forward() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    held_by_java(&site).await?;
    let (_, dropped) = waiting(&site, &client, &lock, 1).await?;
    let (behind, other) = waiting(&site, &client, &lock, 2).await?;
    let until = waited_for(&site, &behind.to_string()).await?;
    let late = lock.acquire().wait_for(Duration::from_millis(10)).await;
    let Err(Error::Timeout { holder, place, .. }) = late else {
        bail!("{late:?}");
    };
    ensure!(holder.is_some_and(|holder| holder.claim == HOLDER) && place == Some(3));
    dropped.abort();
    while queue(&site).await? != [behind.to_string()] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ensure!(waited_for(&site, &behind.to_string()).await? == until - WAIT);
    other.abort();
    while site.command(&["EXISTS", QUEUE]).await? != "0" {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    site.command(&["DEL", "order"]).await?;
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn a_free_name_is_left_to_those_who_wait_even_if_the_first_of_them_leaves() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    // A thread in Java is the first, and has been told that the name is free.
    stands(&site, THREAD, 400).await?;
    ensure!(lock.try_acquire().await?.is_none());
    ensure!(queue(&site).await? == [THREAD]);
    let thread: Owner = THREAD.parse()?;
    let of_thread = lock.acquire().owner(&thread).await?;
    let (_, one) = waiting(&site, &client, &lock, 1).await?;
    let (_, other) = waiting(&site, &client, &lock, 2).await?;
    // Without a message to anybody.
    site.command(&["DEL", "order"]).await?;
    drop(of_thread);
    one.abort();
    ensure!(soon(other).await?.release().await? == Released::Free);
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn a_dead_waiter_is_passed_over_when_its_time_is_over() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    stands(&site, THREAD, 20_000).await?;
    let began = tokio::time::Instant::now();
    let guard = lock.acquire().await?;
    let waited = began.elapsed();
    ensure!((20..30).contains(&waited.as_secs()), "{waited:?}");
    guard.release().await?;
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_a_name_by_force_tells_also_those_behind_a_dead_waiter() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    held_by_java(&site).await?;
    stands(&site, THREAD, 500).await?;
    let (_, waiting) = waiting(&site, &client, &lock, 2).await?;
    tokio::time::sleep(SOON).await;
    ensure!(lock.force_release(HOLDER).await?);
    soon(waiting).await?.release().await?;
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_a_free_name_tells_the_one_behind_a_dead_waiter() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    held_by_java(&site).await?;
    let (_, leaves) = waiting(&site, &client, &lock, 1).await?;
    // By a clock that is far behind: its time is over before it is the first.
    stands(&site, THREAD, -1_000).await?;
    let (_, behind) = waiting(&site, &client, &lock, 3).await?;
    // Without a message to anybody.
    site.command(&["DEL", "order"]).await?;
    leaves.abort();
    soon(behind).await?.release().await?;
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_another_clock_has_thrown_out_stands_at_the_end() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    held_by_java(&site).await?;
    let (first, one) = waiting(&site, &client, &lock, 1).await?;
    let (second, other) = waiting(&site, &client, &lock, 2).await?;
    // What Redisson does if its clock is ahead.
    site.command(&["LPOP", QUEUE]).await?;
    site.command(&["ZREM", TIMEOUTS, &first.to_string()])
        .await?;
    while queue(&site).await? != [second.to_string(), first.to_string()] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ensure!(lock.force_release(HOLDER).await?);
    soon(other).await?.release().await?;
    soon(one).await?.release().await?;
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn whoever_stands_in_one_key_only_can_stand_in_both_again() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    held_by_java(&site).await?;
    let thread: Owner = THREAD.parse()?;
    stands(&site, HOLDER, 500_000).await?;
    site.command(&["LPOP", QUEUE]).await?;
    stands(&site, THREAD, 500_000).await?;
    site.command(&["ZREM", TIMEOUTS, THREAD]).await?;
    let of_thread = tokio::spawn(lock.acquire().owner(&thread).into_future());
    waited_for(&site, THREAD).await?;
    ensure!(queue(&site).await? == [THREAD]);
    ensure!(site.command(&["ZCARD", TIMEOUTS]).await? == "1");
    ensure!(lock.force_release(HOLDER).await?);
    soon(of_thread).await?.release().await?;
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn requests_whose_replies_are_lost_take_one_place_and_keep_it() -> Result<()> {
    let site = MemoryStore::new();
    let (faulty, store) = faulty(&site)?;
    let other = client(&site).await?;
    held_by_java(&site).await?;
    // By its SHA-1, which the server does not know yet, and then by its text.
    store.plan(&redisson::FAIR_ACQUIRE, Fate::Pass);
    store.plan(&redisson::FAIR_ACQUIRE, Fate::LoseReply);
    let lock = RedissonFairLock::new(&faulty, "order");
    let owner = faulty.new_owner();
    let one = tokio::spawn(lock.acquire().owner(&owner).into_future());
    while queue(&site).await? != [owner.to_string()] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let lock = RedissonFairLock::new(&other, "order");
    let (_, behind) = waiting(&site, &other, &lock, 2).await?;
    store.wait_sent(&redisson::FAIR_ACQUIRE, 3).await;
    ensure!(queue(&site).await?[0] == owner.to_string());
    store.plan(&redisson::FAIR_HEARTBEAT, Fate::Pass);
    store.plan(&redisson::FAIR_HEARTBEAT, Fate::LoseReply);
    ensure!(lock.force_release(HOLDER).await?);
    let guard = tokio::time::timeout(TTL, one).await???;
    ensure!(site.command(&["HGET", "order", &owner.to_string()]).await? == "1");
    ensure!(guard.release().await? == Released::Free);
    soon(behind).await?.release().await?;
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_late_joins_no_queue() -> Result<()> {
    let site = MemoryStore::new();
    let (client, store) = faulty(&site)?;
    let lock = RedissonFairLock::new(&client, "order");
    lock.acquire().await?.release().await?;
    held_by_java(&site).await?;
    store.plan(&redisson::FAIR_ACQUIRE, Fate::Keep);
    let waiting = tokio::spawn(lock.acquire().into_future());
    store.wait_sent(&redisson::FAIR_ACQUIRE, 3).await;
    waiting.abort();
    let has_tombstone = || {
        let keys = site.keys();
        keys.iter()
            .any(|key| key.starts_with("lockkeeper.gone:{order}:"))
    };
    while !has_tombstone() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for reply in store.deliver(&site.sibling()).await {
        ensure!(reply?.status() == Status::Gone);
    }
    ensure!(queue(&site).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_waiters_of_one_owner_share_a_place_and_both_are_served() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    held_by_java(&site).await?;
    let (owner, one) = waiting(&site, &client, &lock, 1).await?;
    let other = tokio::spawn(lock.acquire().owner(&owner).into_future());
    let third = tokio::spawn(lock.acquire().owner(&owner).into_future());
    tokio::time::sleep(Duration::from_secs(20)).await;
    ensure!(queue(&site).await? == [owner.to_string()]);
    third.abort();
    ensure!(lock.force_release(HOLDER).await?);
    let guards = [one, other].map(|waiting| tokio::time::timeout(TTL, waiting));
    for guard in guards {
        drop(guard.await???);
    }
    is_empty(&site).await
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_holds_passes_the_queue_and_so_does_a_plain_lock() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    let outer = lock.acquire().await?;
    let (_, waiting) = waiting(&site, &client, &lock, 1).await?;
    let inner = outer.reenter().await?;
    ensure!(inner.fencing_token() == outer.fencing_token());
    ensure!(inner.release().await? == Released::StillHeld(1));
    ensure!(!waiting.is_finished());
    let plain = RedissonLock::new(&client, "order");
    let kept = outer.reenter().await?;
    outer.release().await?;
    ensure!(plain.try_acquire().await?.is_none());
    site.command(&["DEL", "order"]).await?;
    let passed = plain.try_acquire().await?;
    ensure!(passed.is_some(), "a plain lock knows no queue");
    ensure!(kept.verify().await.is_err());
    drop(passed);
    // Its release tells the waiter in the queue, too.
    drop(tokio::time::timeout(SOON, waiting).await???);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_plain_lock_tells_the_first_in_the_queue_and_those_outside_it() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let (plain, lock) = (
        RedissonLock::new(&client, "order"),
        RedissonFairLock::new(&client, "order"),
    );
    let shortest = Duration::from_secs(5);
    let began = tokio::time::Instant::now();
    let guard = plain.acquire().min_hold(shortest).await?;
    let (_, one) = waiting(&site, &client, &lock, 1).await?;
    let (_, other) = waiting(&site, &client, &lock, 2).await?;
    ensure!(matches!(guard.release().await?, Released::Kept(_)));
    let next = one.await??;
    let waited = began.elapsed();
    ensure!(waited >= shortest && waited < shortest + SOON, "{waited:?}");
    ensure!(!other.is_finished());
    next.release().await?;
    drop(tokio::time::timeout(SOON, other).await???);

    let guard = plain.acquire().await?;
    let (_, one) = waiting(&site, &client, &lock, 1).await?;
    let outside = tokio::spawn(async move { plain.acquire().await?.release().await });
    while site.listeners("redisson_lock__channel:{order}").await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    guard.release().await?;
    // One after the other, in any order.
    let both = async {
        drop(one.await??);
        outside.await??;
        anyhow::Ok(())
    };
    tokio::time::timeout(SOON, both).await??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cooldown_keeps_waiters_out_and_then_lets_them_in_by_turns() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    let shortest = Duration::from_secs(5);
    let guard = lock.acquire().min_hold(shortest).await?;
    let began = tokio::time::Instant::now();
    let (_, one) = waiting(&site, &client, &lock, 1).await?;
    let (_, other) = waiting(&site, &client, &lock, 2).await?;
    let left = guard.release().await?;
    ensure!(matches!(left, Released::Kept(_)), "{left:?}");
    let guard = tokio::time::timeout(TTL, one).await???;
    let waited = began.elapsed();
    ensure!(
        waited >= shortest - SOON && waited < shortest + SOON,
        "{waited:?}"
    );
    ensure!(!other.is_finished());
    guard.release().await?;
    drop(soon(other).await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_another_type_is_no_queue() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    for key in [QUEUE, TIMEOUTS, "lockkeeper.redisson-queue:{order}"] {
        site.command(&["SET", key, "text"]).await?;
        let lock = RedissonFairLock::new(&client, "order");
        for refused in [lock.acquire().await.err(), lock.try_acquire().await.err()] {
            ensure!(
                matches!(refused, Some(Error::WrongKind { .. })),
                "{refused:?}"
            );
        }
        site.command(&["DEL", key]).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn as_many_wait_as_may_and_no_more() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFairLock::new(&client, "order");
    held_by_java(&site).await?;
    let (_, one) = waiting(&site, &client, &lock, 1).await?;
    let refused = lock.acquire().max_queue(1).await;
    ensure!(
        matches!(refused, Err(Error::QueueFull { length: 1, .. })),
        "{refused:?}"
    );
    ensure!(lock.try_acquire().await?.is_none());
    one.abort();
    Ok(())
}

/// They have different scripts to renew by.
#[tokio::test(start_paused = true)]
async fn leases_of_other_kinds_are_renewed_beside_those_of_redisson() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let fair = RedissonFairLock::new(&client, "order").acquire().await?;
    let mutex = Mutex::new(&client, "order").acquire().await?;
    let plain = RedissonLock::new(&client, "other").acquire().await?;
    tokio::time::sleep(3 * TTL).await;
    fair.verify().await?;
    mutex.verify().await?;
    plain.verify().await?;
    Ok(())
}
