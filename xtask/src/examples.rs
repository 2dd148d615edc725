//! `cargo xtask examples`: every example, inside its own process and on a real server. Each fails if its story does not come true.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use clap::Args;

use crate::house::root;
use crate::steps::{Steps, cargo, execute};
use crate::tools;

/// The package that the examples are in.
const PACKAGE: &str = "lockkeeper-examples";

/// The one that needs servers of its own, which must have been up for a ttl: it comes last.
const LAST: &str = "redlock";

/// What to run.
#[derive(Debug, Args, Default)]
pub(crate) struct Options {
    /// Only this one.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Stops at the first that fails.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("a server for the examples", tools::require_server)?;
    let servers = (0..3)
        .map(|_| Server::start())
        .collect::<Result<Vec<_>>>()?;
    steps.cargo(&format!("build --package {PACKAGE} --examples"))?;
    let mut names = names()?;
    names.sort_by_key(|name| name == LAST);
    if let Some(only) = &options.only {
        names.retain(|name| name == only);
    }
    if names.is_empty() {
        bail!("there is no such example");
    }
    for name in &names {
        steps.run(&format!("example {name}"), || example(name, &[]))?;
    }
    for name in &names {
        let used = if name == LAST {
            &*servers
        } else {
            &servers[..1]
        };
        let urls: Vec<_> = used.iter().map(Server::url).collect();
        steps.run(&format!("example {name} on a server"), || {
            example(name, &urls)
        })?;
    }
    Ok(())
}

/// All examples that there are, so that a new one is run without being named here.
fn names() -> Result<Vec<String>> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .current_dir(root())
        .exec()
        .context("failed to read the workspace")?;
    let packages = metadata.packages.into_iter();
    let targets = packages
        .filter(|package| package.name.as_str() == PACKAGE)
        .flat_map(|package| package.targets);
    let examples = targets.filter(cargo_metadata::Target::is_example);
    Ok(examples.map(|target| target.name).collect())
}

fn example(name: &str, urls: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", PACKAGE, "--example", name]);
    command.arg("--");
    for url in urls {
        command.args(["--url", url]);
    }
    execute(&mut command)
}

/// A server without persistence on a free port, which ends with this value.
struct Server {
    port: u16,
    process: Child,
}

impl Server {
    fn start() -> Result<Self> {
        // Between the look and the start somebody may take the port; then the server ends at once, and another is looked for.
        for _ in 0..10 {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
                .local_addr()?
                .port();
            let mut server = Self {
                port,
                process: Self::spawn(port)?,
            };
            if server.wait()? {
                return Ok(server);
            }
        }
        bail!("no port is free")
    }

    fn spawn(port: u16) -> Result<Child> {
        let program = tools::server_program().context("no server found")?;
        Command::new(program)
            .args(["--port", &port.to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("failed to start the server")
    }

    /// Waits until it answers; `false` if it has ended instead.
    fn wait(&mut self) -> Result<bool> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if self.process.try_wait()?.is_some() {
                return Ok(false);
            }
            if self.answers() {
                return Ok(true);
            }
            sleep(Duration::from_millis(10));
        }
        bail!("the server on port {} does not answer", self.port)
    }

    fn answers(&self) -> bool {
        let ping = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        ping().is_ok_and(|answer| &answer == b"+PONG")
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to stop.
        if self.process.kill().is_ok() {
            drop(self.process.wait());
        }
    }
}
