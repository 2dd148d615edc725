//! Clusters that several tests use one after the other: starting one takes seconds.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Cluster;

/// How many there are at once; six servers each.
const MOST: usize = 2;

static PLACES: Semaphore = Semaphore::const_new(MOST);
static IDLE: Mutex<Vec<Cluster>> = Mutex::new(Vec::new());

/// A cluster for a test that leaves it as it was, keys apart.
#[derive(Debug)]
pub struct Pooled {
    cluster: Option<Cluster>,
    _place: SemaphorePermit<'static>,
}

impl Cluster {
    /// An empty cluster that another test may have used before.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn pooled() -> Result<Pooled> {
        let place = PLACES.acquire().await?;
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let cluster = match idle {
            Some(cluster) => cluster,
            None => Self::start().await?,
        };
        for node in cluster.primaries().await? {
            let node = &cluster.nodes()[node];
            for clients in ["normal", "pubsub"] {
                node.command(&["CLIENT", "KILL", "TYPE", clients]).await?;
            }
            node.command(&["FLUSHALL"]).await.context("not empty")?;
        }
        Ok(Pooled {
            cluster: Some(cluster),
            _place: place,
        })
    }
}

impl Deref for Pooled {
    type Target = Cluster;

    #[expect(clippy::expect_used, reason = "it is taken out when dropped")]
    fn deref(&self) -> &Cluster {
        self.cluster
            .as_ref()
            .expect("a cluster until it is dropped")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.cluster.take());
    }
}
