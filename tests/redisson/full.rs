//! A server whose memory is full: it refuses newcomers, whatever they come upon, and serves those who hold.

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::{
    RedissonFairLock, RedissonFencedLock, RedissonPermitExpirableSemaphore, RedissonSemaphore,
};
use lockkeeper::{Client, Error};
use lockkeeper_testkit::server::Server;

use crate::support::settings;

async fn is_full(server: &Server, full: bool) -> Result<()> {
    let most = if full { "1" } else { "0" };
    server
        .command(&["CONFIG", "SET", "maxmemory", most])
        .await?;
    Ok(())
}

async fn begin() -> Result<(Server, Client)> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), settings()).await?;
    Ok((server, client))
}

fn is_refused<T: std::fmt::Debug>(tried: &lockkeeper::Result<T>) -> Result<()> {
    let refused = matches!(tried, Err(Error::Backend { cause, .. }) if cause.code() == Some("OOM"));
    ensure!(refused, "{tried:?}");
    Ok(())
}

#[tokio::test]
async fn permits_are_refused_to_newcomers_and_given_back() -> Result<()> {
    let (server, client) = begin().await?;
    let plain = RedissonSemaphore::new(&client, "plain");
    let leased = RedissonPermitExpirableSemaphore::new(&client, "leased");
    plain.try_set_permits(1).await?;
    leased.try_set_permits(1).await?;
    let (one, other) = (plain.acquire().await?, leased.acquire().await?);
    is_full(&server, true).await?;
    ensure!(plain.try_acquire().await?.is_none() && leased.try_acquire().await?.is_none());
    one.verify().await?;
    one.release().await?;
    other.release().await?;
    is_refused(&plain.try_acquire().await)?;
    is_refused(&leased.try_acquire().await)?;

    // Of a claim that has ended.
    is_full(&server, false).await?;
    let (one, other) = (plain.acquire().await?, leased.acquire().await?);
    for key in ["lockkeeper.redisson-ends:{plain}", "{leased}:timeout"] {
        const ENDS: &str = "local member = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
            return redis.call('ZADD', KEYS[1], 1, member)";
        server.command(&["EVAL", ENDS, "1", key]).await?;
    }
    is_full(&server, true).await?;
    is_refused(&plain.try_acquire().await)?;
    is_refused(&leased.try_acquire().await)?;
    is_full(&server, false).await?;
    ensure!(plain.try_acquire().await?.is_some() && leased.try_acquire().await?.is_some());
    drop((one, other));
    Ok(())
}

#[tokio::test]
async fn a_dead_waiter_lets_nobody_in() -> Result<()> {
    let (server, client) = begin().await?;
    let lock = RedissonFairLock::new(&client, "order");
    server
        .command(&["RPUSH", "redisson_lock_queue:{order}", "dead:1"])
        .await?;
    server
        .command(&["ZADD", "redisson_lock_timeout:{order}", "1", "dead:1"])
        .await?;
    is_full(&server, true).await?;
    is_refused(&lock.try_acquire().await)?;
    is_refused(
        &RedissonFencedLock::new(&client, "fenced")
            .try_acquire()
            .await,
    )?;
    is_full(&server, false).await?;
    let guard = lock.try_acquire().await?;
    drop(guard.context("the dead one is dropped")?);
    Ok(())
}
