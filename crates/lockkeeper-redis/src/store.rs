//! The store that users connect, for every deployment that a URL can name.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::Result;
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Replicated, Reply, Store, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::deployment::Deployment;
use crate::locator::Locator;
use crate::options::RedisOptions;
use crate::sentinel::Sentinels;
use crate::single::Single;
#[cfg(feature = "redis-rs")]
use crate::wire::redis_rs;

/// The store of a Lockkeeper client on a Redis or Valkey server, or on a cluster of them.
///
/// It reconnects by itself, and never causes a request to be executed twice. Dropping it closes its connections;
/// [`close`](Store::close) lets the requests under way finish first.
pub struct RedisStore(Box<dyn Store>);

impl RedisStore {
    /// Connects to the deployment at `url` with the default [`RedisOptions`]. When it returns `Ok`, the deployment has answered.
    ///
    /// # Errors
    ///
    /// As for [`RedisOptions::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes every connection that was opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lockkeeper_redis::RedisStore;
    ///
    /// # async fn example() -> lockkeeper_core::Result<()> {
    /// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        RedisOptions::new().connect(url).await
    }

    /// Connects; with `later`, in the background if no server is within reach.
    async fn open(deployment: Deployment, options: RedisOptions, later: bool) -> Result<Self> {
        // Boxed, or the futures of the callers become types too deep for the compiler.
        let opening: Pin<Box<dyn Future<Output = Result<Self>> + Send>> =
            Box::pin(Self::open_deployment(deployment, options, later));
        opening.await
    }

    async fn open_deployment(
        mut deployment: Deployment,
        options: RedisOptions,
        later: bool,
    ) -> Result<Self> {
        options.check()?;
        if let Some(provider) = options.provider.clone() {
            deployment.log_in_by(provider)?;
        }
        Ok(Self(match deployment {
            Deployment::Single(target) => {
                let fixed = Locator::Fixed(target);
                Box::new(Single::open(fixed, JoinSet::new(), options, later).await?)
            }
            Deployment::Sentinel(watch) => {
                let (sentinels, listeners) = Sentinels::start(watch, options.clone());
                let watched = Locator::Watched(sentinels);
                Box::new(Single::open(watched, listeners, options, later).await?)
            }
            Deployment::Cluster(seeds) => Box::new(Cluster::open(seeds, options, later).await?),
        }))
    }
}

impl RedisOptions {
    /// Connects to the server at `url`. When it returns `Ok`, both connections have answered a `PING`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](lockkeeper_core::Error::Config) if the URL or a setting cannot work.
    /// [`Error::Backend`](lockkeeper_core::Error::Backend) if the server is out of reach, does not answer within the connect
    /// timeout, or refuses: its source says which, and contains the server's error code (`WRONGPASS`, `NOAUTH`, …).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes every connection that was opened.
    pub async fn connect(self, url: &str) -> Result<RedisStore> {
        RedisStore::open(Deployment::parse(url)?, self, false).await
    }

    /// Connects to one server of several, which may be down. When it returns `Ok`, the server has answered, or it was out of reach
    /// and the store connects as soon as it answers.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect), except that a server that is out of reach is no error.
    ///
    /// # Cancel safety
    ///
    /// As for [`connect`](Self::connect).
    pub async fn connect_later(self, url: &str) -> Result<RedisStore> {
        RedisStore::open(Deployment::parse(url)?, self, true).await
    }

    /// Connects to the server that a client of redis-rs is configured for: its address, TLS, database, user, password and protocol,
    /// with the transport redis-rs. Everything else is as these options say. Get the configuration of a [`redis::Client`] with
    /// [`get_connection_info`](redis::Client::get_connection_info).
    ///
    /// The store opens its own connections: see [why they are not shared](RedisOptions#why-connections-are-not-shared).
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect), and [`Error::Config`](lockkeeper_core::Error::Config) for settings that cannot be taken
    /// over: certificates and authorities, which redis-rs does not expose, and TLS that does not verify the server. Certificates
    /// and authorities can be set in a URL.
    ///
    /// # Cancel safety
    ///
    /// As for [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lockkeeper_redis::RedisOptions;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redis::Client::open("redis://cache:6379")?;
    /// let store = RedisOptions::new().connect_redis_rs(client.get_connection_info()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis-rs")]
    pub async fn connect_redis_rs(mut self, server: &redis::ConnectionInfo) -> Result<RedisStore> {
        let deployment = redis_rs::given::server(&mut self, server)?;
        RedisStore::open(deployment, self, false).await
    }

    /// Connects to the cluster that a client of redis-rs is configured for, given the nodes that its builder got. Otherwise as
    /// [`connect_redis_rs`](Self::connect_redis_rs).
    ///
    /// # Errors
    ///
    /// As for [`connect_redis_rs`](Self::connect_redis_rs), and [`Error::Config`](lockkeeper_core::Error::Config) if there is no
    /// node, or if the nodes have different logins.
    ///
    /// # Cancel safety
    ///
    /// As for [`connect`](Self::connect).
    #[cfg(feature = "redis-rs")]
    pub async fn connect_redis_rs_cluster(
        mut self,
        nodes: &[redis::ConnectionInfo],
    ) -> Result<RedisStore> {
        let deployment = redis_rs::given::cluster(&mut self, nodes)?;
        RedisStore::open(deployment, self, false).await
    }

    /// Connects to the server, the cluster or the sentinels that a client of fred is configured for: hosts, TLS by rustls,
    /// database, users, passwords and protocol, with the transport fred. Everything else is as these options say. Get the
    /// configuration of a `fred::clients::Client` with `client_config`.
    ///
    /// The store opens its own connections: see [why they are not shared](RedisOptions#why-connections-are-not-shared).
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect), and [`Error::Config`](lockkeeper_core::Error::Config) for settings that cannot be taken
    /// over: a TLS library other than rustls, and a mapping of host names. fred's own credentials provider cannot be seen: set one
    /// with [`credentials`](Self::credentials).
    ///
    /// # Cancel safety
    ///
    /// As for [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use fred::types::config::Config;
    /// use lockkeeper_redis::RedisOptions;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = Config::from_url("redis-cluster://cache:6379")?;
    /// let store = RedisOptions::new().connect_fred(&config).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "fred")]
    pub async fn connect_fred(
        mut self,
        config: &fred::types::config::Config,
    ) -> Result<RedisStore> {
        let deployment = crate::wire::fred::given::deployment(&mut self, config)?;
        RedisStore::open(deployment, self, false).await
    }
}

#[async_trait]
impl Store for RedisStore {
    // Every request of a lock comes here. An `async fn` would put the future, which is in a box already, into another one.
    fn call<'store, 'answer>(
        &'store self,
        call: Call,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send + 'answer>>
    where
        'store: 'answer,
        Self: 'answer,
    {
        self.0.call(call)
    }

    async fn call_replicated(
        &self,
        call: Call,
        replicas: u32,
        patience: Duration,
    ) -> Result<Replicated, StoreError> {
        self.0.call_replicated(call, replicas, patience).await
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.0.subscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.0.unsubscribe(channel).await
    }

    fn keyspace_channel(&self, key: &str) -> Option<String> {
        self.0.keyspace_channel(key)
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.0.events()
    }

    fn group(&self, key: &str) -> u32 {
        self.0.group(key)
    }

    fn server_of(&self, group: u32) -> u32 {
        self.0.server_of(group)
    }

    fn servers(&self) -> Vec<u32> {
        self.0.servers()
    }

    fn address(&self) -> String {
        self.0.address()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.0).finish()
    }
}
