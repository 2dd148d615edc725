//! The metrics line by line, and the requests that metrics and pages cause on the server, which may be unreachable.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{FairLock, Mutex};
use lockkeeper_testkit::server::Server;

use crate::support::until;
use crate::visiting::Serving;

/// Parses a text in the format 0.0.4 into values by name and labels. Fails if the text breaks that format.
fn metrics_of(text: &str) -> Result<BTreeMap<String, f64>> {
    let mut types = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut values = BTreeMap::new();
    ensure!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').context("a HELP without words")?;
            ensure!(helped.insert(name) && words.ends_with('.'), "{line}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').context("a TYPE without one")?;
            ensure!(["counter", "gauge", "summary"].contains(&kind), "{line}");
            ensure!(
                helped.contains(name) && types.insert(name, kind).is_none(),
                "{line}"
            );
            continue;
        }
        let (series, value) = line.rsplit_once(' ').context("a line without a value")?;
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').context("an open brace")?),
            None => (series, ""),
        };
        ensure!(
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{line}"
        );
        if !labels.is_empty() {
            let (label, value) = labels.split_once('=').context("a label without a value")?;
            let value = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            let plain = value.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_lowercase()));
            ensure!(label == "kind" && plain, "{line}");
        }
        let family = name
            .strip_suffix("_sum")
            .or_else(|| name.strip_suffix("_count"));
        let family = family
            .filter(|it| types.get(it) == Some(&"summary"))
            .unwrap_or(name);
        let kind = types
            .get(family)
            .with_context(|| format!("no TYPE before {line}"))?;
        ensure!((*kind == "counter") == name.ends_with("_total"), "{line}");
        ensure!(
            values.insert(series.to_owned(), value.parse()?).is_none(),
            "twice: {line}"
        );
    }
    ensure!(types.len() == helped.len());
    Ok(values)
}

#[tokio::test]
async fn the_metrics_count_what_is_held_and_are_as_many_with_many_names() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let serving = Serving::start(&server, &[]).await?;
    let answer = serving.get("/metrics").await?;
    ensure!(answer.header("content-type") == "text/plain; version=0.0.4; charset=utf-8");
    let before = metrics_of(&answer.body)?;
    ensure!(
        before["lockkeeper_server_up"] == 1.0 && before["lockkeeper_server_listed"] == 1.0,
        "{before:?}"
    );
    ensure!(before["lockkeeper_server_names{kind=\"mutex\"}"] == 0.0);

    let mut held = Vec::new();
    for number in 0..40 {
        held.push(
            Mutex::new(&client, &format!("job:{number}"))
                .acquire()
                .await?,
        );
    }
    let lock = FairLock::new(&client, "printer");
    let _guard = lock.acquire().await?;
    let waiting = [client.new_owner(), client.new_owner()]
        .map(|owner| tokio::spawn(lock.acquire().owner(&owner).into_future()));
    server.command(&["SET", "lockkeeper:theirs", "x"]).await?;
    until("all are counted", async || {
        let after = metrics_of(&serving.get("/metrics").await?.body)?;
        ensure!(after.keys().eq(before.keys()), "other lines: {after:?}");
        let all = [
            ("lockkeeper_server_names{kind=\"mutex\"}", 40.0),
            // Another library wrote this key.
            ("lockkeeper_server_names{kind=\"other\"}", 1.0),
            ("lockkeeper_server_names{kind=\"fair\"}", 1.0),
            ("lockkeeper_server_holders{kind=\"fair\"}", 1.0),
            ("lockkeeper_server_waiters{kind=\"fair\"}", 2.0),
            ("lockkeeper_server_waiters_most{kind=\"fair\"}", 2.0),
            ("lockkeeper_server_holders_revoked{kind=\"mutex\"}", 0.0),
        ];
        let longest = after["lockkeeper_server_held_longest_seconds{kind=\"fair\"}"];
        let counted = after["lockkeeper_server_grants_seen_total"] >= 41.0;
        Ok(counted && longest > 0.0 && all.iter().all(|(name, value)| after[*name] == *value))
    })
    .await?;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    drop(held);
    Ok(())
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
    let metrics = metrics_of(&serving.get("/metrics").await?.body)?;
    ensure!(
        metrics["lockkeeper_server_up"] == 0.0 && !metrics.contains_key("lockkeeper_server_listed"),
        "{metrics:?}"
    );
    ensure!(serving.get("/api/locks/nightly").await?.status == 502);
    server.restart().await?;
    events
        .wait_for("its end", |it| {
            it["unreachable"].is_null() && it["names"] == 0
        })
        .await?;
    ensure!(metrics_of(&serving.get("/metrics").await?.body)?["lockkeeper_server_up"] == 1.0);
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
    for _ in 0..3 {
        for events in &mut pages {
            events.text().await?;
        }
    }
    // Each sample, one per second, takes one page of names, however many pages are open.
    let asked = server.commandstats("scan").await? - before;
    let seconds = begun.elapsed().as_secs() + 2;
    ensure!(asked >= 2 && asked <= seconds, "{asked} in {seconds} s");
    drop(pages);
    let mut last = (server.commandstats("scan").await?, Instant::now());
    until("it rests", async || {
        let now = server.commandstats("scan").await?;
        if now != last.0 {
            last = (now, Instant::now());
        }
        Ok(last.1.elapsed().as_secs() >= 3)
    })
    .await
}
