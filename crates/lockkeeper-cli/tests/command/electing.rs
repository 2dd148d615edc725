//! Runs of which one leads and the others stand by, and the subcommand that shows the leader.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::Client;
use lockkeeper_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;

use crate::printed::{ask, asked, assert_printed};
use crate::support::{Run, until, with_ttl};

/// A run that leads until its stdin ends.
fn server_of(server: &Server, label: &str, ttl: &str) -> Result<Run> {
    let options = format!("--label {label} --elect api --value {label}:8080 --ttl {ttl}");
    Run::start(server, &options, &["cat"])
}

/// Waits until this many runs stand by.
async fn standing_by(server: &Server, number: u64) -> Result<()> {
    let client = lockkeeper::connect(&server.url()).await?;
    until("they stand by", async || {
        Ok(client.inspect("api").await?.waiters == Some(number))
    })
    .await
}

/// A running `lockkeeper leader api --watch --json`.
struct Watch(Run);

impl Watch {
    fn start(server: &Server) -> Result<Self> {
        Run::command(server, &["leader", "api", "--watch", "--json"]).map(Self)
    }

    /// Waits for the next leader that has a value, or for the news that nobody leads.
    async fn next(&mut self) -> Result<Value> {
        loop {
            let seen: Value = serde_json::from_str(&self.0.line().await?)?;
            if seen["value"] != "" {
                return Ok(seen);
            }
        }
    }
}

#[tokio::test]
async fn one_of_a_fleet_runs_and_the_next_takes_over_when_it_ends_or_dies() -> Result<()> {
    with_ttl(Duration::from_secs(2), async |ttl| {
        let server = Server::start().await?;
        let mut watch = Watch::start(&server)?;
        ensure!(watch.next().await?["term"].is_null());
        let mut first = server_of(&server, "one", "1m")?;
        let granted = first.event("granted").await?;
        ensure!(granted["kind"] == "election", "{granted}");
        first.event("started").await?;
        let led = watch.next().await?;
        ensure!(
            led["value"] == "one:8080" && led["term"] == granted["fence"],
            "{led}"
        );
        let label = led["label"].as_str().context("no label")?;
        ensure!(label.ends_with("one"), "{led}");

        let ttl = format!("{ttl:?}");
        let mut second = server_of(&server, "two", &ttl)?;
        standing_by(&server, 1).await?;
        let mut third = server_of(&server, "three", &ttl)?;
        standing_by(&server, 2).await?;
        ensure!(first.close().await? == 0);
        second.event("started").await?;
        ensure!(watch.next().await?["value"] == "two:8080");

        second.signal(Signal::KILL)?;
        third.event("started").await?;
        let mut seen = watch.next().await?;
        // The stream may also show the moment in which nobody leads.
        if seen["term"].is_null() {
            seen = watch.next().await?;
        }
        ensure!(seen["value"] == "three:8080", "{seen}");
        ensure!(seen["term"].as_u64() > led["term"].as_u64());
        ensure!(third.close().await? == 0);
        ensure!(watch.next().await?["term"].is_null());
        Ok(())
    })
    .await
}

/// Runs the line with which systemd starts the unit in the examples, with another program.
#[tokio::test]
async fn the_unit_of_the_examples_starts_a_leader() -> Result<()> {
    let unit = include_str!("../../../../examples/election.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let (command, _) = start
        .and_then(|start| start.split_once(" -- "))
        .context("it starts no program")?;
    let host = command.replace("%H", "db1");
    let options = host.strip_prefix("/usr/bin/lockkeeper run ");
    let server = Server::start().await?;
    let mut watch = Watch::start(&server)?;
    ensure!(watch.next().await?["term"].is_null());
    let options = options.context("it starts something else")?;
    let mut run = Run::start(&server, options, &["sleep", "1000"])?;
    run.event("started").await?;
    ensure!(watch.next().await?["value"] == "db1:8080");
    // systemd sends this signal first.
    run.signal(Signal::TERM)?;
    ensure!(run.code().await? == 128 + 15);
    ensure!(watch.next().await?["term"].is_null());
    Ok(())
}

#[tokio::test]
async fn leader_shows_who_leads_and_that_nobody_does() -> Result<()> {
    let server = Server::start().await?;
    let both = ["leader api", "leader api --json"];
    assert_printed!(asked(&server, &both).await?, @r#"
    $ leader api
    api: nobody leads
    $ leader api --json
    {"name":"api","term":null,"value":null,"label":null,"since":null,"claim":null}
    "#);
    let settings = Client::builder().label("one");
    let client = lockkeeper::connect_with(&server.url(), settings).await?;
    let election = lockkeeper::Election::new(&client, "api").value("a\tb");
    let leadership = election.campaign().await?;
    until("it is known", async || {
        Ok(election
            .leader()
            .await?
            .is_some_and(|it| it.since.is_some()))
    })
    .await?;
    let shown = asked(&server, &both).await?;
    assert_printed!(shown.replace(&leadership.term().to_string(), "TERM"), @r#"
    $ leader api
    api: one leads since <time>, term TERM: a\tb
    $ leader api --json
    {"name":"api","term":TERM,"value":"a\tb","label":"one","since":"<time>","claim":"<client>:1/<claim>"}
    "#);
    leadership.resign().await?;
    assert_printed!(ask(&server, "leader api").await?, @"api: nobody leads");
    Ok(())
}
