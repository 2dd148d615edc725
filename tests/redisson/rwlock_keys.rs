//! What lies on the server of an `RReadWriteLock`: exactly what Redisson writes under its name, and what others can do to it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::{RedissonLock, RedissonReadWriteLock};
use lockkeeper::{Error, HolderState, LossReason, Owner, Released};
use lockkeeper_lua::{Status, redisson};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site;

use crate::support::{TTL, client, faulty};

/// Holders that are none of ours: threads of a client of Redisson.
pub(crate) const THREAD: &str = "7f2c1c9e-08a4-4c35-9d3e-5b1f1a2b3c4d:44";
pub(crate) const OTHER: &str = "7f2c1c9e-08a4-4c35-9d3e-5b1f1a2b3c4d:45";

pub(crate) fn timeout_of(owner: &str) -> String {
    format!("{{prices}}:{owner}:rwlock_timeout:1")
}

/// Some in Java read, with leases of so many ms; the hash lasts as long as the longest.
pub(crate) async fn java_reads(site: &MemoryStore, readers: &[(&str, u64)]) -> Result<()> {
    site.command(&["HSET", "prices", "mode", "read"]).await?;
    for (owner, lease) in readers {
        let lease = lease.to_string();
        site.command(&["HSET", "prices", owner, "1"]).await?;
        let timeout = timeout_of(owner);
        site.command(&["SET", &timeout, "1", "PX", &lease]).await?;
    }
    let longest = readers.iter().map(|(_, lease)| lease).max();
    let longest = longest.context("nobody reads")?.to_string();
    site.command(&["PEXPIRE", "prices", &longest]).await?;
    Ok(())
}

async fn left(site: &MemoryStore, key: &str) -> Result<i64> {
    Ok(site.command(&["PTTL", key]).await?.parse()?)
}

#[tokio::test(start_paused = true)]
async fn a_read_is_a_mode_a_field_and_a_key_with_its_lease() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let outer = RedissonReadWriteLock::new(&client, "prices").read().await?;
    let inner = outer.reenter().await?;
    let owner = outer.owner().to_string();
    ensure!(site.command(&["HLEN", "prices"]).await? == "2");
    ensure!(site.command(&["HGET", "prices", "mode"]).await? == "read");
    ensure!(site.command(&["HGET", "prices", &owner]).await? == "2");
    let timeout = timeout_of(&owner);
    ensure!(site.command(&["GET", &timeout]).await? == "1");
    for key in ["prices", &timeout] {
        let left = left(&site, key).await?;
        ensure!((29_000..=30_000).contains(&left), "{key}: {left}");
    }
    ensure!(inner.release().await? == Released::StillHeld(1));
    ensure!(site.command(&["HGET", "prices", &owner]).await? == "1");
    ensure!(left(&site, &timeout).await? > 29_000);
    ensure!(outer.release().await? == Released::Free);
    ensure!(site.command(&["EXISTS", "prices", &timeout]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_write_is_a_mode_and_a_field() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let outer = lock.write().await?;
    let inner = outer.reenter().await?;
    let field = format!("{}:write", outer.owner());
    ensure!(site.command(&["HLEN", "prices"]).await? == "2");
    ensure!(site.command(&["HGET", "prices", "mode"]).await? == "write");
    ensure!(site.command(&["HGET", "prices", &field]).await? == "2");
    let timeouts = site.keys();
    let mut timeouts = timeouts.iter().filter(|key| key.contains("rwlock_timeout"));
    ensure!(timeouts.next().is_none());
    ensure!(inner.release().await? == Released::StillHeld(1));
    ensure!(lock.try_read().await?.is_none());
    ensure!(outer.release().await? == Released::Free);
    ensure!(site.command(&["EXISTS", "prices"]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_read_that_outlives_its_write_lets_others_read_and_keeps_its_token() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let writing = lock.write().await?;
    let token = writing.fencing_token();
    let reading = writing.read().await?;
    ensure!(reading.fencing_token() == token);
    ensure!(lock.try_read().await?.is_none());
    ensure!(site.command(&["HLEN", "prices"]).await? == "3");
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.read().await }
    });
    while site.listeners("redisson_rwlock:{prices}").await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = tokio::time::Instant::now();
    ensure!(writing.release().await? == Released::StillHeld(1));
    ensure!(site.command(&["HGET", "prices", "mode"]).await? == "read");
    let other = waiting.await??;
    ensure!(began.elapsed() < Duration::from_secs(1), "it was not woken");
    ensure!(other.fencing_token() > token);
    let third = lock.read().await?;
    ensure!(third.fencing_token() == other.fencing_token());
    // Those that hold have several.
    ensure!(lock.inspect().await?[0].token.is_none());
    reading.verify().await?;
    let again = reading.reenter().await?;
    ensure!(again.fencing_token() == token);
    ensure!(lock.try_write().await?.is_none());
    for guard in [again, reading, other] {
        guard.release().await?;
    }
    let last = third.fencing_token();
    ensure!(third.release().await? == Released::Free);
    ensure!(lock.write().await?.fencing_token() > last);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_short_read_cuts_no_lease_that_is_longer() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let writing = lock.write().await?;
    let owner = writing.owner();
    let short = Duration::from_secs(1);
    let inner = lock.read().owner(&owner).ttl(short).no_renewal().await?;
    inner.release().await?;
    ensure!(left(&site, "prices").await? > 29_000);
    writing.release().await?;

    let long = lock.read().await?;
    let short = lock.read().ttl(short).no_renewal().await?;
    ensure!(short.fencing_token() == long.fencing_token());
    short.release().await?;
    ensure!(left(&site, "prices").await? > 29_000);
    ensure!(left(&site, &timeout_of(&long.owner().to_string())).await? > 29_000);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_arms_the_lease_of_its_own_reads_and_of_nobody_elses() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    java_reads(&site, &[(THREAD, 30_000)]).await?;
    let guard = RedissonReadWriteLock::new(&client, "prices").read().await?;
    tokio::time::sleep(TTL * 2).await;
    guard.verify().await?;
    ensure!(left(&site, "prices").await? > 15_000);
    ensure!(left(&site, &timeout_of(&guard.owner().to_string())).await? > 15_000);
    ensure!(left(&site, &timeout_of(THREAD)).await? == -2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_reads_and_asks_to_write_is_told_so() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let owner = client.new_owner();
    let reading = lock.read().owner(&owner).await?;
    let refused = lock.try_write().owner(&owner).await;
    ensure!(
        matches!(refused, Err(Error::WouldDeadlock { .. })),
        "{refused:?}"
    );
    reading.release().await?;
    let writing = lock.write().owner(&owner).await?;
    writing.read().await?.release().await?;
    writing.verify().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requests_whose_replies_are_lost_count_once() -> Result<()> {
    let site = MemoryStore::new();
    let (client, store) = faulty(&site)?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    // By its SHA-1, which the server does not know yet, and then by its text.
    store.plan(&redisson::RWLOCK_ACQUIRE, Fate::Pass);
    store.plan(&redisson::RWLOCK_ACQUIRE, Fate::LoseReply);
    let outer = lock.read().await?;
    let owner = outer.owner().to_string();
    ensure!(store.sent(&redisson::RWLOCK_ACQUIRE) == 3);
    ensure!(site.command(&["HGET", "prices", &owner]).await? == "1");

    let inner = outer.reenter().await?;
    store.plan(&redisson::RWLOCK_RELEASE, Fate::Pass);
    store.plan(&redisson::RWLOCK_RELEASE, Fate::LoseReply);
    ensure!(inner.release().await? == Released::StillHeld(1));
    ensure!(site.command(&["HGET", "prices", &owner]).await? == "1");
    outer.verify().await?;
    ensure!(outer.release().await? == Released::Free);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_late_creates_nothing() -> Result<()> {
    let site = MemoryStore::new();
    let (client, store) = faulty(&site)?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    lock.read().await?.release().await?;
    store.plan(&redisson::RWLOCK_ACQUIRE, Fate::Keep);
    store.plan(&redisson::RWLOCK_ACQUIRE, Fate::Keep);
    let tried = lock.try_read().await;
    ensure!(tried.is_err(), "{tried:?}");
    // Its release overtakes it.
    let gone = |key: &String| key.starts_with("lockkeeper.gone:{prices}:");
    while !site.keys().iter().any(gone) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let late = store.deliver(&site.sibling()).await;
    ensure!(late.len() == 2);
    for reply in late {
        ensure!(reply?.status() == Status::Gone);
    }
    ensure!(site.command(&["EXISTS", "prices"]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_of_another_type_is_refused_and_left_as_it_is() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let plain = RedissonLock::new(&client, "prices").acquire().await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let refused = lock.try_read().await;
    ensure!(
        matches!(refused, Err(Error::WrongKind { .. })),
        "{refused:?}"
    );
    ensure!(matches!(
        lock.try_write().await,
        Err(Error::WrongKind { .. })
    ));
    ensure!(site.command(&["HLEN", "prices"]).await? == "1");
    plain.release().await?;

    let reading = lock.read().await?;
    let plain = RedissonLock::new(&client, "prices");
    ensure!(matches!(
        plain.try_acquire().await,
        Err(Error::WrongKind { .. })
    ));
    reading.verify().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_was_known_before_java_took_the_name_by_force_counts_for_nobody() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let owner = client.new_owner();
    let former = lock.read().owner(&owner).await?;
    // `forceUnlock`, and then a reader of Java's, beside which the same owner reads anew.
    site.command(&["DEL", "prices"]).await?;
    java_reads(&site, &[(THREAD, 30_000)]).await?;
    ensure!(former.verify().await.is_err());
    let next = lock.read().owner(&owner).await?;
    ensure!(former.verify().await.is_err());
    drop(former);
    // The background release of the former is behind this.
    tokio::time::sleep(Duration::from_millis(100)).await;
    next.verify().await?;
    let field = owner.to_string();
    ensure!(site.command(&["HGET", "prices", &field]).await? == "1");

    let writing = lock.try_write().await?;
    ensure!(writing.is_none());
    next.release().await?;
    site.command(&["DEL", "prices"]).await?;
    let former = lock.write().await?;
    site.command(&["DEL", "prices"]).await?;
    java_reads(&site, &[(THREAD, 30_000)]).await?;
    let reader = lock.read().await?;
    ensure!(reader.fencing_token() > former.fencing_token());
    ensure!(former.verify().await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn holders_of_either_side_are_seen_and_each_can_be_forced() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    java_reads(&site, &[(THREAD, 30_000), (OTHER, 30_000)]).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let refused = lock.revoke().await;
    ensure!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
    let guard = lock.read().await?;
    let seen = lock.inspect().await?.remove(0);
    ensure!(seen.kind.as_deref() == Some("redisson-rwlock"), "{seen:?}");
    ensure!(seen.token == Some(guard.fencing_token()));
    let claims: Vec<_> = seen.holders.iter().map(|it| &*it.claim).collect();
    ensure!(claims.len() == 3, "{claims:?}");
    for holder in [THREAD, OTHER] {
        ensure!(claims.contains(&holder), "{claims:?}");
    }
    ensure!(seen.holders.iter().all(|holder| holder.shared));

    ensure!(lock.force_release(THREAD).await?);
    ensure!(!lock.force_release(THREAD).await?);
    guard.verify().await?;
    let ours = claims.iter().find(|it| ![THREAD, OTHER].contains(it));
    ensure!(lock.force_release(ours.context("ours is seen")?).await?);
    ensure!(guard.lost().await.reason == LossReason::Gone);
    ensure!(lock.try_write().await?.is_none());
    ensure!(lock.force_release(OTHER).await?);
    let writing = lock.try_write().await?.context("nobody holds")?;
    let seen = lock.inspect().await?.remove(0);
    ensure!(!seen.holders[0].shared && seen.holders.len() == 1);
    ensure!(lock.force_release(&seen.holders[0].claim).await?);
    ensure!(writing.verify().await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_thread_of_java_may_be_acted_for() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let thread: Owner = THREAD.parse()?;
    let field = format!("{THREAD}:write");
    site.command(&["HSET", "prices", "mode", "write", &field, "1"])
        .await?;
    site.command(&["PEXPIRE", "prices", "30000"]).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    ensure!(lock.try_read().await?.is_none());
    let reading = lock.try_read().owner(&thread).await?;
    let reading = reading.context("its write is around it")?;
    let writing = lock.try_write().owner(&thread).await?;
    let writing = writing.context("it writes")?;
    ensure!(writing.release().await? == Released::StillHeld(2));
    ensure!(site.command(&["HGET", "prices", &field]).await? == "1");
    ensure!(reading.release().await? == Released::StillHeld(1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn revoked_holders_are_told_and_hold_until_they_leave() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let (one, other) = (lock.read().await?, lock.read().await?);
    ensure!(lock.revoke().await? == 2);
    ensure!(one.lost().await.reason == LossReason::Revoked);
    ensure!(other.lost().await.reason == LossReason::Revoked);
    let seen = lock.inspect().await?.remove(0);
    let revoked = |holder: &lockkeeper::Holder| holder.state == HolderState::Revoked;
    ensure!(seen.holders.iter().all(revoked), "{seen:?}");
    ensure!(lock.try_read().owner(&one.owner()).await?.is_none());
    let third = lock.read().await?;
    drop((one, other));
    let waiting = lock.write().wait_for(Duration::from_millis(100)).await;
    ensure!(waiting.is_err());
    third.release().await?;
    let writing = lock.write().wait_for(TTL / 3).await?;
    ensure!(lock.revoke().await? == 1);
    ensure!(writing.lost().await.reason == LossReason::Revoked);
    ensure!(writing.read().await.is_err());
    drop(writing);
    let next = lock.read().wait_for(TTL / 3).await?;
    ensure!(next.release().await? == Released::Free);
    ensure!(lock.revoke().await? == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reader_in_a_cooldown_comes_in_and_the_rest_of_it_is_kept() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let shortest = Duration::from_secs(5);
    let first = lock.read().min_hold(shortest).await?;
    ensure!(matches!(first.release().await?, Released::Kept(_)));
    let state = lock.inspect().await?[0].holders[0].state;
    ensure!(state == HolderState::Cooldown);
    ensure!(lock.try_write().await?.is_none());
    let second = lock.read().await?;
    ensure!(site.command(&["HLEN", "prices"]).await? == "2");
    let left = second.release().await?;
    ensure!(
        matches!(left, Released::Kept(left) if left <= shortest),
        "{left:?}"
    );
    ensure!(lock.write().wait_for(TTL / 3).await.is_ok());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_come_in_together() -> Result<()> {
    const READERS: usize = 5;
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let writing = lock.write().await?;
    // A writer waits in front of them.
    let mut behind = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().await }
    });
    while site.listeners("redisson_rwlock:{prices}").await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.read().await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    // In Java somebody reads before the writer here can write.
    let field = format!("{}:write", writing.owner());
    java_reads(&site, &[(THREAD, 30_000)]).await?;
    site.command(&["HDEL", "prices", &field]).await?;
    let began = tokio::time::Instant::now();
    site.command(&["PUBLISH", "redisson_rwlock:{prices}", "1"])
        .await?;
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(reader.await??);
    }
    ensure!(
        began.elapsed() < Duration::from_secs(1),
        "they came one by one"
    );
    ensure!(!behind.is_finished());
    site.command(&["HDEL", "prices", THREAD]).await?;
    for guard in guards {
        guard.release().await?;
    }
    let guard = tokio::time::timeout(TTL / 2, &mut behind).await???;
    guard.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_no_data_about_claims_is_of_another_kind() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    java_reads(&site, &[(THREAD, 30_000)]).await?;
    let name = "lockkeeper.redisson:{prices}";
    site.command(&["SET", name, "text"]).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    for refused in [
        lock.read().await.err(),
        lock.inspect().await.err(),
        lock.force_release(THREAD).await.err(),
    ] {
        ensure!(
            matches!(refused, Some(Error::WrongKind { .. })),
            "{refused:?}"
        );
    }
    // No holder is known that could be asked.
    let refused = lock.revoke().await;
    ensure!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
    ensure!(site.command(&["GET", name]).await? == "text");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn inspection_shows_how_often_an_owner_holds() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    java_reads(&site, &[(THREAD, 30_000), (OTHER, 30_000)]).await?;
    site.command(&["HSET", "prices", OTHER, "3"]).await?;
    let lock = RedissonReadWriteLock::new(&client, "prices");
    let thread: Owner = THREAD.parse()?;
    let guard = lock.read().owner(&thread).await?;
    let holders = lock.inspect().await?[0].holders.clone();
    let mut holds: Vec<_> = holders
        .iter()
        .map(|it| (it.claim.contains('/'), it.claim.contains(":45"), it.holds))
        .collect();
    holds.sort_unstable();
    let expected = [
        (false, false, Some(1)),
        (false, true, Some(3)),
        (true, false, Some(1)),
    ];
    ensure!(holds == expected, "{holders:?}");
    guard.release().await?;
    Ok(())
}
