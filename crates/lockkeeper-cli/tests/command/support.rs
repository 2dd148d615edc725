//! The command as a test drives it: by its events, its output and its end, never by waiting for some time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader as SyncReader, Read as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Longer than anything here takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The command with these words, a server, and nothing of this process' environment that it heeds. Signals that whoever runs
/// the tests ignores, as `nohup` does, are not ignored by the command.
pub(crate) fn command(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_lockkeeper")]);
    command.args(words).kill_on_drop(true);
    clean(&mut command, url);
    command
}

fn clean(command: &mut Command, url: &str) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LOCKKEEPER_") {
            command.env_remove(name);
        }
    }
    command.env("LOCKKEEPER_URL", url);
}

/// What a command that has ended has said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the command to its end.
pub(crate) async fn said(url: &str, words: &[&str]) -> Result<Said> {
    let output = command(url, words).stdin(Stdio::null()).output();
    let output = timeout(LIMIT, output).await.context("it hangs")??;
    Ok(Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

/// A `run` under way that tells its events.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) child: Child,
    events: Lines<BufReader<ChildStderr>>,
}

impl Run {
    /// `lockkeeper run --json` with these words behind.
    pub(crate) fn start(server: &Server, words: &[&str]) -> Result<Self> {
        let words = [&["run", "--json"], words].concat();
        Self::spawn(command(&server.url(), &words))
    }

    /// The same as the first process of a PID namespace, whose session and group were made outside, as those of `docker exec`
    /// are. `None` if that may not be done here.
    pub(crate) async fn start_contained(server: &Server, words: &[&str]) -> Result<Option<Self>> {
        const CONTAIN: [&str; 4] = ["--fork", "--pid", "--mount-proc", "--kill-child"];
        let mut trial = Command::new("unshare");
        trial.args(CONTAIN).arg("true").stderr(Stdio::null());
        if !trial.status().await.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let mut command = Command::new("unshare");
        command.args(CONTAIN).arg(env!("CARGO_BIN_EXE_lockkeeper"));
        command.args(["run", "--json"]).args(words);
        clean(command.kill_on_drop(true), &server.url());
        Self::spawn(command).map(Some)
    }

    fn spawn(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("no stderr")?;
        Ok(Self {
            child,
            events: BufReader::new(stderr).lines(),
        })
    }

    /// The next event of this sort. What the program says beside them is skipped.
    pub(crate) async fn event(&mut self, sort: &str) -> Result<Value> {
        loop {
            let line = timeout(LIMIT, self.events.next_line()).await;
            let line = line.with_context(|| format!("no {sort}"))??;
            let line = line.with_context(|| format!("it ended without {sort}"))?;
            if !line.starts_with('{') {
                continue;
            }
            let event: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
            if event["event"] == sort {
                return Ok(event);
            }
        }
    }

    pub(crate) fn pid(&self) -> Result<Pid> {
        let id = self.child.id().context("it has ended")?;
        Pid::from_raw(id.cast_signed()).context("no process")
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    /// Its end, however it comes.
    pub(crate) async fn status(&mut self) -> Result<ExitStatus> {
        Ok(timeout(LIMIT, self.child.wait())
            .await
            .context("it hangs")??)
    }

    /// The exit code at its end.
    pub(crate) async fn code(&mut self) -> Result<i32> {
        self.status().await?.code().context("killed by a signal")
    }

    /// The next line of the program's output.
    pub(crate) async fn line(&mut self) -> Result<String> {
        let out = self.child.stdout.as_mut().context("no output")?;
        let mut line = Vec::new();
        loop {
            match timeout(LIMIT, out.read_u8()).await.context("silence")?? {
                b'\n' => return Ok(String::from_utf8(line)?),
                byte => line.push(byte),
            }
        }
    }

    /// Reads the program's output until this line comes.
    pub(crate) async fn says(&mut self, expected: &str) -> Result<()> {
        loop {
            let line = self.line().await;
            if line.with_context(|| format!("not said: {expected}"))? == expected {
                return Ok(());
            }
        }
    }
}

/// Sees a group of processes die: each of them has the writing end of a pipe open, and the end of the last is the end of
/// the pipe.
pub(crate) struct Witness {
    _folder: TempDir,
    path: PathBuf,
    ready: Option<oneshot::Receiver<()>>,
    end: oneshot::Receiver<Death>,
}

/// When the last program died, and for how long this machine let those wait who had something to do in the second before.
/// Nobody is in time on a machine that gives him no time: what is said of time here holds but for that.
pub(crate) struct Death {
    pub(crate) at: Instant,
    stalled: Duration,
}

impl Death {
    /// An error if it was later, by more than this machine stood still. Gives how long before.
    pub(crate) fn before(&self, limit: Instant) -> Result<Duration> {
        let late = self.at.saturating_duration_since(limit);
        let stalled = self.stalled;
        ensure!(
            late <= stalled,
            "{late:?} too late, and the machine stood still for {stalled:?}"
        );
        Ok(limit.saturating_duration_since(self.at))
    }
}

/// Measures how late a thread is that sleeps for a moment, again and again, until its handle is asked for the sum.
fn measure_stalls() -> impl FnOnce() -> Duration {
    const MOMENT: Duration = Duration::from_millis(10);
    // A thread is as late as this on a machine that has nothing else to do.
    const USUAL: Duration = Duration::from_millis(1);
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut stalls = VecDeque::from([Duration::ZERO; 100]);
        loop {
            let begun = Instant::now();
            let ended = stopped.recv_timeout(MOMENT) != Err(RecvTimeoutError::Timeout);
            let late = begun.elapsed().saturating_sub(MOMENT + USUAL);
            stalls.pop_front();
            stalls.push_back(late);
            if ended {
                return stalls.into_iter().sum();
            }
        }
    });
    move || {
        drop(stop);
        thread.join().unwrap_or_default()
    }
}

impl Witness {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status()?;
        ensure!(made.success(), "no pipe");
        let (tell_ready, ready) = oneshot::channel();
        let (tell_end, end) = oneshot::channel();
        let opened = path.clone();
        std::thread::spawn(move || -> Result<()> {
            let mut pipe = SyncReader::new(File::open(opened)?);
            pipe.read_line(&mut String::new())?;
            let _ = tell_ready.send(());
            let stalls = measure_stalls();
            pipe.read_to_end(&mut Vec::new())?;
            let at = Instant::now();
            let stalled = stalls();
            let _ = tell_end.send(Death { at, stalled });
            Ok(())
        });
        Ok(Self {
            _folder: folder,
            path,
            ready: Some(ready),
            end,
        })
    }

    /// What the programs write their first line to, and keep open.
    pub(crate) fn path(&self) -> Result<&str> {
        self.path.to_str().context("a strange path")
    }

    /// The first line was written.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let ready = self.ready.take().context("asked twice")?;
        Ok(timeout(LIMIT, ready).await.context("nobody is ready")??)
    }

    /// When the last of them died.
    pub(crate) async fn end(self) -> Result<Death> {
        Ok(timeout(LIMIT, self.end).await.context("somebody lives")??)
    }
}

/// A shell with a grandchild, all of which ignore TERM; `$1` is the pipe of a witness.
pub(crate) const STUBBORN: &str = "trap '' TERM INT HUP; exec 3>\"$1\"; \
    (while :; do sleep 60; done) & echo ready >&3; while :; do sleep 60; done";

/// A moment before which the lock's key cannot end on the server.
pub(crate) async fn lease_end(server: &Server, key: &str) -> Result<Instant> {
    let asked = Instant::now();
    let left = server.command(&["PTTL", key]).await?.into_integer()?;
    ensure!(left > 0, "{key} is not held: {left}");
    Ok(asked + Duration::from_millis(left.try_into()?))
}

/// Asks again until it is so.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let asked = Instant::now();
    while !so().await? {
        if asked.elapsed() > LIMIT {
            bail!("not so in time: {what}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
