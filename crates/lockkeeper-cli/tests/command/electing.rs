//! Runs of which one leads and the others stand by, and the subcommand that shows the leader.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::Client;
use lockkeeper_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use crate::look::json;
use crate::support::{LIMIT, Run, command, said, until};

/// A run that leads until its stdin ends.
fn server_of(server: &Server, label: &str) -> Result<Run> {
    let value = format!("{label}:8080");
    let words = ["--label", label, "--elect", "api", "--value", &value];
    Run::start(
        server,
        &[&words[..], &["--ttl", "2s", "--", "cat"]].concat(),
    )
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
struct Watch {
    _child: Child,
    out: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(server: &Server) -> Result<Self> {
        let mut command = command(&server.url(), &["leader", "api", "--watch", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("no output")?;
        Ok(Self {
            out: BufReader::new(out).lines(),
            _child: child,
        })
    }

    /// Waits for the next leader that has a value, or for the news that nobody leads.
    async fn next(&mut self) -> Result<Value> {
        loop {
            let line = timeout(LIMIT, self.out.next_line()).await??;
            let seen: Value = serde_json::from_str(&line.context("it ended")?)?;
            if seen["value"] != "" {
                return Ok(seen);
            }
        }
    }
}

#[tokio::test]
async fn one_of_a_fleet_runs_and_the_next_takes_over_when_it_ends_or_dies() -> Result<()> {
    let server = Server::start().await?;
    let mut watch = Watch::start(&server)?;
    ensure!(watch.next().await?["term"].is_null());
    let mut first = server_of(&server, "one")?;
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

    let mut second = server_of(&server, "two")?;
    standing_by(&server, 1).await?;
    let mut third = server_of(&server, "three")?;
    standing_by(&server, 2).await?;
    drop(first.child.stdin.take());
    ensure!(first.code().await? == 0);
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
    drop(third.child.stdin.take());
    ensure!(third.code().await? == 0);
    ensure!(watch.next().await?["term"].is_null());
    Ok(())
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
    let words: Vec<&str> = host.split(' ').collect();
    ensure!(words[..2] == ["/usr/bin/lockkeeper", "run"], "{words:?}");
    let server = Server::start().await?;
    let mut watch = Watch::start(&server)?;
    ensure!(watch.next().await?["term"].is_null());
    let mut run = Run::start(&server, &[&words[2..], &["--", "sleep", "1000"]].concat())?;
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
    let ask = async || {
        let said = said(&server.url(), &["leader", "api"]).await?;
        ensure!(said.code == Some(0) && said.err.is_empty(), "{said:?}");
        anyhow::Ok(said.out)
    };
    ensure!(ask().await? == "api: nobody leads\n");
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
    let (shown, term) = (ask().await?, leadership.term());
    ensure!(shown.starts_with("api: one leads since 20"), "{shown}");
    ensure!(
        shown.ends_with(&format!(", term {term}: a\\tb\n")),
        "{shown}"
    );
    let seen = json(&server, &["leader", "api"]).await?;
    ensure!(
        seen[0]["value"] == "a\tb" && seen[0]["term"] == term.get(),
        "{seen:?}"
    );
    ensure!(seen[0]["label"] == "one" && seen[0]["at"].is_null());
    leadership.resign().await?;
    let seen = json(&server, &["leader", "api"]).await?;
    ensure!(
        seen[0]["name"] == "api" && seen[0]["value"].is_null(),
        "{seen:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_lock_of_another_kind_is_no_election() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = lockkeeper::Mutex::new(&client, "api").acquire().await?;
    for words in [&["leader", "api"][..], &["leader", "api", "--watch"]] {
        let said = said(&server.url(), words).await?;
        ensure!(
            said.code != Some(0) && said.err.contains("no election lock"),
            "{said:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn options_that_do_not_go_together_are_refused_before_anything_is_asked() -> Result<()> {
    let long = "v".repeat(2_000);
    for words in [
        &["--elect", "api", "--lock", "other"][..],
        &["--elect", "api", "--semaphore", "jobs", "--limit", "2"],
        &["--elect", "api", "--fair"],
        &["--lock", "api", "--value", "v"],
        &["--value", "v"],
        &["--elect", "api", "--once-per", "1d"],
        &["--elect", "api", "--slot", "a"],
        &["--elect", "api", "--limit", "2"],
        &["--elect", "api", "--permits", "2"],
        &["--elect", "api", "--elect", "other"],
    ] {
        let words = [&["run"], words, &["--", "echo", "ran"]].concat();
        let said = said("redis://127.0.0.1:1", &words).await?;
        ensure!(
            said.code == Some(64) && said.out.is_empty(),
            "{words:?}: {said:?}"
        );
    }
    let server = Server::start().await?;
    let words = [
        "run", "--elect", "api", "--value", &long, "--", "echo", "ran",
    ];
    let said = timeout(Duration::from_secs(30), said(&server.url(), &words)).await??;
    ensure!(said.code == Some(64) && said.out.is_empty(), "{said:?}");
    ensure!(said.err.contains("at most 1024 bytes"), "{said:?}");
    let said = crate::support::said(&server.url(), &["run", "--elect", "", "--", "true"]).await?;
    ensure!(said.code == Some(64), "{said:?}");
    Ok(())
}
