//! How a run ends: exit codes, conflicts, and what the program gets and leaves behind.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::Mutex;
use lockkeeper_testkit::server::Server;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use crate::printed::{ask, assert_printed, said, shell};
use crate::support::{LIMIT, Run, THIS, command, run, until};

#[tokio::test]
async fn of_two_machines_one_runs_the_job_and_the_other_names_the_holder() -> Result<()> {
    let server = Server::start().await?;
    let mut first = Run::start(&server, "--label machine-one --lock nightly", &["cat"])?;
    first.event("started").await?;
    let job = "--no-wait --lock nightly -- echo ran";
    let second = ask(&server, &format!("run {job}")).await?;
    let pid = first.child.id().unwrap_or_default();
    ensure!(
        second.err.contains(&format!(":{pid} machine-one")),
        "{second}"
    );
    assert_printed!(second, @r#"
    ! lockkeeper: "nightly" is held by <machine>:<pid> machine-one
    => 75
    "#);
    ensure!(ask(&server, &format!("run -E 5 {job}")).await?.code == Some(5));
    assert_printed!(ask(&server, &format!("run -E 0 {job}")).await?, @"");
    ensure!(first.close().await? == 0);
    assert_printed!(ask(&server, &format!("run {job}")).await?, @"ran");
    Ok(())
}

#[tokio::test]
async fn the_exit_code_is_the_programs_own() -> Result<()> {
    let server = Server::start().await?;
    for (program, code) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "exit 126"], 126),
        (&["sh", "-c", "exit 127"], 127),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["/no/such/program"], 127),
        (&["no-such-program-in-the-path"], 127),
        (&["/etc/passwd"], 126),
        (&["/"], 126),
    ] {
        let said = said(&server.url(), &run("--lock name", program)).await?;
        ensure!(said.code == Some(code), "{program:?}: {said}");
    }
    // Each of these runs has released the lock.
    let held = server.command(&["EXISTS", "lockkeeper:name"]).await?;
    ensure!(held.into_integer()? == 0);
    Ok(())
}

#[tokio::test]
async fn a_server_out_of_reach_is_69_and_nothing_is_started() -> Result<()> {
    // Nothing listens on port 1.
    let words = run("--lock name", &["echo", "ran"]);
    assert_printed!(said("redis://:secret@127.0.0.1:1", &words).await?, @"
    ! lockkeeper: could not connect to 127.0.0.1:1: Connection refused
    => 69
    ");
    Ok(())
}

#[tokio::test]
async fn the_program_gets_stdin_and_knows_its_lock() -> Result<()> {
    let server = Server::start().await?;
    let script = "cat; env | grep ^LOCKKEEPER_ | grep -v URL | sort; exit 9";
    let words = run("--fair --lock name", &["sh", "-c", script]);
    let mut command = command(&server.url(), &words);
    command
        .env("LOCKKEEPER_KIND", "forged")
        .env("LOCKKEEPER_MODE", "forged");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("no stdin")?
        .write_all(b"a line\n")
        .await?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.code() == Some(9));
    assert_printed!(String::from_utf8(output.stdout)?, @"
    a line
    LOCKKEEPER_FENCE=<token>
    LOCKKEEPER_KIND=fair
    LOCKKEEPER_NAME=name
    LOCKKEEPER_OWNER=<client>:1
    LOCKKEEPER_TTL_MS=30000
    ");
    Ok(())
}

/// Runs a program that shows the variables of its lock, and then another one inside it that has none of these.
#[tokio::test]
async fn a_program_knows_its_mode_or_permits_and_one_inside_knows_its_own() -> Result<()> {
    let server = Server::start().await?;
    let show = "echo \"$LOCKKEEPER_KIND ${LOCKKEEPER_MODE-none} ${LOCKKEEPER_PERMITS-none} ${LOCKKEEPER_SLOT-none}\"";
    let script = format!("{show}; \"$0\" run --lock other -- sh -c '{show}'");
    let mut shown = String::new();
    for options in [
        "--shared --lock x",
        "-x --lock x",
        "--semaphore s --limit 8 --permits 3",
        "--lock job --slot a",
    ] {
        let said = shell(&server, &format!("--json {options}"), &script).await?;
        ensure!(said.code == Some(0), "{said}");
        let granted = said.err.lines().find(|line| line.contains("granted"));
        shown += &format!("{}{}\n", said.out, granted.context("not granted")?);
    }
    assert_printed!(shown, @r#"
    rwlock shared none none
    mutex none none none
    {"at":"<time>","ms":<ms>,"event":"granted","name":"x","kind":"rwlock","mode":"shared","owner":"<client>:1","fence":<token>,"ttl_ms":<ms>}
    rwlock exclusive none none
    mutex none none none
    {"at":"<time>","ms":<ms>,"event":"granted","name":"x","kind":"rwlock","mode":"exclusive","owner":"<client>:1","fence":<token>,"ttl_ms":<ms>}
    semaphore none 3 none
    mutex none none none
    {"at":"<time>","ms":<ms>,"event":"granted","name":"s","kind":"semaphore","permits":3,"owner":"<client>:1","fence":<token>,"ttl_ms":<ms>}
    once none none a
    mutex none none none
    {"at":"<time>","ms":<ms>,"event":"granted","name":"job","kind":"once","slot":"a","owner":"<client>:1","fence":<token>,"ttl_ms":<ms>}
    "#);
    Ok(())
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_stopped_before_the_lock_is_free() -> Result<()> {
    let server = Server::start().await?;
    let script = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 60; done' & read -r _; exit 7";
    let mut run = Run::shell(&server, "--lock name --grace 300ms", script)?;
    let orphan = Pid::from_raw(run.line().await?.parse()?).context("no process")?;
    drop(run.child.stdin.take());
    run.event("exited").await?;
    // Only what lives is killed.
    run.event("killing").await?;
    run.event("released").await?;
    ensure!(test_kill_process(orphan) == Err(Errno::SRCH), "it lives");
    ensure!(run.code().await? == 7);
    Ok(())
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn whom_the_program_leaves_behind_is_buried_while_it_runs() -> Result<()> {
    let server = Server::start().await?;
    let script = "for i in 1 2 3 4; do (sleep 0 &); (setsid sleep 0 &); done; echo left; read -r _";
    let mut run = Run::shell(&server, "--lock name", script)?;
    run.says("left").await?;
    let id = run.child.id().context("it ended")?;
    until("only the program and the watcher are left", async || {
        let path = format!("/proc/{id}/task/{id}/children");
        Ok(std::fs::read_to_string(path)?.split_whitespace().count() == 2)
    })
    .await?;
    ensure!(run.close().await? == 1);
    Ok(())
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_dead_that_a_process_outside_does_not_bury_keep_no_lock() -> Result<()> {
    let server = Server::start().await?;
    // A process that leaves the group and its session, and has a child that stays in the group.
    let outside = "sh -c 'echo $$; : & exec setsid sleep 600 >/dev/null' &";
    let script = format!("{outside} read -r _; exit 7");
    let mut run = Run::shell(&server, "--lock name --grace 300ms", &script)?;
    let outside = Pid::from_raw(run.line().await?.parse()?).context("no process")?;
    until("it has a child that has died", async || {
        let outside = outside.as_raw_pid();
        let children = std::fs::read_to_string(format!("/proc/{outside}/task/{outside}/children"))?;
        let dead = |child: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat"));
            stat.is_ok_and(|stat| stat.contains(") Z "))
        };
        let left = std::fs::read_to_string(format!("/proc/{outside}/comm"))? == "sleep\n";
        Ok(left && children.split_whitespace().any(dead))
    })
    .await?;
    drop(run.child.stdin.take());
    let released = run.event("released").await;
    kill_process(outside, Signal::KILL)?;
    released?;
    ensure!(run.code().await? == 7);
    Ok(())
}

/// Needs root, because the program changes to another user, whom the command may not kill.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_lock_is_not_let_go_under_whom_the_command_may_not_kill() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("left out: needs root");
        return Ok(());
    }
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("events");
    let other = "setpriv --reuid 65534 --clear-groups sh -c 'echo $$; exec sleep 600 >&2'";
    let script = format!("{other} & read -r _; exit 0");
    let mut child = tokio::process::Command::new("setpriv")
        .args(["--bounding-set", "-kill", THIS])
        .args(["run", "--ttl", "1m", "--grace", "300ms", "--lock", "name"])
        .arg("--events")
        .arg(&file)
        .args(["--", "sh", "-c", &script])
        .env("LOCKKEEPER_URL", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let out = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(out).lines();
    let line = timeout(LIMIT, lines.next_line())
        .await??
        .context("no process")?;
    let left = Pid::from_raw(line.parse()?).context("no process")?;
    drop(child.stdin.take());
    let status = timeout(LIMIT, child.wait()).await??;
    test_kill_process(left)?;
    let held = server.command(&["EXISTS", "lockkeeper:name"]).await?;
    kill_process(left, Signal::KILL)?;
    ensure!(held.into_integer()? == 1, "it was let go");
    ensure!(status.code() == Some(76), "{status}");
    let events = std::fs::read_to_string(file)?;
    ensure!(events.contains("\"expiring\""), "{events}");
    Ok(())
}

#[tokio::test]
async fn a_kept_lock_is_held_for_as_long_as_anybody_of_the_group_lives() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let folder = tempfile::tempdir()?;
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
    ensure!(made.success());
    let path = pipe.to_str().unwrap();
    let script = "(cat <\"$1\" >/dev/null) & exit 6";
    let program = ["sh", "-c", script, "sh", path];
    let mut run = Run::start(&server, "--keep --lock name", &program)?;
    run.event("exited").await?;
    let lock = Mutex::new(&client, "name");
    ensure!(lock.try_acquire().await?.is_none(), "it was let go");
    // The process that was left behind reads the end of the pipe, and ends.
    let writer =
        tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(pipe));
    drop(writer.await??);
    run.event("over").await?;
    ensure!(run.code().await? == 6);
    ensure!(lock.try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_shortest_time_keeps_others_out_after_the_program_is_done() -> Result<()> {
    let server = Server::start().await?;
    let mut run = Run::start(&server, "--min-hold 1h --lock name", &["true"])?;
    let released = run.event("released").await?;
    ensure!(released["kept_ms"].as_u64() > Some(3_000_000), "{released}");
    ensure!(run.code().await? == 0);
    let again = ask(&server, "run --no-wait --lock name -- true").await?;
    ensure!(again.code == Some(75));
    Ok(())
}

#[tokio::test]
async fn a_longest_time_stops_the_program_before_it_is_over() -> Result<()> {
    let server = Server::start().await?;
    let program = "trap 'exit 0' TERM; while :; do sleep 0.02; done";
    let terms = "--ttl 10m --grace 3m --max-hold 181s --lock name";
    let mut run = Run::shell(&server, terms, program)?;
    run.event("terminating").await?;
    let over = run.event("over").await?;
    ensure!(over["left_ms"].as_u64() > Some(0), "{over}");
    ensure!(run.code().await? == 76);
    Ok(())
}

#[tokio::test]
async fn events_go_to_a_file_and_leave_stderr_alone() -> Result<()> {
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("events");
    let line = format!("run --events {} --lock name -- true", file.display());
    assert_printed!(ask(&server, &line).await?, @"");
    assert_printed!(std::fs::read_to_string(file)?, @r#"
    {"at":"<time>","ms":<ms>,"event":"asking","name":"name"}
    {"at":"<time>","ms":<ms>,"event":"granted","name":"name","kind":"mutex","owner":"<client>:1","fence":<token>,"ttl_ms":<ms>}
    {"at":"<time>","ms":<ms>,"event":"started","pid":<pid>}
    {"at":"<time>","ms":<ms>,"event":"exited","code":0}
    {"at":"<time>","ms":<ms>,"event":"over","left_ms":<ms>}
    {"at":"<time>","ms":<ms>,"event":"released","kept_ms":<ms>}
    "#);
    Ok(())
}

#[tokio::test]
async fn events_go_to_a_pipe_if_somebody_reads_it_and_nobody_is_waited_for() -> Result<()> {
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
    ensure!(made.success());
    let shown = pipe.to_str().context("a strange path")?;
    let line = format!("run --events {shown} --lock name -- echo ran");
    let refused = ask(&server, &line).await?;
    assert_printed!(refused.to_string().replace(shown, "PIPE"), @"
    ! lockkeeper: cannot write to PIPE: no process reads this pipe: start the reader first
    => 64
    ");
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut reader = std::fs::File::options()
        .read(true)
        .custom_flags(flags)
        .open(&pipe)?;
    assert_printed!(ask(&server, &line).await?, @"ran");
    let mut events = String::new();
    reader.read_to_string(&mut events)?;
    ensure!(events.lines().count() == 6, "{events}");
    ensure!(events.contains("\"released\""), "{events}");
    Ok(())
}

#[tokio::test]
async fn a_second_of_waiting_in_vain_is_over_in_a_second() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = Mutex::new(&client, "name").acquire().await?;
    let begun = std::time::Instant::now();
    let ended = ask(&server, "run --wait 1s --lock name -- echo ran").await?;
    ensure!(ended.code == Some(75) && ended.out.is_empty(), "{ended}");
    let took = begun.elapsed();
    ensure!(took >= Duration::from_secs(1), "{took:?}");
    Ok(())
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_program_begins_with_the_signals_and_files_it_would_have_without() -> Result<()> {
    let server = Server::start().await?;
    let script = "grep -E '^Sig(Blk|Ign):' /proc/self/status; ls /proc/$$/fd";
    let mut bare = tokio::process::Command::new("env");
    bare.args(["--default-signal", "sh", "-c", script]);
    let bare = bare.stdin(Stdio::null()).output();
    let said = shell(&server, "--lock name", script).await?;
    ensure!(said.out.contains("SigIgn"), "{said}");
    ensure!(said.out == String::from_utf8(bare.await?.stdout)?, "{said}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_hear_of_the_end_does_not_change_the_exit_code() -> Result<()> {
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("events");
    let events = ["--events", file.to_str().unwrap()];
    let job = ["--lock", "name", "--", "sh", "-c", "read -r _; exit 3"];
    let words = [&["run"], &events[..], &job].concat();
    let mut command = command(&server.url(), &words);
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    until("it is held", async || {
        let held = server.command(&["EXISTS", "lockkeeper:name"]).await?;
        Ok(held.into_integer()? == 1)
    })
    .await?;
    server.freeze()?;
    drop(child.stdin.take());
    let output = child.wait_with_output().await?;
    ensure!(output.status.code() == Some(3), "{output:?}");
    let err = String::from_utf8(output.stderr)?;
    ensure!(err.contains("free when its lease ends"), "{err}");
    let events = std::fs::read_to_string(file)?;
    ensure!(events.contains("\"expiring\""), "{events}");
    server.thaw()
}
