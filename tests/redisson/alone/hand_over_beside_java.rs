//! Hundreds of hand-overs between two Javas and between Java and here, of each kind that is held. Each comes by a message, and those with one side
//! here take no more than twice as long as those in Java. The test prints how long they take: `cargo test --all-features --package lockkeeper-tests --test redisson alone::hand_over_beside_java -- --include-ignored --nocapture`.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::{
    RedissonFairLock, RedissonFencedLock, RedissonLock, RedissonPermitExpirableSemaphore,
    RedissonReadWriteLock, RedissonSemaphore,
};
use lockkeeper::{Client, Guard as _, Lock};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::PATIENCE;
use tokio::sync::oneshot::Receiver;
use tokio::time::{sleep, timeout};

use crate::beside_java::{LONG, OWN_POLL, Pair, SELDOM};
use crate::java::{Java, JavaClient, JavaLock};

/// Of each kind, each way.
const ROUNDS: usize = 100;

/// How much slower than from Java to Java the median may be, at most, and what a busy machine may add.
const RATIO: u32 = 2;
const NOISE: Duration = Duration::from_millis(5);

/// For how long a waiter waits before the holder lets go, so that it has subscribed and asked once more.
const REST: Duration = Duration::from_millis(20);

/// What Java calls one kind, and what it is told to do with it.
struct Words {
    kind: &'static str,
    acquire: [&'static str; 2],
    /// What is released: a word, or what the acquire answered.
    release: Option<&'static str>,
}

impl Words {
    const fn of_lock(kind: &'static str) -> Self {
        Self {
            kind,
            acquire: ["lock", "7"],
            release: Some("7"),
        }
    }

    async fn acquire(&self, lock: &JavaLock) -> Result<String> {
        lock.tell(self.acquire[0], self.acquire[1]).await
    }

    async fn release(&self, lock: &JavaLock, answer: &str) -> Result<()> {
        let [verb, _] = self.acquire;
        let verb = if verb == "lock" { "unlock" } else { "release" };
        let answer = lock.tell(verb, self.release.unwrap_or(answer)).await?;
        ensure!(answer == "ok" || answer == "true", "{answer}");
        Ok(())
    }

    /// A thread in Java waits, and would hear any message: it has not been let in.
    async fn begin(&self, lock: &JavaLock) -> Result<Receiver<String>> {
        let [verb, word] = self.acquire;
        let waiting = lock.begin(verb, word)?;
        if ["lock", "fenced", "write"].contains(&self.kind) {
            lock.waiters(1).await?;
        }
        sleep(REST).await;
        ensure!(waiting.is_empty(), "Java came in beside a holder");
        Ok(waiting)
    }
}

/// Both sides of a name.
struct Sides<'a, L> {
    words: &'a Words,
    theirs: [JavaLock; 2],
    ours: L,
}

impl<L: Lock> Sides<'_, L> {
    /// From one Java to another.
    async fn in_java(&self) -> Result<Duration> {
        let [holder, _] = &self.theirs;
        let held = self.words.acquire(holder).await?;
        self.wakes_java(self.words.release(holder, &held)).await
    }

    /// From Java to here.
    async fn to_us(&self) -> Result<Duration> {
        let [holder, _] = &self.theirs;
        let held = self.words.acquire(holder).await?;
        let waits = Instant::now();
        let waiting = tokio::spawn({
            let ours = self.ours.clone();
            async move {
                let guard = ours.acquire().await?;
                anyhow::Ok((guard, Instant::now()))
            }
        });
        sleep(REST).await;
        ensure!(!waiting.is_finished(), "it came in beside a holder in Java");
        let began = Instant::now();
        let released = self.words.release(holder, &held);
        let (released, woken) = tokio::join!(released, timeout(PATIENCE, waiting));
        released?;
        let (guard, woken) = woken.context("a waiter here was not woken by Java")???;
        ensure!(
            woken - waits < OWN_POLL,
            "a waiter here may have asked by itself"
        );
        guard.release().await?;
        Ok(woken - began)
    }

    /// From here to Java.
    async fn to_java(&self) -> Result<Duration> {
        let guard = self.ours.acquire().await?;
        let release = async {
            guard.release().await?;
            Ok(())
        };
        self.wakes_java(release).await
    }

    /// From this release to the waiter in the other Java.
    async fn wakes_java(&self, release: impl Future<Output = Result<()>>) -> Result<Duration> {
        let [_, waiter] = &self.theirs;
        let waiting = self.words.begin(waiter).await?;
        let began = Instant::now();
        let woken = async {
            let answer = JavaLock::end(waiting).await?;
            anyhow::Ok((answer, began.elapsed()))
        };
        let (released, woken) = tokio::join!(release, timeout(PATIENCE, woken));
        released?;
        let (answer, time) = woken.context("a waiter in Java was not woken")??;
        self.words.release(waiter, &answer).await?;
        Ok(time)
    }

    /// All ways, in turns; the medians.
    async fn measure(&self) -> Result<()> {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            times[0].push(self.in_java().await?);
            times[1].push(self.to_us().await?);
            times[2].push(self.to_java().await?);
        }
        let [in_java, to_us, to_java] = times.map(|mut times| {
            times.sort();
            times[ROUNDS / 2]
        });
        let ratio = |time: Duration| time.div_duration_f64(in_java);
        println!(
            "{:10} Java to Java {in_java:.2?}, Java to here {to_us:.2?} ({:.2} ×), here to Java {to_java:.2?} ({:.2} ×)",
            self.words.kind,
            ratio(to_us),
            ratio(to_java),
        );
        for time in [to_us, to_java] {
            ensure!(
                time <= RATIO * in_java + NOISE,
                "{}: {time:?}",
                self.words.kind
            );
        }
        Ok(())
    }
}

/// By a name that is the kind's word too.
async fn measure<L: Lock>(javas: &[JavaClient; 2], words: &Words, ours: L) -> Result<()> {
    let theirs = javas
        .each_ref()
        .map(|java| java.lock(words.kind, words.kind));
    Sides {
        words,
        theirs,
        ours,
    }
    .measure()
    .await
}

#[tokio::test]
#[ignore = "long: `cargo xtask prove` runs it"]
async fn every_hand_over_of_every_kind_comes_by_a_message() -> Result<()> {
    let Some(Pair {
        server,
        redisson,
        client,
        ..
    }) = &Pair::start_with(LONG, Client::builder().waiter_ttl(SELDOM)).await?
    else {
        return Ok(());
    };
    let other = Java::start()?.context("there is Java")?;
    let javas = &[redisson.clone(), other.client(server, LONG).await?];
    let of_lock = Words::of_lock;
    measure(javas, &of_lock("lock"), RedissonLock::new(client, "lock")).await?;
    measure(
        javas,
        &of_lock("fenced"),
        RedissonFencedLock::new(client, "fenced"),
    )
    .await?;
    measure(
        javas,
        &of_lock("fair"),
        RedissonFairLock::new(client, "fair"),
    )
    .await?;
    let writer = RedissonReadWriteLock::new(client, "write").writer();
    measure(javas, &of_lock("write"), writer).await?;
    let semaphore = Words {
        kind: "semaphore",
        acquire: ["acquire", "1"],
        release: Some("1"),
    };
    set_one(javas, &semaphore).await?;
    measure(
        javas,
        &semaphore,
        RedissonSemaphore::new(client, "semaphore"),
    )
    .await?;
    let permits = Words {
        kind: "permits",
        acquire: ["acquire", "600000"],
        release: None,
    };
    set_one(javas, &permits).await?;
    let ours = RedissonPermitExpirableSemaphore::new(client, "permits");
    measure(javas, &permits, ours).await?;
    nothing_is_left(server).await
}

/// One permit, so that each holder keeps all others out.
async fn set_one(javas: &[JavaClient; 2], words: &Words) -> Result<()> {
    ensure!(
        javas[0]
            .lock(words.kind, words.kind)
            .ask("set", "1")
            .await?
    );
    Ok(())
}

async fn nothing_is_left(server: &Server) -> Result<()> {
    for name in ["lock", "fenced", "fair", "write"] {
        ensure!(server.command(&["EXISTS", name]).await?.into_integer()? == 0);
    }
    for name in ["semaphore", "permits"] {
        ensure!(server.command(&["EXISTS", name]).await?.into_integer()? == 1);
    }
    Ok(())
}
