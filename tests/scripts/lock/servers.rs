//! Servers that refuse some commands of scripts.

use std::sync::Arc;

use lockkeeper_testkit::site::options;

use super::*;

/// A fair lock over a connection of a user with these rights.
async fn by_user(rules: &[&str]) -> Result<Lock> {
    let server = Server::start().await?;
    let words = ["ACL", "SETUSER", "app", "on", ">password"].into_iter();
    let words: Vec<&str> = words.chain(rules.iter().copied()).collect();
    server.command(&words).await?;
    let url = format!("redis://app:password@127.0.0.1:{}", server.port());
    let mut it = Lock::on(server, "fair", "thin").await?;
    it.connection.store = Arc::new(options().connect(&url).await?);
    Ok(it)
}

#[tokio::test]
async fn a_refused_message_is_a_flag_and_the_grant_stands() -> Result<()> {
    let it = by_user(&["~*", "+@all", "-publish"]).await?;
    line_up(&it, &[B]).await?;
    ensure!(it.release(A).await? == "RELEASED 0 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}

#[tokio::test]
async fn a_full_server_refuses_newcomers_and_serves_those_who_wait() -> Result<()> {
    let it = Lock::on(Server::start().await?, "fair", "thin").await?;
    line_up(&it, &[B, C]).await?;
    it.command(&["CONFIG", "SET", "maxmemory", "1"]).await?;
    let refused = it.acquire(D).await.err().context("there is no room")?;
    ensure!(refused.to_string().contains("OOM"), "{refused}");
    ensure!(it.heartbeat(&[B, C]).await? == ["WAITING 1", "WAITING 2"]);
    ensure!(it.renew(A, "60000").await? == "DONE RENEWED");
    ensure!(it.release_with(A, "0", "5000").await? == "RELEASED 1 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    ensure!(it.place(C).await? == "QUEUED 1 1");
    ensure!(it.release(C).await? == "RELEASED 1 0");
    ensure!(it.release(B).await? == "RELEASED 1 0");
    Ok(())
}

/// Administrators read there which rights to grant.
#[tokio::test]
async fn the_rights_that_the_wire_format_names_are_enough() -> Result<()> {
    const PAGE: &str = include_str!("../../../docs/wire-format.md");
    let (_, rules) = PAGE.split_once("ACL SETUSER app").context("the rights")?;
    let (rules, _) = rules.split_once("```").context("their end")?;
    let rules = rules.replace("billing", "lockkeeper");
    let it = by_user(&rules.split_whitespace().collect::<Vec<_>>()).await?;
    let rwlock = Lock {
        kind: "rwlock",
        ..it.clone()
    };
    line_up(&it, &[B, C]).await?;
    it.dies(B).await?;
    ensure!(it.heartbeat(&[C]).await? == ["WAITING 1"]);
    ensure!(it.place(C).await? == "QUEUED 1 1");
    ensure!(
        it.release_with(A, "0", "50000").await? == "RELEASED 1 0",
        "told"
    );
    let granted = token(&it.heartbeat(&[C]).await?[0])?;
    let renewal = How {
        token: granted,
        ..USUAL
    };
    ensure!(token(&it.ask(C, renewal).await?)? == granted);
    ensure!(it.renew(C, "60000").await? == "DONE RENEWED");
    ensure!(is_nearly(it.left(C).await?, WAITER_TTL));
    ensure!(it.release(C).await? == "RELEASED 1 0");

    token(&rwlock.acquire(D).await?)?;
    token(&rwlock.convert(reader(E), D, "50000").await?)?;
    token(&rwlock.acquire(reader(F)).await?)?;
    ensure!(rwlock.release(reader(F)).await? == "RELEASED 1 0");
    number(
        &rwlock.release_with(reader(E), "100", "0").await?,
        "COOLDOWN",
        2,
    )?;
    Ok(())
}
