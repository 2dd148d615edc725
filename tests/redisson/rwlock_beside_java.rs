//! An `RReadWriteLock` beside a live Redisson: readers of both sides read together, writers of either side exclude all, both sides wake one another,
//! and free what the dead of the other side held.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::{RedissonReadGuard, RedissonReadWriteLock, RedissonWriteGuard};
use lockkeeper::{Client, LossReason, Owner, Released};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::beside_java::{LONG, Pair, SHORT, by_message, first_line, holder, short};
use crate::java::{Java, JavaClient, JavaLock};

/// A name of both sides.
struct Both {
    theirs_to_read: JavaLock,
    theirs_to_write: JavaLock,
    ours: RedissonReadWriteLock,
}

impl Both {
    fn new(redisson: &JavaClient, client: &Client, name: &str) -> Self {
        Self {
            theirs_to_read: redisson.lock("read", name),
            theirs_to_write: redisson.lock("write", name),
            ours: RedissonReadWriteLock::new(client, name),
        }
    }

    fn reads(&self) -> JoinHandle<lockkeeper::Result<RedissonReadGuard>> {
        let ours = self.ours.clone();
        tokio::spawn(async move { ours.read().await })
    }

    fn writes(&self) -> JoinHandle<lockkeeper::Result<RedissonWriteGuard>> {
        let ours = self.ours.clone();
        tokio::spawn(async move { ours.write().await })
    }
}

/// Until somebody waits for the name here.
async fn waiter(site: &dyn Site, name: &str) -> Result<()> {
    let channel = &format!("redisson_rwlock:{{{name}}}");
    while site.listeners(channel).await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn readers_of_both_sides_read_together_and_writers_of_either_exclude_all() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    read_together_and_write_alone(server, redisson, client).await
}

/// Readers of both sides, and writers of either.
pub(crate) async fn read_together_and_write_alone(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
) -> Result<()> {
    let Both {
        theirs_to_read,
        theirs_to_write,
        ours,
    } = &Both::new(redisson, client, "both");
    ensure!(theirs_to_read.ask("try", "7").await?);
    let reading = ours.try_read().await?.context("Java reads")?;
    ensure!(theirs_to_read.ask("try", "8").await?);
    ensure!(ours.try_write().await?.is_none() && !theirs_to_write.ask("try", "9").await?);
    for thread in ["7", "8"] {
        ensure!(theirs_to_read.tell("unlock", thread).await? == "ok");
    }
    reading.verify().await?;
    ensure!(ours.try_write().await?.is_none() && !theirs_to_write.ask("try", "9").await?);
    ensure!(theirs_to_read.ask("try", "7").await?);
    reading.release().await?;
    ensure!(ours.try_write().await?.is_none());
    ensure!(theirs_to_read.tell("unlock", "7").await? == "ok");

    ensure!(theirs_to_write.ask("try", "7").await?);
    ensure!(ours.try_read().await?.is_none() && ours.try_write().await?.is_none());
    ensure!(theirs_to_write.tell("unlock", "7").await? == "ok");
    let writing = ours.try_write().await?.context("it is free")?;
    ensure!(!theirs_to_read.ask("try", "7").await? && !theirs_to_write.ask("try", "7").await?);
    ensure!(writing.release().await? == Released::Free);
    ensure!(theirs_to_write.ask("try", "7").await?);
    ensure!(theirs_to_write.tell("unlock", "7").await? == "ok");
    ensure!(site.command(&["EXISTS", "both"]).await? == "0");
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
    by_message("wake", async |name| {
        wake_one_another(server, redisson, client, name).await
    })
    .await
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
    for name in ["wake", "another", "third"] {
        by_message(name, async |name| {
            wake_one_another(&*cluster, &redisson, &client, name).await
        })
        .await?;
    }
    Ok(())
}

/// Writers and readers of each side let those of the other in by their message, long before a lease ends. Returns how long those here waited at most.
async fn wake_one_another(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<Duration> {
    let both = Both::new(redisson, client, name);
    // A writer in Java lets all readers here in.
    ensure!(both.theirs_to_write.tell("lock", "7").await? == "ok");
    let waits = Instant::now();
    let waiting = [both.reads(), both.reads(), both.reads()];
    waiter(site, name).await?;
    ensure!(both.theirs_to_write.tell("unlock", "7").await? == "ok");
    let mut guards = Vec::new();
    for reading in waiting {
        guards.push(timeout(PATIENCE, reading).await???);
    }
    let readers_waited = waits.elapsed();
    // The last of them lets a writer in Java in.
    let waiting = both.theirs_to_write.begin("lock", "8")?;
    both.theirs_to_write.waiters(1).await?;
    for guard in guards {
        guard.release().await?;
    }
    ensure!(timeout(PATIENCE, JavaLock::end(waiting)).await?? == "ok");
    ensure!(both.theirs_to_write.tell("unlock", "8").await? == "ok");

    // A reader in Java lets a writer here in, and that readers in Java. Nobody here has listened to this name before.
    let name = &format!("{name}:again");
    let both = Both::new(redisson, client, name);
    ensure!(both.theirs_to_read.tell("lock", "7").await? == "ok");
    let waits = Instant::now();
    let writing = both.writes();
    waiter(site, name).await?;
    ensure!(both.theirs_to_read.tell("unlock", "7").await? == "ok");
    let guard = timeout(PATIENCE, writing).await???;
    let writer_waited = waits.elapsed();
    let waiting = ["8", "9"].map(|thread| both.theirs_to_read.begin("lock", thread));
    both.theirs_to_read.waiters(2).await?;
    guard.release().await?;
    for reading in waiting {
        ensure!(timeout(PATIENCE, JavaLock::end(reading?)).await?? == "ok");
    }
    for thread in ["8", "9"] {
        ensure!(both.theirs_to_read.tell("unlock", thread).await? == "ok");
    }
    Ok(readers_waited.max(writer_waited))
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_write_here_that_ends_before_its_read_wakes_readers_in_java() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    let both = Both::new(redisson, client, "downgrade");
    let writing = both.ours.write().await?;
    let reading = writing.read().await?;
    let waiting = both.theirs_to_read.begin("lock", "7")?;
    both.theirs_to_read.waiters(1).await?;
    ensure!(writing.release().await? == Released::StillHeld(1));
    ensure!(timeout(PATIENCE, JavaLock::end(waiting)).await?? == "ok");
    reading.verify().await?;
    ensure!(!both.theirs_to_write.ask("try", "8").await?);
    reading.release().await?;
    ensure!(both.theirs_to_read.tell("unlock", "7").await? == "ok");
    ensure!(both.theirs_to_write.ask("try", "8").await?);
    Ok(())
}

/// Redisson sends no message then, and its own readers wait for the lease.
#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_reader_here_looks_by_itself_after_a_downgrade_in_java() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    let both = Both::new(redisson, client, "downgraded");
    ensure!(both.theirs_to_write.tell("lock", "7").await? == "ok");
    ensure!(both.theirs_to_read.tell("lock", "7").await? == "ok");
    let reading = both.reads();
    waiter(server, "downgraded").await?;
    ensure!(both.theirs_to_write.tell("unlock", "7").await? == "ok");
    let since = Instant::now();
    let guard = timeout(PATIENCE, reading).await???;
    println!("it waited {:?}", since.elapsed());
    guard.release().await?;
    ensure!(both.theirs_to_read.tell("unlock", "7").await? == "ok");
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn re_entries_of_either_side_are_counted_and_an_owner_may_be_shared() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    count_re_entries(server, redisson, client).await
}

/// A thread in Java and a claim here are one owner.
pub(crate) async fn count_re_entries(
    site: &dyn Site,
    redisson: &JavaClient,
    client: &Client,
) -> Result<()> {
    let Both {
        theirs_to_read,
        theirs_to_write,
        ours,
    } = &Both::new(redisson, client, "counts");
    let outer = ours.read().await?;
    let inner = outer.reenter().await?;
    outer.release().await?;
    ensure!(!theirs_to_write.ask("try", "7").await?);
    ensure!(inner.release().await? == Released::Free);

    // One that acts for the thread in Java is that thread, and each side gives back what is its own.
    let thread: Owner = format!("{}:7", redisson.id).parse()?;
    ensure!(theirs_to_write.ask("try", "7").await?);
    let reading = ours.try_read().owner(&thread).await?;
    let reading = reading.context("the thread writes")?;
    ensure!(theirs_to_read.ask("try", "7").await?);
    ensure!(theirs_to_write.tell("unlock", "7").await? == "ok");
    reading.verify().await?;
    ensure!(ours.try_write().await?.is_none());
    ensure!(theirs_to_read.tell("unlock", "7").await? == "ok");
    reading.verify().await?;
    ensure!(theirs_to_read.ask("held", "7").await?);
    ensure!(!theirs_to_write.ask("try", "8").await?);
    ensure!(theirs_to_read.ask("try", "7").await?);
    ensure!(reading.release().await? == Released::StillHeld(1));
    ensure!(!theirs_to_write.ask("try", "8").await?);
    ensure!(theirs_to_read.tell("unlock", "7").await? == "ok");
    ensure!(site.command(&["EXISTS", "counts"]).await? == "0");
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn an_unlock_in_java_leaves_readers_here_their_lease() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    let both = Both::new(redisson, client, "leases");
    let guard = both.ours.read().no_renewal().await?;
    let again = guard.reenter().await?;
    ensure!(both.theirs_to_read.tell("lease", "7 60000").await? == "ok");
    ensure!(both.theirs_to_read.tell("unlock", "7").await? == "ok");
    let left = server.command(&["PTTL", "leases"]).await?.into_integer()?;
    ensure!(left > 300_000, "{left}");
    guard.verify().await?;
    again.verify().await?;
    again.release().await?;
    ensure!(both.theirs_to_read.tell("lease", "7 60000").await? == "ok");
    ensure!(both.theirs_to_read.tell("unlock", "7").await? == "ok");
    guard.verify().await?;
    Ok(())
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
    let both = Both::new(redisson, client, "kept");
    let guard = both.ours.read().await?;
    // A reader in Java beside it comes and goes.
    ensure!(both.theirs_to_read.tell("lock", "7").await? == "ok");
    let end = Instant::now() + 2 * SHORT;
    while Instant::now() < end {
        ensure!(!both.theirs_to_write.ask("try", "8").await?);
        tokio::time::sleep(SHORT / 20).await;
    }
    guard.verify().await?;
    guard.release().await?;
    let waited = both.ours.write().wait_for(2 * SHORT).await;
    ensure!(waited.is_err(), "it came in beside a reader in Java");
    ensure!(both.theirs_to_read.ask("held", "7").await?);
    ensure!(both.theirs_to_read.tell("unlock", "7").await? == "ok");

    let guard = both.ours.write().await?;
    let end = Instant::now() + 2 * SHORT;
    while Instant::now() < end {
        ensure!(!both.theirs_to_read.ask("try", "7").await?);
        tokio::time::sleep(SHORT / 20).await;
    }
    guard.verify().await?;
    guard.release().await?;
    ensure!(both.theirs_to_write.tell("lock", "7").await? == "ok");
    let waited = both.ours.read().wait_for(2 * SHORT).await;
    ensure!(waited.is_err(), "it came in beside a writer in Java");
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn force_of_either_side_is_noticed_by_the_other() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(SHORT).await?
    else {
        return Ok(());
    };
    force_one_another(redisson, client).await
}

/// The lease of our client is [`SHORT`].
pub(crate) async fn force_one_another(redisson: &JavaClient, client: &Client) -> Result<()> {
    let both = Both::new(redisson, client, "forced");
    let guard = both.ours.read().await?;
    ensure!(both.theirs_to_read.ask("force", "").await?);
    ensure!(both.theirs_to_write.ask("try", "7").await?);
    ensure!(timeout(PATIENCE, guard.lost()).await?.reason == LossReason::Gone);
    drop(guard);
    ensure!(both.theirs_to_write.ask("held", "7").await?);

    let waiting = both.writes();
    let thread = format!("{}:7", redisson.id);
    ensure!(both.ours.force_release(&thread).await?);
    let guard = timeout(PATIENCE, waiting).await???;
    ensure!(!both.theirs_to_write.ask("held", "7").await?);
    ensure!(
        both.theirs_to_write
            .tell("unlock", "7")
            .await?
            .starts_with("error")
    );
    guard.verify().await?;
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn what_the_dead_of_either_side_held_is_free_in_time() -> Result<()> {
    let Some(Pair {
        server,
        java,
        redisson,
        client,
    }) = &Pair::start(SHORT).await?
    else {
        return Ok(());
    };
    outlive_one_another(&server.url(), java, redisson, client).await
}

/// All leases are [`SHORT`]. Java is dead after this.
pub(crate) async fn outlive_one_another(
    url: &str,
    java: &Java,
    redisson: &JavaClient,
    client: &Client,
) -> Result<()> {
    let both = Both::new(redisson, client, "dead");
    for held in ["redisson-read", "redisson-write"] {
        let mut ours = holder(&[held, url, "dead", &short()])?;
        ensure!(first_line(&mut ours).await?.starts_with("held"));
        let waiting = both.theirs_to_write.begin("lock", "7")?;
        ours.kill().await?;
        ensure!(timeout(PATIENCE, JavaLock::end(waiting)).await?? == "ok");
        ensure!(both.theirs_to_write.tell("unlock", "7").await? == "ok");
    }
    // One that is dead keeps nobody out of a name that others read, nor in.
    ensure!(both.theirs_to_read.tell("lock", "7").await? == "ok");
    let guard = both.ours.read().await?;
    let waiting = both.writes();
    java.kill()?;
    tokio::time::sleep(SHORT).await;
    guard.verify().await?;
    ensure!(!waiting.is_finished());
    guard.release().await?;
    let guard = timeout(PATIENCE, waiting).await???;
    ensure!(guard.release().await? == Released::Free);
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_number_that_all_write_loses_nothing_and_readers_see_none_of_it_change() -> Result<()> {
    const ROUNDS: u64 = 100;
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    server.command(&["SET", "number", "0"]).await?;
    let both = Both::new(redisson, client, "counted");
    let (url, rounds) = (server.url(), ROUNDS.to_string());
    let words = ["redisson-write-count", &url, "counted", "number", &rounds];
    let mut ours = [holder(&words)?, holder(&words)?];
    let words = format!("{rounds} number");
    let theirs = both.theirs_to_write.begin("count", &words)?;
    for _ in 0..ROUNDS / 2 {
        let guard = both.ours.read().await?;
        let seen = server.command(&["GET", "number"]).await?.into_text()?;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let still = server.command(&["GET", "number"]).await?.into_text()?;
        ensure!(seen == still, "{seen} became {still} while it was read");
        guard.release().await?;
    }
    ensure!(JavaLock::end(theirs).await? == "ok");
    for counting in &mut ours {
        ensure!(first_line(counting).await? == "done");
        ensure!(timeout(LONG, counting.wait()).await??.success());
    }
    let number = server.command(&["GET", "number"]).await?.into_text()?;
    ensure!(number == (3 * ROUNDS).to_string(), "{number}");
    Ok(())
}
