//! A Redis or Valkey server that belongs to one test.
//!
//! Each [`Server`] is a process of its own on a free loopback port and a unix socket, without persistence, in a directory that
//! is removed with it. Tests kill, freeze and restart it by its pid.
//!
//! A server lives in real time: timeouts here need a runtime whose clock is not paused.
//!
//! It does not use `redis-server-wrapper`: that crate lets the server daemonise, so the server outlives a killed test, and it
//! stops a server with half a second of sleep and a kill of whichever process listens on the port.

mod command;
mod port;
mod process;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::until::{PATIENCE, until};
pub use command::Reply;
pub use port::Port;
use process::Process;

/// Environment variable with the server program to test against. Without it, the first one on `PATH` is used.
pub const PROGRAM_VARIABLE: &str = "LOCKKEEPER_TEST_SERVER";

/// Environment variable with more server programs, separated as in `PATH`. Tests that compare something with servers compare
/// it with these too.
pub const OTHERS_VARIABLE: &str = "LOCKKEEPER_TEST_SERVERS";

/// Returns the programs in [`OTHERS_VARIABLE`].
pub fn others() -> Vec<PathBuf> {
    let others = std::env::var_os(OTHERS_VARIABLE).unwrap_or_default();
    let others = std::env::split_paths(&others);
    others
        .filter(|program| !program.as_os_str().is_empty())
        .collect()
}

/// How many more free ports to try when another process takes the one just found.
const PORT_ATTEMPTS: usize = 10;

/// A server that this process starts and that ends with it.
///
/// Dropping it kills the server and removes its directory. If the test process itself is killed, a watching shell does
/// both.
#[derive(Debug)]
pub struct Server {
    options: Options,
    port: Port,
    process: Option<Process>,
    directory: Directory,
}

/// Where a server keeps its files.
#[derive(Debug)]
enum Directory {
    /// Removed with the server.
    Temporary(TempDir),
    /// Removed with the server, but outlives this process.
    Kept(PathBuf),
}

impl Directory {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(directory) => directory,
        }
    }
}

impl Server {
    /// Starts a server with default settings.
    ///
    /// # Errors
    ///
    /// If no server program is found, or it does not answer in time; the error carries its log.
    pub async fn start() -> Result<Self> {
        Self::options().start().await
    }

    /// Adopts a server that another process started with [`Options::kept`] and otherwise default settings.
    ///
    /// # Errors
    ///
    /// If its directory is gone.
    pub fn take_up(pid: u32, port: u16, directory: PathBuf) -> Result<Self> {
        process::touch(&directory)?;
        Ok(Self {
            options: Self::options().kept(),
            port: Port::of_another_process(port),
            process: Some(Process::take_up(pid)),
            directory: Directory::Kept(directory),
        })
    }

    /// Options for a server with a password or other settings.
    pub fn options() -> Options {
        Options::default()
    }

    /// Starts a replica of this server. When this returns, writes to this server reach the replica at once.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start), and if the replica does not connect in time.
    pub async fn start_replica(&self) -> Result<Self> {
        self.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"])
            .await?;
        let replica = Self::options()
            .configuration(format!("replicaof 127.0.0.1 {}", self.port()))
            .start()
            .await?;
        let online = format!("port={},state=online", replica.port());
        until("a replica", PATIENCE, async || {
            let info = self.command(&["INFO", "replication"]).await?.into_text()?;
            Ok((info.contains(&online), info))
        })
        .await?;
        Ok(replica)
    }

    /// The port on 127.0.0.1; [`restart`](Self::restart) keeps it.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Address and port.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// `redis://…`, with the password if there is one.
    pub fn url(&self) -> String {
        self.url_at(self.address())
    }

    /// The URL of this server through another address, for example a proxy's.
    pub(crate) fn url_at(&self, address: SocketAddr) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@{address}"),
            None => format!("redis://{address}"),
        }
    }

    /// `unix://…`, with the password if there is one.
    pub fn unix_url(&self) -> String {
        let socket = self.socket();
        match &self.options.password {
            Some(password) => format!("unix://:{password}@{}", socket.display()),
            None => format!("unix://{}", socket.display()),
        }
    }

    /// The path of a file in the server's directory. A server that speaks TLS has `ca.pem`, `client.pem` and `client-key.pem`
    /// for its clients, and `stranger.pem`, an authority that has not signed its certificate.
    pub fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// The path of the unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The pid, while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.id())
    }

    /// Sends one command over a connection of its own, as another client would, and returns the reply.
    ///
    /// # Errors
    ///
    /// If the server does not answer within [`PATIENCE`], or answers with an error.
    pub async fn command(&self, words: &[&str]) -> Result<Reply> {
        self.command_in(0, words).await
    }

    /// As [`command`](Self::command), but in the given database.
    ///
    /// # Errors
    ///
    /// As for [`command`](Self::command), and if the server does not have that database.
    pub async fn command_in(&self, database: u8, words: &[&str]) -> Result<Reply> {
        let password = self.options.password.as_deref();
        command::send(&self.socket(), password, database, words)
            .await
            .with_context(|| format!("failed to send {words:?} to the server on {}", self.port()))
    }

    /// Disconnects all clients and deletes all keys.
    pub(crate) async fn clean(&self) -> Result<()> {
        for clients in ["normal", "pubsub"] {
            self.command(&["CLIENT", "KILL", "TYPE", clients]).await?;
        }
        self.command(&["FLUSHALL"]).await?;
        Ok(())
    }

    /// How often a command was called since the start or `CONFIG RESETSTAT`, including failed calls and calls by scripts.
    /// Subcommands are named as the server names them: `client|list`.
    ///
    /// # Errors
    ///
    /// As for [`command`](Self::command).
    pub async fn commandstats(&self, command: &str) -> Result<u64> {
        let statistics = self.command(&["INFO", "commandstats"]).await?.into_text()?;
        command::calls(&statistics, command)
    }

    /// Asks the server to end and waits until it has; it closes its connections properly.
    ///
    /// # Errors
    ///
    /// If the process cannot be signalled.
    pub async fn stop(&mut self) -> Result<()> {
        let Some(process) = self.process.take() else {
            return Ok(());
        };
        process.signal(Signal::CONT)?;
        process.signal(Signal::TERM)?;
        tokio::task::spawn_blocking(move || process.wait(PATIENCE)).await?
    }

    /// Kills the server, as a crash would. When this returns, the process is gone.
    ///
    /// # Errors
    ///
    /// If the process cannot be signalled.
    pub fn kill(&mut self) -> Result<()> {
        match self.process.take() {
            Some(process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Freezes the server: its connections stay open and it answers nothing. When this returns, it no longer runs.
    ///
    /// # Errors
    ///
    /// If the server is not running.
    pub fn freeze(&self) -> Result<()> {
        let process = self.running()?;
        process.signal(Signal::STOP)?;
        // The signal is only on its way; a server on another core may run one more command before it takes effect.
        // NOWAIT leaves the exit status, if the server exits, to `Child::wait`.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(process.pid()?), options)?;
        ensure!(
            status.is_some_and(|status| status.stopped()),
            "the server has ended, it cannot be frozen"
        );
        Ok(())
    }

    /// Resumes a frozen server.
    ///
    /// # Errors
    ///
    /// If the server is not running.
    pub fn thaw(&self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    /// Starts the server again on the same port without its data. Kills it first if it still runs.
    ///
    /// # Errors
    ///
    /// If it does not answer in time.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill()?;
        ensure!(
            self.launch().await?,
            "port {} is in use by another process",
            self.port()
        );
        Ok(())
    }

    fn running(&self) -> Result<&Process> {
        self.process.as_ref().context("the server does not run")
    }

    /// Starts the process and waits until it answers. Returns `false` if its port was taken.
    async fn launch(&mut self) -> Result<bool> {
        std::fs::write(self.configuration_file(), self.configuration())?;
        if self.options.tls {
            tls::write(self.directory.path())?;
        }
        let (file, directory) = (self.configuration_file(), self.directory.path());
        let mut process = Process::start(&self.options, &file, directory)?;
        let deadline = Instant::now() + PATIENCE;
        // Only this server has this socket, so an answer on it comes from this server.
        while let Err(error) = self.command(&["PING"]).await {
            if let Some(status) = process.ended()? {
                let log = self.log();
                if log.contains("Address already in use") {
                    return Ok(false);
                }
                bail!("the server ended at once with {status}, its log:\n{log}");
            }
            if Instant::now() > deadline {
                return Err(error.context(format!("no answer, the log:\n{}", self.log())));
            }
            sleep(Duration::from_millis(5)).await;
        }
        if self.options.kept {
            process.leave();
        }
        self.process = Some(process);
        Ok(true)
    }

    fn configuration_file(&self) -> PathBuf {
        self.directory.path().join("server.conf")
    }

    fn configuration(&self) -> String {
        let directory = self.directory.path().display();
        let mut lines = format!(
            "bind 127.0.0.1\nport {port}\nunixsocket {directory}/socket\ndir {directory}\n\
             logfile {directory}/log\ndaemonize no\nsave \"\"\nappendonly no\n",
            port = if self.options.tls { 0 } else { self.port() },
        );
        if self.options.tls {
            lines += &tls::configuration(self.directory.path(), self.port());
        }
        if let Some(password) = &self.options.password {
            lines += &format!("requirepass {password}\n");
        }
        for line in &self.options.configuration {
            lines += line;
            lines.push('\n');
        }
        lines
    }

    /// What the server has logged since its last start.
    fn log(&self) -> String {
        let whole = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let start = whole.rfind("oO0OoO0OoO0Oo").unwrap_or_default();
        whole[start..].to_owned()
    }
}

/// How to start a [`Server`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    program: Option<PathBuf>,
    password: Option<String>,
    configuration: Vec<String>,
    cluster: bool,
    sentinel: bool,
    tls: bool,
    kept: bool,
}

impl Options {
    /// Starts this program, regardless of the environment.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Requires this password from every client (`requirepass`).
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a line to the server's configuration file: `maxmemory 2mb`, `user alice on >secret ~app:* +@all`.
    #[must_use]
    pub fn configuration(mut self, line: impl Into<String>) -> Self {
        self.configuration.push(line.into());
        self
    }

    /// Makes it a cluster node that knows no other node and has no slots yet.
    #[must_use]
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self.configuration("cluster-enabled yes")
    }

    /// Makes it a sentinel: it holds no keys, and its configuration says which server it watches.
    #[must_use]
    pub const fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Lets it outlive this process. It ends when it has not been [taken up](Server::take_up) for ten minutes.
    #[must_use]
    pub const fn kept(mut self) -> Self {
        self.kept = true;
        self
    }

    /// Makes it speak TLS over TCP and require a client certificate. [`Server::file`] returns the files that clients need.
    #[must_use]
    pub const fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// As for [`Server::start`].
    pub async fn start(self) -> Result<Server> {
        let directory = tempfile::Builder::new().prefix("lockkeeper-").tempdir()?;
        let directory = if self.kept {
            Directory::Kept(directory.keep())
        } else {
            Directory::Temporary(directory)
        };
        let mut server = Server {
            options: self,
            port: Port::reserve()?,
            process: None,
            directory,
        };
        for _ in 0..PORT_ATTEMPTS {
            if server.launch().await? {
                return Ok(server);
            }
            server.port = Port::reserve()?;
        }
        bail!("no free port in {PORT_ATTEMPTS} attempts")
    }
}
