//! The process of a server, and the shell that ends it together with this process.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{Options, PROGRAM_VARIABLE};

/// Program names to look for on `PATH`; the first one found is used.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Ends a server when the process that started it ends, which closes the pipe.
const WATCH: &str = r#"read -r _; kill -KILL "$1"; rm -rf -- "$2""#;

/// Ends a kept server ten minutes after its last use.
const WATCH_KEPT: &str = r#"
    while kill -0 "$1" && [ -n "$(find "$2/touched" -mmin -10)" ]; do sleep 10; done
    kill -KILL "$1"; rm -rf -- "$2""#;

/// A running server and the shell that watches over it.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    /// `None` if another process started the server, or it is kept.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    server: Child,
    watcher: Child,
}

/// Keeps a kept server alive for another ten minutes.
pub(super) fn touch(directory: &Path) -> std::io::Result<()> {
    std::fs::write(directory.join("touched"), "")
}

impl Process {
    pub(super) fn start(options: &Options, configuration: &Path, directory: &Path) -> Result<Self> {
        let mut server = spawn(options, configuration)?;
        // However this process ends, its end closes the pipe. A parent-death signal would need unsafe code, and follows the
        // thread that started the server rather than the process. Server and watcher have process groups of their own, because
        // an interrupt from the keyboard would otherwise end the watcher before a frozen server.
        let watch = if options.kept {
            touch(directory)?;
            WATCH_KEPT
        } else {
            WATCH
        };
        let pid = server.id();
        let watcher = Command::new("sh")
            .args(["-c", watch, "watcher", &pid.to_string()])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match watcher {
            Ok(watcher) => Ok(Self {
                pid,
                own: Some(Own { server, watcher }),
            }),
            Err(error) => {
                server.kill()?;
                server.wait()?;
                Err(error).context("failed to start a shell")
            }
        }
    }

    /// Adopts a kept server that another process started.
    pub(super) const fn take_up(pid: u32) -> Self {
        Self { pid, own: None }
    }

    /// Leaves the server to its watcher, and so to other processes.
    pub(super) fn leave(&mut self) {
        self.own = None;
    }

    pub(super) const fn id(&self) -> u32 {
        self.pid
    }

    /// The exit status, if the server has ended.
    pub(super) fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        match &mut self.own {
            Some(own) => own.server.try_wait(),
            None => Ok(None),
        }
    }

    pub(super) fn pid(&self) -> Result<Pid> {
        Pid::from_raw(self.pid.cast_signed()).context("a process with the id 0")
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid()?, signal).with_context(|| format!("failed to send {signal:?}"))
    }

    /// Waits for the server to end, and kills it after `patience`.
    pub(super) fn wait(mut self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        while self.ended()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.kill()
    }

    pub(super) fn kill(mut self) -> Result<()> {
        self.end().context("failed to kill the server")
    }

    /// Ends the watcher first: once the server is reaped, another process may get its pid. A kept server is ended by
    /// its watcher alone.
    fn end(&mut self) -> std::io::Result<()> {
        let Some(Own { server, watcher }) = &mut self.own else {
            return Ok(());
        };
        let watcher = watcher.kill().and_then(|()| watcher.wait());
        let server = server.kill().and_then(|()| server.wait());
        watcher.and(server).map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is no caller to report to. Ending twice is harmless: the handles know that they were reaped.
        let _ = self.end();
    }
}

/// Starts the first server program found.
fn spawn(options: &Options, configuration: &Path) -> Result<Child> {
    let chosen = options.program.clone();
    let chosen = chosen.or_else(|| std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from));
    let programs = chosen.map_or_else(
        || PROGRAMS.map(PathBuf::from).to_vec(),
        |program| vec![program],
    );
    for program in &programs {
        let spawned = Command::new(program)
            .arg(configuration)
            .args(options.sentinel.then_some("--sentinel"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match spawned {
            Ok(child) => return Ok(child),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("failed to start {}", program.display()));
            }
        }
    }
    bail!(
        "none of {programs:?} found: `cargo xtask test` says how to install one, {PROGRAM_VARIABLE} names another program"
    )
}
