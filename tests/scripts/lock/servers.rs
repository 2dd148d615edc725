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

/// A server accepts every write of a script once it has accepted one, also one that frees memory.
#[tokio::test]
async fn a_full_server_refuses_the_first_waiter_and_whoever_joins_the_only_holder() -> Result<()> {
    for (kind, of) in [
        ("fair", writer as Of),
        ("rwlock", reader),
        ("semaphore", one),
    ] {
        let it = Lock::on(Server::start().await?, kind, "thin").await?;
        it.hold(of(A)).await?;
        let value = it.value().await?;
        is_full(&it, true).await?;
        refuses(&it, of(B)).await?;
        ensure!(it.value().await? == value && it.renew(A, "60000").await? == "DONE RENEWED");
        is_full(&it, false).await?;
        it.ask(of(B), USUAL).await?;
        ensure!(it.value().await? != value, "now it is inflated");
    }
    Ok(())
}

#[tokio::test]
async fn a_full_server_refuses_newcomers_that_come_upon_claims_that_have_ended() -> Result<()> {
    let it = Lock::on(Server::start().await?, "semaphore", "thin").await?;
    it.hold(two(A)).await?;
    it.hold(two(B)).await?;
    it.pass(60_001).await?;
    is_full(&it, true).await?;
    refuses(&it, one(C)).await?;
    ensure!(it.cardinality(&it.holders()).await? == 2);

    // A dead waiter in front, a holder whose lease has ended, and keys that nobody needs any more.
    let it = Lock::on(Server::start().await?, "fair", "thin").await?;
    line_up(&it, &[B, C]).await?;
    it.dies(B).await?;
    is_full(&it, true).await?;
    refuses(&it, writer(D)).await?;
    ensure!(it.cardinality(&it.queue()).await? == 2);
    is_full(&it, false).await?;
    it.pass(HOUR + 1).await?;
    is_full(&it, true).await?;
    refuses(&it, writer(D)).await?;
    is_full(&it, false).await?;
    it.command(&["DEL", &it.holders(), &it.queue()]).await?;
    is_full(&it, true).await?;
    refuses(&it, writer(D)).await?;
    is_full(&it, false).await?;
    token(&it.acquire(D).await?)?;
    Ok(())
}

/// The server may have more than it may use, or not.
async fn is_full(it: &Lock, full: bool) -> Result<()> {
    let most = if full { "1" } else { "0" };
    it.command(&["CONFIG", "SET", "maxmemory", most]).await?;
    Ok(())
}

async fn refuses(it: &Lock, claim: Claim<'_>) -> Result<()> {
    let refused = it.ask(claim, USUAL).await;
    let error = refused.err().context("there is no room")?.to_string();
    ensure!(error.contains("OOM"), "{error}");
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
