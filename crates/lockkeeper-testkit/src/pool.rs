//! Deployments of many servers that tests use one after the other, each in a process of its own: starting one takes seconds.

use std::ops::Deref;

use anyhow::Result;

use crate::cluster::Cluster;
use crate::kept::Register;
use crate::sentinel::Watched;
use crate::server::Server;

/// How many deployments of a sort there are at most; who wants one more waits for one of these.
const MOST: u32 = 4;

/// A deployment that tests can reuse.
pub trait Shared: Sized + Send + Sync + 'static {
    /// Starts a new deployment. If it is `kept`, it outlives its value and this process.
    fn start(kept: bool) -> impl Future<Output = Result<Self>>;

    /// Builds the deployment from servers that another process kept, in the order of [`servers`](Self::servers).
    fn take_up(servers: Vec<Server>) -> impl Future<Output = Result<Self>>;

    /// All servers of the deployment.
    fn servers(&self) -> impl Iterator<Item = &Server>;

    /// Makes the deployment as good as new.
    fn clean(&self) -> impl Future<Output = Result<()>>;
}

/// A deployment lent to one test, which must leave everything but the keys as it was.
#[derive(Debug)]
pub struct Pooled<T> {
    shared: T,
    /// Another test can have the deployment when this is dropped. `None` if it is not kept.
    _register: Option<Register>,
}

impl Cluster {
    /// Returns an empty cluster of six servers that another test may have used before.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn pooled() -> Result<Pooled<Self>> {
        Pooled::take("cluster").await
    }
}

impl Watched {
    /// Returns an empty primary with its replica and three sentinels that another test may have used before.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn pooled() -> Result<Pooled<Self>> {
        Pooled::take("sentinels").await
    }
}

impl<T: Shared> Pooled<T> {
    async fn take(sort: &'static str) -> Result<Self> {
        let register = tokio::task::spawn_blocking(move || Register::lock_one(sort, MOST));
        let mut register = register.await??;
        let shared = match &mut register {
            Some(register) => Self::keep(register).await?,
            None => T::start(false).await?,
        };
        shared.clean().await?;
        Ok(Self {
            shared,
            _register: register,
        })
    }

    /// Adopts the deployment in the register, or starts a new one if there is none or its servers have ended.
    async fn keep(register: &mut Register) -> Result<T> {
        let left = match register.servers() {
            Ok(servers) => T::take_up(servers).await,
            Err(error) => Err(error),
        };
        if let Ok(shared) = left {
            return Ok(shared);
        }
        let started = T::start(true).await?;
        register.write(started.servers())?;
        Ok(started)
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shared
    }
}
