//! So many at a time, first come, first served, across all processes.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::Semaphore`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol};
use lockkeeper_core::{
    Acquire, Client, Error, Lock, Name, Owner, Permits, Plan, Result, Target, TryAcquire,
};

/// What a semaphore called `name` asks for so many permits of so many, and how it reads the answers: for models of it that drive the
/// same protocol.
#[doc(hidden)]
pub fn protocol(name: Name, permits: u32, limit: u32) -> Arc<dyn Protocol> {
    Arc::new(of_name(name, permits, limit, &Arc::default()))
}

fn of_name(name: Name, permits: u32, limit: u32, heard: &Arc<AtomicU32>) -> LockProtocol {
    let semaphore = LockProtocol::new(name, Kind::new("semaphore")).queueing();
    semaphore.of_permits(permits, limit, heard)
}

/// A number of permits that are held at a time, by the order of asking.
///
/// # Which lock should I use?
///
/// This one if a few may work side by side, but no more: calls to an API that allows eight at a time, jobs on a database that
/// bears four. With a limit of one it is a fair lock without re-entry.
///
/// # How it works
///
/// Each acquisition is a claim with a lease, a fencing token and a notice of its loss, as with every lock: when a process dies its
/// permits are free at the end of their leases, and nobody has to count again. Who finds too few permits left stands in a queue
/// on the server. Whoever releases lets in as many of those in front as fit, by one script, and tells their clients. A claim for
/// many permits is not passed by smaller ones behind it.
///
/// # The limit
///
/// Each client says the limit when it makes its `Semaphore`; as long as anybody holds or waits, the first one's stands on the
/// server for all. A client that was given another one works by that, and says so once, in the log and to its
/// [observer](lockkeeper_core::LeaseEvent::OtherLimit). [`set_limit`](Self::set_limit) changes it for all at once. When nobody
/// holds and nobody waits, nothing of the semaphore is on the server, and the limit is that of whoever comes next.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_semaphore::Semaphore;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let calls = Semaphore::new(&client, "api", 8);
/// let one = calls.acquire().wait_for(Duration::from_secs(5)).await?;
/// let five = calls.permits(5).acquire().await?;
/// assert_eq!(calls.available().await?, 2);
/// assert!(calls.permits(3).try_acquire().await?.is_none());
/// five.release().await?;
/// one.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **A rate.** It bounds how many work at a time, not how many begin in a second.
/// - **Re-entry.** Each acquisition takes permits of its own. One that holds permits and waits for more of them waits for itself, if
///   enough others do so too.
/// - **An instant after a death.** The permits of a holder that crashes are taken until its lease ends, and those who wait are let in
///   by their next sign of life, at most a third of the [waiter ttl](lockkeeper_core::ClientBuilder::waiter_ttl) later.
/// - **The limit when the server loses data.** As for every lease: after a failover that lost grants, more may hold than the limit
///   says, for up to one ttl.
#[derive(Clone)]
pub struct Semaphore {
    target: Target,
    limit: u32,
    heard: Arc<AtomicU32>,
}

impl Semaphore {
    /// The semaphore called `name`, of which claims take one permit each of `limit`. Nothing is sent; a bad name and a limit of
    /// zero are reported by the first acquisition.
    pub fn new(client: &Client, name: &str, limit: u32) -> Self {
        let heard = Arc::default();
        let protocol = |name| match limit {
            0 => Err(Error::config("a semaphore has a limit of one or more")),
            _ => Ok(of_name(name, 1, limit, &heard)),
        };
        let target = Target::checked(client, name, protocol);
        Self {
            target,
            limit,
            heard,
        }
    }

    /// The same semaphore, of which claims take so many permits each. None, or more than the limit, is reported by the first
    /// acquisition.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_semaphore::Semaphore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let memory = Semaphore::new(&client, "gigabytes", 16);
    /// let _large = memory.permits(12).acquire().await?;
    /// assert_eq!(memory.available().await?, 4);
    /// assert!(matches!(memory.permits(17).acquire().await, Err(Error::Config { .. })));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn permits(&self, permits: u32) -> Self {
        let (limit, heard) = (self.limit, Arc::clone(&self.heard));
        let target = self.target.by_checked(|name| match permits {
            0 => Err(Error::config("a claim takes one permit or more")),
            _ if permits > limit => Err(Error::config(format!(
                "{permits} permits are more than the limit of {limit}"
            ))),
            _ => Ok(of_name(name, permits, limit, &heard)),
        });
        Self {
            target,
            limit,
            heard,
        }
    }

    /// Acquires its permits, waiting in the queue for as long as it takes unless told otherwise.
    ///
    /// When it returns `Ok`, everybody who asked before was served or has gone, all who hold do not have more permits than the limit,
    /// and this claim's lease is renewed as long as its guard lives.
    ///
    /// # Errors
    ///
    /// [`OverLimit`](lockkeeper_core::Error::OverLimit) if on the server a lower limit stands than it asks permits of;
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed; [`QueueFull`](lockkeeper_core::Error::QueueFull) if a
    /// [bound](lockkeeper_core::Acquire::max_queue) was set and is reached; [`Backend`](lockkeeper_core::Error::Backend) if the server refuses,
    /// or does not answer for one ttl, or for a longer wait that was set; [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// [`Config`](lockkeeper_core::Error::Config) for a bad name, ttl, limit or number of permits, before anything is sent;
    /// [`Closed`](lockkeeper_core::Error::Closed) if the client is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the place in the queue up, also when the claim had been granted unseen.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_semaphore::Semaphore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let calls = Semaphore::new(&client, "api", 8);
    /// calls.acquire().hold(async |_| { /* call it */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire<SemaphoreGuard> {
        Acquire::new(self.target.clone())
    }

    /// Acquires its permits if they are free now and nobody waits; `None` otherwise. It passes nobody.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that too few free permits are no error. A server that does not answer is asked once
    /// more and then reported.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_semaphore::Semaphore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let calls = Semaphore::new(&client, "api", 1);
    /// let _guard = calls.acquire().await?;
    /// assert!(calls.try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> TryAcquire<SemaphoreGuard> {
        Acquire::new(self.target.clone())
    }

    /// How many permits nobody holds, by the limit that stands on the server. Those who wait are not counted: while there are any, a
    /// newcomer gets none of them.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn available(&self) -> Result<u32> {
        let permits = self.target.permits(None).await?;
        Ok(permits.map_or(self.limit, |permits| {
            permits.limit.saturating_sub(permits.held)
        }))
    }

    /// Lets there be so many permits from now on, for all who hold and wait, whatever limit their clients were given; false if nobody
    /// does, and so nothing was changed: then the limit is that of whoever comes next.
    ///
    /// Lowered, it takes nothing from those who hold: nobody else comes in until enough have left. A claim that waits for more permits
    /// than there are now gets [`Error::OverLimit`] by its next sign of life. Raised, it lets in those in front of the queue at once.
    ///
    /// A new version of a program with another limit calls it when it starts, or else works by the old one as long as the old version
    /// holds. This `Semaphore` goes on to say its own limit where it is the first to come.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`], and [`Error::Config`] for zero.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves unknown whether the limit was changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_semaphore::Semaphore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let calls = Semaphore::new(&client, "api", 1);
    /// let _one = calls.acquire().await?;
    /// assert!(calls.set_limit(2).await?);
    /// let _two = calls.acquire().await?;
    /// assert_eq!(calls.available().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_limit(&self, limit: u32) -> Result<bool> {
        if limit == 0 {
            return Err(Error::config("a semaphore has a limit of one or more"));
        }
        Ok(self.target.permits(Some(limit)).await?.is_some())
    }

    /// This semaphore, for so many permits, as one of several locks that are acquired together, by a `MultiLock`.
    pub fn target(&self) -> Target {
        self.target.clone()
    }

    /// How many permits there are on the server, how many are held and how many claims wait; `None` if nobody holds and nobody waits.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn state(&self) -> Result<Option<Permits>> {
        self.target.permits(None).await
    }

    /// Where the first waiting acquisition of `owner` by this client stands in the queue, counted from one; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn position(&self, owner: &Owner) -> Result<Option<u64>> {
        Ok(self.target.queue(Some(owner)).await?.1)
    }
}

impl Lock for Semaphore {
    type Guard = SemaphoreGuard;

    fn plan(&self) -> Plan {
        self.target.clone().into()
    }
}

impl From<&Semaphore> for Target {
    fn from(semaphore: &Semaphore) -> Self {
        semaphore.target()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

lockkeeper_core::guard! {
    /// Held permits of a [`Semaphore`]. Dereferences to its [`Lease`](lockkeeper_core::Lease).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_semaphore::Semaphore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let calls = Semaphore::new(&client, "api", 8);
    /// let guard = calls.permits(3).acquire().await?;
    /// println!("with token {}", guard.fencing_token());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct SemaphoreGuard: Queued, SingleServer;
}
