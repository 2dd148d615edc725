//! Helpers to drive the command in a test. They wait for its events, its output and its end, never for a fixed time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader as SyncReader, Read as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Mutex};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The time limit of every wait: longer than anything here takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The command.
pub(crate) const THIS: &str = env!("CARGO_BIN_EXE_lockkeeper");

/// The arguments of a `run` with these options and this program.
pub(crate) fn run<'a>(options: &'a str, program: &[&'a str]) -> Vec<&'a str> {
    let words = ["run"].into_iter().chain(options.split_whitespace());
    words.chain(["--"]).chain(program.iter().copied()).collect()
}

/// Returns the command with these arguments and a server, without the variables of this process that it would read. It does
/// not ignore the signals that this process ignores, for example under `nohup`.
pub(crate) fn command(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", THIS]);
    command.args(words).kill_on_drop(true);
    clean(&mut command, url);
    command
}

pub(crate) fn clean(command: &mut Command, url: &str) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LOCKKEEPER_") {
            command.env_remove(name);
        }
    }
    command.env("LOCKKEEPER_URL", url);
}

/// A command in progress; a `run` prints its events.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) child: Child,
    events: Lines<BufReader<ChildStderr>>,
}

impl Run {
    /// Starts `lockkeeper run --json` with these options and this program.
    pub(crate) fn start(server: &Server, options: &str, program: &[&str]) -> Result<Self> {
        Self::command(server, &run(&format!("--json {options}"), program))
    }

    /// The same with a script for a shell, in which `$0` is the command.
    pub(crate) fn shell(server: &Server, options: &str, script: &str) -> Result<Self> {
        Self::start(server, options, &["sh", "-c", script, THIS])
    }

    /// Starts another subcommand.
    pub(crate) fn command(server: &Server, words: &[&str]) -> Result<Self> {
        Self::spawn(command(&server.url(), words))
    }

    /// Starts `lockkeeper run --json` as the first process of a PID namespace. Its session and group were made outside of the
    /// namespace, as with `docker exec`. Returns `None` if this process may not make a namespace.
    pub(crate) async fn start_contained(
        server: &Server,
        options: &str,
        program: &[&str],
    ) -> Result<Option<Self>> {
        const CONTAIN: [&str; 4] = ["--fork", "--pid", "--mount-proc", "--kill-child"];
        let mut trial = Command::new("unshare");
        trial.args(CONTAIN).arg("true").stderr(Stdio::null());
        if !trial.status().await.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let mut command = Command::new("unshare");
        let options = format!("--json {options}");
        command.args(CONTAIN).arg(THIS).args(run(&options, program));
        clean(command.kill_on_drop(true), &server.url());
        Self::spawn(command).map(Some)
    }

    pub(crate) fn spawn(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("no stderr")?;
        Ok(Self {
            child,
            events: BufReader::new(stderr).lines(),
        })
    }

    /// Waits for the next event of this sort. Other events and the program's own output are skipped.
    pub(crate) async fn event(&mut self, sort: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.event_line(sort).await?)?)
    }

    /// The same, as it was printed.
    pub(crate) async fn event_line(&mut self, sort: &str) -> Result<String> {
        let marked = format!(r#""event":"{sort}""#);
        loop {
            let line = self.complaint().await;
            let line = line.with_context(|| format!("no {sort}"))?;
            if line.starts_with('{') && line.contains(&marked) {
                return Ok(line);
            }
        }
    }

    /// Waits for the next line on stderr.
    pub(crate) async fn complaint(&mut self) -> Result<String> {
        let line = timeout(LIMIT, self.events.next_line()).await;
        line.context("silence")??.context("it ended")
    }

    pub(crate) fn pid(&self) -> Result<Pid> {
        let id = self.child.id().context("it has ended")?;
        Pid::from_raw(id.cast_signed()).context("no process")
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    /// Waits until the run ends, for whatever reason.
    pub(crate) async fn status(&mut self) -> Result<ExitStatus> {
        Ok(timeout(LIMIT, self.child.wait())
            .await
            .context("it hangs")??)
    }

    /// Ends the stdin of its program, and waits for the exit code.
    pub(crate) async fn close(&mut self) -> Result<i32> {
        drop(self.child.stdin.take());
        self.code().await
    }

    /// Waits until the run ends, and returns its exit code.
    pub(crate) async fn code(&mut self) -> Result<i32> {
        self.status().await?.code().context("killed by a signal")
    }

    /// Waits for the next line of the program's output.
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

/// Observes the death of a group of processes. Each of them has the writing end of a pipe open, so the pipe ends when the
/// last of them dies.
pub(crate) struct Witness {
    _folder: TempDir,
    path: PathBuf,
    ready: Option<oneshot::Receiver<()>>,
    end: oneshot::Receiver<Death>,
}

/// When the last process died, and for how long this machine delayed processes that were ready to run in the second before. A
/// process cannot be in time on a machine that does not run it, so the limits on time are extended by that delay.
pub(crate) struct Death {
    pub(crate) at: Instant,
    stalled: Duration,
}

impl Death {
    /// Returns how long before `limit` the death was. A death after it is an error if it is later by more than this machine
    /// stood still.
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

/// How long this machine delayed a thread that was ready to run, in the worst second and in the last one.
#[derive(Default)]
struct Stalls {
    worst: Duration,
    last: Duration,
}

/// Starts a thread that sleeps for a moment again and again and measures how late it wakes. The returned closure stops the
/// thread. A second is 100 moments.
fn measure_stalls() -> impl FnOnce() -> Stalls {
    const MOMENT: Duration = Duration::from_millis(10);
    // On a machine that has nothing else to do, a thread wakes this late.
    const USUAL: Duration = Duration::from_millis(1);
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut stalls = VecDeque::from([Duration::ZERO; 100]);
        let mut worst = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let ended = stopped.recv_timeout(MOMENT) != Err(RecvTimeoutError::Timeout);
            let late = begun.elapsed().saturating_sub(MOMENT + USUAL);
            stalls.pop_front();
            stalls.push_back(late);
            let last = stalls.iter().sum();
            worst = worst.max(last);
            if ended {
                return Stalls { worst, last };
            }
        }
    });
    move || {
        drop(stop);
        thread.join().unwrap_or_default()
    }
}

/// Runs a test that waits for leases to end. If it fails while this machine stood still for a tenth of the ttl, it runs again
/// with a longer one, which is over long before [`LIMIT`].
pub(crate) async fn with_ttl(
    shortest: Duration,
    mut test: impl AsyncFnMut(Duration) -> Result<()>,
) -> Result<()> {
    let mut ttl = shortest;
    loop {
        let stalls = measure_stalls();
        let outcome = test(ttl).await;
        let stalled = stalls().worst;
        let Err(error) = outcome else { return Ok(()) };
        if stalled < ttl / 10 {
            return Err(error.context(format!("the machine stood still for {stalled:?}")));
        }
        println!("with a ttl of {ttl:?}, the machine stood still for {stalled:?}: {error:?}");
        ttl = (ttl * 2).max(stalled * 20).min(LIMIT / 3);
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
            let stalled = stalls().last;
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

    /// The pipe that the programs write their first line to and keep open.
    pub(crate) fn path(&self) -> Result<&str> {
        self.path.to_str().context("a strange path")
    }

    /// Waits until the first line was written.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let ready = self.ready.take().context("asked twice")?;
        Ok(timeout(LIMIT, ready).await.context("nobody is ready")??)
    }

    /// Waits until the last process has died.
    pub(crate) async fn end(self) -> Result<Death> {
        Ok(timeout(LIMIT, self.end).await.context("somebody lives")??)
    }
}

/// A script for a shell that starts further processes; all of them ignore TERM. `$1` is the pipe of a witness.
pub(crate) const STUBBORN: &str = "trap '' TERM INT HUP; exec 3>\"$1\"; \
    (while :; do sleep 60; done) & echo ready >&3; while :; do sleep 60; done";

/// Returns a moment before which the lock's key cannot end on the server, just after it was set or renewed.
pub(crate) async fn lease_end(server: &Server, key: &str, ttl: Duration) -> Result<Instant> {
    let mut end = Instant::now();
    until("the lease is new", async || {
        let asked = Instant::now();
        let left = server.command(&["PTTL", key]).await?.into_integer()?;
        ensure!(left > 0, "{key} is not held: {left}");
        end = asked + Duration::from_millis(left.try_into()?);
        Ok(is_new(end, ttl))
    })
    .await?;
    Ok(end)
}

/// Whether a lease with this end is not to be renewed yet, which happens when a third of its ttl is over.
fn is_new(end: Instant, ttl: Duration) -> bool {
    end.saturating_duration_since(Instant::now()) > ttl * 7 / 10
}

/// Freezes the server while none of these keys is being renewed, and returns when each of them ends.
pub(crate) async fn freeze(server: &Server, keys: &[&str], ttl: Duration) -> Result<Vec<Instant>> {
    let mut ends = Vec::new();
    until("all leases are new at once", async || {
        ends.clear();
        for key in keys {
            ends.push(lease_end(server, key, ttl).await?);
        }
        server.freeze()?;
        let all = ends.iter().all(|end| is_new(*end, ttl));
        if !all {
            server.thaw()?;
        }
        Ok(all)
    })
    .await?;
    Ok(ends)
}

/// Connects a client with the label `db7:99`, which the server knows then: it is sent with the first grant.
pub(crate) async fn db7(server: &Server) -> Result<Client> {
    let client = lockkeeper::connect_with(&server.url(), Client::builder().label("db7:99")).await?;
    let first = Mutex::new(&client, "first").acquire().await?;
    first.release().await?;
    Ok(client)
}

/// Takes the lock from its holder, who learns of it at once.
pub(crate) async fn take(client: &Client, name: &str) -> Result<()> {
    let holder = client.inspect(name).await?.holders.into_iter().next();
    let claim = holder.context("nobody holds it")?.claim;
    ensure!(
        client.force_release(name, &claim).await?,
        "{name} was not taken"
    );
    Ok(())
}

/// Asks again and again until the answer is true.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let look = async || Ok((so().await?, "it is not so"));
    until::until(what, LIMIT, look).await
}
