//! Semaphores and a latch beside a live Redisson: both sides count alike, wake one another, and what the dead of either side held comes back where
//! anybody knows of it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::{
    RedissonCountDownLatch, RedissonPermitExpirableSemaphore, RedissonSemaphore,
};
use lockkeeper::{Client, Lock as _, LossReason};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use tokio::time::timeout;

use crate::beside_java::{LONG, Pair, SHORT, by_message, first_line, holder, short};
use crate::java::{Java, JavaClient, JavaLock};

async fn listening(site: &dyn Site, channel: &str, clients: u64) -> Result<()> {
    while site.listeners(channel).await? < clients {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn permits_are_counted_alike_on_both_sides() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    count_permits(redisson, client).await
}

/// Each side takes and returns permits that the other counts.
pub(crate) async fn count_permits(redisson: &JavaClient, client: &Client) -> Result<()> {
    let theirs = redisson.lock("semaphore", "counted");
    let ours = RedissonSemaphore::new(client, "counted");
    ensure!(!theirs.ask("try", "1").await?);
    ensure!(theirs.ask("set", "5").await? && !ours.try_set_permits(7).await?);
    let two = ours.permits(2).try_acquire().await?.context("there are")?;
    ensure!(theirs.tell("available", "").await? == "3");
    ensure!(theirs.ask("try", "2").await?);
    ensure!(ours.permits(2).try_acquire().await?.is_none());
    ensure!(ours.available().await? == Some(1));
    ensure!(!theirs.ask("try", "2").await?);
    two.release().await?;
    ensure!(theirs.ask("try", "3").await?);
    ensure!(theirs.tell("release", "5").await? == "ok");
    ensure!(ours.available().await? == Some(5));
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn permits_with_ends_are_counted_alike_on_both_sides() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    count_permits_with_ends(redisson, client).await
}

/// The same for permits with leases.
pub(crate) async fn count_permits_with_ends(redisson: &JavaClient, client: &Client) -> Result<()> {
    let theirs = redisson.lock("permits", "ended");
    let ours = RedissonPermitExpirableSemaphore::new(client, "ended");
    ensure!(ours.try_set_permits(3).await? && !theirs.ask("set", "7").await?);
    let two = ours.permits(2).try_acquire().await?.context("there are")?;
    ensure!(theirs.tell("available", "").await? == "1");
    ensure!(theirs.tell("acquired", "").await? == "2");
    let id = theirs.tell("try", "").await?;
    ensure!(id.len() == 32, "{id}");
    ensure!(ours.try_acquire().await?.is_none() && ours.acquired().await? == 3);
    ensure!(theirs.tell("try", "").await? == "null");
    two.verify().await?;
    two.release().await?;
    // Both sides call a permit the same.
    let seen = &ours.inspect().await?[0];
    ensure!(
        seen.holders.len() == 1 && seen.holders[0].claim == id,
        "{seen:?}"
    );
    ensure!(theirs.ask("release", &id).await?);
    ensure!(ours.available().await? == Some(3));
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn each_side_wakes_the_other() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    wake_one_another(server, redisson, client, "wake").await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn each_side_wakes_the_other_in_a_cluster() -> Result<()> {
    let Some(java) = Java::start()? else {
        return Ok(());
    };
    let cluster = Cluster::pooled().await?;
    let redisson = java.client_of_cluster(&cluster.nodes()[0], LONG).await?;
    let client = cluster.client(Client::builder().ttl(LONG)).await?;
    // On several nodes.
    for name in ["counts", "another", "third"] {
        wake_one_another(&*cluster, &redisson, &client, name).await?;
    }
    Ok(())
}

/// Of each kind one side holds, and lets the other in by its message, long before a lease ends.
async fn wake_one_another(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<()> {
    by_message(&format!("{name}:semaphore"), async |name| {
        wake_semaphores(site, redisson, client, name).await
    })
    .await?;
    by_message(&format!("{name}:permits"), async |name| {
        wake_permits(site, redisson, client, name).await
    })
    .await?;
    by_message(&format!("{name}:latch"), async |name| {
        wake_latches(site, redisson, client, name).await
    })
    .await
}

async fn wake_semaphores(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<Duration> {
    let channel = &format!("redisson_sc:{{{name}}}");
    let theirs = redisson.lock("semaphore", name);
    let ours = RedissonSemaphore::new(client, name);
    ensure!(theirs.ask("set", "2").await? && theirs.ask("try", "2").await?);
    let waits = Instant::now();
    let waiting = tokio::spawn({
        let ours = ours.permits(2);
        async move { ours.acquire().await }
    });
    listening(site, channel, 1).await?;
    ensure!(theirs.tell("release", "2").await? == "ok");
    let guard = timeout(PATIENCE, waiting).await???;
    let waited = waits.elapsed();
    let waiting = [theirs.begin("acquire", "1")?, theirs.begin("acquire", "1")?];
    listening(site, channel, 2).await?;
    let began = Instant::now();
    guard.release().await?;
    for waiter in waiting {
        ensure!(timeout(PATIENCE, JavaLock::end(waiter)).await?? == "ok");
    }
    println!("Java's two woken after {:?}", began.elapsed());
    Ok(waited)
}

async fn wake_permits(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<Duration> {
    let channel = &format!("redisson_sc:{{{name}}}");
    let theirs = redisson.lock("permits", name);
    let ours = RedissonPermitExpirableSemaphore::new(client, name);
    ensure!(theirs.ask("set", "1").await?);
    let id = theirs.tell("acquire", "600000").await?;
    let waits = Instant::now();
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire().await }
    });
    listening(site, channel, 1).await?;
    ensure!(theirs.ask("release", &id).await?);
    let guard = timeout(PATIENCE, waiting).await???;
    let waited = waits.elapsed();
    let waiting = theirs.begin("acquire", "600000")?;
    listening(site, channel, 2).await?;
    let began = Instant::now();
    guard.release().await?;
    let id = timeout(PATIENCE, JavaLock::end(waiting)).await??;
    println!("Java woken after {:?}", began.elapsed());
    ensure!(theirs.ask("release", &id).await?);
    Ok(waited)
}

async fn wake_latches(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<Duration> {
    let channel = &format!("redisson_countdownlatch__channel__{{{name}}}");
    let theirs = redisson.lock("latch", name);
    let ours = RedissonCountDownLatch::new(client, name);
    ensure!(theirs.ask("set", "2").await? && !ours.try_set_count(3).await?);
    let waits = Instant::now();
    let waiting = (
        theirs.begin("await", "")?,
        tokio::spawn({
            let ours = ours.clone();
            async move { ours.wait().await }
        }),
    );
    listening(site, channel, 2).await?;
    ensure!(ours.count_down().await? == 1 && theirs.tell("count", "").await? == "1");
    ensure!(theirs.tell("down", "").await? == "ok");
    timeout(PATIENCE, waiting.1).await???;
    let waited = waits.elapsed();
    ensure!(timeout(PATIENCE, JavaLock::end(waiting.0)).await?? == "ok");
    ensure!(ours.count().await? == 0);

    ensure!(ours.try_set_count(1).await? && theirs.tell("count", "").await? == "1");
    let waiting = theirs.begin("await", "")?;
    // Ours lingers on the channel.
    tokio::time::sleep(Duration::from_millis(200)).await;
    ensure!(ours.count_down().await? == 0);
    ensure!(timeout(PATIENCE, JavaLock::end(waiting)).await?? == "ok");
    Ok(waited)
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_renewal_of_either_side_keeps_the_other_out() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(SHORT).await?
    else {
        return Ok(());
    };
    let theirs = redisson.lock("permits", "kept");
    let ours = RedissonPermitExpirableSemaphore::new(client, "kept");
    ensure!(ours.try_set_permits(1).await?);
    let guard = ours.acquire().await?;
    let end = Instant::now() + 2 * SHORT;
    while Instant::now() < end {
        ensure!(theirs.tell("try", "").await? == "null");
        ensure!(theirs.tell("available", "").await? == "0");
        tokio::time::sleep(SHORT / 20).await;
    }
    guard.verify().await?;
    guard.release().await?;

    let id = theirs.tell("acquire", &short()).await?;
    ensure!(theirs.ask("renew", &id).await?);
    let waited = ours.acquire().wait_for(2 * SHORT).await;
    ensure!(waited.is_err(), "it came in beside a holder in Java");
    ensure!(theirs.ask("release", &id).await?);
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_permit_that_the_other_side_takes_away_is_noticed() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(SHORT).await?
    else {
        return Ok(());
    };
    take_permits_away(redisson, client).await
}

/// The lease of our client is [`SHORT`].
pub(crate) async fn take_permits_away(redisson: &JavaClient, client: &Client) -> Result<()> {
    let theirs = redisson.lock("permits", "taken");
    let ours = RedissonPermitExpirableSemaphore::new(client, "taken");
    ensure!(ours.try_set_permits(1).await?);
    // Java releases ours by the id that the server has.
    let guard = ours.acquire().await?;
    let id = theirs.tell("try", "").await?;
    ensure!(id == "null");
    let mut seen = ours.inspect().await?;
    let claim = seen.remove(0).holders.remove(0).claim;
    let digits = claim.rsplit('/').next().context("a claim")?;
    let id = format!("{digits}{}{:08x}", &claim[..8], 1);
    ensure!(theirs.ask("release", &id).await?);
    ensure!(timeout(PATIENCE, guard.lost()).await?.reason == LossReason::Gone);
    drop(guard);

    let id = theirs.tell("acquire", "600000").await?;
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire().await }
    });
    ensure!(ours.force_release(&id).await?);
    let guard = timeout(PATIENCE, waiting).await???;
    ensure!(!theirs.ask("release", &id).await?);
    guard.verify().await?;
    guard.release().await?;
    ensure!(theirs.tell("available", "").await? == "1");
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn what_the_dead_of_either_side_held_comes_back_in_time() -> Result<()> {
    let Some(Pair {
        server,
        java,
        redisson,
        client,
    }) = &Pair::start(SHORT).await?
    else {
        return Ok(());
    };
    outlive_one_another(server, &server.url(), java, redisson, client).await
}

/// All leases are [`SHORT`]. Java is dead after this.
pub(crate) async fn outlive_one_another(
    site: &dyn Site,
    url: &str,
    java: &Java,
    redisson: &JavaClient,
    client: &Client,
) -> Result<()> {
    let theirs = redisson.lock("permits", "dead");
    let ours = RedissonPermitExpirableSemaphore::new(client, "dead");
    ensure!(ours.try_set_permits(1).await?);
    let mut program = holder(&["redisson-permits", url, "permits", "dead", &short()])?;
    ensure!(first_line(&mut program).await?.starts_with("held"));
    let waiting = theirs.begin("acquire", &short())?;
    listening(site, "redisson_sc:{dead}", 1).await?;
    program.kill().await?;
    let id = timeout(PATIENCE, JavaLock::end(waiting)).await??;
    ensure!(id.len() == 32, "{id}");

    // An RSemaphore's come back to a Rust client.
    let plain = RedissonSemaphore::new(client, "plain");
    ensure!(plain.try_set_permits(1).await?);
    let mut program = holder(&["redisson-permits", url, "semaphore", "plain", &short()])?;
    ensure!(first_line(&mut program).await?.starts_with("held"));
    ensure!(!redisson.lock("semaphore", "plain").ask("try", "1").await?);
    let waiting = redisson.lock("semaphore", "plain").begin("acquire", "1")?;
    listening(site, "redisson_sc:{plain}", 1).await?;
    program.kill().await?;
    // The next request returns the permit.
    let mut waiting = std::pin::pin!(timeout(PATIENCE, JavaLock::end(waiting)));
    let answer = loop {
        tokio::select! {
            answer = &mut waiting => break answer??,
            () = tokio::time::sleep(SHORT / 20) => drop(plain.available().await?),
        }
    };
    ensure!(answer == "ok", "{answer}");

    let waiting = tokio::spawn(async move { ours.acquire().await });
    java.kill()?;
    let guard = timeout(PATIENCE, waiting).await???;
    guard.release().await?;
    Ok(())
}
