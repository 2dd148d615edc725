//! Deployments of many servers that several tests use one after the other: starting one takes seconds.

use std::ops::Deref;

use anyhow::Result;
use parking_lot::{Mutex, const_mutex};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cluster::Cluster;
use crate::kept::Register;
use crate::sentinel::Watched;
use crate::server::Server;

/// A deployment that tests can reuse.
pub trait Shared: Sized + Send + Sync + 'static {
    /// Starts a new deployment. If it is `kept`, it outlives this process.
    fn start(kept: bool) -> impl Future<Output = Result<Self>>;

    /// Builds the deployment from servers that another process kept, in the order of [`servers`](Self::servers).
    fn take_up(servers: Vec<Server>) -> impl Future<Output = Result<Self>>;

    /// All servers of the deployment.
    fn servers(&self) -> impl Iterator<Item = &Server>;

    /// Makes the deployment as good as new.
    fn clean(&self) -> impl Future<Output = Result<()>>;
}

/// Idle deployments, up to a maximum number.
#[derive(Debug)]
pub struct Pool<T> {
    name: &'static str,
    most: usize,
    places: Semaphore,
    idle: Mutex<Vec<T>>,
    /// The registers of deployments that are kept for the next run.
    registers: Mutex<Vec<Register>>,
}

/// A deployment lent to one test, which must leave everything but the keys as it was.
#[derive(Debug)]
pub struct Pooled<T: Shared> {
    // Taken in `drop`.
    shared: Option<T>,
    pool: &'static Pool<T>,
    _place: SemaphorePermit<'static>,
}

/// Six servers per cluster.
static CLUSTERS: Pool<Cluster> = Pool::of("cluster", 4);

/// Five servers each.
static WATCHED: Pool<Watched> = Pool::of("sentinels", 4);

impl Cluster {
    /// Returns an empty cluster that another test may have used before.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn pooled() -> Result<Pooled<Self>> {
        CLUSTERS.take().await
    }
}

impl Watched {
    /// Returns an empty primary with its replica and sentinels that another test may have used before.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn pooled() -> Result<Pooled<Self>> {
        WATCHED.take().await
    }
}

impl<T: Shared> Pool<T> {
    const fn of(name: &'static str, most: usize) -> Self {
        Self {
            name,
            most,
            places: Semaphore::const_new(most),
            idle: const_mutex(Vec::new()),
            registers: const_mutex(Vec::new()),
        }
    }

    async fn take(&'static self) -> Result<Pooled<T>> {
        let place = self.places.acquire().await?;
        let idle = self.idle.lock().pop();
        let shared = match idle {
            Some(shared) => shared,
            None => self.start().await?,
        };
        shared.clean().await?;
        Ok(Pooled {
            shared: Some(shared),
            pool: self,
            _place: place,
        })
    }

    /// Adopts a deployment that an earlier program kept, or starts a new one.
    async fn start(&self) -> Result<T> {
        for number in 0..self.most {
            let Some(mut register) = Register::lock(&format!("{}-{number}", self.name))? else {
                continue;
            };
            let left = match register.servers() {
                Ok(servers) => T::take_up(servers).await,
                Err(error) => Err(error),
            };
            let shared = match left {
                Ok(shared) => shared,
                // The register is empty, or its servers have ended.
                Err(_) => {
                    let shared = T::start(true).await?;
                    register.write(shared.servers())?;
                    shared
                }
            };
            self.registers.lock().push(register);
            return Ok(shared);
        }
        T::start(false).await
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
        self.pool.idle.lock().extend(self.shared.take());
    }
}
