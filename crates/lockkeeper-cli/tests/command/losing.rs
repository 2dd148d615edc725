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
use lockkeeper::Mutex;
use lockkeeper_lua::lock;
use lockkeeper_testkit::server::{Reply, Server};
use rustix::process::Signal;
#[cfg(target_os = "linux")]
use rustix::process::{Pid, kill_process};
#[cfg(target_os = "linux")]
use tokio::io::AsyncReadExt as _;

use crate::support::{Death, LIMIT, Run, STUBBORN, Witness, lease_end, until};

const KEY: &str = "lockkeeper:name";
/// The shortest ttl and grace with which the command reserves as much time for a kill as it does by default, 250 ms. A busy
/// machine needs that time.
const TERMS: [&str; 6] = ["--lock", "name", "--ttl", "3750ms", "--grace", "1250ms"];

async fn stubborn(server: &Server, words: &[&str]) -> Result<(Run, Witness)> {
    let mut witness = Witness::new()?;
    let program = ["--", "sh", "-c", STUBBORN, "sh", witness.path()?];
    let run = Run::start(server, &[&TERMS, words, &program].concat())?;
    witness.ready().await?;
    Ok((run, witness))
}

/// Prints how long before the end of the lease the last process died.
fn margin(what: &str, lease: Instant, died: &Death) -> Result<()> {
    let margin = died.before(lease).with_context(|| what.to_owned())?;
    println!("{what}: dead {margin:?} before the lease's end");
    Ok(())
}

#[tokio::test]
async fn when_the_server_stands_still_the_whole_group_is_dead_before_the_lease_ends() -> Result<()>
{
    let server = Server::start().await?;
    for words in [
        &[][..],
        &["--on-lost", "kill"],
        &["--fair"],
        &["--reenter"],
        &["--shared"],
        &["--exclusive"],
    ] {
        let (mut run, witness) = stubborn(&server, words).await?;
        let lease = lease_end(&server, KEY).await?;
        server.freeze()?;
        let died = witness.end().await?;
        server.thaw()?;
        margin(&format!("server frozen, {words:?}"), lease, &died)?;
        ensure!(run.code().await? == 76);
        server.command(&["FLUSHALL"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn when_the_key_is_removed_the_whole_group_is_dead_before_the_lease_would_end() -> Result<()>
{
    let server = Server::start().await?;
    for words in [&[][..], &["--on-lost", "kill"]] {
        let (mut run, witness) = stubborn(&server, words).await?;
        let lease = lease_end(&server, KEY).await?;
        server.command(&["DEL", KEY]).await?;
        let died = witness.end().await?;
        margin(&format!("key removed, {words:?}"), lease, &died)?;
        ensure!(run.code().await? == 76);
    }
    Ok(())
}

#[tokio::test]
async fn in_a_container_whose_session_is_outside_the_whole_group_is_dead_as_well() -> Result<()> {
    let server = Server::start().await?;
    let mut witness = Witness::new()?;
    let program = ["--", "sh", "-c", STUBBORN, "sh", witness.path()?];
    let words = [&TERMS[..], &program].concat();
    let Some(mut run) = Run::start_contained(&server, &words).await? else {
        println!("no PID namespace may be made here: nothing was tried");
        return Ok(());
    };
    witness.ready().await?;
    let lease = lease_end(&server, KEY).await?;
    server.freeze()?;
    let died = witness.end().await?;
    server.thaw()?;
    margin("server frozen, contained", lease, &died)?;
    ensure!(run.code().await? == 76);
    Ok(())
}

#[tokio::test]
async fn a_revoked_program_may_clean_up_and_then_the_lock_is_free() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let script = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let words = ["--lock", "name", "--", "sh", "-c", script];
    let mut run = Run::start(&server, &words)?;
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
    let begun = Instant::now();
    ensure!(client.revoke("name").await? == 1);
    run.says("cleaned").await?;
    // The lock is free long before its ttl of 30 s has passed.
    let guard = Mutex::new(&client, "name")
        .acquire()
        .wait_for(LIMIT)
        .await?;
    println!("free {:?} after the revocation", begun.elapsed());
    ensure!(begun.elapsed() < Duration::from_secs(5));
    guard.release().await?;
    ensure!(run.code().await? == 76);
    Ok(())
}

#[tokio::test]
async fn a_wrapper_that_was_stopped_for_too_long_kills_the_program_on_waking() -> Result<()> {
    let server = Server::start().await?;
    let (mut run, witness) = stubborn(&server, &[]).await?;
    run.signal(Signal::STOP)?;
    until("the lock is free", async || {
        Ok(server.command(&["EXISTS", KEY]).await?.into_integer()? == 0)
    })
    .await?;
    let woken = Instant::now();
    run.signal(Signal::CONT)?;
    let died = witness.end().await?;
    println!("dead {:?} after waking", died.at - woken);
    died.before(woken + Duration::from_millis(500))?;
    run.event("killing").await?;
    ensure!(run.code().await? == 76);
    Ok(())
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_program_dies_with_its_wrapper_and_the_lock_is_free_when_its_ttl_is_over() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let mut witness = Witness::new()?;
    let script = "exec 3>\"$1\"; echo ready >&3; exec sleep 600";
    let program = ["--", "sh", "-c", script, "sh", witness.path()?];
    let mut run = Run::start(&server, &[&TERMS[..], &program].concat())?;
    witness.ready().await?;
    let killed = Instant::now();
    run.signal(Signal::KILL)?;
    let died = witness.end().await?;
    println!("dead {:?} after its wrapper", died.at - killed);
    let lock = Mutex::new(&client, "name");
    ensure!(lock.try_acquire().await?.is_none(), "free at once");
    let guard = lock.acquire().wait_for(LIMIT).await?;
    ensure!(
        killed.elapsed() < Duration::from_secs(6),
        "{:?}",
        killed.elapsed()
    );
    guard.release().await?;
    ensure!(run.status().await?.code().is_none());
    Ok(())
}

#[tokio::test]
async fn all_that_a_program_has_started_die_with_its_wrapper() -> Result<()> {
    let server = Server::start().await?;
    for words in [&[][..], &["--on-lost", "ignore"], &["--keep"]] {
        let (mut run, witness) = stubborn(&server, words).await?;
        let lease = lease_end(&server, KEY).await?;
        run.signal(Signal::KILL)?;
        margin("wrapper killed", lease, &witness.end().await?)?;
        ensure!(run.status().await?.code().is_none());
        server.command(&["FLUSHALL"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_program_that_kills_its_wrapper_first_of_all_dies_with_all_it_has_started() -> Result<()>
{
    const TIMES: usize = 10;
    let server = Server::start().await?;
    let script = "trap '' TERM INT HUP; exec 3>\"$1\"; echo ready >&3; \
        (while :; do sleep 60; done) & kill -KILL $PPID; while :; do sleep 60; done";
    for _ in 0..TIMES {
        let mut witness = Witness::new()?;
        let program = ["--", "sh", "-c", script, "sh", witness.path()?];
        let mut run = Run::start(&server, &[&TERMS[..], &program].concat())?;
        witness.ready().await?;
        witness.end().await?;
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
    let program = ["--lock", "name", "--", "touch", path];
    let mut run = Run::start(&server, &program)?;
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

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_run_inside_dies_with_the_wrapper_outside() -> Result<()> {
    let server = Server::start().await?;
    let mut witness = Witness::new()?;
    let stubborn = STUBBORN.replace('\'', "'\\''");
    let inner = format!("\"$0\" run --lock other -- sh -c '{stubborn}' sh \"$1\"; true");
    let this = env!("CARGO_BIN_EXE_lockkeeper");
    let program = ["--", "sh", "-c", &inner, this, witness.path()?];
    let mut run = Run::start(&server, &[&TERMS[..], &program].concat())?;
    witness.ready().await?;
    let lease = lease_end(&server, KEY).await?;
    run.signal(Signal::KILL)?;
    margin("wrapper killed, a run inside", lease, &witness.end().await?)?;
    ensure!(run.status().await?.code().is_none());
    Ok(())
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_watcher_stands_apart_and_ends_with_the_run() -> Result<()> {
    let server = Server::start().await?;
    let words = [
        "--lock",
        "name",
        "--",
        "sh",
        "-c",
        "echo ready; read -r _; exit 5",
    ];
    let mut run = Run::start(&server, &words)?;
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
    drop(run.child.stdin.take());
    ensure!(run.code().await? == 5);
    until("the watcher has ended", async || {
        Ok(std::fs::read(format!("/proc/{watcher}/stat")).is_err())
    })
    .await
}

#[tokio::test]
async fn a_program_that_is_to_ignore_the_loss_runs_to_its_end() -> Result<()> {
    let server = Server::start().await?;
    let words = ["--on-lost", "ignore", "--", "sh", "-c", "read -r _; exit 8"];
    let mut run = Run::start(&server, &[&TERMS[..], &words].concat())?;
    run.event("started").await?;
    server.command(&["DEL", KEY]).await?;
    run.event("ignoring").await?;
    drop(run.child.stdin.take());
    ensure!(run.code().await? == 8);
    Ok(())
}

#[tokio::test]
async fn a_lock_found_gone_at_the_end_is_a_loss() -> Result<()> {
    let server = Server::start().await?;
    // With this ttl, no renewal is due before the program ends.
    let words = [
        "--lock",
        "name",
        "--ttl",
        "10m",
        "--",
        "sh",
        "-c",
        "read -r _",
    ];
    let mut run = Run::start(&server, &words)?;
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
    let server = Server::start().await?;
    let run = format!(
        "trap '' TERM; \"$0\" run --ttl 1h --lock other -- sh -c '{}' sh \"$1\"",
        STUBBORN.replace('\'', "'\\''")
    );
    // Once with an outer shell that dies at once of the TERM, and once with one that does not.
    for run in [run.trim_start_matches("trap '' TERM; "), &run] {
        let mut witness = Witness::new()?;
        let this = env!("CARGO_BIN_EXE_lockkeeper");
        let script = format!("{run}; true");
        let program = ["--", "sh", "-c", &script, this, witness.path()?];
        let mut run = Run::start(&server, &[&TERMS[..], &program].concat())?;
        witness.ready().await?;
        let lease = lease_end(&server, KEY).await?;
        server.freeze()?;
        let died = witness.end().await?;
        server.thaw()?;
        margin("server frozen, a run inside", lease, &died)?;
        ensure!(run.code().await? == 76);
        server.command(&["FLUSHALL"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_reader_of_events_who_does_not_read_holds_up_no_kill() -> Result<()> {
    let server = Server::start().await?;
    // Fills the pipe that is stderr of both the program and the command, through a file description of its own.
    let fill = "dd if=/dev/zero bs=1 of=/dev/fd/4 oflag=nonblock 4>&2 2>/dev/null";
    let script =
        format!("trap '' TERM; exec 3>\"$1\"; {fill}; echo ready >&3; while :; do sleep 60; done");
    let mut witness = Witness::new()?;
    let program = ["--", "sh", "-c", &script, "sh", witness.path()?];
    let mut run = Run::start(&server, &[&TERMS[..], &program].concat())?;
    witness.ready().await?;
    let lease = lease_end(&server, KEY).await?;
    server.command(&["DEL", KEY]).await?;
    let died = witness.end().await?;
    margin("nobody reads the events", lease, &died)?;
    ensure!(run.code().await? == 76);
    Ok(())
}
