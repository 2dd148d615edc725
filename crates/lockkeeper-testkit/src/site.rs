//! Where a test runs: the embedded engine or a real server, by the same words.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_core::store::{Store, Value};
use lockkeeper_memory::MemoryStore;
use lockkeeper_redis::{RedisOptions, Transport};

use crate::cluster::Cluster;
use crate::pool::{Pooled, Shared};
use crate::sentinel::Watched;
use crate::server::{Reply, Server};

/// By which client library the tests reach their servers: `redis-rs`, or `fred`.
pub const TRANSPORT: &str = "LOCKKEEPER_TEST_TRANSPORT";

/// The client library that [`TRANSPORT`] names; without it, the one that users have by default.
///
/// # Panics
///
/// If it names none.
pub fn transport() -> Transport {
    match std::env::var(TRANSPORT).as_deref() {
        Err(std::env::VarError::NotPresent) | Ok("redis-rs") => Transport::RedisRs,
        Ok("fred") => Transport::Fred,
        other => panic!("{TRANSPORT} is redis-rs or fred, not {other:?}"),
    }
}

/// The default settings, by that library.
pub fn options() -> RedisOptions {
    RedisOptions::new().transport(transport())
}

/// A server to make clients of, and to meddle with as a stranger.
#[async_trait]
pub trait Site: Send + Sync {
    /// A new connection.
    async fn store(&self) -> Result<Arc<dyn Store>>;

    /// A new connection to each server there is.
    async fn stores(&self) -> Result<Vec<Arc<dyn Store>>> {
        Ok(vec![self.store().await?])
    }

    /// Executes one command as another client would, and returns its reply as text; nil is empty.
    async fn command(&self, words: &[&str]) -> Result<String>;

    /// A client with these settings on a connection of its own.
    async fn client(&self, settings: ClientBuilder) -> Result<Client> {
        Ok(settings.build(self.store().await?)?)
    }

    /// Every key there is.
    async fn keys(&self) -> Result<Vec<String>>;

    /// How many clients listen on a channel.
    async fn listeners(&self, channel: &str) -> Result<u64> {
        let script = "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]";
        let listeners = self.command(&["EVAL", script, "0", channel]).await?;
        Ok(listeners.parse()?)
    }

    /// Waits until a key is not there. Polls, because a server tells nobody.
    async fn vanished(&self, key: &str) -> Result<()> {
        while self.command(&["EXISTS", key]).await? != "0" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Several servers that have nothing to do with one another. What is done to one is done to all.
#[derive(Debug)]
pub struct Several<S>(pub Vec<S>);

#[async_trait]
impl<S: Site> Site for Several<S> {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        bail!("there are {} stores", self.0.len())
    }

    async fn stores(&self) -> Result<Vec<Arc<dyn Store>>> {
        let mut stores = Vec::new();
        for site in &self.0 {
            stores.push(site.store().await?);
        }
        Ok(stores)
    }

    /// The first server's reply.
    async fn command(&self, words: &[&str]) -> Result<String> {
        let mut replies = Vec::new();
        for site in &self.0 {
            replies.push(site.command(words).await?);
        }
        Ok(replies.swap_remove(0))
    }

    /// Those of all, each once.
    async fn keys(&self) -> Result<Vec<String>> {
        let mut keys = BTreeSet::new();
        for site in &self.0 {
            keys.extend(site.keys().await?);
        }
        Ok(keys.into_iter().collect())
    }

    async fn vanished(&self, key: &str) -> Result<()> {
        for site in &self.0 {
            site.vanished(key).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Site for MemoryStore {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.sibling()))
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        Ok(match self.execute(words)? {
            Value::Nil => String::new(),
            Value::Integer(number) => number.to_string(),
            Value::Bytes(bytes) => String::from_utf8(bytes)?,
            other => format!("{other:?}"),
        })
    }

    async fn keys(&self) -> Result<Vec<String>> {
        Ok(Self::keys(self))
    }
}

#[async_trait]
impl Site for Cluster {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(options().connect(&self.url()).await?))
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        match self.command(words).await? {
            Reply::Nil => Ok(String::new()),
            reply => reply.into_text(),
        }
    }

    async fn keys(&self) -> Result<Vec<String>> {
        self.keys().await
    }

    async fn listeners(&self, channel: &str) -> Result<u64> {
        let mut listeners = 0;
        for node in self.primaries().await? {
            listeners += self.listeners(node, channel).await?;
        }
        Ok(listeners)
    }
}

#[async_trait]
impl<T: Shared + Site> Site for Pooled<T> {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Site::store(&**self).await
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        Site::command(&**self, words).await
    }

    async fn keys(&self) -> Result<Vec<String>> {
        Site::keys(&**self).await
    }

    async fn listeners(&self, channel: &str) -> Result<u64> {
        Site::listeners(&**self, channel).await
    }
}

#[async_trait]
impl Site for Watched {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(options().connect(&self.url()).await?))
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        Site::command(&self.servers()[self.primary().await?], words).await
    }

    async fn keys(&self) -> Result<Vec<String>> {
        Site::keys(&self.servers()[self.primary().await?]).await
    }
}

#[async_trait]
impl Site for Server {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(options().connect(&self.url()).await?))
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        match self.command(words).await? {
            Reply::Nil => Ok(String::new()),
            reply => reply.into_text(),
        }
    }

    async fn keys(&self) -> Result<Vec<String>> {
        self.command(&["KEYS", "*"]).await?.into_texts()
    }
}
