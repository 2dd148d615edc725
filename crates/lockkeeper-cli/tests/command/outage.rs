//! The server stands still or is not there while a run waits. The wait continues until its time limit.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lockkeeper::{Client, Mutex};
use lockkeeper_testkit::server::Server;

use crate::support::{Run, command, said, until};

const TERMS: [&str; 4] = ["--ttl", "1s", "--grace", "100ms"];

#[tokio::test]
async fn a_wait_goes_on_through_a_frozen_server() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder()).await?;
    for kind in [&[][..], &["--fair"], &["--lock", "other"]] {
        let guard = match kind {
            ["--fair"] => None,
            _ => Some(Mutex::new(&client, "name").acquire().await?),
        };
        let fair = match kind {
            ["--fair"] => Some(lockkeeper::FairLock::new(&client, "name").acquire().await?),
            _ => None,
        };
        let words = [
            &["--wait", "10m", "--lock", "name"],
            &TERMS[..],
            kind,
            &["--", "echo", "ran"],
        ];
        let mut run = Run::start(&server, &words.concat())?;
        run.event("asking").await?;
        until("it waits", async || {
            Ok(client.inspect("name").await?.waiters != Some(0))
        })
        .await?;
        server.freeze()?;
        let told = run.event("unreachable").await?;
        ensure!(told["left_ms"].as_u64() > Some(500_000), "{told}");
        // After this time a lease would have ended, and a run without --wait would have given up.
        let frozen = Instant::now();
        tokio::time::timeout(Duration::from_secs(3), run.child.wait())
            .await
            .unwrap_err();
        ensure!(frozen.elapsed() >= Duration::from_secs(3));
        server.thaw()?;
        drop((guard, fair));
        run.event("granted").await?;
        ensure!(run.code().await? == 0);
        server.command(&["FLUSHALL"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_may_wait_connects_when_the_server_comes_back() -> Result<()> {
    let server = Server::start().await?;
    server.freeze()?;
    let words = ["--wait", "10m", "--lock", "name", "--", "echo", "ran"];
    let mut run = Run::start(&server, &words)?;
    run.event("unreachable").await?;
    server.thaw()?;
    run.event("granted").await?;
    ensure!(run.code().await? == 0);
    Ok(())
}

#[tokio::test]
async fn a_wait_for_a_server_that_is_not_there_ends_with_its_reason() -> Result<()> {
    // Nothing listens on port 1.
    let words = ["run", "--wait", "2s", "--lock", "name", "--", "echo", "ran"];
    let begun = Instant::now();
    let said = said("redis://127.0.0.1:1", &words).await?;
    ensure!(begun.elapsed() >= Duration::from_secs(2));
    ensure!(said.code == Some(69) && said.out.is_empty(), "{said:?}");
    let lines: Vec<&str> = said.err.lines().collect();
    ensure!(
        lines.len() == 2 && lines[0].contains("waiting for it"),
        "{said:?}"
    );
    ensure!(
        lines.iter().all(|line| line.contains("127.0.0.1:1")),
        "{said:?}"
    );

    // The run does not wait if the error cannot pass.
    let begun = Instant::now();
    let refused = command("redis://nobody:x@127.0.0.1:1?x=y", &words)
        .output()
        .await?;
    ensure!(refused.status.code() == Some(64), "{refused:?}");
    ensure!(begun.elapsed() < Duration::from_secs(2));
    Ok(())
}

#[tokio::test]
async fn a_wait_in_a_queue_that_ends_on_a_frozen_server_is_no_conflict() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder()).await?;
    let _guard = lockkeeper::FairLock::new(&client, "name").acquire().await?;
    let words = [
        "--wait", "4s", "--fair", "--lock", "name", "--", "echo", "ran",
    ];
    let mut run = Run::start(&server, &words)?;
    run.event("asking").await?;
    until("it waits", async || {
        Ok(client.inspect("name").await?.waiters != Some(0))
    })
    .await?;
    server.freeze()?;
    ensure!(run.code().await? == 69);
    server.thaw()
}
