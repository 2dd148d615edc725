//! What `doctor` finds.

use std::cell::RefCell;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Server;

use crate::printed::{Said, ask, assert_printed, said};
use crate::support::until;

const DOCUMENT: &str = include_str!("../../../../docs/wire-format.md");

/// Runs `doctor` until the server answers fast enough to be found good, on a machine that may be slow.
async fn found_good(url: &str, line: &str) -> Result<Said> {
    let good = |said: &Said| said.code == Some(0) && !said.out.contains("WARNING");
    found(url, line, good).await
}

/// Runs `doctor` until it says this.
async fn found(url: &str, line: &str, says: impl Fn(&Said) -> bool) -> Result<Said> {
    let last = RefCell::new(None);
    until("it is found", async || {
        let said = said(url, &line.split(' ').collect::<Vec<_>>()).await?;
        let found = says(&said);
        *last.borrow_mut() = Some(said);
        Ok(found)
    })
    .await
    .with_context(|| format!("{:?}", last.borrow()))?;
    last.into_inner().context("never asked")
}

#[tokio::test]
async fn doctor_tells_a_tenant_which_rules_its_namespace_needs() -> Result<()> {
    let server = Server::options().configuration("appendonly yes");
    let server = server.start().await?;
    let start = DOCUMENT.find("ACL SETUSER app").context("no rights")?;
    let rules = DOCUMENT[start..].split("```").next().context("no end")?;
    server
        .command(&rules.split_whitespace().collect::<Vec<_>>())
        .await?;
    let url = server.url().replacen("://", "://app:password@", 1);
    found_good(&url, "doctor --namespace billing").await?;

    let elsewhere = said(&url, &["doctor"]).await?;
    ensure!(elsewhere.code == Some(69), "{elsewhere}");
    let bad: Vec<&str> = elsewhere
        .out
        .lines()
        .filter(|line| line.contains("BAD"))
        .collect();
    ensure!(bad.len() == 1, "{elsewhere}");
    let rules = "allow the user ~lockkeeper:* ~lockkeeper.*:{lockkeeper:*, or set the namespace";
    ensure!(bad[0].contains(rules), "{elsewhere}");
    Ok(())
}

#[tokio::test]
async fn doctor_finds_a_good_server_good_and_tells_what_is_wrong_with_a_bad_one() -> Result<()> {
    let good = Server::options().configuration("appendonly yes");
    let good = good.start().await?;
    assert_printed!(found_good(&good.url(), "doctor").await?);

    let forgetful = Server::options()
        .configuration("maxmemory 100mb")
        .configuration("maxmemory-policy allkeys-lru")
        .start()
        .await?;
    let findings = ask(&forgetful, "doctor --json").await?.out;
    let warnings: Vec<&str> = findings
        .lines()
        .filter(|it| it.contains("warning"))
        .collect();
    assert_printed!(warnings.join("\n"), @r#"
    {"check":"eviction","verdict":"warning","detail":"allkeys-lru: locks are lost when memory is full; set maxmemory-policy noeviction"}
    {"check":"persistence","verdict":"warning","detail":"no append-only file: a restart loses the locks that are held; set appendonly yes, or start the server again only after the longest ttl has passed"}
    "#);

    let deaf = Server::options()
        .configuration("user default on nopass ~* resetchannels +@all")
        .start()
        .await?;
    let said = ask(&deaf, "doctor").await?;
    ensure!(said.code == Some(69) && said.out.contains("BAD"), "{said}");
    Ok(())
}

#[tokio::test]
async fn doctor_finds_that_a_release_is_told_to_nobody() -> Result<()> {
    let server = Server::start().await?;
    let cluster = Cluster::options().primaries(1).replicas(0).start().await?;
    let right = match cluster.has_sharded_messages().await? {
        true => "-spublish",
        false => "-publish",
    };
    let finds = async |node: &Server, url: &str, right: &str| {
        node.command(&["ACL", "SETUSER", "default", right]).await?;
        let woke_none = |said: &Said| said.out.contains("a release woke no waiter");
        let said = found(url, "doctor", woke_none).await?;
        ensure!(said.code == Some(69), "{said}");
        let rule = right.replace('-', "+");
        let tells = !said.out.contains("redis 6.");
        ensure!(said.out.contains(&rule) == tells, "{rule}: {said}");
        Ok(())
    };
    let (single, clustered) = (server.url(), cluster.url());
    tokio::try_join!(
        finds(&server, &single, "-publish"),
        finds(&cluster.nodes()[0], &clustered, right),
    )?;
    Ok(())
}
