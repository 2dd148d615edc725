//! `watch`: it prints every change, and continues when the server goes down and comes back.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Mutex, RwLock, Semaphore};
use lockkeeper_testkit::server::Server;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::time::timeout;

use crate::support::{LIMIT, command};

/// A running `lockkeeper watch name`.
struct Watch {
    _child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Watch {
    fn start(server: &Server) -> Result<Self> {
        let words = ["watch", "name", "--json", "--interval", "20ms"];
        let mut command = command(&server.url(), &words);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self {
            out: BufReader::new(child.stdout.take().context("no output")?).lines(),
            err: BufReader::new(child.stderr.take().context("no errors")?).lines(),
            _child: child,
        })
    }

    async fn next(&mut self) -> Result<Value> {
        let line = timeout(LIMIT, self.out.next_line()).await??;
        Ok(serde_json::from_str(&line.context("it ended")?)?)
    }

    async fn complaint(&mut self) -> Result<String> {
        let line = timeout(LIMIT, self.err.next_line()).await??;
        line.context("it ended")
    }
}

#[tokio::test]
async fn watch_tells_what_changes() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let mut watch = Watch::start(&server)?;
    let mut next = async || watch.next().await;
    ensure!(next().await?["kind"].is_null());
    let guard = Mutex::new(&client, "name").acquire().await?;
    let held = next().await?;
    ensure!(held["fence"] == guard.fencing_token().get(), "{held}");
    ensure!(client.revoke("name").await? == 1);
    let mut seen = next().await?;
    ensure!(seen["holders"][0]["state"] == "revoked", "{seen}");
    guard.ended().await;
    drop(guard);
    while !seen["kind"].is_null() {
        seen = next().await?;
    }
    let lock = RwLock::new(&client, "name");
    let read = lock.read().await?;
    ensure!(next().await?["holders"][0]["shared"] == true);
    let _read_on = lock.read().await?;
    ensure!(next().await?["holders"][1]["shared"] == true);
    drop(read);
    ensure!(next().await?["holders"][1].is_null());
    Ok(())
}

#[tokio::test]
async fn watch_tells_permits_and_a_limit_that_changes() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let mut watch = Watch::start(&server)?;
    ensure!(watch.next().await?["limit"].is_null());
    let jobs = Semaphore::new(&client, "name", 8);
    let _held = jobs.permits(3).acquire().await?;
    let seen = watch.next().await?;
    ensure!(
        seen["limit"] == 8 && seen["holders"][0]["permits"] == 3,
        "{seen}"
    );
    ensure!(jobs.set_limit(12).await?);
    let seen = watch.next().await?;
    ensure!(seen["limit"] == 12, "{seen}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_told_of_once_and_watched_again() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let mut watch = Watch::start(&server)?;
    ensure!(watch.next().await?["kind"].is_null());
    server.freeze()?;
    let complaint = watch.complaint().await?;
    ensure!(complaint.contains("\"name\""), "{complaint}");
    server.thaw()?;
    // After an outage, the present state is printed again, even if it has not changed.
    ensure!(watch.next().await?["kind"].is_null());
    let guard = Mutex::new(&client, "name").acquire().await?;
    let held = watch.next().await?;
    ensure!(held["fence"] == guard.fencing_token().get(), "{held}");
    Ok(())
}
