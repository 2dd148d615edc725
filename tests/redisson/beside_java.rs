//! Beside a live Redisson: both sides exclude one another, wake one another, and free what the dead of the other side held.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::{RedissonFencedLock, RedissonLock, RedissonReadWriteLock};
use lockkeeper::{Client, ClientBuilder, Error, Lock as _, LossReason, Owner, Released};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::java::{Java, JavaClient, JavaLock};

/// Far above [`PATIENCE`]. A waiter in Java that is served before was woken by a message: it asks by itself only when a lease would have ended.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A waiter here asks by itself this long after it last asked, whatever messages come.
pub(crate) const OWN_POLL: Duration = Duration::from_secs(5);

/// A time in which a waiter of a fair queue sends three heartbeats: too rarely to explain anything that comes within [`PATIENCE`].
pub(crate) const SELDOM: Duration = LONG;

/// A lease that is renewed, or ends, within a test. A JVM on a busy machine may stand still for a second.
pub(crate) const SHORT: Duration = Duration::from_secs(4);

/// It as a program takes it.
pub(crate) fn short() -> String {
    SHORT.as_millis().to_string()
}

/// A server, a Redisson and a client of ours on it, both with leases of this length.
pub(crate) struct Pair {
    pub(crate) server: Server,
    pub(crate) java: Arc<Java>,
    pub(crate) redisson: JavaClient,
    pub(crate) client: Client,
}

impl Pair {
    pub(crate) async fn start(ttl: Duration) -> Result<Option<Self>> {
        Self::start_with(ttl, Client::builder()).await
    }

    /// The same, with more settings for our client.
    pub(crate) async fn start_with(ttl: Duration, settings: ClientBuilder) -> Result<Option<Self>> {
        let Some(java) = Java::start()? else {
            return Ok(None);
        };
        let server = Server::start().await?;
        let redisson = java.client(&server, ttl).await?;
        let settings = settings.ttl(ttl).request_timeout(PATIENCE);
        let client = server.client(settings.release_timeout(PATIENCE)).await?;
        Ok(Some(Self {
            server,
            java,
            redisson,
            client,
        }))
    }
}

/// Shows that a message of Java wakes a waiter here. The attempt gets a name of its own, and returns how long after the waiter began it was served.
/// A lost message makes every attempt as long as [`OWN_POLL`]; a busy machine makes some of them as long, which prove nothing.
pub(crate) async fn by_message(
    name: &str,
    attempt: impl AsyncFn(&str) -> Result<Duration>,
) -> Result<()> {
    let begun = Instant::now();
    for number in 0.. {
        let took = attempt(&format!("{name}:{number}")).await?;
        if took < OWN_POLL {
            break;
        }
        println!("{took:?} prove nothing, once more");
        let in_time = begun.elapsed() < PATIENCE;
        ensure!(in_time, "no waiter here was woken by a message of Java");
    }
    Ok(())
}

/// A program of ours.
pub(crate) fn holder(words: &[&str]) -> Result<Child> {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_holder"));
    let holder = holder.args(words).stdout(Stdio::piped());
    Ok(holder.kill_on_drop(true).spawn()?)
}

/// The first line that it says.
pub(crate) async fn first_line(holder: &mut Child) -> Result<String> {
    first_line_within(LONG, holder).await
}

/// The same, of one that works for a while before.
async fn first_line_within(limit: Duration, holder: &mut Child) -> Result<String> {
    let output = holder.stdout.take().context("no output")?;
    let mut lines = BufReader::new(output).lines();
    let line = timeout(limit, lines.next_line()).await??;
    line.context("it has ended")
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn each_side_keeps_the_other_out() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    keep_one_another_out(redisson, client, "exclusion").await
}

/// Each kind of Java is tried while each of ours holds, and the other way round.
pub(crate) async fn keep_one_another_out(
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<()> {
    for kind in ["lock", "fenced"] {
        let name = format!("{name}:{kind}");
        let (theirs, ours) = (redisson.lock(kind, &name), RedissonLock::new(client, &name));
        let fenced = RedissonFencedLock::new(client, &name);
        ensure!(theirs.ask("try", "7").await?);
        ensure!(ours.try_acquire().await?.is_none() && fenced.try_acquire().await?.is_none());
        ensure!(theirs.tell("unlock", "7").await? == "ok");

        let guard = ours.try_acquire().await?.context("it is free")?;
        ensure!(!theirs.ask("try", "7").await?);
        ensure!(theirs.ask("locked", "").await?);
        guard.release().await?;
        ensure!(!theirs.ask("locked", "").await?);

        let guard = fenced.try_acquire().await?.context("it is free")?;
        ensure!(!theirs.ask("try", "7").await?);
        guard.release().await?;
        ensure!(theirs.ask("try", "7").await?);
        ensure!(theirs.tell("unlock", "7").await? == "ok");
    }
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
        let (theirs, ours) = (redisson.lock("lock", name), RedissonLock::new(client, name));
        wake_one_another(server, &theirs, &ours, name).await
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
            let (theirs, ours) = (
                redisson.lock("lock", name),
                RedissonLock::new(&client, name),
            );
            wake_one_another(&*cluster, &theirs, &ours, name).await
        })
        .await?;
    }
    Ok(())
}

/// Each side holds once, and lets the other in by its message, long before a lease ends. Returns how long the waiter here waited.
pub(crate) async fn wake_one_another(
    site: &dyn Site,
    theirs: &JavaLock,
    ours: &RedissonLock,
    key: &str,
) -> Result<Duration> {
    let channel = &format!("redisson_lock__channel:{{{key}}}");
    ensure!(theirs.tell("lock", "7").await? == "ok");
    let waits = Instant::now();
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire().await }
    });
    while site.listeners(channel).await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = Instant::now();
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    let guard = timeout(PATIENCE, waiting).await???;
    let waited = waits.elapsed();
    println!("woken by Java after {:?}", began.elapsed());

    let waiting = theirs.begin("lock", "8")?;
    while site.listeners(channel).await? < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = Instant::now();
    guard.release().await?;
    ensure!(timeout(PATIENCE, JavaLock::end(waiting)).await?? == "ok");
    println!("Java woken after {:?}", began.elapsed());
    ensure!(theirs.tell("unlock", "8").await? == "ok");
    Ok(waited)
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn re_entries_of_either_side_are_counted() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    count_re_entries(redisson, client, "counts").await
}

pub(crate) async fn count_re_entries(
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<()> {
    let (theirs, ours) = (redisson.lock("lock", name), RedissonLock::new(client, name));
    ensure!(theirs.ask("try", "7").await? && theirs.ask("try", "7").await?);
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    ensure!(ours.try_acquire().await?.is_none());
    ensure!(theirs.tell("unlock", "7").await? == "ok");

    let outer = ours.try_acquire().await?.context("it is free")?;
    let inner = outer.reenter().await?;
    outer.release().await?;
    ensure!(!theirs.ask("try", "7").await?);
    ensure!(inner.release().await? == Released::Free);
    ensure!(theirs.ask("try", "7").await?);

    // One that acts for the thread in Java is that thread.
    let thread: Owner = format!("{}:7", redisson.id).parse()?;
    let guard = ours.try_acquire().owner(&thread).await?;
    let guard = guard.context("the thread holds")?;
    ensure!(theirs.tell("unlock", "7").await? == "ok");
    ensure!(theirs.ask("held", "7").await?);
    guard.verify().await?;
    ensure!(guard.release().await? == Released::Free);
    ensure!(!theirs.ask("locked", "").await?);
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
    let (theirs, ours) = (
        redisson.lock("lock", "kept"),
        RedissonLock::new(client, "kept"),
    );
    let guard = ours.acquire().await?;
    let end = Instant::now() + 2 * SHORT;
    while Instant::now() < end {
        ensure!(!theirs.ask("try", "7").await?);
        tokio::time::sleep(SHORT / 20).await;
    }
    guard.verify().await?;
    guard.release().await?;

    ensure!(theirs.tell("lock", "7").await? == "ok");
    let waited = ours.acquire().wait_for(2 * SHORT).await;
    ensure!(waited.is_err(), "it came in beside a holder in Java");
    ensure!(theirs.ask("held", "7").await?);
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
    force_one_another(redisson, client, "forced").await
}

/// The lease of our client is [`SHORT`].
pub(crate) async fn force_one_another(
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<()> {
    let (theirs, ours) = (redisson.lock("lock", name), RedissonLock::new(client, name));
    let guard = ours.acquire().await?;
    ensure!(ours.inspect().await?[0].holders[0].owner == Some(guard.owner()));
    ensure!(theirs.ask("force", "").await?);
    ensure!(theirs.ask("try", "7").await?);
    ensure!(timeout(PATIENCE, guard.lost()).await?.reason == LossReason::Gone);
    drop(guard);
    ensure!(theirs.ask("held", "7").await?);

    // A holder in Java is one without an owner that is known here.
    let thread = format!("{}:7", redisson.id);
    let seen = ours.inspect().await?;
    ensure!(seen[0].holders[0].claim == thread && seen[0].holders[0].owner.is_none());
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire().await }
    });
    ensure!(ours.force_release(&thread).await?);
    let guard = timeout(PATIENCE, waiting).await???;
    ensure!(!theirs.ask("held", "7").await?);
    ensure!(theirs.tell("unlock", "7").await?.starts_with("error"));
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
    outlive_one_another(&server.url(), java, redisson, client, "dead").await
}

/// All leases are [`SHORT`]. Java is dead after this.
pub(crate) async fn outlive_one_another(
    url: &str,
    java: &Java,
    redisson: &JavaClient,
    client: &Client,
    name: &str,
) -> Result<()> {
    let mut ours = holder(&["redisson", url, name, &short()])?;
    ensure!(first_line(&mut ours).await?.starts_with("held"));
    let theirs = redisson.lock("lock", name);
    let waiting = theirs.begin("lock", "7")?;
    ours.kill().await?;
    let began = Instant::now();
    ensure!(timeout(PATIENCE, JavaLock::end(waiting)).await?? == "ok");
    println!("free for Java {:?} after the death", began.elapsed());

    let waiting = tokio::spawn({
        let ours = RedissonLock::new(client, name);
        async move { ours.acquire().await }
    });
    java.kill()?;
    let began = Instant::now();
    let guard = timeout(PATIENCE, waiting).await???;
    println!("free for Rust {:?} after the death", began.elapsed());
    ensure!(guard.release().await? == Released::Free);
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_number_that_all_read_and_write_loses_nothing() -> Result<()> {
    count(250, LONG).await
}

#[tokio::test]
#[ignore = "long: `cargo xtask prove` runs it"]
async fn a_number_that_is_written_a_hundred_thousand_times_loses_nothing() -> Result<()> {
    count(25_000, 2 * LONG).await
}

/// Two processes of each side increment a number, each so many times, and each side within this time.
async fn count(rounds: u64, limit: Duration) -> Result<()> {
    let Some(Pair {
        server, redisson, ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    let other = Java::start()?.context("there is Java")?;
    let clients = [redisson.clone(), other.client(server, LONG).await?];
    server.command(&["SET", "number", "0"]).await?;
    let (url, each) = (server.url(), rounds.to_string());
    let words = ["redisson-count", &url, "counted", "number", &each];
    let mut ours = [holder(&words)?, holder(&words)?];
    let words = format!("{each} number");
    let locks = clients.map(|client| client.lock("lock", "counted"));
    let theirs = locks.each_ref().map(|lock| lock.begin("count", &words));
    for counting in theirs {
        ensure!(timeout(limit, counting?).await?? == "ok");
    }
    for counting in &mut ours {
        ensure!(first_line_within(limit, counting).await? == "done");
        ensure!(timeout(LONG, counting.wait()).await??.success());
    }
    let number = server.command(&["GET", "number"]).await?.into_text()?;
    ensure!(number == (4 * rounds).to_string(), "{number}");
    ensure!(
        server
            .command(&["EXISTS", "counted"])
            .await?
            .into_integer()?
            == 0
    );
    Ok(())
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn tokens_of_a_fenced_lock_grow_from_side_to_side() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    let theirs = redisson.lock("fenced", "fenced");
    let ours = RedissonFencedLock::new(client, "fenced");
    let mut last = 0;
    for _ in 0..3 {
        let guard = ours.acquire().await?;
        ensure!(guard.fencing_token().get() > last);
        last = guard.fencing_token().get();
        ensure!(!theirs.ask("try", "7").await?);
        guard.release().await?;
        let token: u64 = theirs.tell("token", "").await?.parse()?;
        ensure!(token > last, "{token} after {last}");
        last = token;
        ensure!(theirs.ask("force", "").await?);
    }
    Ok(())
}

/// What the page warns of. Here the two refuse one another.
#[tokio::test]
#[ignore = "long: beside Java"]
async fn a_read_write_lock_in_java_takes_a_name_that_a_lock_holds() -> Result<()> {
    let Some(Pair {
        redisson, client, ..
    }) = &Pair::start(LONG).await?
    else {
        return Ok(());
    };
    for kind in ["read", "write"] {
        let lock = RedissonLock::new(client, kind);
        let guard = lock.acquire().await?;
        let theirs = redisson.lock(kind, kind);
        ensure!(theirs.ask("try", "7").await?, "{kind}: it is refused");
        guard.verify().await?;
        let refused = lock.try_acquire().await;
        ensure!(matches!(refused, Err(Error::WrongKind { .. })));
        ensure!(guard.release().await? == Released::Free);
        ensure!(!theirs.ask("held", "7").await?, "{kind}: it still holds");
    }
    // The other way round they exclude one another.
    let guard = RedissonReadWriteLock::new(client, "other").write().await?;
    ensure!(!redisson.lock("lock", "other").ask("try", "7").await?);
    guard.release().await?;
    Ok(())
}
