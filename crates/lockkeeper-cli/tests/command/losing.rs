//! The lock is lost while the program runs: the program is dead before another can hold the lock, or else as soon as
//! possible.

#[cfg(target_os = "linux")]
use std::fs::File;
#[cfg(target_os = "linux")]
use std::io::Write as _;
#[cfg(target_os = "linux")]
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use lockkeeper::Mutex;
use lockkeeper_lua::lock;
use lockkeeper_testkit::server::{Reply, Server};
use rustix::process::Signal;
#[cfg(target_os = "linux")]
use rustix::process::{Pid, kill_process};
#[cfg(target_os = "linux")]
use tokio::io::AsyncReadExt as _;

use crate::support::{
    Death, LIMIT, Run, STUBBORN, THIS, Witness, freeze, lease_end, take, until, with_ttl,
};

const KEY: &str = "lockkeeper:name";

/// The shortest ttl with which the command reserves as much time for a kill as it does by default, 250 ms. A busy machine needs
/// that time.
const TTL: Duration = Duration::from_millis(3750);

/// The options for a lock with this ttl and the longest grace that fits.
fn terms(name: &str, ttl: Duration) -> String {
    format!("--lock {name} --ttl {ttl:?} --grace {:?}", ttl / 3)
}

/// A run whose processes ignore TERM, and its lock.
struct Stubborn {
    run: Run,
    witness: Witness,
    key: String,
    what: String,
}

impl Stubborn {
    async fn start(server: &Server, name: &str, ttl: Duration, options: &str) -> Result<Self> {
        Self::shell(server, name, ttl, options, STUBBORN).await
    }

    /// The same with another script, in which `$0` is the command and `$1` the pipe of the witness.
    async fn shell(
        server: &Server,
        name: &str,
        ttl: Duration,
        options: &str,
        script: &str,
    ) -> Result<Self> {
        let mut witness = Witness::new()?;
        let all = format!("{} {options}", terms(name, ttl));
        let program = ["sh", "-c", script, THIS, witness.path()?];
        let run = Run::start(server, &all, &program)?;
        witness.ready().await?;
        Ok(Self {
            run,
            witness,
            key: format!("lockkeeper:{name}"),
            what: all,
        })
    }

    /// Waits until all its processes are dead, and prints how long before the end of the lease that was.
    async fn dies_before(self, lease: Instant) -> Result<Run> {
        let died = self.witness.end().await?;
        margin(&self.what, lease, &died)?;
        Ok(self.run)
    }
}

/// Prints how long before the end of the lease the last process died.
fn margin(what: &str, lease: Instant, died: &Death) -> Result<()> {
    let margin = died.before(lease).with_context(|| what.to_owned())?;
    println!("{what}: dead {margin:?} before the lease's end");
    Ok(())
}

/// Freezes the server. The processes of all runs are to be dead before their leases end.
async fn all_die(server: &Server, runs: Vec<Stubborn>, ttl: Duration) -> Result<()> {
    let keys: Vec<&str> = runs.iter().map(|it| &*it.key).collect();
    let leases = freeze(server, &keys, ttl).await?;
    let mut ended = Vec::new();
    for (run, lease) in runs.into_iter().zip(leases) {
        ended.push(run.dies_before(lease).await?);
    }
    server.thaw()?;
    for mut run in ended {
        ensure!(run.code().await? == 76);
    }
    Ok(())
}

#[tokio::test]
async fn when_the_server_stands_still_the_whole_group_is_dead_before_the_lease_ends() -> Result<()>
{
    with_ttl(TTL, async |ttl| {
        let server = Server::start().await?;
        let runs = [
            ("plain", ""),
            ("kill", "--on-lost kill"),
            ("fair", "--fair"),
            ("reenter", "--reenter"),
            ("shared", "--shared"),
            ("exclusive", "--exclusive"),
        ];
        let runs = runs.map(|(name, options)| Stubborn::start(&server, name, ttl, options));
        all_die(&server, try_join_all(runs).await?, ttl).await
    })
    .await
}

#[tokio::test]
async fn when_the_key_is_removed_the_whole_group_is_dead_before_the_lease_would_end() -> Result<()>
{
    with_ttl(TTL, async |ttl| {
        let server = Server::start().await?;
        let dies = async |name, options| {
            let stubborn = Stubborn::start(&server, name, ttl, options).await?;
            let lease = lease_end(&server, &stubborn.key, ttl).await?;
            server.command(&["DEL", &stubborn.key]).await?;
            ensure!(stubborn.dies_before(lease).await?.code().await? == 76);
            Ok(())
        };
        tokio::try_join!(dies("plain", ""), dies("kill", "--on-lost kill"))?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn in_a_container_whose_session_is_outside_the_whole_group_is_dead_as_well() -> Result<()> {
    with_ttl(TTL, async |ttl| {
        let server = Server::start().await?;
        let mut witness = Witness::new()?;
        let program = ["sh", "-c", STUBBORN, "sh", witness.path()?];
        let run = Run::start_contained(&server, &terms("name", ttl), &program).await?;
        let Some(run) = run else {
            println!("no PID namespace may be made here: nothing was tried");
            return Ok(());
        };
        witness.ready().await?;
        let (key, what) = (KEY.to_owned(), "contained".to_owned());
        let run = Stubborn {
            run,
            witness,
            key,
            what,
        };
        all_die(&server, vec![run], ttl).await
    })
    .await
}

#[tokio::test]
async fn a_revoked_program_may_clean_up_and_then_the_lock_is_free() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let script = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run = Run::shell(&server, "--ttl 1h --lock name", script)?;
    // If the revocation came before the holder listens, the holder would learn of it only with its next renewal.
    let granted = run.event("granted").await?;
    let owner = granted["owner"].as_str().unwrap_or_default();
    let channel = format!("lockkeeper.client:{}", owner.trim_end_matches(":1"));
    until("it listens", async || {
        let listening = server.command(&["PUBSUB", "NUMSUB", &channel]).await?;
        Ok(matches!(listening, Reply::List(all) if all.get(1) == Some(&Reply::Integer(1))))
    })
    .await?;
    run.says("ready").await?;
    ensure!(client.revoke("name").await? == 1);
    run.says("cleaned").await?;
    // The lock is free long before its ttl has passed.
    let lock = Mutex::new(&client, "name");
    lock.acquire().wait_for(LIMIT).await?.release().await?;
    ensure!(run.code().await? == 76);
    Ok(())
}

#[tokio::test]
async fn a_wrapper_that_was_stopped_for_too_long_kills_the_program_on_waking() -> Result<()> {
    with_ttl(Duration::from_secs(2), async |ttl| {
        let server = Server::start().await?;
        let stubborn = Stubborn::start(&server, "name", ttl, "").await?;
        stubborn.run.signal(Signal::STOP)?;
        until("the lock is free", async || {
            Ok(server.command(&["EXISTS", KEY]).await?.into_integer()? == 0)
        })
        .await?;
        let woken = Instant::now();
        stubborn.run.signal(Signal::CONT)?;
        let mut run = stubborn
            .dies_before(woken + Duration::from_millis(500))
            .await?;
        run.event("killing").await?;
        ensure!(run.code().await? == 76);
        Ok(())
    })
    .await
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_program_dies_with_its_wrapper_and_the_lock_is_free_when_its_ttl_is_over() -> Result<()> {
    with_ttl(Duration::from_secs(2), async |ttl| {
        let server = Server::start().await?;
        let client = lockkeeper::connect(&server.url()).await?;
        let script = "exec 3>\"$1\"; echo ready >&3; exec sleep 600";
        let stubborn = Stubborn::shell(&server, "name", ttl, "", script).await?;
        let lease = lease_end(&server, KEY, ttl).await?;
        stubborn.run.signal(Signal::KILL)?;
        let mut run = stubborn.dies_before(lease).await?;
        let lock = Mutex::new(&client, "name");
        let free = lock.try_acquire().await?.is_some();
        ensure!(!free || lease <= Instant::now(), "free at once");
        lock.acquire().wait_for(LIMIT).await?.release().await?;
        ensure!(run.status().await?.code().is_none());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn all_that_a_program_has_started_die_with_its_wrapper() -> Result<()> {
    with_ttl(TTL, async |ttl| {
        let server = Server::start().await?;
        for options in ["", "--on-lost ignore", "--keep"] {
            let stubborn = Stubborn::start(&server, "name", ttl, options).await?;
            let lease = lease_end(&server, KEY, ttl).await?;
            stubborn.run.signal(Signal::KILL)?;
            let mut run = stubborn.dies_before(lease).await?;
            ensure!(run.status().await?.code().is_none());
            server.command(&["FLUSHALL"]).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_program_that_kills_its_wrapper_first_of_all_dies_with_all_it_has_started() -> Result<()>
{
    const TIMES: usize = 10;
    let server = Server::start().await?;
    let script = "trap '' TERM INT HUP; exec 3>\"$1\"; echo ready >&3; \
        (while :; do sleep 60; done) & kill -KILL $PPID; while :; do sleep 60; done";
    for _ in 0..TIMES {
        let stubborn = Stubborn::shell(&server, "name", LIMIT, "", script).await?;
        stubborn.witness.end().await?;
        let mut run = stubborn.run;
        ensure!(run.status().await?.code().is_none());
        server.command(&["FLUSHALL"]).await?;
    }
    Ok(())
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn nothing_of_a_program_runs_before_its_watcher_is_told() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("trace");
    let path = trace.to_str().unwrap_or_default();
    let mut run = Run::start(&server, "--lock name", &["touch", path])?;
    run.event("asking").await?;
    let wrapper = run.pid()?.to_string();
    // Wait until the watcher has started and listens.
    let mut found = None;
    until("there is a watcher", async || {
        found = child(&wrapper, "@watch").filter(|id| sleeps(id));
        Ok(found.is_some())
    })
    .await?;
    let watcher = found.unwrap_or_default();
    let id = watcher.parse().ok().and_then(Pid::from_raw);
    let id = id.context("a strange number")?;
    // Stop the watcher and fill its pipe, so that the wrapper cannot tell it anything.
    kill_process(id, Signal::STOP)?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut words = File::options()
        .write(true)
        .custom_flags(flags)
        .open(format!("/proc/{watcher}/fd/0"))?;
    for length in [4096, 1] {
        while words.write(&vec![b'0'; length]).is_ok() {}
    }
    drop(words);
    guard.release().await?;
    until("the program is about to start", async || {
        Ok(child(&wrapper, "@become").is_some_and(|id| sleeps(&id)))
    })
    .await?;
    run.signal(Signal::KILL)?;
    ensure!(run.status().await?.code().is_none());
    kill_process(id, Signal::CONT)?;
    // The process that would have become the program shares the wrapper's output. When that output ends, the process is
    // gone.
    let mut said = Vec::new();
    let out = run.child.stdout.as_mut().context("no output")?;
    tokio::time::timeout(LIMIT, out.read_to_end(&mut said)).await??;
    ensure!(!trace.try_exists()?, "it ran");
    Ok(())
}

/// Returns the child of process `of` whose first argument is `word`.
#[cfg(target_os = "linux")]
fn child(of: &str, word: &str) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).ok()?;
    let has = |id: &&str| {
        let line = std::fs::read_to_string(format!("/proc/{id}/cmdline"));
        line.is_ok_and(|line| line.split('\0').nth(1) == Some(word))
    };
    children.split_whitespace().find(has).map(str::to_owned)
}

#[cfg(target_os = "linux")]
fn sleeps(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"));
    status.is_ok_and(|status| status.lines().any(|line| line.starts_with("State:\tS")))
}

/// A script for a shell, in which `$0` is the command and `$1` the pipe: a run inside, whose processes ignore TERM.
#[cfg(target_os = "linux")]
fn inside(options: &str) -> String {
    let stubborn = STUBBORN.replace('\'', "'\\''");
    format!("\"$0\" run {options} -- sh -c '{stubborn}' sh \"$1\"; true")
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_run_inside_dies_with_the_wrapper_outside() -> Result<()> {
    with_ttl(TTL, async |ttl| {
        let server = Server::start().await?;
        let inside = inside("--lock other");
        let stubborn = Stubborn::shell(&server, "name", ttl, "", &inside).await?;
        let lease = lease_end(&server, KEY, ttl).await?;
        stubborn.run.signal(Signal::KILL)?;
        let mut run = stubborn.dies_before(lease).await?;
        ensure!(run.status().await?.code().is_none());
        Ok(())
    })
    .await
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_watcher_stands_apart_and_ends_with_the_run() -> Result<()> {
    let server = Server::start().await?;
    let script = "echo ready; read -r _; exit 5";
    let mut run = Run::shell(&server, "--lock name", script)?;
    run.says("ready").await?;
    let id = run.pid()?.as_raw_pid();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
    let session = |id: &str| -> Result<String> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        let behind = stat.rsplit(')').next().unwrap_or_default();
        Ok(behind
            .split_whitespace()
            .nth(3)
            .unwrap_or_default()
            .to_owned())
    };
    let apart: Vec<&str> = children
        .split_whitespace()
        .filter(|child| session(child).is_ok_and(|session| session == **child))
        .collect();
    let [watcher] = apart[..] else {
        anyhow::bail!("no watcher among {children}");
    };
    // It has no environment variables, because the URL may be among them.
    let environment = std::fs::read(format!("/proc/{watcher}/environ"))?;
    ensure!(environment.is_empty());
    ensure!(run.close().await? == 5);
    until("the watcher has ended", async || {
        Ok(std::fs::read(format!("/proc/{watcher}/stat")).is_err())
    })
    .await
}

#[tokio::test]
async fn a_program_that_is_to_ignore_the_loss_runs_to_its_end() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let mut run = Run::shell(&server, "--lock name --on-lost ignore", "read -r _; exit 8")?;
    run.event("started").await?;
    take(&client, "name").await?;
    run.event("ignoring").await?;
    ensure!(run.close().await? == 8);
    Ok(())
}

#[tokio::test]
async fn a_lock_found_gone_at_the_end_is_a_loss() -> Result<()> {
    let server = Server::start().await?;
    // With this ttl, no renewal is due before the program ends.
    let mut run = Run::shell(&server, "--lock name --ttl 10m", "read -r _")?;
    run.event("started").await?;
    // After its first grant, a client verifies once that it still holds, as soon as it can receive messages.
    until("it has asked", async || {
        let known = ["SCRIPT", "EXISTS", lock::VERIFY.sha1];
        let known = server.command(&known).await?.into_texts()?;
        Ok(known == ["1"])
    })
    .await?;
    server.command(&["DEL", KEY]).await?;
    drop(run.child.stdin.take());
    run.event("lost").await?;
    ensure!(run.code().await? == 76);
    Ok(())
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn when_the_server_stands_still_a_run_inside_is_dead_too_with_all_it_has_started()
-> Result<()> {
    with_ttl(TTL, async |ttl| {
        let server = Server::start().await?;
        // Once with an outer shell that dies at once of the TERM, and once with one that does not.
        let scripts = [
            inside("--ttl 1h --lock other"),
            format!("trap '' TERM; {}", inside("--ttl 1h --lock another")),
        ];
        let runs = scripts
            .iter()
            .zip(["first", "second"])
            .map(|(script, name)| Stubborn::shell(&server, name, ttl, "", script));
        all_die(&server, try_join_all(runs).await?, ttl).await
    })
    .await
}

#[tokio::test]
async fn a_reader_of_events_who_does_not_read_holds_up_no_kill() -> Result<()> {
    with_ttl(TTL, async |ttl| {
        let server = Server::start().await?;
        // Fills the pipe that is stderr of both the program and the command, through a file description of its own.
        let fill = "dd if=/dev/zero bs=1 of=/dev/fd/4 oflag=nonblock 4>&2 2>/dev/null";
        let script = format!(
            "trap '' TERM; exec 3>\"$1\"; {fill}; echo ready >&3; while :; do sleep 60; done"
        );
        let stubborn = Stubborn::shell(&server, "name", ttl, "", &script).await?;
        let lease = lease_end(&server, KEY, ttl).await?;
        server.command(&["DEL", KEY]).await?;
        ensure!(stubborn.dies_before(lease).await?.code().await? == 76);
        Ok(())
    })
    .await
}
