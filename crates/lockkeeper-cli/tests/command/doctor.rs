//! What `doctor` finds.

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Server;

use crate::look::json;
use crate::support::said;

const DOCUMENT: &str = include_str!("../../../../docs/wire-format.md");

#[tokio::test]
async fn doctor_tells_a_tenant_which_rules_its_namespace_needs() -> Result<()> {
    let server = Server::options()
        .configuration("appendonly yes")
        .start()
        .await?;
    let start = DOCUMENT.find("ACL SETUSER app").context("no rights")?;
    let rules = DOCUMENT[start..].split("```").next().context("no end")?;
    server
        .command(&rules.split_whitespace().collect::<Vec<_>>())
        .await?;
    let url = server.url().replacen("://", "://app:password@", 1);
    let in_its_own = said(&url, &["doctor", "--namespace", "billing"]).await?;
    ensure!(in_its_own.code == Some(0), "{in_its_own:?}");
    ensure!(!in_its_own.out.contains("WARNING"), "{in_its_own:?}");

    let elsewhere = said(&url, &["doctor"]).await?;
    ensure!(elsewhere.code == Some(69), "{elsewhere:?}");
    ensure!(elsewhere.out.matches("BAD").count() == 1, "{elsewhere:?}");
    ensure!(
        elsewhere.out.contains(
            "allow the user ~lockkeeper:* ~lockkeeper.*:{lockkeeper:*, or set the namespace"
        ),
        "{elsewhere:?}"
    );
    Ok(())
}

#[tokio::test]
async fn doctor_finds_a_good_server_good_and_tells_what_is_wrong_with_a_bad_one() -> Result<()> {
    let good = Server::options().configuration("appendonly yes");
    let good = good.start().await?;
    let findings = json(&good, &["doctor"]).await?;
    ensure!(findings.len() >= 8, "{findings:?}");
    ensure!(
        findings.iter().all(|it| it["verdict"] == "good"),
        "{findings:?}"
    );

    let forgetful = Server::options()
        .configuration("maxmemory 100mb")
        .configuration("maxmemory-policy allkeys-lru")
        .start()
        .await?;
    let findings = json(&forgetful, &["doctor"]).await?;
    for check in ["eviction", "persistence"] {
        let finding = findings.iter().find(|it| it["check"] == check);
        let finding = finding.context(check)?;
        ensure!(finding["verdict"] == "warning", "{finding}");
    }

    let deaf = Server::options()
        .configuration("user default on nopass ~* resetchannels +@all")
        .start()
        .await?;
    let said = said(&deaf.url(), &["doctor"]).await?;
    ensure!(
        said.code == Some(69) && said.out.contains("BAD"),
        "{said:?}"
    );
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
    for (node, url, right) in [
        (&server, server.url(), "-publish"),
        (&cluster.nodes()[0], cluster.url(), right),
    ] {
        node.command(&["ACL", "SETUSER", "default", right]).await?;
        let said = said(&url, &["doctor"]).await?;
        ensure!(
            said.code == Some(69) && said.out.contains("a release woke no waiter"),
            "{said:?}"
        );
        let rule = right.replace('-', "+");
        let tells = !said.out.contains("redis 6.");
        ensure!(said.out.contains(&rule) == tells, "{rule}: {said:?}");
    }
    Ok(())
}
