//! Deployments of many servers that several tests use one after the other: starting one takes seconds.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cluster::Cluster;
use crate::sentinel::Watched;

/// What can be used again.
pub trait Shared: Sized + Send + Sync + 'static {
    /// Starts a new one.
    fn start() -> impl Future<Output = Result<Self>>;

    /// Makes it as a new one.
    fn clean(&self) -> impl Future<Output = Result<()>>;
}

/// Those that nobody uses, and how many more there may be.
#[derive(Debug)]
pub struct Pool<T> {
    places: Semaphore,
    idle: Mutex<Vec<T>>,
}

/// One for a test that leaves it as it was, keys apart.
#[derive(Debug)]
pub struct Pooled<T: Shared> {
    // Taken out when it is dropped.
    shared: Option<T>,
    pool: &'static Pool<T>,
    _place: SemaphorePermit<'static>,
}

/// Six servers each.
static CLUSTERS: Pool<Cluster> = Pool::of(2);

/// Five servers each.
static WATCHED: Pool<Watched> = Pool::of(2);

impl Cluster {
    /// An empty cluster that another test may have used before.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn pooled() -> Result<Pooled<Self>> {
        CLUSTERS.take().await
    }
}

impl Watched {
    /// An empty primary with its replica and sentinels that another test may have used before.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn pooled() -> Result<Pooled<Self>> {
        WATCHED.take().await
    }
}

impl<T: Shared> Pool<T> {
    const fn of(most: usize) -> Self {
        Self {
            places: Semaphore::const_new(most),
            idle: Mutex::new(Vec::new()),
        }
    }

    async fn take(&'static self) -> Result<Pooled<T>> {
        let place = self.places.acquire().await?;
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let shared = match idle {
            Some(shared) => shared,
            None => T::start().await?,
        };
        shared.clean().await?;
        Ok(Pooled {
            shared: Some(shared),
            pool: self,
            _place: place,
        })
    }
}

impl<T: Shared> Deref for Pooled<T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "it is taken out when it is dropped")]
    fn deref(&self) -> &T {
        self.shared
            .as_ref()
            .expect("it is there until it is dropped")
    }
}

impl<T: Shared> Drop for Pooled<T> {
    fn drop(&mut self) {
        let mut idle = self
            .pool
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.shared.take());
    }
}
