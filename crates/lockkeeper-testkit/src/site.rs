//! Real servers as sites for the conformance suite.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use lockkeeper_core::store::Store;
use lockkeeper_redis::{RedisOptions, Transport};

use crate::cluster::Cluster;
use crate::pool::{Pooled, Shared};
use crate::sentinel::Watched;
use crate::server::{Reply, Server};

pub use lockkeeper_conformance::site::{Several, Site};

/// Selects the client library that the tests use to reach their servers: `redis-rs` or `fred`.
pub const TRANSPORT: &str = "LOCKKEEPER_TEST_TRANSPORT";

/// Returns the client library that [`TRANSPORT`] names, or the users' default if it is unset.
///
/// # Panics
///
/// If the variable names no known library.
pub fn transport() -> Transport {
    match std::env::var(TRANSPORT).as_deref() {
        Err(std::env::VarError::NotPresent) | Ok("redis-rs") => Transport::RedisRs,
        Ok("fred") => Transport::Fred,
        other => panic!("{TRANSPORT} is redis-rs or fred, not {other:?}"),
    }
}

/// Default options with that client library.
pub fn options() -> RedisOptions {
    RedisOptions::new().transport(transport())
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

    async fn forget_scripts(&self) -> Result<()> {
        for node in self.primaries().await? {
            self.nodes()[node].command(&["SCRIPT", "FLUSH"]).await?;
        }
        Ok(())
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

    async fn forget_scripts(&self) -> Result<()> {
        Site::forget_scripts(&**self).await
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
