//! An `RFairLock` beside a live Redisson: one queue for both sides, and those who die in it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::{RedissonFairGuard, RedissonFairLock};
use lockkeeper::{Client, ClientBuilder, Lock as _, LossReason, Owner, Released};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::beside_java::{LONG, Pair, SELDOM, SHORT, first_line, holder, short};
use crate::java::{Java, JavaClient, JavaLock};

/// For how long a dead waiter is waited for: longer than a step of a test takes, shorter than one waits.
const DEAD: Duration = Duration::from_secs(8);

type Waiting = JoinHandle<lockkeeper::Result<RedissonFairGuard>>;

/// The owners that wait, in order.
async fn queue(site: &dyn Site, name: &str) -> Result<Vec<String>> {
    let key = format!("redisson_lock_queue:{{{name}}}");
    let mut owners = Vec::new();
    for index in 0.. {
        let owner = site.command(&["LINDEX", &key, &index.to_string()]).await?;
        if owner.is_empty() {
            break;
        }
        owners.push(owner);
    }
    Ok(owners)
}

/// Waits until so many stand in the queue, and the last of them listens.
async fn queued(site: &dyn Site, name: &str, length: usize) -> Result<()> {
    let stand = async {
        loop {
            let owners = queue(site, name).await?;
            if let Some(last) = owners.get(length - 1) {
                let channel = format!("redisson_lock__channel:{{{name}}}:{last}");
                if owners.len() == length && site.listeners(&channel).await? > 0 {
                    return anyhow::Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, stand).await?
}

/// Nothing of the name is left but counters.
async fn is_tidy(site: &dyn Site, name: &str) -> Result<()> {
    let is_its = |key: &String| key.contains(name) && !key.contains("latch");
    let tidy = async {
        while site.keys().await?.iter().any(is_its) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        anyhow::Ok(())
    };
    let end = timeout(PATIENCE, tidy).await;
    let keys = site.keys().await?;
    end.with_context(|| keys.join(" "))?
}

/// A waiter of such a client that is served soon was woken by a message.
fn rarely_asking() -> ClientBuilder {
    Client::builder().waiter_ttl(SELDOM)
}

fn waits(lock: &RedissonFairLock) -> Waiting {
    tokio::spawn(lock.acquire().into_future())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn each_side_keeps_the_other_out_of_a_fair_lock() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    keep_one_another_out(server, redisson, client).await
}

/// One of either side holds, once and again, while the other tries.
pub(crate) async fn keep_one_another_out(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
) -> Result<()> {
    let theirs = redisson.lock("fair", "fair");
    let ours = RedissonFairLock::new(client, "fair");
    ensure!(theirs.ask("try", "7").await?);
    ensure!(ours.try_acquire().await?.is_none());
    ensure!(theirs.ask("try", "7").await?);
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    ensure!(ours.try_acquire().await?.is_none());
    ensure!(theirs.tell("unlock", "7").await? == "ok");

    let outer = ours.try_acquire().await?.context("it is free")?;
    let inner = outer.reenter().await?;
    ensure!(!theirs.ask("try", "7").await?);
    ensure!(outer.release().await? == Released::StillHeld(1));
    ensure!(!theirs.ask("try", "7").await?);
    // A plain lock is held by the same key.
    ensure!(!redisson.lock("lock", "fair").ask("try", "7").await?);
    ensure!(inner.release().await? == Released::Free);
    ensure!(theirs.ask("try", "7").await?);

    // One that acts for the thread in Java is that thread.
    let thread: Owner = format!("{}:7", redisson.id).parse()?;
    let guard = ours.try_acquire().owner(&thread).await?;
    let guard = guard.context("the thread holds")?;
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    ensure!(theirs.ask("held", "7").await?);
    ensure!(guard.release().await? == Released::Free);
    ensure!(!theirs.ask("locked", "").await?);
    is_tidy(site, "fair").await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn both_sides_are_served_in_the_order_in_which_they_came() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start_with(LONG, rarely_asking()).await?
    else {
        return Ok(());
    };
    serve_in_order(server, redisson, client, "order").await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn both_sides_are_served_in_order_in_a_cluster() -> Result<()> {
    let Some(java) = Java::start()? else {
        return Ok(());
    };
    let cluster = Cluster::pooled().await?;
    let redisson = java.client_of_cluster(&cluster.nodes()[0], LONG).await?;
    let client = cluster.client(rarely_asking().ttl(LONG)).await?;
    // On several nodes.
    for name in ["order", "another", "third"] {
        serve_in_order(&*cluster, &redisson, &client, name).await?;
    }
    Ok(())
}

/// Java holds; one of ours, one of Java's and another one of ours wait. Each is let in by the message of the one before.
async fn serve_in_order(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<()> {
    let (theirs, ours) = (
        redisson.lock("fair", name),
        RedissonFairLock::new(client, name),
    );
    ensure!(theirs.tell("lock", "7").await? == "ok");
    let first = waits(&ours);
    queued(site, name, 1).await?;
    let second = theirs.begin("lock", "8")?;
    queued(site, name, 2).await?;
    let third = waits(&ours);
    queued(site, name, 3).await?;
    let thread = format!("{}:8", redisson.id);
    ensure!(queue(site, name).await?[1] == thread);
    ensure!(ours.queue_len().await? == 3);
    // Nobody overtakes them.
    ensure!(!theirs.ask("try", "9").await?);

    let began = Instant::now();
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    let guard = timeout(PATIENCE, first).await???;
    println!("woken by Java after {:?}", began.elapsed());
    ensure!(!third.is_finished() && !theirs.ask("held", "8").await?);

    let began = Instant::now();
    guard.release().await?;
    ensure!(timeout(PATIENCE, JavaLock::end(second)).await?? == "ok");
    println!("Java woken after {:?}", began.elapsed());
    ensure!(!third.is_finished());
    ensure!(theirs.tell("unlock", "8").await? == "ok");
    let guard = timeout(PATIENCE, third).await???;

    // When a holder in Java is forced out, one of ours gets the lock, too.
    let next = theirs.begin("lock", "7")?;
    queued(site, name, 1).await?;
    ensure!(guard.release().await? == Released::Free);
    ensure!(timeout(PATIENCE, JavaLock::end(next)).await?? == "ok");
    let last = waits(&ours);
    queued(site, name, 1).await?;
    ensure!(theirs.ask("force", "").await?);
    let guard = timeout(PATIENCE, last).await???;
    ensure!(guard.release().await? == Released::Free);
    is_tidy(site, name).await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn waiters_that_give_up_are_in_nobodys_way() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    let (theirs, ours) = (
        redisson.lock("fair", "given"),
        RedissonFairLock::new(client, "given"),
    );
    ensure!(theirs.tell("lock", "7").await? == "ok");
    let (dropped, late) = (waits(&ours), Duration::from_millis(200));
    queued(server, "given", 1).await?;
    let behind = theirs.begin("lock", "8")?;
    queued(server, "given", 2).await?;
    ensure!(ours.acquire().wait_for(late).await.is_err());
    ensure!(!theirs.ask("wait", "9 200").await?);
    dropped.abort();
    queued(server, "given", 1).await?;
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    ensure!(timeout(PATIENCE, JavaLock::end(behind)).await?? == "ok");
    ensure!(theirs.tell("unlock", "8").await? == "ok");
    is_tidy(server, "given").await
}

/// The first in the queue leaves when it has been told that its turn has come: it tells the next.
#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_waiter_that_leaves_at_its_turn_passes_it_on_to_java() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    let (theirs, ours) = (
        redisson.lock("fair", "passed"),
        RedissonFairLock::new(client, "passed"),
    );
    let guard = ours.acquire().await?;
    let leaves = waits(&ours);
    queued(server, "passed", 1).await?;
    let behind = theirs.begin("lock", "8")?;
    queued(server, "passed", 2).await?;
    // The name is free, and nobody has been told.
    Site::command(server, &["DEL", "passed"]).await?;
    leaves.abort();
    ensure!(timeout(PATIENCE, JavaLock::end(behind)).await?? == "ok");
    ensure!(guard.release().await.is_err());
    ensure!(theirs.tell("unlock", "8").await? == "ok");
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn the_dead_of_either_side_in_the_queue_are_passed_over_in_their_time() -> Result<()> {
    let Some(java) = Java::start()? else {
        return Ok(());
    };
    let server = Server::start().await?;
    let redisson = java.impatient_client(&server, SHORT, DEAD).await?;
    let client = server.client(Client::builder().ttl(SHORT)).await?;
    let ours = RedissonFairLock::new(&client, "dead").wait_timeout(DEAD);
    let theirs = redisson.lock("fair", "dead");

    let guard = ours.acquire().await?;
    let (url, patience) = (server.url(), DEAD.as_millis().to_string());
    let mut dead = holder(&["redisson-fair", &url, "dead", &short(), &patience])?;
    queued(&server, "dead", 1).await?;
    let behind = theirs.begin("lock", "8")?;
    queued(&server, "dead", 2).await?;
    dead.kill().await?;
    guard.release().await?;
    let began = Instant::now();
    ensure!(timeout(LONG, JavaLock::end(behind)).await?? == "ok");
    println!("Java passed the dead one {:?} later", began.elapsed());

    // And now Java dies in the queue, and its holder too.
    let doomed = Java::start()?.context("there is Java")?;
    let other = doomed.impatient_client(&server, SHORT, DEAD).await?;
    let _dead = other.lock("fair", "dead").begin("lock", "9")?;
    queued(&server, "dead", 1).await?;
    let behind = waits(&ours);
    queued(&server, "dead", 2).await?;
    doomed.kill()?;
    ensure!(theirs.tell("unlock", "8").await? == "ok");
    let began = Instant::now();
    let guard = timeout(LONG, behind).await???;
    println!("Rust passed the dead one {:?} later", began.elapsed());
    guard.release().await?;
    is_tidy(&server, "dead").await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn what_the_dead_of_either_side_held_goes_to_the_first_in_the_queue() -> Result<()> {
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
    let mut dead = holder(&["redisson-fair", url, "held", &short(), "300000"])?;
    ensure!(first_line(&mut dead).await?.starts_with("held"));
    let theirs = redisson.lock("fair", "held");
    let behind = theirs.begin("lock", "8")?;
    queued(site, "held", 1).await?;
    dead.kill().await?;
    ensure!(timeout(PATIENCE, JavaLock::end(behind)).await?? == "ok");

    let behind = waits(&RedissonFairLock::new(client, "held"));
    queued(site, "held", 1).await?;
    java.kill()?;
    let guard = timeout(PATIENCE, behind).await???;
    ensure!(guard.release().await? == Released::Free);
    is_tidy(site, "held").await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn renewals_and_force_of_a_fair_lock_are_heeded_by_both_sides() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(SHORT).await?
    else {
        return Ok(());
    };
    heed_renewals_and_force(server, redisson, client).await
}

/// The lease of our client is [`SHORT`].
pub(crate) async fn heed_renewals_and_force(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
) -> Result<()> {
    let (theirs, ours) = (
        redisson.lock("fair", "kept"),
        RedissonFairLock::new(client, "kept"),
    );
    let guard = ours.acquire().await?;
    let end = Instant::now() + 2 * SHORT;
    while Instant::now() < end {
        ensure!(!theirs.ask("try", "7").await?);
        tokio::time::sleep(SHORT / 20).await;
    }
    guard.verify().await?;

    // Force in Java wakes the first, which is one of ours.
    let next = waits(&ours);
    queued(site, "kept", 1).await?;
    ensure!(theirs.ask("force", "").await?);
    let next = timeout(PATIENCE, next).await???;
    ensure!(timeout(PATIENCE, guard.lost()).await?.reason == LossReason::Gone);
    drop(guard);

    // And force here one of Java's.
    let behind = theirs.begin("lock", "8")?;
    queued(site, "kept", 1).await?;
    let holder = &ours.inspect().await?[0].holders[0];
    ensure!(ours.force_release(&holder.claim).await?);
    ensure!(timeout(PATIENCE, JavaLock::end(behind)).await?? == "ok");
    let waited = ours.acquire().wait_for(2 * SHORT).await;
    ensure!(waited.is_err(), "it came in beside a holder in Java");
    ensure!(theirs.tell("unlock", "8").await? == "ok");
    drop(next);
    is_tidy(site, "kept").await
}

/// Java's clock cannot be set here. What Redisson does if it is ahead is known: it drops the first.
#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_waiter_that_a_clock_has_thrown_out_is_served_behind_java() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    let (theirs, ours) = (
        redisson.lock("fair", "clock"),
        RedissonFairLock::new(client, "clock"),
    );
    ensure!(theirs.tell("lock", "7").await? == "ok");
    let thrown = waits(&ours);
    queued(server, "clock", 1).await?;
    let behind = theirs.begin("lock", "8")?;
    queued(server, "clock", 2).await?;
    // Its time is over, by everybody's clock.
    let first = queue(server, "clock").await?.swap_remove(0);
    let timeouts = "redisson_lock_timeout:{clock}";
    Site::command(server, &["ZADD", timeouts, "1", &first]).await?;
    ensure!(!theirs.ask("try", "9").await?);
    let thread = format!("{}:8", redisson.id);
    let changed = async {
        while queue(server, "clock").await? != [thread.as_str(), &first] {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, changed).await??;
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    ensure!(timeout(PATIENCE, JavaLock::end(behind)).await?? == "ok");
    ensure!(!thrown.is_finished());
    ensure!(theirs.tell("unlock", "8").await? == "ok");
    timeout(PATIENCE, thrown).await???.release().await?;
    is_tidy(server, "clock").await
}
