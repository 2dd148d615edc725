//! What lies on the server of a latch that Java services count down and wait for too.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::Error;
use lockkeeper::redisson::RedissonCountDownLatch;
use lockkeeper_lua::redisson;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::site::Site;

use crate::support::{TTL, client, faulty};

const CHANNEL: &str = "redisson_countdownlatch__channel__{gate}";

#[tokio::test(start_paused = true)]
async fn the_value_is_how_many_counts_are_missing_and_the_last_one_deletes_it() -> Result<()> {
    let site = MemoryStore::new();
    let gate = RedissonCountDownLatch::new(&client(&site).await?, "gate");
    ensure!(gate.try_set_count(2).await?);
    ensure!(!gate.try_set_count(3).await?, "it has been set");
    ensure!(site.command(&["GET", "gate"]).await? == "2");
    ensure!(gate.count_down().await? == 1 && gate.count().await? == 1);
    ensure!(site.command(&["GET", "gate"]).await? == "1");
    ensure!(gate.count_down().await? == 0 && gate.count().await? == 0);
    ensure!(site.keys().is_empty(), "{:?}", site.keys());
    // One that nobody has set is open, and a count more makes nothing.
    gate.wait().await?;
    ensure!(gate.count_down().await? == 0);
    ensure!(site.keys().is_empty());
    ensure!(gate.try_set_count(1).await?, "it can be set again");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_pass_by_one_message() -> Result<()> {
    let site = MemoryStore::new();
    let gate = RedissonCountDownLatch::new(&client(&site).await?, "gate");
    gate.try_set_count(1).await?;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let gate = gate.clone();
            tokio::spawn(async move { gate.wait().await })
        })
        .collect();
    while site.listeners(CHANNEL).await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = tokio::time::Instant::now();
    gate.count_down().await?;
    for waiter in waiting {
        waiter.await??;
    }
    let waited = began.elapsed();
    ensure!(waited < Duration::from_secs(1), "{waited:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_passes_although_no_message_comes() -> Result<()> {
    let site = MemoryStore::new();
    let gate = RedissonCountDownLatch::new(&client(&site).await?, "gate");
    gate.try_set_count(1).await?;
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.wait().await }
    });
    while site.listeners(CHANNEL).await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    site.command(&["DEL", "gate"]).await?;
    tokio::time::timeout(TTL, waiting).await???;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_latch_that_java_deletes_opens() -> Result<()> {
    let site = MemoryStore::new();
    let gate = RedissonCountDownLatch::new(&client(&site).await?, "gate");
    gate.try_set_count(2).await?;
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.wait().await }
    });
    while site.listeners(CHANNEL).await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Once it has asked after its subscription.
    tokio::time::sleep(Duration::from_millis(1)).await;
    const DELETE: &str = "redis.call('DEL', KEYS[1]) return redis.call('PUBLISH', ARGV[1], '1')";
    site.command(&["EVAL", DELETE, "1", "gate", CHANNEL])
        .await?;
    tokio::time::timeout(Duration::from_secs(1), waiting).await???;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_count_without_an_answer_is_reported_and_never_sent_again() -> Result<()> {
    let site = MemoryStore::new();
    let (client, store) = faulty(&site)?;
    let gate = RedissonCountDownLatch::new(&client, "gate");
    gate.try_set_count(5).await?;
    // By its SHA-1, which the server does not know yet: it says that nothing was executed.
    ensure!(gate.count_down().await? == 4);
    let sent = store.sent(&redisson::LATCH_COUNT_DOWN);
    store.plan(&redisson::LATCH_COUNT_DOWN, Fate::LoseReply);
    let unknown = gate.count_down().await;
    ensure!(matches!(unknown, Err(Error::Backend { .. })), "{unknown:?}");
    ensure!(store.sent(&redisson::LATCH_COUNT_DOWN) == sent + 1);
    ensure!(gate.count().await? == 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_bounded_ends() -> Result<()> {
    let site = MemoryStore::new();
    let gate = RedissonCountDownLatch::new(&client(&site).await?, "gate");
    let gate = gate.key_prefix("shop:").wait_for(Duration::from_secs(1));
    gate.try_set_count(1).await?;
    ensure!(site.command(&["GET", "shop:gate"]).await? == "1");
    ensure!(matches!(gate.wait().await, Err(Error::Timeout { .. })));
    ensure!(site.command(&["GET", "shop:gate"]).await? == "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_of_another_type_is_refused() -> Result<()> {
    let site = MemoryStore::new();
    let client = client(&site).await?;
    site.command(&["HSET", "hash", "field", "1"]).await?;
    site.command(&["SET", "value", "text"]).await?;
    for name in ["hash", "value"] {
        let gate = RedissonCountDownLatch::new(&client, name);
        for refused in [
            gate.wait().await.err(),
            gate.count().await.err(),
            gate.count_down().await.err(),
            gate.try_set_count(1).await.err(),
        ] {
            ensure!(
                matches!(refused, Some(Error::WrongKind { .. })),
                "{refused:?}"
            );
        }
    }
    let gate = RedissonCountDownLatch::new(&client, "gate");
    ensure!(matches!(
        gate.try_set_count(0).await,
        Err(Error::Config { .. })
    ));
    Ok(())
}
