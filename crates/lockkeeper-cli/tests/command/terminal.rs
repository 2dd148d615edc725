//! A program on a terminal: it can read from the terminal, gets typed keys as signals, and gives the terminal back.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper_testkit::server::Server;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::{LIMIT, THIS, take, until, with_ttl};
use crate::tmux::Tmux;

/// A shell with its own session and terminal, as a person at a keyboard has it.
struct Session {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    shell: Child,
}

impl Session {
    /// Starts `sh -c script`, in which `$0` is the command. With the option `-i`, the shell has job control.
    fn start(server: &Server, options: &[&str], script: &str) -> Result<Self> {
        let main: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&main)?;
        unlockpt(&main)?;
        let path = ptsname(&main, Vec::new())?;
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        let open = || File::options().read(true).write(true).open(path);
        let shell = Command::new("setsid")
            .args(["--ctty", "--wait", "env", "--default-signal", "sh"])
            .args(options)
            .args(["-c", script, THIS])
            .env("LOCKKEEPER_URL", server.url())
            .env("TERM", "dumb")
            .stdin(Stdio::from(open()?))
            .stdout(Stdio::from(open()?))
            .stderr(Stdio::from(open()?))
            .kill_on_drop(true)
            .spawn()?;
        let keyboard = File::from(main);
        let mut output = keyboard.try_clone()?;
        let (tell, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                if tell.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            keyboard,
            screen,
            seen: String::new(),
            shell,
        })
    }

    fn types(&mut self, keys: &str) -> Result<()> {
        Ok(self.keyboard.write_all(keys.as_bytes())?)
    }

    /// Waits until this text is on the screen, and forgets everything up to it.
    fn shows(&mut self, text: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(place) = self.seen.find(text) {
                self.seen.drain(..place + text.len());
                return Ok(());
            }
            match self
                .screen
                .recv_timeout(LIMIT.saturating_sub(begun.elapsed()))
            {
                Ok(more) => self.seen += &String::from_utf8_lossy(&more),
                Err(_) => bail!("not on the screen: {text:?}; {:?}", self.seen),
            }
        }
    }

    async fn code(mut self) -> Result<Option<i32>> {
        let status = timeout(LIMIT, self.shell.wait()).await;
        Ok(status
            .with_context(|| format!("it hangs: {:?}", self.seen))??
            .code())
    }
}

#[tokio::test]
async fn a_program_reads_single_keys_and_the_script_around_it_reads_on() -> Result<()> {
    let server = Server::start().await?;
    let program =
        "stty raw -echo; echo ready; k=$(dd bs=1 count=1 2>/dev/null); stty sane; echo \"key $k\"";
    let script =
        format!("\"$0\" run --lock name -- sh -c '{program}'; read -r line; echo \"then $line\"");
    let mut session = Session::start(&server, &[], &script)?;
    session.shows("ready")?;
    session.types("q")?;
    session.shows("key q")?;
    session.types("more\n")?;
    session.shows("then more")?;
    ensure!(session.code().await? == Some(0));
    Ok(())
}

#[tokio::test]
async fn an_interrupt_from_the_keyboard_reaches_the_program_once() -> Result<()> {
    let server = Server::start().await?;
    let program = "n=0; trap \"n=\\$((n+1)); echo interrupt \\$n\" INT; echo ready; \
                   while read -r line; do echo \"line $line\"; exit 9; done; sleep 0.01; \
                   while :; do read -r line && echo \"line $line\" && exit 9; done";
    let script = format!("\"$0\" run --lock name -- sh -c '{program}'; echo \"code $?\"");
    let mut session = Session::start(&server, &[], &script)?;
    session.shows("ready")?;
    session.types("\x03")?;
    session.shows("interrupt 1")?;
    session.types("on\n")?;
    session.shows("line on")?;
    session.shows("code 9")?;
    ensure!(!session.seen.contains("interrupt 2"));
    ensure!(session.code().await? == Some(0));
    Ok(())
}

#[tokio::test]
async fn a_program_that_is_stopped_from_the_keyboard_goes_on_in_front() -> Result<()> {
    let server = Server::start().await?;
    let program = "echo ready; while read -r line; do echo \"got $line\"; done";
    let script = format!(
        "set -m; \"$0\" run --lock name -- sh -c '{program}'; echo \"stopped $?\"; read -r x; echo \"shell $x\"; fg; echo \"done $?\""
    );
    let mut session = Session::start(&server, &[], &script)?;
    session.shows("ready")?;
    session.types("one\n")?;
    session.shows("got one")?;
    session.types("\x1a")?;
    session.shows("stopped")?;
    session.types("two\n")?;
    session.shows("shell two")?;
    session.types("three\n")?;
    session.shows("got three")?;
    session.types("\x04")?;
    session.shows("done 0")?;
    ensure!(session.code().await? == Some(0));
    Ok(())
}

#[tokio::test]
async fn a_program_that_is_stopped_for_too_long_is_killed_when_it_is_to_go_on() -> Result<()> {
    with_ttl(Duration::from_secs(2), async |ttl| {
        let server = Server::start().await?;
        let program = "echo ready; while read -r line; do echo \"got $line\"; done";
        let run = format!("run --ttl {ttl:?} --grace 200ms --lock name");
        let script = format!(
            "set -m; \"$0\" {run} -- sh -c '{program}'; echo stopped; read -r x; fg; echo \"code $?\""
        );
        let mut session = Session::start(&server, &[], &script)?;
        session.shows("ready")?;
        session.types("\x1a")?;
        session.shows("stopped")?;
        until("the lease has ended", async || {
            let held = server.command(&["EXISTS", "lockkeeper:name"]).await?;
            Ok(held.into_integer()? == 0)
        })
        .await?;
        session.types("on\nmore\n")?;
        session.shows("code 76")?;
        ensure!(!session.seen.contains("got"), "it worked on: {}", session.seen);
        ensure!(session.code().await? == Some(0));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_terminal_that_stops_who_writes_from_the_background_does_not_stop_the_guard() -> Result<()>
{
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let program = "trap \"\" TERM; echo ready; while :; do sleep 60; done";
    let run = "run --json --grace 500ms --lock name";
    let script =
        format!("set -m; stty tostop; \"$0\" {run} -- sh -c '{program}'; echo \"code $?\"");
    let mut session = Session::start(&server, &[], &script)?;
    session.shows("ready")?;
    take(&client, "name").await?;
    session.shows("code 76")?;
    ensure!(session.code().await? == Some(0));
    Ok(())
}

#[tokio::test]
async fn in_tmux_a_pager_is_turned_stopped_continued_and_left() -> Result<()> {
    if !Tmux::is_there() {
        return Ok(());
    }
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("text");
    let lines: Vec<String> = (1..500).map(|line| format!("line {line}\n")).collect();
    std::fs::write(&file, lines.concat())?;
    let tmux = Tmux::start(&server, 60, 12)?;
    tmux.prompts().await?;
    let line = format!("{THIS} run --lock name -- more {}", file.display());
    tmux.types(&[&line, "Enter"])?;
    tmux.shows("line 11").await?;
    tmux.types(&["Space"])?;
    tmux.shows("line 22").await?;
    tmux.types(&["C-z"])?;
    tmux.prompts().await?;
    tmux.types(&["fg", "Enter"])?;
    tmux.shows("ready> fg").await?;
    tmux.types(&["Space"])?;
    tmux.shows("line 33").await?;
    tmux.types(&["q"])?;
    tmux.prompts().await?;
    tmux.types(&["echo code $?", "Enter"])?;
    tmux.shows("code 0").await
}
