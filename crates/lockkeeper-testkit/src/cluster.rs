//! A Redis Cluster for one test: by default three primaries with one replica each.
//!
//! Tests kill, freeze and restart nodes and migrate slots with the commands that an operator would use.

mod failures;
mod messages;
mod migrations;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use tokio::time::sleep;

use crate::pool::Shared;
use crate::server::{Reply, Server};
use crate::until::{PATIENCE, until};

/// The number of slots in every cluster.
pub const SLOTS: u16 = 16_384;

/// How long a node that a test killed or froze may stay silent before the others consider it dead, in milliseconds.
const SUSPICIOUS: &str = "1500";

/// The same at any other time: a busy machine must not make the nodes suspect one another.
const TRUSTING: &str = "60000";

/// Servers that this process starts and joins into a cluster.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    ids: Vec<String>,
    frozen: Vec<bool>,
}

/// How to start a [`Cluster`].
#[derive(Debug, Clone)]
pub struct Options {
    primaries: usize,
    replicas: usize,
    configuration: Vec<String>,
    tls: bool,
    kept: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            primaries: 3,
            replicas: 1,
            configuration: Vec::new(),
            tls: false,
            kept: false,
        }
    }
}

impl Options {
    /// Sets the number of primaries.
    #[must_use]
    pub const fn primaries(mut self, primaries: usize) -> Self {
        self.primaries = primaries;
        self
    }

    /// Sets the number of replicas of each primary.
    #[must_use]
    pub const fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Adds a line to the configuration file of every node.
    #[must_use]
    pub fn configuration(mut self, line: impl Into<String>) -> Self {
        self.configuration.push(line.into());
        self
    }

    /// Makes every node speak TLS, also to the other nodes.
    #[must_use]
    pub const fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts the servers and joins them into a cluster. When this returns, the cluster is fully working.
    ///
    /// # Errors
    ///
    /// If no server program is found, or the nodes do not agree in time.
    pub async fn start(self) -> Result<Cluster> {
        let servers = (0..self.primaries * (1 + self.replicas)).map(|_| self.node().start());
        let nodes = try_join_all(servers).await?;
        let ids = nodes
            .iter()
            .map(async |node| node.command(&["CLUSTER", "MYID"]).await?.into_text());
        let ids = try_join_all(ids).await?;
        let frozen = vec![false; nodes.len()];
        let cluster = Cluster { nodes, ids, frozen };
        cluster.join(self.primaries).await?;
        Ok(cluster)
    }

    fn node(&self) -> crate::server::Options {
        let options = Server::options()
            .cluster()
            .configuration("cluster-config-file nodes.conf")
            // Nodes find one another by messages that are the more frequent the shorter this is.
            .configuration(format!("cluster-node-timeout {SUSPICIOUS}"))
            // The rest of a broken cluster keeps serving.
            .configuration("cluster-require-full-coverage no")
            // A replica replaces only a node that a test kills or freezes, never one that a busy machine delays.
            .configuration("cluster-replica-no-failover yes")
            // No replica moves to another primary.
            .configuration("cluster-migration-barrier 100")
            .configuration("repl-diskless-sync-delay 0");
        let options = if self.tls { options.tls() } else { options };
        let options = if self.kept { options.kept() } else { options };
        let lines = self.configuration.iter();
        lines.fold(options, |options, line| options.configuration(line))
    }
}

impl Cluster {
    /// Starts a cluster with three primaries and one replica each.
    ///
    /// # Errors
    ///
    /// As for [`Options::start`].
    pub async fn start() -> Result<Self> {
        Self::options().start().await
    }

    /// Options for a cluster of another size or with other settings.
    pub fn options() -> Options {
        Options::default()
    }

    /// The nodes. Primaries come first until a failover happens.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// `redis-cluster://…`, with every node as a seed.
    pub fn url(&self) -> String {
        let seeds: Vec<_> = self.nodes.iter().map(Server::address).collect();
        let (first, rest) = (seeds[0], &seeds[1..]);
        let rest: Vec<_> = rest.iter().map(|seed| format!("node={seed}")).collect();
        format!("redis-cluster://{first}?{}", rest.join("&"))
    }

    /// Sends a command to the node that serves its first key, as another client would, and returns the reply.
    ///
    /// # Errors
    ///
    /// If no node answers within five seconds, or one answers with an error.
    pub async fn command(&self, words: &[&str]) -> Result<Reply> {
        let begun = Instant::now();
        let mut node = self.running()?;
        loop {
            let error = match node.command(words).await {
                Err(error) => error,
                reply => return reply,
            };
            let text = format!("{error:#}");
            let owner = text.split("MOVED ").nth(1);
            let port = owner.and_then(|owner| owner.rsplit(':').next()?.parse().ok());
            let Some(port) = port else { return Err(error) };
            node = match self.listening_on(port) {
                // The node that names a dead one learns of its replacement a moment later.
                Err(_) if begun.elapsed() < PATIENCE => {
                    sleep(Duration::from_millis(10)).await;
                    self.running()?
                }
                owner => owner?,
            };
        }
    }

    /// The running nodes that own slots, as one of them reports it.
    ///
    /// # Errors
    ///
    /// If no node answers.
    pub async fn primaries(&self) -> Result<Vec<usize>> {
        let mut primaries = Vec::new();
        for (_, _, node) in ranges(self.running()?).await? {
            let node = self.index_of(&node)?;
            if self.nodes[node].pid().is_some() && !primaries.contains(&node) {
                primaries.push(node);
            }
        }
        Ok(primaries)
    }

    /// The node that owns a slot, by its own report: other nodes learn of a change a moment later.
    ///
    /// # Errors
    ///
    /// If no node claims the slot.
    pub async fn primary_of(&self, slot: u16) -> Result<usize> {
        for node in self.answering() {
            for (first, last, id) in ranges(node).await? {
                let owner = self.index_of(&id)?;
                if (first..=last).contains(&slot) && self.nodes[owner].port() == node.port() {
                    return Ok(owner);
                }
            }
        }
        bail!("nobody has slot {slot}")
    }

    /// Returns the slot of a key.
    ///
    /// # Errors
    ///
    /// If no node answers.
    pub async fn slot_of(&self, key: &str) -> Result<u16> {
        let words = ["CLUSTER", "KEYSLOT", key];
        let slot = self.running()?.command(&words).await?.into_integer()?;
        Ok(u16::try_from(slot)?)
    }

    /// Every key that is served. This leaves out stale copies: a node that was a replica when a slot moved away may have
    /// missed the move and still have the old keys, but no client sees them.
    ///
    /// # Errors
    ///
    /// If a primary does not answer.
    pub async fn keys(&self) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        for node in self.primaries().await? {
            let node = &self.nodes[node];
            let mut own = Vec::new();
            for (first, last, id) in ranges(node).await? {
                if self.nodes[self.index_of(&id)?].port() == node.port() {
                    own.push(first..=last);
                }
            }
            for key in node.command(&["KEYS", "*"]).await?.into_texts()? {
                let slot = self.slot_of(&key).await?;
                if own.iter().any(|slots| slots.contains(&slot)) {
                    keys.push(key);
                }
            }
        }
        Ok(keys)
    }

    /// Waits until every running node sees all slots served and every replica follows its primary. The nodes suspect one
    /// another no more, until one is killed or frozen.
    ///
    /// # Errors
    ///
    /// If that does not happen in time.
    pub async fn healed(&self) -> Result<()> {
        let servers = self.answering().count();
        self.agreed(async |witness, nodes| {
            let info = witness.command(&["CLUSTER", "INFO"]).await?.into_text()?;
            let well = |line: &&str| !["fail", "fail?", "handshake"].iter().any(|it| is(line, it));
            let replication = witness
                .command(&["INFO", "replication"])
                .await?
                .into_text()?;
            Ok(info.contains("cluster_state:ok")
                && info.contains("cluster_slots_ok:16384")
                && nodes.lines().filter(well).count() >= servers
                && !replication.contains("master_link_status:down"))
        })
        .await?;
        self.take_for_dead_after(TRUSTING).await
    }

    async fn take_for_dead_after(&self, milliseconds: &str) -> Result<()> {
        let words = ["CONFIG", "SET", "cluster-node-timeout", milliseconds];
        for node in self.answering() {
            node.command(&words).await?;
        }
        Ok(())
    }

    async fn join(&self, primaries: usize) -> Result<()> {
        let share = usize::from(SLOTS).div_ceil(primaries);
        for (number, node) in self.nodes.iter().enumerate() {
            let epoch = (number + 1).to_string();
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])
                .await?;
            let slots = number * share..((number + 1) * share).min(SLOTS.into());
            let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
            if !slots.is_empty() {
                let start = ["CLUSTER", "ADDSLOTS"].into_iter();
                let words: Vec<&str> = start.chain(slots.iter().map(String::as_str)).collect();
                node.command(&words).await?;
            }
            let port = node.port().to_string();
            let meet = ["CLUSTER", "MEET", "127.0.0.1", &port];
            self.nodes[0].command(&meet).await?;
        }
        let all = self.nodes.len();
        self.agreed(async |_, nodes| {
            let known = nodes.lines().filter(|line| !line.contains("handshake"));
            Ok(known.count() == all)
        })
        .await?;
        for (number, node) in self.nodes.iter().enumerate().skip(primaries) {
            let primary = &self.ids[number % primaries];
            node.command(&["CLUSTER", "REPLICATE", primary]).await?;
        }
        self.agreed(async |_, nodes| {
            let replicas = nodes.lines().filter(|line| line.contains("slave"));
            Ok(replicas.count() == all - primaries)
        })
        .await?;
        self.healed().await
    }

    /// Waits until `yes` holds for every running node and the nodes that it sees.
    async fn agreed(&self, yes: impl AsyncFn(&Server, &str) -> Result<bool>) -> Result<()> {
        until("the nodes agree", PATIENCE, async || {
            for node in self.answering() {
                let nodes = node.command(&["CLUSTER", "NODES"]).await?.into_text()?;
                if !yes(node, &nodes).await? {
                    return Ok((false, nodes));
                }
            }
            Ok((true, String::new()))
        })
        .await
    }

    fn running(&self) -> Result<&Server> {
        self.answering().next().context("no node runs")
    }

    /// The nodes that run and are not frozen.
    fn answering(&self) -> impl Iterator<Item = &Server> {
        let nodes = self.nodes.iter().zip(&self.frozen);
        let answering = nodes.filter(|(node, frozen)| node.pid().is_some() && !**frozen);
        answering.map(|(node, _)| node)
    }

    fn listening_on(&self, port: u16) -> Result<&Server> {
        let node = self.nodes.iter().find(|node| node.port() == port);
        let node = node.with_context(|| format!("no node listens on {port}"))?;
        ensure!(node.pid().is_some(), "the node on {port} does not run");
        Ok(node)
    }

    fn index_of(&self, id: &str) -> Result<usize> {
        let index = self.ids.iter().position(|known| known == id);
        index.with_context(|| format!("no node is called {id}"))
    }
}

impl Shared for Cluster {
    async fn start(kept: bool) -> Result<Self> {
        let mut options = Self::options();
        options.kept = kept;
        options.start().await
    }

    async fn take_up(nodes: Vec<Server>) -> Result<Self> {
        let mut ids = Vec::new();
        for node in &nodes {
            let state = node.command(&["CLUSTER", "INFO"]).await?.into_text()?;
            ensure!(state.contains("cluster_state:ok"), "{state}");
            ids.push(node.command(&["CLUSTER", "MYID"]).await?.into_text()?);
        }
        ensure!(nodes.len() == 6, "{} nodes", nodes.len());
        let frozen = vec![false; nodes.len()];
        Ok(Self { nodes, ids, frozen })
    }

    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter()
    }

    async fn clean(&self) -> Result<()> {
        for node in self.primaries().await? {
            self.nodes[node].clean().await?;
        }
        Ok(())
    }
}

/// Whether a line of `CLUSTER NODES` has this flag.
fn is(line: &str, flag: &str) -> bool {
    let flags = line.split(' ').nth(2);
    flags.is_some_and(|flags| flags.split(',').any(|it| it == flag))
}

/// Which node owns which slots (the first and last slot of each range), as `witness` sees it.
async fn ranges(witness: &Server) -> Result<Vec<(u16, u16, String)>> {
    let Reply::List(ranges) = witness.command(&["CLUSTER", "SLOTS"]).await? else {
        bail!("no list of slots");
    };
    let read = ranges.into_iter().map(|range| {
        let Reply::List(fields) = range else {
            bail!("no range of slots: {range:?}");
        };
        let [first, last, Reply::List(primary), ..] = &fields[..] else {
            bail!("a range without a primary: {fields:?}");
        };
        let number = |field: &Reply| anyhow::Ok(u16::try_from(field.clone().into_integer()?)?);
        let id = primary.get(2).context("a node without an id")?;
        Ok((number(first)?, number(last)?, id.clone().into_text()?))
    });
    read.collect()
}
