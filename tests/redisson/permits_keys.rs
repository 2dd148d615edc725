//! What lies on the server of semaphores that Java services hold too, and what is made of what they left there.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::{RedissonPermitExpirableSemaphore, RedissonSemaphore};
use lockkeeper::{Error, HolderState, Lock as _, LossReason, MultiLock, Released};
use lockkeeper_lua::{Status, redisson};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site;

use crate::support::{TTL, client, faulty};

pub(crate) const OURS: &str = "lockkeeper.redisson-permits:{calls}";
pub(crate) const ENDS: &str = "lockkeeper.redisson-ends:{calls}";
pub(crate) const TIMEOUT: &str = "{calls}:timeout";

async fn value(site: &MemoryStore) -> Result<String> {
    site.command(&["GET", "calls"]).await
}

pub(crate) async fn members(site: &MemoryStore, key: &str) -> Result<String> {
    site.command(&["ZCARD", key]).await
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_that_nobody_has_set_up_gives_nothing() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let plain = RedissonSemaphore::new(&client, "calls");
    let leased = RedissonPermitExpirableSemaphore::new(&client, "leased");
    ensure!(plain.try_acquire().await?.is_none() && leased.try_acquire().await?.is_none());
    ensure!(plain.available().await?.is_none() && leased.available().await?.is_none());
    ensure!(site.keys().is_empty(), "{:?}", site.keys());

    let waiting = tokio::spawn({
        let plain = plain.clone();
        async move { plain.acquire().await }
    });
    while site.listeners("redisson_sc:{calls}").await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ensure!(plain.try_set_permits(1).await?);
    waiting.await??.release().await?;
    ensure!(!plain.try_set_permits(2).await?, "it has been set up");
    ensure!(value(&site).await? == "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_value_is_what_is_available_and_nothing_else_is_redissons() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let calls = RedissonSemaphore::new(&client, "calls");
    calls.try_set_permits(8).await?;
    let one = calls.acquire().await?;
    let five = calls.permits(5).acquire().await?;
    ensure!(value(&site).await? == "2");
    ensure!(calls.permits(3).try_acquire().await?.is_none());
    ensure!(members(&site, ENDS).await? == "2");
    ensure!(five.fencing_token() > one.fencing_token());
    let seen = &calls.inspect().await?[0];
    let mut permits: Vec<_> = seen.holders.iter().map(|it| it.permits).collect();
    permits.sort();
    ensure!(permits == [Some(1), Some(5)], "{seen:?}");
    ensure!(five.release().await? == Released::Free);
    one.release().await?;
    ensure!(value(&site).await? == "8");
    ensure!(site.command(&["PTTL", "calls"]).await? == "-1");
    let counter = lockkeeper_core::Name::new("", "calls")?.counter();
    let mut keys = site.keys();
    keys.retain(|key| *key != counter);
    ensure!(keys == ["calls"], "{keys:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_leased_permit_is_sixteen_bytes_with_its_end() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let calls = RedissonPermitExpirableSemaphore::new(&client, "calls");
    calls.try_set_permits(8).await?;
    let five = calls.permits(5).acquire().await?;
    ensure!(value(&site).await? == "3" && members(&site, TIMEOUT).await? == "5");
    const LOOK: &str = "local found = redis.call('ZRANGE', KEYS[1], 0, 9, 'WITHSCORES')
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        for i = 1, #found, 2 do
          local left = found[i + 1] - now
          if #found[i] ~= 16 or left > 30000 or left < 29000 then return left end
        end
        return 'good'";
    let looked = site.command(&["EVAL", LOOK, "1", TIMEOUT]).await?;
    ensure!(looked == "good", "{looked}");
    ensure!(calls.acquired().await? == 5);
    five.release().await?;
    ensure!(value(&site).await? == "8" && calls.acquired().await? == 0);
    ensure!(site.command(&["EXISTS", TIMEOUT, OURS]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requests_whose_replies_are_lost_count_once() -> Result<()> {
    for leased in [false, true] {
        let site = MemoryStore::new();
        let (client, store) = faulty(&site)?;
        site.command(&["SET", "calls", "8"]).await?;
        // By its SHA-1, which the server does not know yet, and then by its text.
        store.plan(&redisson::PERMITS_ACQUIRE, Fate::Pass);
        store.plan(&redisson::PERMITS_ACQUIRE, Fate::LoseReply);
        store.plan(&redisson::PERMITS_RELEASE, Fate::Pass);
        store.plan(&redisson::PERMITS_RELEASE, Fate::LoseReply);
        if leased {
            let calls = RedissonPermitExpirableSemaphore::new(&client, "calls").permits(3);
            let guard = calls.acquire().await?;
            ensure!(value(&site).await? == "5" && members(&site, TIMEOUT).await? == "3");
            guard.release().await?;
        } else {
            let calls = RedissonSemaphore::new(&client, "calls").permits(3);
            let guard = calls.acquire().await?;
            ensure!(value(&site).await? == "5");
            guard.release().await?;
        }
        ensure!(store.sent(&redisson::PERMITS_ACQUIRE) == 3);
        ensure!(store.sent(&redisson::PERMITS_RELEASE) == 3);
        ensure!(value(&site).await? == "8");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_late_takes_nothing() -> Result<()> {
    let site = MemoryStore::new();
    let (client, store) = faulty(&site)?;
    let calls = RedissonSemaphore::new(&client, "calls");
    site.command(&["SET", "calls", "8"]).await?;
    calls.acquire().await?.release().await?;
    store.plan(&redisson::PERMITS_ACQUIRE, Fate::Keep);
    store.plan(&redisson::PERMITS_ACQUIRE, Fate::Keep);
    ensure!(calls.try_acquire().await.is_err());
    let is_tombstone = |key: &String| key.starts_with("lockkeeper.gone:{calls}:");
    while !site.keys().iter().any(is_tombstone) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for reply in store.deliver(&site.sibling()).await {
        ensure!(reply?.status() == Status::Gone);
    }
    ensure!(value(&site).await? == "8");
    Ok(())
}

/// A client that acquires and dies.
async fn dies_holding(site: &MemoryStore, leased: bool, permits: u32) -> Result<()> {
    let (client, store) = faulty(site)?;
    if leased {
        let calls = RedissonPermitExpirableSemaphore::new(&client, "calls");
        let guard = calls.permits(permits).acquire().await?;
        store.silence("calls");
        drop(guard);
    } else {
        let guard = RedissonSemaphore::new(&client, "calls").permits(permits);
        let guard = guard.acquire().await?;
        store.silence("calls");
        drop(guard);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_permits_of_the_dead_come_back_when_somebody_asks() -> Result<()> {
    for leased in [false, true] {
        let site = MemoryStore::new();
        let client = client(&site).await?;
        let plain = RedissonSemaphore::new(&client, "calls");
        let ends = RedissonPermitExpirableSemaphore::new(&client, "calls");
        site.command(&["SET", "calls", "3"]).await?;
        dies_holding(&site, leased, 3).await?;
        let began = tokio::time::Instant::now();
        if leased {
            ensure!(ends.try_acquire().await?.is_none());
            ends.permits(2).acquire().await?.release().await?;
        } else {
            ensure!(plain.try_acquire().await?.is_none());
            plain.permits(2).acquire().await?.release().await?;
        }
        let waited = began.elapsed();
        ensure!(waited > TTL / 2 && waited < TTL * 2, "{waited:?}");
        ensure!(value(&site).await? == "3", "{}", value(&site).await?);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn asking_what_is_available_gives_the_permits_of_the_dead_back() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let calls = RedissonSemaphore::new(&client, "calls");
    calls.try_set_permits(3).await?;
    dies_holding(&site, false, 2).await?;
    ensure!(calls.available().await? == Some(1));
    // Far longer than a lease: what is known of the claim is still there.
    tokio::time::sleep(TTL * 1_000).await;
    ensure!(calls.available().await? == Some(3));
    ensure!(site.command(&["EXISTS", ENDS, OURS]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_java_leased_comes_back_too() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    site.command(&["SET", "calls", "0"]).await?;
    // One that is over, one without end.
    let over = ["ZADD", TIMEOUT, "1000", "0123456789abcdef"];
    site.command(&over).await?;
    let without_end = ["ZADD", TIMEOUT, "922337203685477", "fedcba9876543210"];
    site.command(&without_end).await?;
    let calls = RedissonPermitExpirableSemaphore::new(&client, "calls");
    let guard = calls.try_acquire().await?.context("one is over")?;
    ensure!(calls.try_acquire().await?.is_none());
    let seen = &calls.inspect().await?[0];
    let java = seen.holders.iter().find(|it| it.owner.is_none());
    let java = java.context("Java's is shown")?;
    // As Java shows it, in hex.
    ensure!(java.claim == "66656463626139383736353433323130" && java.left.is_none());
    ensure!(calls.revoke().await? == 1, "only ours can be asked");
    ensure!(guard.lost().await.reason == LossReason::Revoked);
    ensure!(calls.force_release(&java.claim).await?);
    ensure!(!calls.force_release(&java.claim).await?);
    ensure!(value(&site).await? == "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_deleted_semaphore_is_nothing_to_the_next() -> Result<()> {
    for leased in [false, true] {
        let site = MemoryStore::new();
        let client = client(&site).await?;
        let plain = RedissonSemaphore::new(&client, "calls");
        let ends = RedissonPermitExpirableSemaphore::new(&client, "calls");
        plain.try_set_permits(3).await?;
        let guards = match leased {
            false => (Some(plain.permits(3).acquire().await?), None),
            true => (None, Some(ends.permits(3).acquire().await?)),
        };
        site.command(&["DEL", "calls"]).await?;
        // Somebody sees that it is gone.
        ensure!(match leased {
            false => plain.available().await?.is_none(),
            true => ends.available().await?.is_none(),
        });
        ensure!(plain.try_set_permits(1).await?);
        drop(guards);
        tokio::time::sleep(TTL * 2).await;
        let available = match leased {
            false => plain.available().await?,
            true => ends.available().await?,
        };
        ensure!(available == Some(1), "{available:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deleted_semaphore_is_noticed_by_its_holders() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let calls = RedissonSemaphore::new(&client, "calls");
    calls.try_set_permits(1).await?;
    let guard = calls.acquire().await?;
    site.command(&["DEL", "calls"]).await?;
    ensure!(guard.lost().await.reason == LossReason::Gone);
    drop(guard);
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(
        site.command(&["EXISTS", "calls"]).await? == "0",
        "a release made it anew"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn permits_that_java_takes_and_gives_are_counted() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let calls = RedissonSemaphore::new(&client, "calls");
    calls.try_set_permits(4).await?;
    let guard = calls.permits(2).acquire().await?;
    // `drainPermits`, and then `addPermits(-1)`.
    site.command(&["SET", "calls", "-1"]).await?;
    ensure!(calls.try_acquire().await?.is_none());
    ensure!(calls.available().await? == Some(-1));
    guard.verify().await?;
    guard.release().await?;
    ensure!(value(&site).await? == "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_of_many_lets_all_in_that_fit() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let calls = RedissonSemaphore::new(&client, "calls");
    calls.try_set_permits(3).await?;
    let all = calls.permits(3).acquire().await?;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let calls = calls.clone();
            tokio::spawn(async move { calls.acquire().await })
        })
        .collect();
    while site.listeners("redisson_sc:{calls}").await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = tokio::time::Instant::now();
    all.release().await?;
    let mut guards = Vec::new();
    for waiter in waiting {
        guards.push(waiter.await??);
    }
    let waited = began.elapsed();
    ensure!(waited < Duration::from_secs(1), "the last after {waited:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn revoke_and_force_reach_every_holder_of_ours() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let calls = RedissonSemaphore::new(&client, "calls");
    calls.try_set_permits(3).await?;
    let (one, other) = (calls.acquire().await?, calls.permits(2).acquire().await?);
    let seen = &calls.inspect().await?[0];
    let claim = seen.holders.iter().find(|it| it.permits == Some(2));
    let claim = claim.context("both are shown")?.claim.clone();
    ensure!(calls.force_release(&claim).await?);
    ensure!(!calls.force_release(&claim).await?);
    ensure!(other.verify().await.is_err());
    drop(other);
    ensure!(value(&site).await? == "2");
    ensure!(calls.revoke().await? == 1);
    ensure!(one.lost().await.reason == LossReason::Revoked);
    ensure!(calls.inspect().await?[0].holders[0].state == HolderState::Revoked);
    ensure!(
        value(&site).await? == "2",
        "a revoked claim holds until it leaves"
    );
    one.release().await.err();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shortest_time_is_an_end_that_redisson_knows_or_is_refused() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    let shortest = Duration::from_secs(5);
    let plain = RedissonSemaphore::new(&client, "calls");
    let refused = MultiLock::new([&plain])?.acquire().min_hold(shortest).await;
    ensure!(matches!(refused, Err(Error::Config { .. })), "{refused:?}");
    ensure!(site.keys().is_empty());

    let leased = RedissonPermitExpirableSemaphore::new(&client, "calls");
    leased.try_set_permits(1).await?;
    let guard = leased.acquire().min_hold(shortest).await?;
    let kept = guard.release().await?;
    ensure!(
        matches!(kept, Released::Kept(left) if left <= shortest),
        "{kept:?}"
    );
    ensure!(leased.inspect().await?[0].holders[0].state == HolderState::Cooldown);
    ensure!(leased.try_acquire().await?.is_none());
    leased.acquire().wait_for(TTL / 3).await?.release().await?;
    ensure!(value(&site).await? == "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_of_another_type_is_refused() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    site.command(&["HSET", "hash", "field", "1"]).await?;
    for value in ["text", "", "1.5", "010", "9999999999999999"] {
        site.command(&["SET", "value", value]).await?;
        for name in ["hash", "value"] {
            let plain = RedissonSemaphore::new(&client, name);
            let leased = RedissonPermitExpirableSemaphore::new(&client, name);
            for refused in [
                plain.acquire().await.err(),
                leased.acquire().await.err(),
                plain.available().await.err(),
                leased.try_set_permits(1).await.err(),
                plain.inspect().await.err(),
                leased.force_release("claim").await.err(),
            ] {
                ensure!(
                    matches!(refused, Some(Error::WrongKind { .. })),
                    "{refused:?}"
                );
            }
        }
        ensure!(site.command(&["GET", "value"]).await? == value);
    }
    Ok(())
}
