//! Runs that share a lock, and runs that hold it alone.

use anyhow::{Context as _, Result, ensure};
use lockkeeper::RwLock;
use lockkeeper_testkit::server::Server;

use crate::printed::{ask, assert_printed};
use crate::support::{Run, until};

/// A run that lasts until its stdin ends. It has a label, so that messages show which run they mean.
fn job(server: &Server, label: &str, mode: &str) -> Result<Run> {
    let options = format!("--label {label} {mode} --lock prices");
    Run::start(server, &options, &["cat"])
}

/// Waits until the program of a run has started, and returns the token of the run.
async fn started(run: &mut Run) -> Result<u64> {
    let granted = run.event("granted").await?;
    run.event("started").await?;
    granted["fence"].as_u64().context("no token")
}

#[tokio::test]
async fn runs_that_share_work_at_once_and_one_that_is_alone_gets_in_before_later_ones() -> Result<()>
{
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let lock = RwLock::new(&client, "prices");
    let mut one = job(&server, "report-one", "--shared")?;
    let phase = started(&mut one).await?;
    let mut two = job(&server, "report-two", "-s")?;
    ensure!(started(&mut two).await? == phase);

    let mut alone = job(&server, "load", "--exclusive")?;
    until("it waits", async || Ok(lock.queue_len().await? == 1)).await?;
    let mut late = job(&server, "late", "--shared")?;
    until("it waits behind", async || Ok(lock.queue_len().await? == 2)).await?;
    ensure!(one.close().await? == 0);
    ensure!(lock.queue_len().await? == 2, "it came beside a reader");
    ensure!(two.close().await? == 0);
    let write = started(&mut alone).await?;
    ensure!(write > phase);
    ensure!(lock.queue_len().await? == 1, "the late one passed it");
    let seen = client.inspect("prices").await?;
    ensure!(
        seen.holders.len() == 1 && !seen.holders[0].shared,
        "{seen:?}"
    );
    ensure!(alone.close().await? == 0);
    ensure!(started(&mut late).await? > write);
    ensure!(late.close().await? == 0);
    Ok(())
}

#[tokio::test]
async fn a_conflict_names_all_who_share_and_says_when_a_waiter_is_the_reason() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let lock = RwLock::new(&client, "prices");
    let mut one = job(&server, "report-one", "--shared")?;
    started(&mut one).await?;
    let echo = async |options: &str| {
        ask(&server, &format!("run {options} --lock prices -- echo ran")).await
    };
    assert_printed!(echo("-x --no-wait").await?, @r#"
    ! lockkeeper: "prices" is shared by <machine>:<pid> report-one
    => 75
    "#);
    let mut two = job(&server, "report-two", "--shared")?;
    started(&mut two).await?;
    let refused = echo("-x --wait 200ms").await?;
    ensure!(refused.code == Some(75), "{refused}");
    ensure!(
        refused.err.contains(" report-one") && refused.err.contains(" report-two"),
        "{refused}"
    );
    assert_printed!(echo("--shared --no-wait").await?, @"ran");

    let mut alone = job(&server, "load", "--exclusive")?;
    until("it waits", async || Ok(lock.queue_len().await? == 1)).await?;
    ensure!(two.close().await? == 0);
    assert_printed!(echo("--shared --no-wait").await?, @r#"
    ! lockkeeper: "prices" is shared by <machine>:<pid> report-one, and another waits in front to hold it alone
    => 75
    "#);
    ensure!(one.close().await? == 0);
    started(&mut alone).await?;
    assert_printed!(echo("--shared --no-wait -E 9").await?, @r#"
    ! lockkeeper: "prices" is held by <machine>:<pid> load
    => 9
    "#);
    assert_printed!(echo("--exclusive --no-wait -E 9").await?, @r#"
    ! lockkeeper: "prices" is held by <machine>:<pid> load
    => 9
    "#);
    // The main key of a writer does not look like that of a mutex.
    assert_printed!(echo("--no-wait").await?, @r#"
    ! lockkeeper: lock "prices" is no mutex lock: its key "lockkeeper:prices" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    "#);
    ensure!(alone.close().await? == 0);
    Ok(())
}
