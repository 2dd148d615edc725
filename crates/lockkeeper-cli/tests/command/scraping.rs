//! The metrics line by line, and the requests that metrics and pages cause on the server, which may be unreachable.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use futures_util::future::try_join_all;
use lockkeeper::{Client, FairLock, Mutex, MutexGuard};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until;
use serde_json::Value;

use crate::printed::assert_printed;
use crate::support::{self, LIMIT};
use crate::visiting::Serving;

#[tokio::test]
async fn the_metrics_count_what_is_held_and_are_as_many_with_many_names() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let serving = Serving::start(&server, &[]).await?;
    let before = serving.get("/metrics").await?;
    ensure!(before.header("content-type") == "text/plain; version=0.0.4; charset=utf-8");
    ensure!(
        before
            .body
            .contains("lockkeeper_server_names{kind=\"mutex\"} 0\n"),
        "{}",
        before.body
    );

    let names = (0..40).map(|number| Mutex::new(&client, &format!("job:{number}")));
    let _held = try_join_all(names.map(async |it| it.acquire().await)).await?;
    let lock = FairLock::new(&client, "printer");
    let _guard = lock.acquire().await?;
    let waiting = [client.new_owner(), client.new_owner()]
        .map(|owner| tokio::spawn(lock.acquire().owner(&owner).into_future()));
    // Another library wrote this key.
    server.command(&["SET", "lockkeeper:theirs", "x"]).await?;
    let mut after = String::new();
    support::until("all are counted", async || {
        after = serving.get("/metrics").await?.body;
        Ok([
            "names{kind=\"mutex\"} 40\n",
            "names{kind=\"other\"} 1\n",
            "waiters{kind=\"fair\"} 2\n",
            "names_unknown 0\n",
        ]
        .iter()
        .all(|line| after.contains(line)))
    })
    .await?;
    ensure!(
        after.lines().count() == before.body.lines().count(),
        "{after}"
    );
    // Of the kinds, these two stand for all.
    let shown = after
        .lines()
        .filter(|line| !line.contains("{kind=") || line.contains("fair") || line.contains("other"));
    // What was seen on the way, and how fast, differs.
    let shown = shown.map(|line| match line.rsplit_once(' ') {
        Some((name, _))
            if !line.starts_with('#') && (name.contains("seen") || name.contains("second")) =>
        {
            name
        }
        _ => line,
    });
    assert_printed!(shown.collect::<Vec<_>>().join("\n"));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

/// The first look at so many names takes some seconds.
const MANY: usize = 600;

/// Holds that many names that begin with this word, all by one client.
async fn hold_many(client: &Client, word: &str) -> Result<Vec<MutexGuard>> {
    let names = (0..MANY).map(|number| Mutex::new(client, &format!("{word}:{number}")));
    Ok(try_join_all(names.map(async |it| it.acquire().ttl(10 * LIMIT).await)).await?)
}

#[tokio::test]
async fn the_first_metrics_have_all_that_is_held_or_are_not_there() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _held = hold_many(&client, "job").await?;
    let serving = Serving::start(&server, &[]).await?;
    support::until("there are metrics", async || {
        let answer = serving.get("/metrics").await?;
        let up = answer.body.contains("lockkeeper_server_up 1\n");
        let all = format!("lockkeeper_server_holders{{kind=\"mutex\"}} {MANY}\n");
        ensure!(answer.body.contains(&all) == up, "{answer:?}");
        ensure!(up || answer.status == 503 || answer.body.contains("_up 0"));
        Ok(up)
    })
    .await
}

#[tokio::test]
async fn after_a_pause_all_names_are_asked_about_before_they_are_shown() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let serving = Serving::start(&server, &[]).await?;
    let shown = async || loop {
        let answer = serving.get("/api/locks?filter=round").await?;
        if answer.status != 503 {
            return answer.json();
        }
    };
    let mut seen = Value::Null;
    // Once more if this machine stood still for so long that a sampler at work seemed to rest.
    for round in ["round-1", "round-2", "round-3"] {
        let before = hold_many(&client, "before").await?;
        shown().await?;
        rest(&server).await?;
        try_join_all(before.into_iter().map(MutexGuard::release)).await?;
        let _held = hold_many(&client, round).await?;
        seen = shown().await?;
        if seen["matching"] == MANY && seen["names"] == MANY {
            return Ok(());
        }
    }
    bail!(
        "of {MANY} names, it shows {} and {} others",
        seen["matching"],
        seen["names"]
    );
}

#[tokio::test]
async fn an_outage_is_told_and_outlived() -> Result<()> {
    let mut server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&client, "nightly").acquire().await?;
    let serving = Serving::start(&server, &[]).await?;
    let mut events = serving.events("").await?;
    let calm = events.wait_for("the lock", |it| it["names"] == 1).await?;
    ensure!(calm["unreachable"].is_null(), "{calm}");
    server.kill()?;
    events
        .wait_for("the outage", |it| it["unreachable"].is_string())
        .await?;
    let metrics = async || anyhow::Ok(serving.get("/metrics").await?.body);
    let down = metrics().await?;
    ensure!(down.contains("lockkeeper_server_up 0\n"), "{down}");
    ensure!(!down.contains("lockkeeper_server_listed"), "{down}");
    ensure!(serving.get("/api/locks/nightly").await?.status == 502);
    server.restart().await?;
    events
        .wait_for("its end", |it| {
            it["unreachable"].is_null() && it["names"] == 0
        })
        .await?;
    ensure!(metrics().await?.contains("lockkeeper_server_up 1\n"));
    drop(guard);
    Ok(())
}

#[tokio::test]
async fn the_server_is_asked_once_for_all_and_not_at_all_while_nobody_looks_on() -> Result<()> {
    let server = Server::start().await?;
    let serving = Serving::start(&server, &[]).await?;
    // At the start, `serve` asks for one page of names, to see whether that is allowed.
    ensure!(server.commandstats("scan").await? == 1);
    let mut pages = Vec::new();
    for _ in 0..5 {
        pages.push(serving.events("").await?);
    }
    for events in &mut pages {
        events.text().await?;
    }
    let (before, begun) = (server.commandstats("scan").await?, Instant::now());
    for _ in 0..2 {
        for events in &mut pages {
            events.text().await?;
        }
    }
    // Each sample, one per second, takes one page of names, however many pages are open.
    let asked = server.commandstats("scan").await? - before;
    let seconds = begun.elapsed().as_secs() + 2;
    ensure!(asked >= 1 && asked <= seconds, "{asked} in {seconds} s");
    drop(pages);
    rest(&server).await
}

/// Waits until the server is asked for no names any more. After an answer without all names that takes 75 s.
async fn rest(server: &Server) -> Result<()> {
    let mut last = (server.commandstats("scan").await?, Instant::now());
    until::until("it rests", 3 * LIMIT, async || {
        let now = server.commandstats("scan").await?;
        if now != last.0 {
            last = (now, Instant::now());
        }
        Ok((last.1.elapsed().as_secs() >= 2, "it asks for names"))
    })
    .await
}
