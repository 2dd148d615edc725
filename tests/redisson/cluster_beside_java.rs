//! Beside a live Redisson in a cluster of three primaries with a replica each: what holds on one server holds here. The tests of waking are
//! beside those on one server.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::Client;
use lockkeeper::redisson::RedissonLock;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::site::Site as _;
use tokio::time::timeout;

use crate::beside_java::{
    LONG, SHORT, count_re_entries, force_one_another, keep_one_another_out, outlive_one_another,
};
use crate::java::Java;
use crate::{counts_beside_java as counts, fair_beside_java as fair, rwlock_beside_java as rwlock};

/// On several nodes.
const NAMES: [&str; 3] = ["first", "another", "third"];

#[tokio::test]
#[ignore = "long: beside Java"]
async fn each_side_keeps_the_other_out_and_counts_re_entries() -> Result<()> {
    let Some(java) = Java::start()? else {
        return Ok(());
    };
    let cluster = Cluster::pooled().await?;
    let redisson = java.client_of_cluster(&cluster.nodes()[0], LONG).await?;
    let client = cluster.client(Client::builder().ttl(LONG)).await?;
    for name in NAMES {
        keep_one_another_out(&redisson, &client, name).await?;
        count_re_entries(&redisson, &client, name).await?;
    }
    fair::keep_one_another_out(&*cluster, &redisson, &client).await?;
    rwlock::read_together_and_write_alone(&*cluster, &redisson, &client).await?;
    rwlock::count_re_entries(&*cluster, &redisson, &client).await?;
    counts::count_permits(&redisson, &client).await?;
    counts::count_permits_with_ends(&redisson, &client).await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn force_is_noticed_and_what_the_dead_held_is_free_in_time() -> Result<()> {
    let Some(java) = Java::start()? else {
        return Ok(());
    };
    let cluster = Cluster::pooled().await?;
    let redisson = java.client_of_cluster(&cluster.nodes()[0], SHORT).await?;
    let client = cluster.client(Client::builder().ttl(SHORT)).await?;
    for name in NAMES {
        force_one_another(&redisson, &client, name).await?;
    }
    fair::heed_renewals_and_force(&*cluster, &redisson, &client).await?;
    rwlock::force_one_another(&redisson, &client).await?;
    counts::take_permits_away(&redisson, &client).await?;
    outlive_one_another(&cluster.url(), &java, &redisson, &client, "dead").await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn what_the_dead_of_either_side_held_of_other_kinds_is_free_in_time() -> Result<()> {
    for kind in ["fair", "rwlock", "permits"] {
        let Some(java) = Java::start()? else {
            return Ok(());
        };
        let cluster = Cluster::pooled().await?;
        let url = cluster.url();
        let redisson = java.client_of_cluster(&cluster.nodes()[0], SHORT).await?;
        let client = cluster.client(Client::builder().ttl(SHORT)).await?;
        match kind {
            "fair" => fair::outlive_one_another(&*cluster, &url, &java, &redisson, &client).await?,
            "rwlock" => rwlock::outlive_one_another(&url, &java, &redisson, &client).await?,
            _ => counts::outlive_one_another(&*cluster, &url, &java, &redisson, &client).await?,
        }
    }
    Ok(())
}

/// Two processes of Java and two clients here read a number and write the next one.
#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_number_that_all_read_and_write_loses_nothing() -> Result<()> {
    const ROUNDS: u64 = 250;
    let Some(java) = Java::start()? else {
        return Ok(());
    };
    let other = Java::start()?.context("there is Java")?;
    let cluster = Arc::new(Cluster::pooled().await?);
    cluster.command(&["SET", "number", "0"]).await?;
    let mut theirs = Vec::new();
    for java in [&java, &other] {
        let redisson = java.client_of_cluster(&cluster.nodes()[0], LONG).await?;
        let words = format!("{ROUNDS} number");
        theirs.push(redisson.lock("lock", "counted").begin("count", &words)?);
    }
    let mut ours = Vec::new();
    for _ in 0..2 {
        let client = cluster.client(Client::builder().ttl(LONG)).await?;
        let cluster = Arc::clone(&cluster);
        ours.push(tokio::spawn(async move {
            let lock = RedissonLock::new(&client, "counted");
            for _ in 0..ROUNDS {
                let guard = lock.acquire().await?;
                let number = cluster.command(&["GET", "number"]).await?;
                let next = (number.parse::<u64>()? + 1).to_string();
                cluster.command(&["SET", "number", &next]).await?;
                guard.release().await?;
            }
            anyhow::Ok(())
        }));
    }
    for counting in theirs {
        ensure!(timeout(LONG, counting).await?? == "ok");
    }
    for counting in ours {
        timeout(LONG, counting).await???;
    }
    let number = cluster.command(&["GET", "number"]).await?;
    ensure!(number == (4 * ROUNDS).to_string(), "{number}");
    Ok(())
}
