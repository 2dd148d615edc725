//! The stage: a server, the commands that are sent to it, and the text that is printed.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_examples::{Place, Redis};
use tokio::time::{Instant, sleep};

/// The key that everybody wants.
pub(crate) const LOCK: &str = "example:lock";

/// How long a lock lives by itself.
pub(crate) const LEASE: Duration = Duration::from_millis(800);

/// After this long it has certainly ended.
pub(crate) const OVER: Duration = LEASE.saturating_add(Duration::from_millis(50));

pub(crate) struct Stage {
    pub(crate) place: Place,
    embedded: bool,
    begun: Instant,
    number: u32,
    failures: u32,
    failed_now: bool,
}

impl Stage {
    pub(crate) async fn open(url: &str, embedded: bool) -> Result<Self> {
        Ok(Self {
            place: Place::open_at(url, "evolution").await?,
            embedded,
            begun: Instant::now(),
            number: 0,
            failures: 0,
            // The first generation has no predecessor that could have failed to fail.
            failed_now: true,
        })
    }

    /// Starts the next generation, on a server without the lock of the one before.
    pub(crate) async fn generation(&mut self, name: &str, idea: &str) -> Result<()> {
        ensure!(self.failed_now, "generation {} has not failed", self.number);
        self.number += 1;
        self.failed_now = false;
        println!("\n{}. {name}: {idea}", self.number);
        self.free().await
    }

    /// Starts again without the lock.
    pub(crate) async fn free(&self) -> Result<()> {
        self.place.redis.command(&["DEL", LOCK]).await?;
        Ok(())
    }

    /// Sends a command and prints it with its answer.
    pub(crate) async fn send(&self, who: &str, words: &[&str]) -> Result<Option<String>> {
        let answer = self.place.redis.command(words).await?;
        show(who, &words.join(" "), answer.as_deref());
        Ok(answer)
    }

    /// Runs a script on the lock and prints it under a name.
    pub(crate) async fn script(
        &self,
        who: &str,
        name: &str,
        script: &str,
        args: &[&str],
    ) -> Result<Option<String>> {
        let answer = self.place.redis.script(script, LOCK, args).await?;
        show(
            who,
            &format!("{name} {}", args.join(" ")),
            answer.as_deref(),
        );
        Ok(answer)
    }

    /// Prints what somebody does.
    pub(crate) fn tell(&self, who: &str, what: impl AsRef<str>) {
        println!("     {who:<6} {}", what.as_ref());
    }

    /// Prints what this generation is good for, which must be true.
    pub(crate) fn repaired(&self, what: &str, seen: bool) -> Result<()> {
        ensure!(
            seen,
            "generation {} was to repair this: {what}",
            self.number
        );
        println!("   + {what}");
        Ok(())
    }

    /// Prints how this generation fails, which must happen.
    pub(crate) fn broken(&mut self, what: &str, seen: bool) -> Result<()> {
        ensure!(seen, "generation {} was to fail: {what}", self.number);
        println!("   - BROKEN: {what}");
        self.failures += 1;
        self.failed_now = true;
        Ok(())
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        println!("            … {} ms pass", time.as_millis());
        sleep(time).await;
    }

    /// Waits for as long as anybody would; on a server, for two seconds.
    pub(crate) async fn pass_an_hour(&self) {
        let (hour, words) = if self.embedded {
            (Duration::from_secs(3600), "an hour passes")
        } else {
            (Duration::from_secs(2), "two seconds stand for an hour")
        };
        println!("            … {words}");
        sleep(hour).await;
    }

    /// The clock of a client, ms, ahead of the others by `ahead`.
    pub(crate) fn clock(&self, ahead: Duration) -> u128 {
        (self.begun.elapsed() + ahead).as_millis() + 1_000_000
    }

    /// A failover to a replica that has missed the last write: for the lock it is as if the key had never existed.
    pub(crate) async fn fail_over(&self, key: &str) -> Result<()> {
        println!("            … the server dies; its replica had not heard of the lock");
        self.place.redis.command(&["DEL", key]).await?;
        Ok(())
    }

    pub(crate) async fn close(self) -> Result<()> {
        self.free().await?;
        self.place.close().await
    }
}

/// Whether a `SET … NX` took the lock.
pub(crate) fn taken(answer: Option<String>) -> bool {
    answer.as_deref() == Some("OK")
}

/// One more server, whose clock the program controls.
pub(crate) fn server() -> Redis {
    Redis::Memory(lockkeeper_memory::MemoryStore::new())
}

fn show(who: &str, words: &str, answer: Option<&str>) {
    println!("     {who:<6} {words:<46} -> {}", answer.unwrap_or("(nil)"));
}
