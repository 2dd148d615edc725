//! What a lock costs the server.

use anyhow::{Result, ensure};
use lockkeeper::{Client, Mutex};
use lockkeeper_testkit::server::Server;

#[tokio::test]
async fn an_uncontended_acquire_and_release_are_one_command_each() -> Result<()> {
    let server = Server::start().await?;
    // What a client does once in its life is not counted: it introduces itself, and listens to what it is told.
    let client = lockkeeper::connect_with(&server.url(), Client::builder().label("")).await?;
    let lock = Mutex::new(&client, "name");
    // The first round teaches the server the scripts.
    lock.acquire().await?.release().await?;
    while server.commandstats("subscribe").await? == 0 {
        tokio::task::yield_now().await;
    }

    server.command(&["CONFIG", "RESETSTAT"]).await?;
    for _ in 0..100 {
        lock.acquire().await?.release().await?;
    }
    ensure!(server.commandstats("evalsha").await? == 200);
    for other in [
        "eval",
        "subscribe",
        "unsubscribe",
        "script|load",
        "client|list",
    ] {
        ensure!(server.commandstats(other).await? == 0, "{other} was sent");
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
        while server
            .command(&["PUBSUB", "NUMSUB", "lockkeeper.wake:{lockkeeper:name}"])
            .await?
            .into_texts()?[1]
            == "0"
        {
            tokio::task::yield_now().await;
        }
        guard.release().await?;
        guard = waiting.await??;
    }
    let subscriptions = server.commandstats("subscribe").await?;
    // One for the name, and one for what the client is told about its claims; the first client had that before.
    ensure!(subscriptions <= 3, "{subscriptions} for two clients");
    Ok(())
}
