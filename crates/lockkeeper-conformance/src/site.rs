//! Where a test runs: a server of its own, of any kind, behind the same methods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_core::store::Store;

/// A server for the clients of a test, on which the test can also act as another client.
#[async_trait]
pub trait Site: Send + Sync {
    /// A new connection.
    async fn store(&self) -> Result<Arc<dyn Store>>;

    /// A new connection to each of the servers.
    async fn stores(&self) -> Result<Vec<Arc<dyn Store>>> {
        Ok(vec![self.store().await?])
    }

    /// Executes one command as another client would, and returns its reply as text; nil is empty.
    async fn command(&self, words: &[&str]) -> Result<String>;

    /// A client with these settings on its own connection.
    async fn client(&self, settings: ClientBuilder) -> Result<Client> {
        Ok(settings.build(self.store().await?)?)
    }

    /// Every key on the server.
    async fn keys(&self) -> Result<Vec<String>>;

    /// How many clients listen on a channel. The default asks one server: for a cluster, add up all primaries.
    async fn listeners(&self, channel: &str) -> Result<u64> {
        let script = "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]";
        let listeners = self.command(&["EVAL", script, "0", channel]).await?;
        Ok(listeners.parse()?)
    }

    /// Makes the server forget every loaded script. The default asks one server: for a cluster, do it on all primaries.
    async fn forget_scripts(&self) -> Result<()> {
        self.command(&["SCRIPT", "FLUSH"]).await.map(drop)
    }

    /// Waits until a key does not exist. Polls, because a server reports no such change.
    async fn vanished(&self, key: &str) -> Result<()> {
        while self.command(&["EXISTS", key]).await? != "0" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Several independent servers. What is done to one is done to all.
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

    /// Returns the first server's reply.
    async fn command(&self, words: &[&str]) -> Result<String> {
        let mut replies = Vec::new();
        for site in &self.0 {
            replies.push(site.command(words).await?);
        }
        Ok(replies.swap_remove(0))
    }

    /// The keys of all servers, each once.
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

#[cfg(feature = "memory")]
#[async_trait]
impl Site for lockkeeper_memory::MemoryStore {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.sibling()))
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        use lockkeeper_core::store::Value;

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

    async fn forget_scripts(&self) -> Result<()> {
        self.flush_scripts();
        Ok(())
    }
}
