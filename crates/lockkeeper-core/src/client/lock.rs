//! What locks of all kinds have in common, and how kinds build theirs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::majority::Majority;
use crate::acquire::plan::{Plan, Target};
use crate::acquire::{Acquire, TryAcquire};
use crate::admin::inspection::{self, Inspection};
use crate::admin::permits::{self, Permits};
use crate::admin::question::Question;
use crate::client::Client;
use crate::client::watch::Watch;
use crate::grant::guard::Guard;
use crate::grant::hold::Hold;
use crate::seam::protocol::{Protocol, RequestContext, ScriptCall};
use crate::seam::store::Reply;
use crate::words::error::Result;
use crate::words::holder::Waiter;
use crate::words::name::Name;
use crate::words::owner::Owner;
use crate::words::record::Record;
use crate::words::token::FencingToken;

/// A lock of any kind, for code that is generic over kinds.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_mutex::Mutex;
/// use lockkeeper_core::Lock;
///
/// async fn run_alone(lock: &impl Lock, work: impl AsyncFnOnce()) -> lockkeeper_core::Result<()> {
///     println!("waiting for {}", lock.name());
///     lock.acquire().hold(async |_| work().await).await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// run_alone(&Mutex::new(&client, "report"), async || ()).await
/// # }
/// ```
pub trait Lock: Clone + fmt::Debug + Send + Sync + 'static {
    /// The guard of a held lock.
    type Guard: Guard;

    /// Returns what the lock acquires.
    fn plan(&self) -> Plan;

    /// Acquires the lock, waiting without a time limit unless you set one.
    fn acquire(&self) -> Acquire<Self::Guard> {
        Acquire::new(self.plan())
    }

    /// Acquires the lock if it is free now; otherwise returns `None`.
    fn try_acquire(&self) -> TryAcquire<Self::Guard> {
        Acquire::new(self.plan())
    }

    /// Returns the name of the lock; for several locks acquired together, all their names.
    fn name(&self) -> String {
        self.plan().name()
    }

    /// Shows who holds the lock. There is one result for a lock on one server, one for each name if there are several
    /// locks, and one for each server if the lock is on several servers.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`]: the first error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    fn inspect(&self) -> impl Future<Output = Result<Vec<Inspection>>> + Send {
        let plan = self.plan();
        async move { plan.inspect().await }
    }

    /// Asks all holders to release the lock, on all its names and servers, as [`Client::revoke`] does for one name. It
    /// works for Redisson's locks too. Returns how many claims were revoked.
    ///
    /// # Errors
    ///
    /// As for [`Client::revoke`]: the first error. Earlier holders may have been told.
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::revoke`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_mutex::Mutex;
    /// use lockkeeper_core::Lock;
    ///
    /// async fn take_away(lock: &impl Lock) -> lockkeeper_core::Result<()> {
    ///     lock.revoke().await?;
    ///     for seen in lock.inspect().await? {
    ///         for holder in &seen.holders {
    ///             lock.force_release(&holder.claim).await?;
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let report = Mutex::new(&client, "report");
    /// let guard = report.acquire().await?;
    /// take_away(&report).await?;
    /// assert!(guard.verify().await.is_err() && report.try_acquire().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    fn revoke(&self) -> impl Future<Output = Result<u64>> + Send {
        let plan = self.plan();
        async move {
            let mut told = 0;
            for target in plan.targets() {
                told += target.revoke().await?;
            }
            Ok(told)
        }
    }

    /// Takes the lock away from one holder by force, wherever it holds, as [`Client::force_release`] does for one name.
    /// `holder` is what [`inspect`](Self::inspect) shows as [`claim`](crate::Holder::claim). Returns whether it held.
    ///
    /// **Unsafe for what the lock protects**: the holder works on until it learns of the loss.
    ///
    /// # Errors
    ///
    /// As for [`Client::force_release`]: the first error. The holder may then have lost some names or servers only.
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::force_release`].
    ///
    /// # Examples
    ///
    /// See [`revoke`](Self::revoke).
    fn force_release(&self, holder: &str) -> impl Future<Output = Result<bool>> + Send {
        let (plan, holder) = (self.plan(), holder.to_owned());
        async move {
            let mut held = false;
            for target in plan.targets() {
                held |= target.force_release(&holder).await?;
            }
            Ok(held)
        }
    }

    /// Returns what the lock acquires, to acquire it together with others in a `MultiLock`; `None` for several locks, or
    /// one on several servers.
    fn single_target(&self) -> Option<Target> {
        match self.plan() {
            Plan::One(target) => Some(target),
            _ => None,
        }
    }
}

impl Target {
    /// A lock called `name` on the client's server; `protocol` makes its kind's protocol from the checked name.
    pub fn new<P: Protocol>(client: &Client, name: &str, protocol: impl FnOnce(Name) -> P) -> Self {
        Self::of(&client.engine, name, |name| Ok(protocol(name)))
    }

    /// Like `new`, for a kind with more settings than a name. If `protocol` fails, the first acquisition reports its
    /// error.
    pub fn checked<P: Protocol>(
        client: &Client,
        name: &str,
        protocol: impl FnOnce(Name) -> Result<P>,
    ) -> Self {
        Self::of(&client.engine, name, protocol)
    }

    /// Returns how many claims wait for the lock, if its kind has a queue, and the place of the first waiting
    /// acquisition of `owner` by this client, counted from 1.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn queue(&self, owner: Option<&Owner>) -> Result<(u64, Option<u64>)> {
        inspection::queue(&self.engine, &**self.protocol()?, owner).await
    }

    /// Returns how many permits there are and how many are held, for a kind with permits. With a `limit`, it sets that
    /// limit first. Returns `None` if nobody holds or waits: then the next client sets the limit.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`], and [`Error::Config`](crate::Error::Config) for a kind without permits or records.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but if you drop the future, the limit may or may not have been set.
    pub async fn permits(&self, limit: Option<u32>) -> Result<Option<Permits>> {
        permits::limit(&self.engine, &**self.protocol()?, limit).await
    }

    /// Returns the stored outcome of the work of this name, for a kind that stores one; `None` if nothing is stored.
    /// With `forget`, it deletes the outcome with this token, and returns the outcome that was stored since, if any.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`], and [`Error::Config`](crate::Error::Config) for a kind without permits or records.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but if you drop the future, the record may or may not have been deleted.
    pub async fn record(&self, forget: Option<FencingToken>) -> Result<Option<Record>> {
        inspection::record(&self.engine, &**self.protocol()?, forget).await
    }

    /// Sends the server a request that only this kind has and that belongs to no claim. It is sent at most twice, with a
    /// pause of some milliseconds in between, so running it twice must have the same effect as running it once. Errors say that the client "could not `doing`
    /// lock …".
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// As for the request: it may have been executed.
    pub async fn ask(
        &self,
        doing: &'static str,
        question: impl Fn(&Name) -> ScriptCall,
    ) -> Result<Reply> {
        let protocol = &**self.protocol()?;
        let (asked, name) = (Question::of(protocol.kind(), doing), protocol.name());
        let (reply, _) = asked.ask(&self.engine, name, || question(name)).await?;
        Ok(reply)
    }

    /// Like [`ask`](Self::ask), for a request that must not run twice: it is sent once.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`]. After an [`Error::Backend`](crate::Error::Backend) because there was no answer, the
    /// request may have been executed.
    ///
    /// # Cancel safety
    ///
    /// As for the request: it may have been executed.
    pub async fn ask_once(
        &self,
        doing: &'static str,
        question: impl Fn(&Name) -> ScriptCall,
    ) -> Result<Reply> {
        let protocol = &**self.protocol()?;
        let (asked, name) = (Question::of(protocol.kind(), doing), protocol.name());
        let asked = asked.once().ask(&self.engine, name, || question(name));
        let (reply, _) = asked.await?;
        Ok(reply)
    }

    /// Subscribes to the channel of the name. The [`Watch`] reports the messages that arrive from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) for an invalid name; [`Error::Closed`](crate::Error::Closed) if the
    /// client is closed.
    pub fn watch(&self) -> Result<Watch> {
        Watch::new(&self.engine, &self.protocol()?.channel())
    }

    /// Returns the first `most` waiters for the lock, if its kind has a queue, like [`Client::waiters`].
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn waiters(&self, most: u32) -> Result<Vec<Waiter>> {
        inspection::waiters(&self.engine, self.protocol()?.name(), most).await
    }

    /// Shows who holds the lock, like [`Client::inspect`].
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn inspect(&self) -> Result<Inspection> {
        let protocol = self.protocol()?;
        inspection::inspect(&self.engine, protocol.name(), protocol.foreign()).await
    }

    /// Asks the holders to release the lock, like [`Client::revoke`].
    ///
    /// # Errors
    ///
    /// As for [`Client::revoke`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::revoke`].
    pub async fn revoke(&self) -> Result<u64> {
        let protocol = self.protocol()?;
        inspection::revoke(&self.engine, protocol.name(), protocol.foreign()).await
    }

    /// Takes the lock away by force, like [`Client::force_release`].
    ///
    /// # Errors
    ///
    /// As for [`Client::force_release`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::force_release`].
    pub async fn force_release(&self, claim: &str) -> Result<bool> {
        let protocol = self.protocol()?;
        inspection::force_release(&self.engine, protocol.name(), claim, protocol.foreign()).await
    }
}

impl Hold {
    /// Returns the label of the client that holds the lock.
    pub fn label(&self) -> Option<Arc<str>> {
        let (_, engine) = self.only_part().ok()?;
        engine.settings.label()
    }

    /// Runs a script of the lock's own kind for its claim, at most twice, like [`Target::ask`].
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](crate::Error::Lost) or [`Error::NotHeld`](crate::Error::NotHeld) if this hold has ended; otherwise as for
    /// [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the script may or may not have run.
    pub async fn ask(
        &self,
        doing: &'static str,
        item: impl Fn(&Name, RequestContext<'_>) -> ScriptCall,
    ) -> Result<Reply> {
        self.ensure_held()?;
        let (part, engine) = self.only_part()?;
        let protocol = &*part.protocol;
        let (question, name) = (Question::of(protocol.kind(), doing), protocol.name());
        let item = || item(name, part.requester.ask(&part));
        let (reply, _) = question.ask(&engine, name, item).await?;
        Ok(reply)
    }
}

impl Plan {
    /// Returns the names of everything that is acquired.
    pub fn name(&self) -> String {
        let names: Vec<&str> = match self {
            Self::One(target) => vec![target.name()],
            Self::All(stages) => stages.iter().flatten().map(Target::name).collect(),
            Self::Majority(majority) => vec![majority.name()],
        };
        names.join(", ")
    }

    fn targets(&self) -> Vec<&Target> {
        match self {
            Self::One(target) => vec![target],
            Self::All(stages) => stages.iter().flatten().collect(),
            Self::Majority(majority) => majority.targets().collect(),
        }
    }

    async fn inspect(&self) -> Result<Vec<Inspection>> {
        let mut seen = Vec::new();
        for target in self.targets() {
            seen.push(target.inspect().await?);
        }
        Ok(seen)
    }
}

impl Majority {
    /// A lock called `name` on the servers of these clients. `protocol` makes its kind's protocol from the checked
    /// name and the longest ttl in use, which is at first the longest of the clients' default ttls.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) unless there is an odd number of at least three clients, all of them
    /// different; and for an invalid name.
    pub fn new<'a, P: Protocol>(
        clients: impl IntoIterator<Item = &'a Client>,
        name: &str,
        protocol: impl Fn(Name, Duration) -> P,
    ) -> Result<Self> {
        let engines: Vec<&Arc<_>> = clients.into_iter().map(|it| &it.engine).collect();
        Self::of(&engines, name, protocol)
    }
}
