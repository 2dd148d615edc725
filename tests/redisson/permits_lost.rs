//! Semaphores that Java services hold too, after a part of what belongs to a claim is lost on the server: evicted, deleted, or given back by Java.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::redisson::{RedissonPermitExpirableSemaphore, RedissonSemaphore};
use lockkeeper::{Lock as _, LossReason, Released};
use lockkeeper_lua::redisson;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site;

use crate::support::{TTL, faulty};

const CLAIMS: &str = "lockkeeper.redisson-permits:{calls}";
const ENDS: &str = "lockkeeper.redisson-ends:{calls}";
const TIMEOUT: &str = "{calls}:timeout";

async fn available(site: &MemoryStore) -> Result<String> {
    site.command(&["GET", "calls"]).await
}

#[tokio::test(start_paused = true)]
async fn a_repeated_acquire_takes_nothing_more_although_its_claim_is_lost() -> Result<()> {
    for leased in [false, true] {
        let site = MemoryStore::new();
        let (client, store) = faulty(&site)?;
        site.command(&["SET", "calls", "8"]).await?;
        // By its SHA-1, which the server does not know yet, and then by its text.
        store.plan(&redisson::PERMITS_ACQUIRE, Fate::Pass);
        store.plan(&redisson::PERMITS_ACQUIRE, Fate::Keep);
        let acquiring = tokio::spawn(async move {
            if leased {
                let calls = RedissonPermitExpirableSemaphore::new(&client, "calls");
                calls.permits(3).acquire().await?.release().await?;
            } else {
                let calls = RedissonSemaphore::new(&client, "calls");
                calls.permits(3).acquire().await?.release().await?;
            }
            anyhow::Ok(())
        });
        while store.sent(&redisson::PERMITS_ACQUIRE) < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for reply in store.deliver(&site.sibling()).await {
            reply?;
        }
        ensure!(available(&site).await? == "5");
        ensure!(site.command(&["DEL", CLAIMS]).await? == "1");
        acquiring.await??;
        ensure!(available(&site).await? == "8", "leased: {leased}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_end_is_lost_holds_and_gets_one_by_its_renewal() -> Result<()> {
    let site = MemoryStore::new();
    let (client, _) = faulty(&site)?;
    let calls = RedissonSemaphore::new(&client, "calls");
    calls.try_set_permits(8).await?;
    let guard = calls.permits(3).acquire().await?;
    ensure!(site.command(&["DEL", ENDS]).await? == "1");
    guard.verify().await?;
    tokio::time::sleep(TTL).await;
    ensure!(site.command(&["ZCARD", ENDS]).await? == "1");
    ensure!(guard.release().await? == Released::Free);
    ensure!(available(&site).await? == "8");

    let guard = calls.permits(3).acquire().await?;
    ensure!(site.command(&["DEL", ENDS]).await? == "1");
    ensure!(guard.release().await? == Released::Free);
    ensure!(available(&site).await? == "8");
    ensure!(site.command(&["EXISTS", CLAIMS, ENDS]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_lost_one_permit_is_told_and_the_others_are_shown_and_come_back() -> Result<()>
{
    let site = MemoryStore::new();
    let (client, _) = faulty(&site)?;
    let calls = RedissonPermitExpirableSemaphore::new(&client, "calls");
    calls.try_set_permits(8).await?;
    let guard = calls.permits(3).acquire().await?;
    // As Java releases one of them.
    const RELEASE: &str = "redis.call('ZREM', KEYS[2], redis.call('ZRANGE', KEYS[2], 0, 0)[1])
        return redis.call('INCRBY', KEYS[1], 1)";
    site.command(&["EVAL", RELEASE, "2", "calls", TIMEOUT])
        .await?;
    let seen = &calls.inspect().await?[0];
    ensure!(seen.holders.len() == 2, "{seen:?}");
    ensure!(guard.lost().await.reason == LossReason::Gone);
    drop(guard);
    tokio::time::sleep(TTL * 2).await;
    ensure!(calls.available().await? == Some(8));
    ensure!(site.command(&["EXISTS", TIMEOUT, CLAIMS]).await? == "0");
    Ok(())
}
