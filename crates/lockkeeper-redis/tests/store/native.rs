//! Commands in place of scripts, where the server has them: Valkey from 9.0. On any other server these tests see the script.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_core::store::{Form, Store};
use lockkeeper_lua::Status;
use lockkeeper_redis::RedisStore;
use lockkeeper_testkit::server::{Reply, Server};

use crate::support::{acquire_alone, bounded, connect, drop_alone, options, verify};

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
async fn a_drop_is_one_command_if_the_server_has_it() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let has_it = server.command(&["DELIFEQ", "none", "none"]).await.is_ok();
        let before = server.commandstats("delifeq").await.unwrap_or(0);
        let store = connect(&server.url()).await.unwrap();
        assert_eq!(pair(&store, "a").await.unwrap(), Status::Dropped);
        let sent = server.commandstats("delifeq").await.unwrap_or(0) - before;
        assert_eq!(sent, if has_it { 2 } else { 0 });
    })
    .await;
}

#[tokio::test]
async fn a_user_without_the_command_drops_by_the_script_and_asks_once() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let has_it = server.command(&["DELIFEQ", "none", "none"]).await.is_ok();
        let mut user = vec![
            "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all",
        ];
        if has_it {
            user.push("-delifeq");
        }
        server.command(&user).await.unwrap();
        let url = server.url().replace("redis://", "redis://app:secret@");
        let store = options()
            .silence_timeout(Duration::from_secs(60))
            .connect(&url)
            .await
            .unwrap();
        for claim in ["a", "b", "c"] {
            assert_eq!(pair(&store, claim).await.unwrap(), Status::Dropped);
        }
        if has_it {
            let stats = server.command(&["INFO", "commandstats"]).await.unwrap();
            let stats = stats.into_text().unwrap();
            let line = stats
                .lines()
                .find(|line| line.starts_with("cmdstat_delifeq:"));
            let rejected = line.and_then(|line| line.split("rejected_calls=").nth(1));
            let rejected = rejected.and_then(|rest| rest.split(',').next());
            assert_eq!(rejected, Some("1"), "{line:?}");
        }
        assert_eq!(
            server.command(&["EXISTS", "name"]).await.unwrap(),
            Reply::Integer(0)
        );
    })
    .await;
}
