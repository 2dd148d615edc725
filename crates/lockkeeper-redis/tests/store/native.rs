//! Commands in place of scripts.

use anyhow::{Context as _, Result, ensure};
use lockkeeper_core::store::{Form, Store};
use lockkeeper_lua::Status;
use lockkeeper_redis::RedisStore;
use lockkeeper_testkit::server::Server;

use crate::support::{acquire_alone, bounded, connect, drop_alone, verify};

/// Takes the name and drops it; returns what the drop was answered.
async fn pair(store: &RedisStore, claim: &str) -> Result<Status> {
    let granted = store
        .call(acquire_alone("name", claim, Form::Source))
        .await?;
    let token = granted.field(0).and_then(|token| token.as_str());
    let value = format!("mutex x {claim} {}", token.context("no token")?);
    let flagged = drop_alone("name", &format!("{value}p"), Form::Source);
    ensure!(store.call(flagged).await?.status() == Status::Inflated);
    let dropped = store.call(drop_alone("name", &value, Form::Source)).await?;
    let gone = store.call(verify("name", claim, Form::Source)).await?;
    ensure!(gone.status() == Status::Gone);
    Ok(dropped.status())
}

#[tokio::test]
async fn a_drop_is_one_command_of_every_server() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        assert_eq!(pair(&store, "a").await.unwrap(), Status::Dropped);
        // Two drops, the first of which met another value, and one in the script that verifies.
        assert_eq!(server.commandstats("lrem").await.unwrap_or(0), 3);
        server.command(&["SET", "name", "theirs"]).await.unwrap();
        let drop = drop_alone("name", "theirs", Form::Source);
        assert_eq!(store.call(drop).await.unwrap().status(), Status::Inflated);
    })
    .await;
}
