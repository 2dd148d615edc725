//! Names with a minimum hold time: how long it lasts, whom it stops, and requests that arrive late.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{HolderState, Mutex, ReentrantLock, Released};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_tests::{client, faulty};
use tokio::time::{Instant, sleep};

const SOON: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(6);
const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_kept_name_is_shown_as_kept_and_can_only_be_forced() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let (lock, owner) = (ReentrantLock::new(&client, "nested"), client.new_owner());
    let minute = Duration::from_secs(60);
    let guard = Mutex::new(&client, "name")
        .acquire()
        .min_hold(minute)
        .await?;
    ensure!(matches!(guard.release().await?, Released::Kept(_)));
    let (outer, inner) = (
        lock.acquire().owner(&owner).await?,
        lock.acquire().owner(&owner).min_hold(minute).await?,
    );
    // While the owner still holds, the release only decides the cooldown of the name.
    ensure!(inner.release().await? == Released::StillHeld(1));
    outer.reenter().await?.release().await?;
    ensure!(matches!(outer.release().await?, Released::Kept(left) if left <= minute));
    for name in ["name", "nested"] {
        let seen = client.inspect(name).await?;
        let [holder] = &seen.holders[..] else {
            anyhow::bail!("{seen:?}")
        };
        ensure!(holder.state == HolderState::Cooldown);
        ensure!(holder.left.is_some_and(|left| left <= minute));
        ensure!(client.revoke(name).await? == 0);
        ensure!(client.force_release(name, &holder.claim).await?);
        ensure!(client.inspect(name).await?.kind.is_none());
    }
    ensure!(lock.try_acquire().owner(&owner).await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leave_that_keeps_and_is_repeated_keeps_no_longer() -> Result<()> {
    for reenters in [false, true] {
        let server = MemoryStore::new();
        let (client, faulty) = faulty(&server, TTL)?;
        let (mutex, lock) = (
            Mutex::new(&client, "name"),
            ReentrantLock::new(&client, "name"),
        );
        let shortest = Duration::from_secs(20);
        let started = Instant::now();
        let released = if reenters {
            faulty.plan(&lock::DROP, Fate::LoseReply);
            let guard = lock
                .acquire()
                .owner(&client.new_owner())
                .min_hold(shortest)
                .await?;
            guard.release().await?
        } else {
            faulty.plan(&lock::DROP, Fate::LoseReply);
            mutex.acquire().min_hold(shortest).await?.release().await?
        };
        ensure!(matches!(released, Released::Kept(_)), "{released:?}");
        if reenters {
            lock.acquire()
                .owner(&client.new_owner())
                .await?
                .release()
                .await?;
        } else {
            mutex.acquire().await?.release().await?;
        }
        let apart = started.elapsed();
        // Waiters of several clients come slightly apart.
        let late = shortest + Duration::from_millis(100);
        ensure!((shortest..late).contains(&apart), "after {apart:?}");
    }
    Ok(())
}

/// An acquire in doubt, a late renewal and a late release all arrive after an end by cooldown, revocation or force.
#[tokio::test(start_paused = true)]
async fn whatever_arrives_late_after_a_leave_that_keeps_creates_and_shortens_nothing() -> Result<()>
{
    for reenters in [false, true] {
        let server = MemoryStore::new();
        let (client, store) = faulty(&server, TTL)?;
        let other = self::client(&server, TTL).await?;
        let (acquire, renew, marked) = (&lock::ACQUIRE, &lock::RENEW, &lock::RELEASE);
        let shortest = Duration::from_secs(20);
        store.plan(acquire, Fate::Keep);
        store.plan(marked, Fate::Keep);
        let begun;
        if reenters {
            let lock = ReentrantLock::new(&client, "name");
            let guard = lock
                .acquire()
                .owner(&client.new_owner())
                .min_hold(shortest)
                .await?;
            begun = Instant::now();
            store.plan(renew, Fate::Keep);
            sleep(3 * TTL / 2).await;
            ensure!(matches!(guard.release().await?, Released::Kept(_)));
        } else {
            let lock = Mutex::new(&client, "name");
            let guard = lock.acquire().min_hold(shortest).await?;
            begun = Instant::now();
            store.plan(renew, Fate::Keep);
            sleep(3 * TTL / 2).await;
            ensure!(matches!(guard.release().await?, Released::Kept(_)));
        }
        store.deliver(&server).await;
        let left = begun + shortest - Instant::now();
        let holder = other.inspect("name").await?.holders.remove(0);
        ensure!(holder.state == HolderState::Cooldown);
        let shown = holder.left.context("it ends")?;
        ensure!(
            shown + 2 * MOMENT >= left && shown <= left + 2 * MOMENT,
            "{shown:?} {left:?}"
        );
        sleep(left + 2 * MOMENT).await;
        ensure!(other.inspect("name").await?.kind.is_none());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kept_hold_that_was_revoked_does_not_revoke_the_next_one() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let lock = ReentrantLock::new(&client, "name");
    let owner = client.new_owner();
    let second = Duration::from_secs(1);
    let (one, other) = (
        lock.acquire().owner(&owner).min_hold(second).await?,
        lock.acquire().owner(&owner).await?,
    );
    ensure!(client.revoke("name").await? == 2);
    drop(one);
    drop(other);
    let begun = Instant::now();
    let next = lock.acquire().owner(&owner).wait_for(SOON).await?;
    ensure!(
        begun.elapsed() + 2 * MOMENT >= second,
        "{:?}",
        begun.elapsed()
    );
    sleep(3 * TTL).await;
    next.verify().await?;
    ensure!(next.reenter().await?.release().await? == Released::StillHeld(1));
    ensure!(next.release().await? == Released::Free);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_keeps_its_time_keeps_writers_out_and_lets_readers_in() -> Result<()> {
    let (here, there) = crate::kinds::rwlock::two().await?;
    let second = Duration::from_secs(1);
    let reading = here.read().min_hold(5 * second).await?;
    let released = reading.release().await?;
    ensure!(matches!(released, Released::Kept(_)), "{released:?}");
    ensure!(there.try_write().await?.is_none());
    ensure!(there.try_read().await?.is_some());
    sleep(6 * second).await;
    ensure!(there.try_write().await?.is_some());
    Ok(())
}
