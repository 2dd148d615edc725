//! What lies on the server: exactly what Redisson writes under its name, and what others can do to it.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::redisson::{RedissonFencedLock, RedissonLock, RedissonReadWriteLock};
use lockkeeper::{Client, Error, HolderState, Lock as _, LossReason, Mutex, Owner, Released};
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Form, Store};
use lockkeeper_lua::{Status, redisson};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site;

use crate::support::{TTL, client, faulty};

/// A holder that is none of ours: a thread of a client of Redisson.
const THREAD: &str = "7f2c1c9e-08a4-4c35-9d3e-5b1f1a2b3c4d:44";

#[tokio::test(start_paused = true)]
async fn a_hold_is_one_field_with_its_count_and_nothing_else() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let outer = RedissonLock::new(&client, "order").acquire().await?;
    let inner = outer.reenter().await?;
    let owner = outer.owner().to_string();
    ensure!(site.command(&["HLEN", "order"]).await? == "1");
    ensure!(site.command(&["HGET", "order", &owner]).await? == "2");
    let left: u64 = site.command(&["PTTL", "order"]).await?.parse()?;
    ensure!((29_000..=30_000).contains(&left), "{left}");
    ensure!(inner.release().await? == Released::StillHeld(1));
    ensure!(site.command(&["HGET", "order", &owner]).await? == "1");
    ensure!(outer.release().await? == Released::Free);
    ensure!(site.command(&["EXISTS", "order"]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_name_is_the_key_whatever_the_namespace() -> Result<()> {
    let site = MemoryStore::new();
    let builder = Client::builder().namespace("billing").label("");
    let client = site.client(builder).await?;
    let lock = RedissonLock::new(&client, "{eu}:order");
    let _guard = lock.acquire().await?;
    ensure!(site.command(&["EXISTS", "{eu}:order"]).await? == "1");
    let mapped = lock.key_prefix("shop:");
    let _other = mapped.acquire().await?;
    ensure!(site.command(&["EXISTS", "shop:{eu}:order"]).await? == "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn strings_that_redisson_keeps_beside_its_locks_are_not_listed() -> Result<()> {
    let site = MemoryStore::new();
    let settings = Client::builder().namespace("").label("");
    let client = site.client(settings).await?;
    let _fenced = RedissonFencedLock::new(&client, "order").acquire().await?;
    let _reader = RedissonReadWriteLock::new(&client, "a{b}").read().await?;
    let _ours = Mutex::new(&client, "ours").acquire().await?;
    let (token, latch) = (
        "redisson_lock_token:{order}",
        "redisson_unlock_latch:{x}:0a",
    );
    let lease = format!("{{prices}}:{THREAD}:rwlock_timeout:2");
    for key in ["theirs", latch, &lease] {
        site.command(&["SET", key, "1", "PX", "30000"]).await?;
    }
    ensure!(site.command(&["EXISTS", token]).await? == "1");
    let mut listed = Vec::new();
    let mut names = client.names("*");
    while let Some(page) = names.next_page().await? {
        listed.extend(page);
    }
    listed.sort();
    ensure!(listed == ["a{b}", "order", "ours", "theirs"], "{listed:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requests_whose_replies_are_lost_count_once() -> Result<()> {
    let site = MemoryStore::new();
    let (client, store) = faulty(&site)?;
    let lock = RedissonLock::new(&client, "order");
    // By its SHA-1, which the server does not know yet, and then by its text.
    store.plan(&redisson::ACQUIRE, Fate::Pass);
    store.plan(&redisson::ACQUIRE, Fate::LoseReply);
    let outer = lock.acquire().await?;
    let owner = outer.owner().to_string();
    ensure!(store.sent(&redisson::ACQUIRE) == 3);
    ensure!(site.command(&["HGET", "order", &owner]).await? == "1");

    let inner = outer.reenter().await?;
    store.plan(&redisson::RELEASE, Fate::Pass);
    store.plan(&redisson::RELEASE, Fate::LoseReply);
    ensure!(inner.release().await? == Released::StillHeld(1));
    ensure!(site.command(&["HGET", "order", &owner]).await? == "1");
    outer.verify().await?;
    ensure!(outer.release().await? == Released::Free);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_late_creates_nothing() -> Result<()> {
    let site = MemoryStore::new();
    let (client, store) = faulty(&site)?;
    let lock = RedissonLock::new(&client, "order");
    lock.acquire().await?.release().await?;
    store.plan(&redisson::ACQUIRE, Fate::Keep);
    store.plan(&redisson::ACQUIRE, Fate::Keep);
    let tried = lock.try_acquire().await;
    ensure!(tried.is_err(), "{tried:?}");
    // Its release overtakes it.
    loop {
        let keys = site.keys();
        if keys
            .iter()
            .any(|key| key.starts_with("lockkeeper.gone:{order}:"))
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let late = store.deliver(&site.sibling()).await;
    ensure!(late.len() == 2);
    for reply in late {
        ensure!(reply?.status() == Status::Gone);
    }
    ensure!(site.command(&["EXISTS", "order"]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_a_grant_creates_nothing() -> Result<()> {
    let site = MemoryStore::new();
    let claim = format!("{THREAD}/1");
    let repeat = async |token: &str| {
        let keys = ["order", "lockkeeper.redisson:{order}", "gone", "counter"];
        let item = ScriptCall::new(
            &redisson::ACQUIRE,
            keys,
            [&*claim, "30000", "0", token, "0"],
        );
        let reply = site.call(Call::new(item, 1, Form::Source, TTL)).await?;
        anyhow::Ok(reply.status())
    };
    ensure!(repeat("7").await? == Status::Gone);
    ensure!(site.command(&["EXISTS", "order"]).await? == "0");
    site.command(&["HSET", "order", THREAD, "1"]).await?;
    site.command(&["PEXPIRE", "order", "30000"]).await?;
    ensure!(repeat("7").await? == Status::Gone);
    ensure!(site.command(&["HGET", "order", THREAD]).await? == "1");
    ensure!(repeat("0").await? == Status::Granted);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_was_known_before_java_took_the_name_by_force_counts_for_nobody() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonLock::new(&client, "order");
    let former = lock.acquire().await?;
    // `forceUnlock`, and then a thread of Java's.
    site.command(&["DEL", "order"]).await?;
    site.command(&["HSET", "order", THREAD, "1"]).await?;
    site.command(&["PEXPIRE", "order", "30000"]).await?;
    let thread: Owner = THREAD.parse()?;
    let next = lock.acquire().owner(&thread).await?;
    ensure!(next.fencing_token() > former.fencing_token());
    ensure!(former.verify().await.is_err());
    ensure!(former.release().await.is_err());
    next.verify().await?;
    ensure!(site.command(&["HGET", "order", THREAD]).await? == "2");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_owner_has_a_token_of_each_kind() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let owner = client.new_owner();
    let plain = RedissonLock::new(&client, "order");
    let plain = plain.acquire().owner(&owner).await?;
    let fenced = RedissonFencedLock::new(&client, "order");
    let fenced = fenced.acquire().owner(&owner).await?;
    ensure!(fenced.fencing_token().get() == 1);
    ensure!(plain.fencing_token() > fenced.fencing_token());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_whose_first_claim_has_left_can_be_forced_as_it_is_shown() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonLock::new(&client, "order");
    let outer = lock.acquire().await?;
    let inner = outer.reenter().await?;
    outer.release().await?;
    let seen = lock.inspect().await?;
    ensure!(lock.force_release(&seen[0].holders[0].claim).await?);
    ensure!(inner.verify().await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_thread_of_java_is_seen_and_excludes_and_may_be_acted_for() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    site.command(&["HSET", "order", THREAD, "1"]).await?;
    site.command(&["PEXPIRE", "order", "30000"]).await?;
    let lock = RedissonLock::new(&client, "order");
    ensure!(lock.try_acquire().await?.is_none());
    let seen = lock.inspect().await?;
    ensure!(seen[0].holders[0].claim == THREAD, "{seen:?}");
    ensure!(seen[0].kind.as_deref() == Some("redisson"));
    let refused = lock.revoke().await;
    ensure!(
        matches!(&refused, Err(Error::Foreign { holder, .. }) if holder.claim == THREAD),
        "{refused:?}"
    );

    let thread: Owner = THREAD.parse()?;
    let again = lock.try_acquire().owner(&thread).await?;
    ensure!(site.command(&["HGET", "order", THREAD]).await? == "2");
    drop(again);
    let waiting = lock.acquire().wait_for(Duration::from_millis(10)).await;
    let Err(Error::Timeout { holder, .. }) = waiting else {
        anyhow::bail!("{waiting:?}")
    };
    ensure!(holder.is_some_and(|holder| holder.claim == THREAD));
    ensure!(lock.force_release(THREAD).await?);
    ensure!(!lock.force_release(THREAD).await?);
    ensure!(lock.try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_revoked_holder_is_told_and_holds_until_it_leaves() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonLock::new(&client, "order");
    let guard = lock.acquire().await?;
    ensure!(lock.revoke().await? == 1);
    ensure!(guard.lost().await.reason == LossReason::Revoked);
    ensure!(lock.inspect().await?[0].holders[0].state == HolderState::Revoked);
    let again = lock.try_acquire().owner(&guard.owner()).await?;
    ensure!(again.is_none(), "a revoked hold was entered again");
    drop(guard);
    let next = lock.acquire().wait_for(TTL / 3).await?;
    ensure!(next.release().await? == Released::Free);
    ensure!(lock.revoke().await? == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_former_hold_is_nothing_to_the_next() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonLock::new(&client, "order");
    let owner = client.new_owner();
    let former = lock.acquire().owner(&owner).await?;
    // Somebody in Java forces the lock, and the same owner takes it anew before the former guard has heard of that.
    site.command(&["DEL", "order"]).await?;
    let next = lock.acquire().owner(&owner).await?;
    ensure!(next.fencing_token() > former.fencing_token());
    ensure!(former.verify().await.is_err());
    drop(former);
    next.verify().await?;
    ensure!(site.command(&["HGET", "order", &owner.to_string()]).await? == "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shortest_time_of_an_inner_hold_outlasts_the_outer_one() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonLock::new(&client, "order");
    let owner = client.new_owner();
    let outer = lock.acquire().owner(&owner).await?;
    let shortest = Duration::from_secs(5);
    let inner = lock.acquire().owner(&owner).min_hold(shortest).await?;
    ensure!(inner.release().await? == Released::StillHeld(1));
    let left = outer.release().await?;
    ensure!(
        matches!(left, Released::Kept(left) if left > shortest / 2),
        "{left:?}"
    );
    let state = lock.inspect().await?[0].holders[0].state;
    ensure!(state == HolderState::Cooldown);
    ensure!(lock.try_acquire().owner(&owner).await?.is_none());
    ensure!(lock.acquire().wait_for(TTL / 3).await.is_ok());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn tokens_of_a_fenced_lock_come_from_redissons_counter() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    site.command(&["SET", "redisson_lock_token:{order}", "41"])
        .await?;
    let lock = RedissonFencedLock::new(&client, "order");
    let guard = lock.acquire().await?;
    ensure!(guard.fencing_token().get() == 42);
    let inner = guard.reenter().await?;
    ensure!(inner.fencing_token() == guard.fencing_token());
    let plain = RedissonLock::new(&client, "order");
    ensure!(plain.try_acquire().await?.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_is_none_is_of_another_kind() -> Result<()> {
    const COUNTER: &str = "redisson_lock_token:{order}";
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonFencedLock::new(&client, "order");
    for words in [
        &["HSET", COUNTER, "field", "1"][..],
        &["SET", COUNTER, "many"],
    ] {
        site.command(&["DEL", COUNTER]).await?;
        site.command(words).await?;
        let refused = lock.try_acquire().await;
        ensure!(
            matches!(refused, Err(Error::WrongKind { .. })),
            "{refused:?}"
        );
        ensure!(site.keys() == [COUNTER], "{:?}", site.keys());
    }
    site.command(&["SET", COUNTER, "6"]).await?;
    ensure!(lock.acquire().await?.fencing_token().get() == 7);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_no_data_about_claims_counts_for_none() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonLock::new(&client, "order");
    site.command(&["HSET", "order", THREAD, "1"]).await?;
    site.command(&["PEXPIRE", "order", "30000"]).await?;
    site.command(&["SET", "lockkeeper.redisson:{order}", "text"])
        .await?;
    ensure!(lock.inspect().await?[0].holders[0].claim == THREAD);
    let refused = lock.revoke().await;
    ensure!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
    ensure!(lock.force_release(THREAD).await?);
    lock.acquire().await?.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn inspection_shows_how_often_an_owner_holds() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let lock = RedissonLock::new(&client, "order");
    let holds = async || anyhow::Ok(lock.inspect().await?[0].holders[0].holds);
    site.command(&["HSET", "order", THREAD, "2"]).await?;
    site.command(&["PEXPIRE", "order", "30000"]).await?;
    ensure!(holds().await? == Some(2));
    let thread: Owner = THREAD.parse()?;
    let outer = lock.acquire().owner(&thread).await?;
    ensure!(holds().await? == Some(3));
    outer.release().await?;
    ensure!(holds().await? == Some(2));
    Ok(())
}
