//! A primary with replicas, watched by sentinels, that belong to one test.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use tokio::time::sleep;

use crate::pool::Shared;
use crate::server::Server;

/// What the sentinels call the primary.
pub const SERVICE: &str = "locks";

/// Failovers take seconds; this much only for a machine that is busy with a build.
const PATIENCE: Duration = Duration::from_secs(60);

/// One primary, one replica, three sentinels.
#[derive(Debug)]
pub struct Watched {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
    password: Option<String>,
}

impl Watched {
    /// Starts all of them. When this returns, a failover would succeed.
    ///
    /// # Errors
    ///
    /// If no server program is found, or they do not find one another in time.
    pub async fn start() -> Result<Self> {
        Self::start_with(None).await
    }

    /// The same, and the sentinels ask for a password.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn start_with(password: Option<&str>) -> Result<Self> {
        let primary = Server::options().configuration("repl-diskless-sync-delay 0");
        let primary = primary.start().await?;
        let replica = Server::options()
            .configuration(format!("replicaof 127.0.0.1 {}", primary.port()))
            .start()
            .await?;
        let sentinel = |_| {
            let mut options = Server::options().sentinel();
            if let Some(password) = password {
                options = options
                    .password(password)
                    .configuration(format!("sentinel sentinel-pass {password}"));
            }
            options
                .configuration(format!(
                    "sentinel monitor {SERVICE} 127.0.0.1 {} 2",
                    primary.port()
                ))
                .configuration(format!("sentinel down-after-milliseconds {SERVICE} 1000"))
                .configuration(format!("sentinel failover-timeout {SERVICE} 3000"))
                .start()
        };
        let sentinels = try_join_all((0..3).map(sentinel)).await?;
        let watched = Self {
            servers: vec![primary, replica],
            sentinels,
            password: password.map(str::to_owned),
        };
        watched.agreed().await?;
        Ok(watched)
    }

    /// `redis-sentinel://…`, with every sentinel.
    pub fn url(&self) -> String {
        let sentinels = self.sentinels.iter().map(|it| it.address().to_string());
        let sentinels: Vec<_> = sentinels.collect();
        let password = self.password.as_ref();
        let password = password.map(|password| format!("?sentinel_password={password}"));
        let password = password.unwrap_or_default();
        format!(
            "redis-sentinel://{}/{SERVICE}{password}",
            sentinels.join(",")
        )
    }

    /// The servers that hold keys: at first the primary and then its replica.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The server that the first sentinel takes for the primary.
    ///
    /// # Errors
    ///
    /// If the sentinel does not answer.
    pub async fn primary(&self) -> Result<usize> {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        let address = self.sentinels[0].command(&words).await?.into_texts()?;
        let port: u16 = address.get(1).context("no port")?.parse()?;
        let server = self.servers.iter().position(|server| server.port() == port);
        server.with_context(|| format!("no server on {port}"))
    }

    /// Ends a server as a crash would.
    ///
    /// # Errors
    ///
    /// If the process cannot be signalled.
    pub fn kill(&mut self, server: usize) -> Result<()> {
        self.servers[server].kill()
    }

    /// From now on the first server's writes reach nobody else, and sentinels know nothing of that.
    ///
    /// # Errors
    ///
    /// If the server refuses.
    pub async fn cut_off(&self) -> Result<()> {
        let primary = &self.servers[0];
        let rights = ["ACL", "SETUSER", "default", "-psync", "-sync"];
        primary.command(&rights).await?;
        primary
            .command(&["CLIENT", "KILL", "TYPE", "replica"])
            .await?;
        Ok(())
    }

    /// Makes the replica the primary although the primary is well.
    ///
    /// # Errors
    ///
    /// If the sentinel refuses.
    pub async fn switch(&self) -> Result<()> {
        let words = ["SENTINEL", "FAILOVER", SERVICE];
        self.sentinels[0].command(&words).await?;
        Ok(())
    }

    /// Waits until every sentinel takes `server` for the primary.
    ///
    /// # Errors
    ///
    /// If that does not happen within a minute.
    pub async fn switched_to(&self, server: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let port = self.servers[server].port().to_string();
        for sentinel in &self.sentinels {
            let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
            while sentinel.command(&words).await?.into_texts()?.get(1) != Some(&port) {
                ensure!(Instant::now() < deadline, "no failover");
                sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// Waits until every sentinel knows the others and the replica.
    async fn agreed(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for sentinel in &self.sentinels {
            loop {
                let info = sentinel.command(&["INFO", "sentinel"]).await?.into_text()?;
                if info.contains("status=ok") && info.contains("slaves=1,sentinels=3") {
                    break;
                }
                if Instant::now() > deadline {
                    bail!("the sentinels do not find one another:\n{info}");
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }
}

impl Shared for Watched {
    async fn start() -> Result<Self> {
        Self::start().await
    }

    async fn clean(&self) -> Result<()> {
        self.servers[0].clean().await
    }
}
