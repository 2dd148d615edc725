//! Where a test runs: the embedded engine or a real server, by the same words.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_core::store::{Store, Value};
use lockkeeper_memory::MemoryStore;
use lockkeeper_redis::RedisStore;

use crate::server::{Reply, Server};

/// A server to make clients of, and to meddle with as a stranger.
#[async_trait]
pub trait Site: Send + Sync {
    /// A new connection.
    async fn store(&self) -> Result<Arc<dyn Store>>;

    /// Executes one command as another client would, and returns its reply as text; nil is empty.
    async fn command(&self, words: &[&str]) -> Result<String>;

    /// A client with these settings on a connection of its own.
    async fn client(&self, settings: ClientBuilder) -> Result<Client> {
        Ok(settings.build(self.store().await?)?)
    }

    /// Every key there is.
    async fn keys(&self) -> Result<Vec<String>>;

    /// Waits until a key is not there. Polls, because a server tells nobody.
    async fn vanished(&self, key: &str) -> Result<()> {
        while self.command(&["EXISTS", key]).await? != "0" {
            tokio::time::sleep(Duration::from_millis(5)).await;
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
impl Site for Server {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(RedisStore::connect(&self.url()).await?))
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
