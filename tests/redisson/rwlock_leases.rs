//! Leases of an `RReadWriteLock` that end without a release, and what is made of what they leave on the server.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::redisson::RedissonReadWriteLock;
use lockkeeper::{Owner, Released};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site;

use crate::rwlock_keys::{OTHER, THREAD, java_reads, timeout_of};
use crate::support::{TTL, client, faulty};

/// A reader that comes and goes, again and again with a pause in between, for three times as long as a lease.
async fn another_reads(site: &MemoryStore, lock: &RedissonReadWriteLock) -> Result<()> {
    for _ in 0..4 {
        tokio::time::sleep(TTL - Duration::from_secs(2)).await;
        let reader = lock.read().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        reader.release().await?;
        if site.command(&["EXISTS", "prices"]).await? == "0" {
            return Ok(());
        }
    }
    anyhow::bail!("what the dead left never goes")
}

#[tokio::test(start_paused = true)]
async fn a_dead_reader_of_either_side_goes_with_the_last_one_that_lives() -> Result<()> {
    let site = MemoryStore::new();
    let lock = RedissonReadWriteLock::new(&client(&site).await?, "prices");
    java_reads(&site, &[(THREAD, 30_000)]).await?;
    another_reads(&site, &lock).await?;

    let (dies, store) = faulty(&site)?;
    let guard = RedissonReadWriteLock::new(&dies, "prices").read().await?;
    store.silence("prices");
    drop(guard);
    another_reads(&site, &lock).await?;
    lock.write().await?.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cooldown_that_is_over_goes_with_the_last_reader() -> Result<()> {
    let site = MemoryStore::new();
    let lock = RedissonReadWriteLock::new(&client(&site).await?, "prices");
    let shortest = lock.read().min_hold(Duration::from_secs(2)).await?;
    let kept = shortest.release().await?;
    ensure!(matches!(kept, Released::Kept(_)), "{kept:?}");
    // A thread in Java joins what looks like a reader to it.
    site.command(&["HSET", "prices", THREAD, "1"]).await?;
    site.command(&["SET", &timeout_of(THREAD), "1", "PX", "30000"])
        .await?;
    site.command(&["PEXPIRE", "prices", "30000"]).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let reader = lock.read().await?;
    site.command(&["HDEL", "prices", THREAD]).await?;
    site.command(&["DEL", &timeout_of(THREAD)]).await?;
    ensure!(reader.release().await? == Released::Free);
    ensure!(site.command(&["EXISTS", "prices"]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn readers_after_a_write_inside_one_of_java_have_a_larger_token() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    java_reads(&site, &[(OTHER, 30_000)]).await?;
    let reader = lock.read().await?;
    let before = reader.fencing_token();
    reader.release().await?;
    // The other one leaves, and a thread writes; a write here inside it is of the same owner.
    site.command(&["DEL", "prices", &timeout_of(OTHER)]).await?;
    let write = format!("{THREAD}:write");
    site.command(&["HSET", "prices", "mode", "write", &write, "1"])
        .await?;
    site.command(&["PEXPIRE", "prices", "30000"]).await?;
    let owner: Owner = THREAD.parse()?;
    let inside = lock.write().owner(&owner).await?;
    let of_write = inside.fencing_token();
    ensure!(of_write > before);
    inside.release().await?;
    site.command(&["DEL", "prices"]).await?;
    java_reads(&site, &[(OTHER, 30_000)]).await?;
    let after = lock.read().await?;
    ensure!(after.fencing_token() > of_write);
    after.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_under_a_name_without_an_end_is_answered() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let reader = lock.read().await?;
    let again = reader.reenter().await?;
    let owner = reader.owner().to_string();
    site.command(&["DEL", "prices", &timeout_of(&owner)])
        .await?;
    site.command(&["HSET", "prices", "mode", "read", &owner, "2"])
        .await?;
    ensure!(again.release().await? == Released::StillHeld(1));
    reader.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_reads_more_often_than_is_looked_up_is_alive() -> Result<()> {
    let site = MemoryStore::new();
    let lock = RedissonReadWriteLock::new(&client(&site).await?, "prices");
    java_reads(&site, &[(THREAD, 1_000)]).await?;
    site.command(&["HSET", "prices", THREAD, "300"]).await?;
    let last = format!("{{prices}}:{THREAD}:rwlock_timeout:300");
    site.command(&["SET", &last, "1", "PX", "30000"]).await?;
    let reader = lock.read().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(site.command(&["EXISTS", &timeout_of(THREAD)]).await? == "0");
    reader.release().await?;
    ensure!(site.command(&["HGET", "prices", THREAD]).await? == "300");
    ensure!(lock.try_write().await?.is_none());
    Ok(())
}
