//! Servers for programs that run here. Each ends when its value is dropped.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::house::root;
use crate::tools;

/// How long a cluster may take to agree.
const AGREEMENT: Duration = Duration::from_secs(60);

/// How many servers of a cluster own slots; each has one replica.
const PRIMARIES: u32 = 3;

const SLOTS: u32 = 16_384;

/// A server without persistence on a free port. It ends when this is dropped.
pub(crate) struct Server {
    port: u16,
    process: Child,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    fn start_with(settings: &[&str]) -> Result<Self> {
        // Another process may take the port before the server starts. The server then ends at once, and another port is tried.
        for _ in 0..10 {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
                .local_addr()?
                .port();
            let mut server = Self {
                port,
                process: Self::spawn(port, settings)?,
            };
            if server.wait()? {
                return Ok(server);
            }
        }
        bail!("no port is free")
    }

    fn spawn(port: u16, settings: &[&str]) -> Result<Child> {
        let program = tools::server_program().context("no server found")?;
        Command::new(program)
            .args(["--port", &port.to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("failed to start the server")
    }

    /// Waits until the server answers. Returns `false` if it has ended instead.
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
        self.say("PING")
            .is_ok_and(|answer| answer.starts_with("+PONG"))
    }

    /// Sends a line and returns the reply; only the beginning of a long reply.
    fn say(&self, line: &str) -> Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("{line}\r\n").as_bytes())?;
        let mut answer = [0; 4096];
        let length = stream.read(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        if answer.starts_with('-') {
            bail!("{line}: {}", answer.trim());
        }
        Ok(answer)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If it has already ended, there is nothing to stop.
        if self.process.kill().is_ok() {
            drop(self.process.wait());
        }
    }
}

/// Three primaries that share the slots, with one replica each.
pub(crate) struct Cluster(Vec<Server>);

impl Cluster {
    pub(crate) fn start() -> Result<Self> {
        let folder = root().join("target").join("tmp");
        std::fs::create_dir_all(&folder)?;
        let folder = folder
            .to_str()
            .context("a path that is no text")?
            .to_owned();
        let node = |number| {
            // A file with this name from an earlier run would belong to another cluster.
            let file = format!("nodes-{}-{number}.conf", std::process::id());
            let _ = std::fs::remove_file(format!("{folder}/{file}"));
            Server::start_with(&[
                "--cluster-enabled",
                "yes",
                "--dir",
                &folder,
                "--cluster-config-file",
                &file,
            ])
        };
        let nodes = (0..PRIMARIES * 2).map(node).collect::<Result<Vec<_>>>()?;
        let cluster = Self(nodes);
        cluster.join()?;
        Ok(cluster)
    }

    fn join(&self) -> Result<()> {
        let [first, others @ ..] = &self.0[..] else {
            bail!("no node");
        };
        let share = SLOTS / PRIMARIES + 1;
        let begins = (0..SLOTS).step_by(share as usize);
        for (node, begin) in self.0.iter().zip(begins) {
            let slots = begin..(begin + share).min(SLOTS);
            let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
            node.say(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")))?;
        }
        for node in others {
            node.say(&format!("CLUSTER MEET 127.0.0.1 {}", first.port))?;
        }
        let all = format!("cluster_known_nodes:{}", self.0.len());
        self.agree(&all)?;
        let (primaries, replicas) = self.0.split_at(PRIMARIES as usize);
        for (primary, replica) in primaries.iter().zip(replicas) {
            let id = primary.say("CLUSTER MYID")?;
            let id = id.lines().nth(1).context("a node without an id")?;
            replica.say(&format!("CLUSTER REPLICATE {id}"))?;
        }
        self.agree("cluster_state:ok")
    }

    /// Waits until the reply of every node contains this line.
    fn agree(&self, line: &str) -> Result<()> {
        let deadline = Instant::now() + AGREEMENT;
        while Instant::now() < deadline {
            let says = |node: &Server| Ok(node.say("CLUSTER INFO")?.contains(line));
            let said: Vec<bool> = self.0.iter().map(says).collect::<Result<_>>()?;
            if said.iter().all(|said| *said) {
                return Ok(());
            }
            sleep(Duration::from_millis(50));
        }
        bail!("the nodes do not agree: {line}")
    }

    pub(crate) fn url(&self) -> String {
        let port = self.0.first().map_or(0, |node| node.port);
        format!("redis-cluster://127.0.0.1:{port}")
    }
}
