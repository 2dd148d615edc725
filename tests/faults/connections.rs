//! Real connections that are cut, delayed and lost, and servers that restart.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, LeaseState, Mutex, Released};
use lockkeeper_lua::lock;
use lockkeeper_testkit::proxy::Proxy;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use lockkeeper_tests::{counter, patient};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

async fn proxied(server: &Server) -> Result<(Proxy, Client)> {
    let proxy = Proxy::in_front_of(server).await?;
    let client = lockkeeper::connect(proxy.url()).await?;
    // The first round loads the scripts on the server.
    Mutex::new(&client, "first")
        .acquire()
        .await?
        .release()
        .await?;
    Ok((proxy, client))
}

#[tokio::test]
async fn an_acquire_that_ran_before_the_connection_was_cut_has_the_effect_of_once() -> Result<()> {
    let server = Server::start().await?;
    let (proxy, client) = proxied(&server).await?;
    proxy.lose_reply_to(lock::TAKE.sha1);
    let guard = timeout(
        PATIENCE,
        Mutex::new(&client, "name").acquire().into_future(),
    )
    .await??;
    ensure!(proxy.so_far().cut == 1, "nothing was cut");
    let fence = server
        .command(&["GET", &counter("name")?])
        .await?
        .into_text()?;
    ensure!(
        guard.fencing_token().to_string() == fence,
        "a second token was drawn"
    );
    let left: u64 = server
        .command(&["PTTL", "lockkeeper:name"])
        .await?
        .into_text()?
        .parse()?;
    ensure!(
        Duration::from_millis(left) >= guard.remaining(),
        "the lease ends earlier on the server"
    );
    ensure!(guard.release().await? == Released::Free);
    server.vanished("lockkeeper:name").await
}

#[tokio::test]
async fn a_release_that_ran_before_the_connection_was_cut_is_a_release() -> Result<()> {
    let server = Server::start().await?;
    let (proxy, client) = proxied(&server).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    proxy.lose_reply_to("LREM");
    ensure!(timeout(PATIENCE, guard.release()).await?? == Released::Free);
    ensure!(proxy.so_far().cut == 1, "nothing was cut");
    Ok(())
}

#[tokio::test]
async fn a_held_lease_survives_a_cut_connection() -> Result<()> {
    let server = Server::start().await?;
    let (proxy, client) = proxied(&server).await?;
    beyond_stalls(&server, Duration::from_secs(3), async |ttl| {
        let guard = Mutex::new(&client, "name").acquire().ttl(ttl).await?;
        for _ in 0..3 {
            proxy.reset_all();
            guard.run(tokio::time::sleep(ttl / 2)).await?;
        }
        guard.verify().await?;
        guard.release().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_message_missed_while_disconnected_is_made_up_for_by_a_look() -> Result<()> {
    let server = Server::start().await?;
    let (proxy, client) = proxied(&server).await?;
    let direct = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&direct, "name")
        .acquire()
        .ttl(Duration::from_secs(60))
        .await?;
    let lock = Mutex::new(&client, "name");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let channels = ["PUBSUB", "CHANNELS", "lockkeeper.grant:*"];
    let listeners = async || anyhow::Ok(server.command(&channels).await?.into_texts()?.len());
    while listeners().await? != 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // No waiter hears the release: every connection of its client is down.
    proxy.refuse(true);
    proxy.reset_all();
    while listeners().await? != 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guard.release().await?;
    ensure!(!waiting.is_finished());
    proxy.refuse(false);
    let served = timeout(PATIENCE, waiting).await???;
    served.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_restarted_server_loses_no_waiter() -> Result<()> {
    let mut server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let holder = Mutex::new(&client, "name")
        .acquire()
        .ttl(Duration::from_secs(60))
        .await?;
    let mut waiters = JoinSet::new();
    for _ in 0..10 {
        let lock = Mutex::new(&client, "name");
        waiters.spawn(async move { lock.acquire().await?.release().await });
    }
    tokio::task::yield_now().await;
    server.kill()?;
    server.restart().await?;
    // The server has forgotten the holder. The waiters poll after the reconnection and are served one after the other.
    while let Some(waiter) = timeout(PATIENCE, waiters.join_next()).await? {
        waiter??;
    }
    ensure!(holder.lost().await.reason == lockkeeper::LossReason::Gone);
    ensure!(matches!(holder.state(), LeaseState::Lost(_)));
    Ok(())
}

/// A hundred waiting and a hundred holding tasks, while the server dies and comes back without its data.
#[tokio::test]
async fn after_a_restart_every_waiter_is_served_and_every_holder_is_told() -> Result<()> {
    let mut server = Server::start().await?;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let client = lockkeeper::connect(&server.url()).await?;
    let ttl = Duration::from_secs(60);
    let (mut holders, mut waiters) = (Vec::new(), JoinSet::new());
    for number in 0..100 {
        let lock = Mutex::new(&client, &format!("name {number}"));
        holders.push(lock.acquire().ttl(ttl).await?);
        waiters.spawn(async move { lock.acquire().await?.release().await });
    }
    while !server
        .command(&["PUBSUB", "CHANNELS", "lockkeeper.grant:*"])
        .await?
        .into_texts()?
        .len()
        .eq(&100)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill()?;
    server.restart().await?;
    while let Some(waiter) = timeout(PATIENCE, waiters.join_next()).await? {
        waiter??;
    }
    for holder in &holders {
        ensure!(timeout(PATIENCE, holder.lost()).await?.reason == lockkeeper::LossReason::Gone);
    }
    drop(holders);
    // No task waits any more; only the channel about the client's leases remains.
    let others = async || {
        let channels = server.command(&["PUBSUB", "CHANNELS"]).await?;
        let mut channels = channels.into_texts()?;
        channels.retain(|channel| !channel.starts_with("lockkeeper.client:"));
        anyhow::Ok(channels)
    };
    timeout(PATIENCE, async {
        while !others().await?.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    })
    .await
    .context("a subscription is left")??;
    let report = client.close().await;
    ensure!(
        (report.expiring, report.unconfirmed) == (0, 0),
        "{report:?}"
    );
    timeout(PATIENCE, async {
        while tasks() != before {
            tokio::task::yield_now().await;
        }
    })
    .await
    .with_context(|| format!("{} tasks are left of {before}", tasks()))?;
    let mut keys = server.keys().await?;
    // A release whose acquire got no reply in time creates a tombstone, which expires by itself.
    let ours = ["fence", "client", "gone"].map(|part| format!("lockkeeper.{part}:"));
    keys.retain(|key| !ours.iter().any(|part| key.starts_with(part)));
    ensure!(keys.is_empty(), "{keys:?}");
    Ok(())
}

#[tokio::test]
async fn closing_with_a_silent_server_takes_no_longer_than_the_release_timeout() -> Result<()> {
    let server = Server::start().await?;
    let settings = patient().request_timeout(PATIENCE * 2);
    let settings = settings.release_timeout(Duration::from_millis(500));
    let client = lockkeeper::connect_with(&server.url(), settings).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    server.freeze()?;
    drop(guard);
    let report = timeout(PATIENCE, client.close()).await?;
    ensure!(
        (report.confirmed, report.unconfirmed) == (0, 1),
        "{report:?}"
    );
    Ok(())
}

/// Makes the server save until it reports the outcome.
async fn saved(server: &Server) -> Result<bool> {
    server.command(&["BGSAVE"]).await?;
    loop {
        let info = server
            .command(&["INFO", "persistence"])
            .await?
            .into_text()?;
        if info.contains("rdb_bgsave_in_progress:0") {
            return Ok(info.contains("rdb_last_bgsave_status:ok"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_save_for_a_while_keeps_leases_and_lets_go_when_it_can() -> Result<()>
{
    let server = Server::start().await?;
    let client = server.client(patient()).await?;
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().await?;
    server
        .command(&["CONFIG", "SET", "save", "3600 1000"])
        .await?;
    // A directory in place of the file makes saving fail.
    let in_the_way = server.file("dump.rdb");
    std::fs::create_dir(&in_the_way)?;
    ensure!(!saved(&server).await?);
    let refused = server.command(&["SET", "other", "value"]).await;
    ensure!(
        refused.is_err() || format!("{refused:?}").contains("MISCONF"),
        "{refused:?}"
    );

    let releasing = tokio::spawn(guard.release());
    let other = Mutex::new(&client, "other");
    let waiting = tokio::spawn(other.acquire().wait_for(PATIENCE).into_future());
    while server
        .command(&["INFO", "errorstats"])
        .await?
        .into_text()?
        .matches("MISCONF:count=")
        .count()
        == 0
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::remove_dir(&in_the_way)?;
    ensure!(saved(&server).await?);
    ensure!(timeout(PATIENCE, releasing).await??? == Released::Free);
    timeout(PATIENCE, waiting).await???.release().await?;
    server.vanished("lockkeeper:name").await
}
