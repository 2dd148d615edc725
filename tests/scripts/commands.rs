//! The commands that a lock costs the server.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, Mutex, ReentrantLock, Released, RwLock};
use lockkeeper_testkit::server::Server;
use lockkeeper_tests::patient;

/// How often each command was executed since the last reset, including those in scripts.
async fn executed(server: &Server) -> Result<BTreeMap<String, u64>> {
    let stats = server
        .command(&["INFO", "commandstats"])
        .await?
        .into_text()?;
    let mut executed = BTreeMap::new();
    for line in stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_"))
    {
        let (command, figures) = line.split_once(":calls=").context("no calls")?;
        let calls = figures.split(',').next().unwrap_or_default().parse()?;
        executed.insert(command.to_owned(), calls);
    }
    // Commands of this test, and of a connection that was silent for a while.
    //
    // Before Redis 7 a command and its subcommands count as one.
    for other in ["info", "config|resetstat", "config", "ping"] {
        executed.remove(other);
    }
    Ok(executed)
}

/// A client that has done its one-time work: introduced itself and subscribed to its notices.
async fn settled(server: &Server) -> Result<Client> {
    let client = lockkeeper::connect_with(&server.url(), patient().label("")).await?;
    Mutex::new(&client, "first")
        .acquire()
        .await?
        .release()
        .await?;
    while server.commandstats("subscribe").await? == 0 {
        tokio::task::yield_now().await;
    }
    Ok(client)
}

/// The cost of a hundred rounds; an earlier round has loaded the scripts on the server.
async fn rounds(
    server: &Server,
    round: impl AsyncFn() -> lockkeeper::Result<Released>,
) -> Result<BTreeMap<String, u64>> {
    round().await?;
    server.command(&["CONFIG", "RESETSTAT"]).await?;
    for _ in 0..100 {
        round().await?;
    }
    executed(server).await
}

/// A script and a command per round and nothing else; the script runs six commands, whether or not a round raises the counter.
fn costs(executed: &BTreeMap<String, u64>) -> Result<()> {
    for sent in ["evalsha", "lrem"] {
        ensure!(executed.get(sent) == Some(&100), "{executed:?}");
    }
    let raised = executed.get("time").copied().unwrap_or(0);
    ensure!(raised <= 100, "{executed:?}");
    for other in [
        "eval",
        "subscribe",
        "unsubscribe",
        "script|load",
        "client|list",
        "publish",
    ] {
        ensure!(
            !executed.contains_key(other),
            "{other} was sent: {executed:?}"
        );
    }
    let all: u64 = executed.values().sum();
    ensure!(all == 800, "{executed:?}");
    Ok(())
}

#[tokio::test]
async fn an_uncontended_acquire_and_release_are_one_command_each_of_every_kind() -> Result<()> {
    let server = Server::start().await?;
    let client = settled(&server).await?;
    let mutex = Mutex::new(&client, "mutex");
    let of_mutex = rounds(&server, async || mutex.acquire().await?.release().await).await?;
    let reentrant = ReentrantLock::new(&client, "reentrant");
    let of_reentrant = rounds(&server, async || reentrant.acquire().await?.release().await).await?;
    let fair = FairLock::new(&client, "fair");
    let of_fair = rounds(&server, async || fair.acquire().await?.release().await).await?;
    let rwlock = RwLock::new(&client, "rwlock");
    let of_readers = rounds(&server, async || rwlock.read().await?.release().await).await?;
    let of_writers = rounds(&server, async || rwlock.write().await?.release().await).await?;
    for executed in [of_mutex, of_reentrant, of_fair, of_readers, of_writers] {
        costs(&executed)?;
    }
    Ok(())
}

#[tokio::test]
async fn repeated_contention_subscribes_once() -> Result<()> {
    let server = Server::start().await?;
    let (one, other) = (
        lockkeeper::connect(&server.url()).await?,
        lockkeeper::connect(&server.url()).await?,
    );
    let mut guard = Mutex::new(&one, "name").acquire().await?;
    server.command(&["CONFIG", "RESETSTAT"]).await?;
    for round in 0..20 {
        let client = if round % 2 == 0 { &other } else { &one };
        let lock = Mutex::new(client, "name");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        // It is queued, and its client is subscribed.
        let key = ["ZCARD", "lockkeeper.queue:{lockkeeper:name}"];
        let channels = ["PUBSUB", "CHANNELS", "lockkeeper.grant:*"];
        while server.command(&key).await?.into_text()? == "0"
            || server.command(&channels).await?.into_texts()?.is_empty()
        {
            tokio::task::yield_now().await;
        }
        guard.release().await?;
        guard = waiting.await??;
    }
    let subscriptions = server.commandstats("subscribe").await?;
    // One for the name, and one for notices about the client's claims; the first client had that one before.
    ensure!(subscriptions <= 3, "{subscriptions} for two clients");
    Ok(())
}
