//! Deployments of many servers that several tests use one after the other: starting one takes seconds.

use std::ops::Deref;

use anyhow::Result;
use parking_lot::{Mutex, const_mutex};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cluster::Cluster;
use crate::kept::Register;
use crate::sentinel::Watched;
use crate::server::Server;

/// What can be used again.
pub trait Shared: Sized + Send + Sync + 'static {
    /// Starts a new one, which outlives this process if it is to be kept.
    fn start(kept: bool) -> impl Future<Output = Result<Self>>;

    /// Makes one of servers that another process has left, in the order of [`servers`](Self::servers).
    fn take_up(servers: Vec<Server>) -> impl Future<Output = Result<Self>>;

    /// All of them.
    fn servers(&self) -> impl Iterator<Item = &Server>;

    /// Makes it as a new one.
    fn clean(&self) -> impl Future<Output = Result<()>>;
}

/// Those that nobody uses, and how many more there may be.
#[derive(Debug)]
pub struct Pool<T> {
    name: &'static str,
    most: usize,
    places: Semaphore,
    idle: Mutex<Vec<T>>,
    /// Of those that are kept for the next run.
    registers: Mutex<Vec<Register>>,
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
static CLUSTERS: Pool<Cluster> = Pool::of("cluster", 4);

/// Five servers each.
static WATCHED: Pool<Watched> = Pool::of("sentinels", 4);

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

    /// One that an earlier program has left, or a new one.
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
                // There are none, or they have ended.
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
