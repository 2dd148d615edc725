//! The server stands still or is not there while a run waits. The wait continues until its time limit.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lockkeeper::{Client, FairLock, Mutex};
use lockkeeper_testkit::server::Server;

use crate::printed::{ask, assert_printed, said};
use crate::support::{Run, run, until, with_ttl};

/// A run that waits for a lock that is held, or has given up already.
async fn waiting(server: &Server, client: &Client, name: &str, options: &str) -> Result<Run> {
    let options = format!("--lock {name} {options}");
    let mut run = Run::start(server, &options, &["echo", "ran"])?;
    until("it waits", async || {
        let waits = client.inspect(name).await?.waiters != Some(0);
        Ok(waits || run.child.try_wait()?.is_some())
    })
    .await?;
    Ok(run)
}

/// A run without `--wait` gives up meanwhile.
#[tokio::test]
async fn a_wait_goes_on_through_a_frozen_server() -> Result<()> {
    with_ttl(Duration::from_secs(2), async |ttl| {
        let server = Server::start().await?;
        let client = lockkeeper::connect(&server.url()).await?;
        let held = (
            Mutex::new(&client, "plain").acquire().await?,
            FairLock::new(&client, "fair").acquire().await?,
            Mutex::new(&client, "several").acquire().await?,
        );
        let terms = format!("--wait 10m --grace 100ms --ttl {ttl:?}");
        let (fair, several) = (format!("{terms} --fair"), format!("{terms} --lock other"));
        let mut runs = tokio::try_join!(
            waiting(&server, &client, "plain", &terms),
            waiting(&server, &client, "fair", &fair),
            waiting(&server, &client, "several", &several),
        )?;
        let mut runs = [&mut runs.0, &mut runs.1, &mut runs.2];
        server.freeze()?;
        // By then, the ttl is over too.
        let refused = ask(&server, "run --no-wait --lock plain -- echo ran").await?;
        ensure!(
            refused.code == Some(69) && refused.out.is_empty(),
            "{refused}"
        );
        for run in &mut runs {
            let told = run.event("unreachable").await?;
            ensure!(told["left_ms"].as_u64() > Some(0), "{told}");
            ensure!(run.child.try_wait()?.is_none(), "it gave up");
        }
        server.thaw()?;
        drop(held);
        for run in runs {
            run.event("granted").await?;
            ensure!(run.code().await? == 0);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_run_that_may_wait_connects_when_the_server_comes_back() -> Result<()> {
    let server = Server::start().await?;
    server.freeze()?;
    let mut run = Run::start(&server, "--wait 10m --lock name", &["echo", "ran"])?;
    run.event("unreachable").await?;
    server.thaw()?;
    run.event("granted").await?;
    ensure!(run.code().await? == 0);
    Ok(())
}

#[tokio::test]
async fn a_wait_for_a_server_that_is_not_there_ends_with_its_reason() -> Result<()> {
    // Nothing listens on port 1. A machine that is slow may see that only when the wait is over.
    with_ttl(Duration::from_secs(1), async |wait| {
        let options = format!("--wait {wait:?} --lock name");
        let words = run(&options, &["echo", "ran"]);
        let begun = Instant::now();
        let ended = said("redis://127.0.0.1:1", &words).await?;
        ensure!(begun.elapsed() >= wait);
        ensure!(ended.err.lines().count() == 2, "{ended}");
        assert_printed!(ended, @"
        ! lockkeeper: the server cannot be reached; waiting for it for up to <time>: could not connect to 127.0.0.1:1: Connection refused
        ! lockkeeper: could not connect to 127.0.0.1:1: Connection refused
        => 69
        ");
        Ok(())
    })
    .await?;

    // The run does not wait if the error cannot pass.
    let words = run("--wait 1h --lock name", &["echo", "ran"]);
    assert_printed!(said("redis://nobody:x@127.0.0.1:1?x=y", &words).await?, @"
    ! lockkeeper: the URL of the server has a '?', and redis:// takes no settings there but password-file; one that is part of a password is written %3F
    => 64
    ");
    Ok(())
}

#[tokio::test]
async fn a_wait_in_a_queue_that_ends_on_a_frozen_server_is_no_conflict() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = FairLock::new(&client, "name").acquire().await?;
    let mut wait = Duration::from_secs(1);
    loop {
        let begun = Instant::now();
        let options = format!("--fair --wait {wait:?}");
        let mut run = waiting(&server, &client, "name", &options).await?;
        server.freeze()?;
        // On a slow machine, the wait may have ended before.
        let in_time = begun.elapsed() < wait;
        let code = run.code().await?;
        server.thaw()?;
        if in_time {
            ensure!(code == 69, "{code}");
            return Ok(());
        }
        wait *= 4;
    }
}
