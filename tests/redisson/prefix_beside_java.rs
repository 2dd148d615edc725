//! A Redisson whose `NameMapper` puts a prefix in front of each name, beside locks of ours with `key_prefix`.

use anyhow::{Context as _, Result, ensure};
use lockkeeper::Client;
use lockkeeper::redisson::{
    RedissonFairLock, RedissonFencedLock, RedissonLock, RedissonReadWriteLock, RedissonSemaphore,
};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;

use crate::beside_java::{LONG, by_message, wake_one_another};
use crate::java::Java;

const PREFIX: &str = "shop:";

#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_name_mapper_with_a_prefix_is_a_key_prefix() -> Result<()> {
    let Some(java) = Java::start()? else {
        return Ok(());
    };
    let server = Server::start().await?;
    let redisson = java.client_with_prefix(&server, LONG, PREFIX).await?;
    let client = server.client(Client::builder().ttl(LONG)).await?;

    let theirs = redisson.lock("lock", "order");
    let ours = RedissonLock::new(&client, "order").key_prefix(PREFIX);
    ensure!(theirs.ask("try", "7").await?);
    ensure!(ours.try_acquire().await?.is_none());
    let without = RedissonLock::new(&client, "order").try_acquire().await?;
    without.context("it is another key")?.release().await?;
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    let guard = ours.try_acquire().await?.context("it is free")?;
    for kind in ["lock", "fenced", "fair"] {
        ensure!(!redisson.lock(kind, "order").ask("try", "7").await?);
    }
    guard.release().await?;

    let fenced = RedissonFencedLock::new(&client, "order").key_prefix(PREFIX);
    let guard = fenced.try_acquire().await?.context("it is free")?;
    let token = guard.fencing_token().get();
    guard.release().await?;
    let theirs = redisson.lock("fenced", "order");
    let next: u64 = theirs.tell("token", "").await?.parse()?;
    ensure!(next == token + 1, "{next} after {token}");
    let fair = RedissonFairLock::new(&client, "order").key_prefix(PREFIX);
    ensure!(fair.try_acquire().await?.is_none());
    ensure!(theirs.ask("force", "").await?);

    let prices = RedissonReadWriteLock::new(&client, "prices").key_prefix(PREFIX);
    let reader = prices.read().await?;
    ensure!(redisson.lock("read", "prices").ask("try", "7").await?);
    ensure!(!redisson.lock("write", "prices").ask("try", "8").await?);
    reader.release().await?;
    ensure!(prices.try_write().await?.is_none());

    let seats = RedissonSemaphore::new(&client, "seats").key_prefix(PREFIX);
    ensure!(redisson.lock("semaphore", "seats").ask("set", "3").await?);
    ensure!(seats.available().await? == Some(3));
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn each_side_wakes_the_other_under_a_prefix() -> Result<()> {
    let Some(java) = Java::start()? else {
        return Ok(());
    };
    let server = Server::start().await?;
    let redisson = java.client_with_prefix(&server, LONG, PREFIX).await?;
    let client = server.client(Client::builder().ttl(LONG)).await?;
    by_message("wake", async |name| {
        let ours = RedissonLock::new(&client, name).key_prefix(PREFIX);
        let theirs = redisson.lock("lock", name);
        wake_one_another(&server, &theirs, &ours, &format!("{PREFIX}{name}")).await
    })
    .await
}
