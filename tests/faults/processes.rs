//! Locks between processes on a real server: exclusion, and holders that are killed or stopped.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{FairLock, Mutex};
use lockkeeper_testkit::history::History;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::patient;

/// A time as the `holder` takes it.
pub(crate) fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

/// A running `holder` process, which ends with the test.
pub(crate) struct Holder {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    pub(crate) fn start(words: &[&str]) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_holder"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        Ok(Self { child, lines })
    }

    pub(crate) async fn line(&mut self) -> Result<String> {
        timeout(PATIENCE, self.lines.next_line())
            .await??
            .context("the holder ended")
    }

    /// Sends it this line.
    pub(crate) async fn send(&mut self, line: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("it has no input")?;
        Ok(input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Sends it this line and returns its next line.
    pub(crate) async fn tell(&mut self, line: &str) -> Result<String> {
        self.send(line).await?;
        self.line().await
    }

    /// Everything else that it prints until it ends successfully.
    pub(crate) async fn rest(&mut self) -> Result<Vec<String>> {
        let limit = PATIENCE + lockkeeper_testkit::recorded::duration();
        let mut lines = Vec::new();
        while let Some(line) = timeout(limit, self.lines.next_line()).await?? {
            lines.push(line);
        }
        ensure!(self.child.wait().await?.success(), "the holder failed");
        Ok(lines)
    }

    pub(crate) async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Kills it and returns what it had printed before.
    pub(crate) async fn last_words(mut self) -> Result<Vec<String>> {
        self.kill().await?;
        let mut lines = Vec::new();
        while let Some(line) = timeout(PATIENCE, self.lines.next_line()).await?? {
            lines.push(line);
        }
        Ok(lines)
    }

    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.id().context("the holder ended")?.to_string();
        let status = std::process::Command::new("kill")
            .args([signal, &pid])
            .status()?;
        ensure!(status.success(), "kill {signal} {pid}");
        Ok(())
    }
}

#[tokio::test]
async fn sixty_four_tasks_in_four_processes_never_overlap() -> Result<()> {
    let server = Server::start().await?;
    let mut holders = Vec::new();
    for _ in 0..4 {
        holders.push(Holder::start(&["work", &server.url(), "name", "16", "10"])?);
    }
    let history = History::default();
    for mut holder in holders {
        for line in holder.rest().await? {
            history.record(line.parse()?);
        }
    }
    let grants = history.check()?;
    ensure!(grants == 4 * 16 * 10, "{grants} grants");
    Ok(())
}

#[tokio::test]
async fn a_holder_killed_on_the_spot_lets_the_next_in_when_its_lease_ends() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let lock = Mutex::new(&client, "name");
    beyond_stalls(&server, Duration::from_secs(1), async |ttl| {
        let words = ["hold", &server.url(), "name", &millis(ttl)];
        let mut holder = Holder::start(&words)?;
        let held: u64 = holder.line().await?.trim_start_matches("held ").parse()?;
        ensure!(lock.try_acquire().await?.is_none());
        holder.kill().await?;
        let killed = Instant::now();
        let guard = lock.acquire().wait_for(PATIENCE).await?;
        assert!(guard.fencing_token().get() > held);
        // The lease had at most its ttl left; the rest is the jitter of the poll (at most 50 ms) and this machine.
        ensure!(killed.elapsed() < ttl * 2, "{:?}", killed.elapsed());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_holder_stopped_for_longer_than_its_ttl_knows_within_two_ttls_of_waking() -> Result<()> {
    let server = Server::start().await?;
    beyond_stalls(&server, Duration::from_millis(500), async |ttl| {
        let words = ["hold", &server.url(), "name", &millis(ttl)];
        let mut holder = Holder::start(&words)?;
        holder.line().await?;
        holder.signal("-STOP")?;
        timeout(PATIENCE, server.vanished("lockkeeper:name")).await??;
        holder.signal("-CONT")?;
        let woken = Instant::now();
        assert_eq!(holder.line().await?, "lost Expired and knows");
        ensure!(woken.elapsed() < ttl * 2, "{:?}", woken.elapsed());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_holder_told_to_let_go_frees_the_lock_at_once() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), patient()).await?;
    let mut holder = Holder::start(&["hold", &server.url(), "name", "600000"])?;
    holder.line().await?;
    let waiting = tokio::spawn(async move { Mutex::new(&client, "name").acquire().await });
    holder
        .child
        .stdin
        .take()
        .context("no input")?
        .write_all(b"\n")
        .await?;
    ensure!(holder.line().await? == "released");
    timeout(PATIENCE, waiting).await???.release().await?;
    Ok(())
}

#[tokio::test]
async fn two_hundred_waiters_of_four_processes_are_served_in_the_order_of_asking() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = FairLock::new(&client, "name").acquire().await?;
    let mut holders = Vec::new();
    for _ in 0..4 {
        let mut holder = Holder::start(&["queue", &server.url(), "name", "50", "600000"])?;
        ensure!(holder.line().await? == "queued");
        holders.push(holder);
    }
    let mut last = guard.fencing_token().get();
    guard.release().await?;
    for holder in &mut holders {
        for place in 0..50 {
            let line = holder.line().await?;
            let token = line.strip_prefix(&format!("served {place} "));
            let token: u64 = token.with_context(|| line.clone())?.parse()?;
            // The tokens give the order between processes.
            ensure!(token > last, "{line} after {last}");
            last = token;
        }
    }
    Ok(())
}

#[tokio::test]
async fn fifty_waiters_killed_on_the_spot_delay_the_next_by_one_waiter_ttl_and_a_heartbeat()
-> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    beyond_stalls(&server, Duration::from_secs(1), async |ttl| {
        let guard = FairLock::new(&client, "name").acquire().await?;
        let queue = async |waiters| {
            let words = ["queue", &server.url(), "name", waiters, &millis(ttl)];
            let mut holder = Holder::start(&words)?;
            ensure!(holder.line().await? == "queued");
            Ok(holder)
        };
        let (mut killed, mut next) = (queue("50").await?, queue("1").await?);
        killed.kill().await?;
        let released = Instant::now();
        guard.release().await?;
        ensure!(next.line().await?.starts_with("served 0 "));
        // One waiter ttl and one heartbeat, plus the delays of this machine.
        ensure!(
            released.elapsed() < ttl * 11 / 6,
            "{:?}",
            released.elapsed()
        );
        Ok(())
    })
    .await
}
