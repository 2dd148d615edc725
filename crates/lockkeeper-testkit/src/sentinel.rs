//! A primary with a replica and the sentinels that watch them, for one test.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;

use crate::pool::Shared;
use crate::server::Server;
use crate::until::{PATIENCE, until};

/// The sentinels' name for the primary.
pub const SERVICE: &str = "locks";

/// How long a server that a test killed or froze may stay silent before a sentinel considers it dead, in milliseconds.
const SUSPICIOUS: &str = "1000";

/// The same at any other time, so that a busy machine does not cause a failover.
const TRUSTING: &str = "60000";

/// One primary, one replica, three sentinels.
#[derive(Debug)]
pub struct Watched {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
    options: Options,
}

/// How to start a [`Watched`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    password: Option<String>,
    tls: bool,
    kept: bool,
}

impl Options {
    /// Sets the password that the sentinels require.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Makes all servers speak TLS, also to one another.
    #[must_use]
    pub const fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts the servers and the sentinels.
    ///
    /// # Errors
    ///
    /// As for [`Watched::start`].
    pub async fn start(self) -> Result<Watched> {
        let primary = self.server().configuration("repl-diskless-sync-delay 0");
        let primary = primary.start().await?;
        let replica = self.server();
        let replica = replica.configuration(format!("replicaof 127.0.0.1 {}", primary.port()));
        let replica = replica.start().await?;
        let sentinels = (0..3).map(|_| self.sentinel(primary.port()).start());
        let sentinels = try_join_all(sentinels).await?;
        let watched = Watched {
            servers: vec![primary, replica],
            sentinels,
            options: self,
        };
        watched.agreed().await?;
        Ok(watched)
    }

    fn sentinel(&self, primary: u16) -> crate::server::Options {
        let mut options = self.server().sentinel();
        if let Some(password) = &self.password {
            let among_themselves = format!("sentinel sentinel-pass {password}");
            options = options.password(password).configuration(among_themselves);
        }
        options
            .configuration(format!("sentinel monitor {SERVICE} 127.0.0.1 {primary} 2"))
            .configuration(format!(
                "sentinel down-after-milliseconds {SERVICE} {TRUSTING}"
            ))
            .configuration(format!("sentinel failover-timeout {SERVICE} 3000"))
    }

    fn server(&self) -> crate::server::Options {
        let options = Server::options();
        let options = if self.kept { options.kept() } else { options };
        if self.tls { options.tls() } else { options }
    }
}

impl Watched {
    /// Starts the servers and the sentinels. When this returns, a failover would succeed.
    ///
    /// # Errors
    ///
    /// If no server program is found, or they do not find one another in time.
    pub async fn start() -> Result<Self> {
        Self::options().start().await
    }

    /// Options for a password or TLS.
    pub fn options() -> Options {
        Options::default()
    }

    /// `redis-sentinel://…`, with every sentinel.
    pub fn url(&self) -> String {
        let sentinels = self.sentinels.iter().map(|it| it.address().to_string());
        let sentinels = sentinels.collect::<Vec<_>>().join(",");
        let scheme = if self.options.tls { "rediss" } else { "redis" };
        let password = self.options.password.as_ref();
        let password = password.map(|password| format!("?sentinel_password={password}"));
        let password = password.unwrap_or_default();
        format!("{scheme}-sentinel://{sentinels}/{SERVICE}{password}")
    }

    /// The servers that hold keys: the initial primary, then its replica.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The server that the first sentinel considers the primary.
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

    /// Kills a server, as a crash would. If it was the primary, the other one takes over; [`switched_to`](Self::switched_to)
    /// waits for that.
    ///
    /// # Errors
    ///
    /// If the process cannot be signalled, or a sentinel does not answer.
    pub async fn kill(&mut self, server: usize) -> Result<()> {
        let was_primary = self.primary().await? == server;
        self.servers[server].kill()?;
        self.suspect_if(was_primary).await
    }

    /// Freezes a server: its connections stay open and it answers nothing. If it was the primary, the other one takes over;
    /// [`switched_to`](Self::switched_to) waits for that.
    ///
    /// # Errors
    ///
    /// If the server is not running, or a sentinel does not answer.
    pub async fn freeze(&self, server: usize) -> Result<()> {
        let was_primary = self.primary().await? == server;
        self.servers[server].freeze()?;
        self.suspect_if(was_primary).await
    }

    async fn suspect_if(&self, primary: bool) -> Result<()> {
        match primary {
            true => self.take_for_dead_after(SUSPICIOUS).await,
            false => Ok(()),
        }
    }

    async fn take_for_dead_after(&self, milliseconds: &str) -> Result<()> {
        let words = ["SENTINEL", "SET", SERVICE, "down-after-milliseconds"];
        let words: Vec<&str> = words.into_iter().chain([milliseconds]).collect();
        for sentinel in &self.sentinels {
            sentinel.command(&words).await?;
        }
        Ok(())
    }

    /// Resumes a frozen server.
    ///
    /// # Errors
    ///
    /// If the server is not running.
    pub fn thaw(&self, server: usize) -> Result<()> {
        self.servers[server].thaw()
    }

    /// Restarts a killed server. It is empty and does not know that it was replaced.
    ///
    /// # Errors
    ///
    /// If the server does not answer in time.
    pub async fn restart(&mut self, server: usize) -> Result<()> {
        self.servers[server].restart().await
    }

    /// Makes a replaced primary a replica of the other server. The sentinels would do so only some ten seconds later.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub async fn follow(&self, server: usize) -> Result<()> {
        let port = self.servers[1 - server].port().to_string();
        let words = ["REPLICAOF", "127.0.0.1", &port];
        self.servers[server].command(&words).await?;
        Ok(())
    }

    /// Stops a primary's writes from reaching its replica, without the sentinels' knowledge. Restarting the primary ends this.
    ///
    /// # Errors
    ///
    /// If the server refuses.
    pub async fn cut_off(&self, primary: usize) -> Result<()> {
        let primary = &self.servers[primary];
        let rights = ["ACL", "SETUSER", "default", "-psync", "-sync"];
        primary.command(&rights).await?;
        primary
            .command(&["CLIENT", "KILL", "TYPE", "replica"])
            .await?;
        Ok(())
    }

    /// Promotes the replica although the primary is healthy.
    ///
    /// # Errors
    ///
    /// If the sentinel refuses. This retries while a failover is in progress or the sentinel has not heard from
    /// the replica.
    pub async fn switch(&self) -> Result<()> {
        let words = ["SENTINEL", "FAILOVER", SERVICE];
        until("a failover", PATIENCE, async || {
            let Err(error) = self.sentinels[0].command(&words).await else {
                return Ok((true, String::new()));
            };
            let text = format!("{error:#}");
            let not_yet = text.contains("NOGOODSLAVE") || text.contains("INPROG");
            if not_yet {
                Ok((false, text))
            } else {
                Err(error)
            }
        })
        .await
    }

    /// Waits until every sentinel considers `server` the primary. Sentinels no longer replace it on their own afterwards.
    ///
    /// # Errors
    ///
    /// If that does not happen in time.
    pub async fn switched_to(&self, server: usize) -> Result<()> {
        let port = self.servers[server].port().to_string();
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        until("a failover", PATIENCE, async || {
            for sentinel in &self.sentinels {
                let address = sentinel.command(&words).await?.into_texts()?;
                if address.get(1) != Some(&port) {
                    return Ok((false, address.join(":")));
                }
            }
            Ok((true, String::new()))
        })
        .await?;
        self.take_for_dead_after(TRUSTING).await
    }

    /// Waits until every sentinel knows all servers and the replica follows the primary.
    ///
    /// # Errors
    ///
    /// If that does not happen in time.
    pub async fn healed(&self) -> Result<()> {
        self.agreed().await?;
        until("a replica follows", PATIENCE, async || {
            let primary = &self.servers[self.primary().await?];
            let info = primary.command(&["INFO", "replication"]).await?;
            let info = info.into_text()?;
            let follows = info.contains("role:master") && info.contains("state=online");
            Ok((follows, info))
        })
        .await
    }

    /// Waits until every sentinel knows the other sentinels and the replica.
    async fn agreed(&self) -> Result<()> {
        until("the sentinels find one another", PATIENCE, async || {
            for sentinel in &self.sentinels {
                let info = sentinel.command(&["INFO", "sentinel"]).await?.into_text()?;
                if !(info.contains("status=ok") && info.contains("slaves=1,sentinels=3")) {
                    return Ok((false, info));
                }
            }
            Ok((true, String::new()))
        })
        .await
    }
}

impl Shared for Watched {
    async fn start(kept: bool) -> Result<Self> {
        let mut options = Self::options();
        options.kept = kept;
        options.start().await
    }

    async fn take_up(mut servers: Vec<Server>) -> Result<Self> {
        ensure!(servers.len() == 5, "{} servers", servers.len());
        let sentinels = servers.split_off(2);
        let options = Self::options();
        let watched = Self {
            servers,
            sentinels,
            options,
        };
        ensure!(watched.primary().await? == 0, "the replica is the primary");
        watched.agreed().await?;
        Ok(watched)
    }

    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().chain(&self.sentinels)
    }

    async fn clean(&self) -> Result<()> {
        self.servers[0].clean().await
    }
}
