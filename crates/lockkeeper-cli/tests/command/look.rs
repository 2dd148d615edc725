//! The subcommands that look at locks from outside.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, LossReason, Mutex, ReentrantLock, RwLock};
use lockkeeper_testkit::server::Server;
use tokio::time::timeout;

use crate::printed::{ask, asked, assert_printed};
use crate::support::{LIMIT, Run, db7, until};

#[tokio::test]
async fn inspect_shows_the_holder_and_the_queue_in_order() -> Result<()> {
    let server = Server::start().await?;
    let options = "--label the-printer --fair --lock printer";
    let mut run = Run::start(&server, options, &["cat"])?;
    let granted = run.event("granted").await?;
    let client = db7(&server).await?;
    let lock = FairLock::new(&client, "printer");
    let mut waiting = Vec::new();
    for place in 1..=2 {
        let waiter = lock.acquire().owner(&client.new_owner()).into_future();
        waiting.push(tokio::spawn(waiter));
        until("it waits", async || Ok(lock.queue_len().await? == place)).await?;
    }
    let printed = ask(&server, "inspect printer --json").await?;
    let seen = &printed.json()?[0];
    let holder = &seen["holders"][0];
    ensure!(
        seen["fence"] == granted["fence"] && holder["owner"] == granted["owner"],
        "{seen}"
    );
    ensure!(
        holder["pid"] == run.child.id().context("it ended")?,
        "{seen}"
    );
    let left = holder["left_ms"].as_u64().context("no end")?;
    ensure!((1..=30_000).contains(&left), "{seen}");
    assert_printed!(printed);
    assert_printed!(ask(&server, "inspect printer").await?, @"
    printer: fair, token <token>, since <time>
    HOLDER   MODE   STATE   LEFT   CLAIM
    <machine>:<pid> the-printer   exclusive   held   <left>   <client>:1/<claim>
    PLACE   WAITER   CLAIM
    1   db7:99   <client>:2/<claim>
    2   db7:99   <client>:3/<claim>
    2 waiting
    ");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

#[tokio::test]
async fn ls_shows_every_kind_that_matches_and_nothing_else() -> Result<()> {
    let server = Server::start().await?;
    let settings = || Client::builder().label("db7:99");
    let client = lockkeeper::connect_with(&server.url(), settings()).await?;
    let elsewhere = settings().namespace("b*");
    let elsewhere = lockkeeper::connect_with(&server.url(), elsewhere).await?;
    let owner = client.new_owner();
    let reentrant = ReentrantLock::new(&client, "job:2");
    let held = (
        Mutex::new(&client, "job:1").acquire().await?,
        reentrant.acquire().owner(&owner).await?,
        reentrant.acquire().owner(&owner).await?,
        FairLock::new(&client, "job:3").acquire().await?,
        Mutex::new(&client, "deploy\u{1b}[2J").acquire().await?,
        Mutex::new(&elsewhere, "job:4").acquire().await?,
    );
    for words in [
        ["SET", "lockkeeper:job:5", "theirs"].as_slice(),
        &["ZADD", "lockkeeper:job:6", "1", "no lock"],
    ] {
        server.command(words).await?;
    }
    assert_printed!(asked(&server, &["ls", "ls job:[1-3]", "ls --namespace b*"]).await?);
    let text = ask(&server, "ls job:[1-3]").await?.out;
    let kinds = ["KIND", "mutex", "reentrant", "fair"];
    let lines = text.lines().zip(kinds);
    let columns: BTreeSet<_> = lines.map(|(line, kind)| line.find(kind)).collect();
    ensure!(columns.len() == 1, "not aligned: {text}");
    drop(held);
    Ok(())
}

#[tokio::test]
async fn what_an_acquisition_noted_is_shown_and_changes_no_terminal() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder().label("web-1")).await?;
    let lock = FairLock::new(&client, "order:42");
    let _guard = lock.acquire().note("user 7 \u{202e}x").await?;
    let waiting = tokio::spawn(lock.acquire().note("user 8").into_future());
    until("both are noted", async || {
        let seen = ask(&server, "inspect order:42 --json").await?.json()?;
        Ok(seen[0]["holders"][0]["note"] == "user 7 \u{202e}x"
            && seen[0]["queue"][0]["note"] == "user 8")
    })
    .await?;
    assert_printed!(asked(&server, &["ls", "inspect order:42"]).await?);
    let mut run = Run::start(&server, "--fair --lock order:42", &["true"])?;
    assert_printed!(run.event_line("waiting").await?, @r#"{"at":"<time>","ms":<ms>,"event":"waiting","name":"order:42","holders":["web-1 (user 7 \u202ex)"],"since":"<time>","left_ms":<ms>,"place":2}"#);
    waiting.abort();
    Ok(())
}

#[tokio::test]
async fn colours_are_for_terminals_unless_they_are_asked_for() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = Mutex::new(&client, "job").acquire().await?;
    for (line, coloured) in [
        ("ls", false),
        ("ls --color always", true),
        ("doctor --color always", true),
        ("doctor --color never", false),
    ] {
        let text = ask(&server, line).await?.out;
        ensure!(text.contains("\u{1b}[") == coloured, "{line}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn who_shares_a_lock_is_listed_and_shown_to_share_it() -> Result<()> {
    let server = Server::start().await?;
    let client = db7(&server).await?;
    let lock = RwLock::new(&client, "prices");
    // The first lease is the longest.
    let reading = (lock.read().ttl(2 * LIMIT).await?, lock.read().await?);
    let tagged = RwLock::new(&client, "{shop}:prices").read().await?;
    let writing = RwLock::new(&client, "stock").write().await?;
    let alone = tokio::spawn(lock.write().into_future());
    until("it waits", async || Ok(lock.queue_len().await? == 1)).await?;
    assert_printed!(
        asked(
            &server,
            &["ls", "ls --json prices", "inspect prices", "inspect stock"]
        )
        .await?
    );
    alone.abort();

    // All holders that share this token lose the lock.
    let token = reading.0.fencing_token();
    let taken = ask(&server, &format!("release prices --force --fence {token}")).await?;
    assert_printed!(taken, @"prices: taken by force from db7:99; a live holder keeps working until it learns of it");
    for lease in [reading.0.lost(), reading.1.lost()] {
        ensure!(timeout(LIMIT, lease).await?.reason == LossReason::Gone);
    }
    drop((tagged, writing));
    Ok(())
}

/// Lists so many locks, and counts the requests that this takes: each is so small that the server serves others between them.
async fn list(locks: u64) -> Result<()> {
    let server = Server::start().await?;
    let write = "for i = 1, ARGV[1] do redis.call('SET', 'lockkeeper:lock:' .. i, 'theirs') end";
    server
        .command(&["EVAL", write, "0", &locks.to_string()])
        .await?;
    server.command(&["CONFIG", "RESETSTAT"]).await?;
    let listed = ask(&server, "ls lock:* --json").await?.json()?.len();
    ensure!(u64::try_from(listed)? == locks, "{listed}");
    // One per lock, and one to connect.
    let scripts = server.commandstats("evalsha").await?;
    ensure!(scripts >= locks, "{scripts} scripts");
    ensure!(server.commandstats("keys").await? == 0);
    // A page has 500 keys.
    let pages = server.commandstats("scan").await?;
    ensure!(pages > locks / 1_000, "{pages} pages");
    Ok(())
}

#[tokio::test]
async fn many_locks_are_listed_without_blocking_the_server() -> Result<()> {
    list(1_000).await
}

#[tokio::test]
#[ignore = "long: ten thousand requests of a build that is not optimised"]
async fn ten_thousand_locks_are_listed_without_blocking_the_server() -> Result<()> {
    list(10_000).await
}

#[tokio::test]
async fn revoke_tells_the_holder_and_a_free_lock_is_said_to_be_free() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    assert_printed!(ask(&server, "revoke name").await?, @"name: nobody holds it");
    let guard = Mutex::new(&client, "name").acquire().await?;
    assert_printed!(asked(&server, &["revoke name", "revoke name --json"]).await?, @r#"
    $ revoke name
    name: its holder was asked to release it
    $ revoke name --json
    {"name":"name","told":1}
    "#);
    ensure!(timeout(LIMIT, guard.lost()).await?.reason == LossReason::Revoked);
    Ok(())
}

#[tokio::test]
async fn release_takes_a_lock_from_the_holder_that_is_named_and_from_nobody_else() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    let token = guard.fencing_token().get();
    let release = async |options: &str| ask(&server, &format!("release name {options}")).await;
    assert_printed!(release(&format!("--fence {token}")).await?, @"
    ! lockkeeper: taking a lock from its holder is UNSAFE for what the lock protects: a live holder keeps working until it learns of it. `lockkeeper revoke` asks it to stop. If you know that it is dead, add --force
    => 64
    ");
    assert_printed!(release("--force").await?, @"
    ! error: the following required arguments were not provided:
    !   <--fence <TOKEN>|--claim <CLAIM>>
    => 64
    ");
    assert_printed!(release("--force --fence 3").await?, @r#"
    ! lockkeeper: "name": it is held with token <token> by <machine>:<pid>; nothing was taken
    => 75
    "#);
    guard.verify().await?;

    let this = format!("--force --fence {token}");
    assert_printed!(release(&this).await?, @"name: taken by force from <machine>:<pid>; a live holder keeps working until it learns of it");
    ensure!(timeout(LIMIT, guard.lost()).await?.reason == LossReason::Gone);

    let again = Mutex::new(&client, "name").acquire().await?;
    ensure!(release(&this).await?.code == Some(75));
    // The claim names a holder as well as the token does.
    let claim = client.inspect("name").await?.holders[0].claim.clone();
    assert_printed!(release(&format!("--force --json --claim {claim}")).await?, @r#"{"name":"name","claim":"<client>:2/<claim>","taken":true}"#);
    ensure!(timeout(LIMIT, again.lost()).await?.reason == LossReason::Gone);

    server
        .command(&["SET", "lockkeeper:name", "theirs"])
        .await?;
    assert_printed!(release(&this).await?, @r#"
    ! lockkeeper: "name": it has no single token; to take it from its holder, use --claim theirs; nothing was taken
    => 75
    "#);
    assert_printed!(release("--force --claim theirs").await?, @"name: taken by force from theirs; a live holder keeps working until it learns of it");
    assert_printed!(release(&this).await?, @r#"
    ! lockkeeper: "name": nobody holds it
    => 75
    "#);
    Ok(())
}

#[tokio::test]
async fn what_other_libraries_hold_is_shown_as_theirs_and_named_as_it_is_shown() -> Result<()> {
    let server = Server::start().await?;
    let write = "return redis.call('SET', KEYS[1], '\\236\\000\\254')";
    let thread = "67e55044-10b1-426f-9247-bb680e5fe0c8:42";
    for words in [
        &["EVAL", write, "1", "lockkeeper:bytes"][..],
        &["SET", "lockkeeper:text", "9f3c", "PX", "3600000"],
        &["HSET", "lockkeeper:thread", thread, "1"],
    ] {
        server.command(words).await?;
    }
    assert_printed!(
        asked(
            &server,
            &["ls", "inspect bytes", "inspect text", "inspect thread"]
        )
        .await?
    );
    for (name, claim) in [
        ("bytes", "hex:ec00fe"),
        ("text", "9f3c"),
        ("thread", thread),
    ] {
        let asked = ask(&server, &format!("revoke {name}")).await?;
        ensure!(
            asked.code == Some(75) && asked.err.contains("another library"),
            "{asked}"
        );
        let taken = ask(&server, &format!("release {name} --force --claim {claim}")).await?;
        ensure!(taken.code == Some(0), "{taken}");
    }
    assert_printed!(ask(&server, "ls").await?, @"NAME   KIND   MODE   HOLDER   LEFT   TOKEN   WAITERS");
    Ok(())
}
