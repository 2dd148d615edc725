//! At most N holders at a time, first come, first served, across all processes.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::Semaphore`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol};
use lockkeeper_core::{
    Acquire, Client, Error, Lock, Name, Owner, Permits, Plan, Result, Target, TryAcquire,
};

/// The protocol of a semaphore called `name`, for a claim of `permits` out of `limit`: its requests and how it reads
/// the replies. For models of it that drive the same protocol.
#[doc(hidden)]
pub fn protocol(name: Name, permits: u32, limit: u32) -> Arc<dyn Protocol> {
    Arc::new(of_name(name, permits, limit, &Arc::default()))
}

fn of_name(name: Name, permits: u32, limit: u32, heard: &Arc<AtomicU32>) -> LockProtocol {
    let semaphore = LockProtocol::new(name, Kind::new("semaphore"));
    let semaphore = semaphore.queueing().taking();
    semaphore.of_permits(permits, limit, heard)
}

/// A limited number of permits, granted in the order in which they were requested.
///
/// # Which lock should I use?
///
/// Use this one if only a limited number of holders may work at the same time: calls to an API that allows eight at a
/// time, or jobs on a database that can take four. With a limit of one it is a fair lock without re-entry.
///
/// # How it works
///
/// As with every lock, each acquisition is a claim with a lease, a fencing token and a notice of its loss. When a
/// process dies, its permits become free at the end of their leases; no counter has to be corrected. A claim that
/// finds too few permits waits in a queue on the server. The script that releases permits grants them to as many
/// waiters at the front as fit, and notifies their clients. Smaller claims do not overtake a large one at the front.
///
/// # The limit
///
/// Each client gives a limit when it makes its `Semaphore`. While anybody holds or waits, the server stores the first
/// client's limit, which applies to everybody. A client with another limit follows the stored one, and reports that
/// once, in the log and to its [observer](lockkeeper_core::LeaseEvent::OtherLimit). [`set_limit`](Self::set_limit)
/// changes the stored limit. When nobody holds or waits, the server stores nothing about the semaphore, and the next
/// client sets the limit again.
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
/// - **A rate.** It limits how many holders work at the same time, not how many start per second.
/// - **Re-entry.** Each acquisition takes permits of its own. A holder that waits for more permits can wait for
///   itself, if enough others do the same.
/// - **Immediate hand-over after a crash.** The permits of a holder that crashes stay taken until its lease ends.
///   The first waiter usually knows when that is and asks within milliseconds; otherwise it asks with its next
///   heartbeat, at most a third of the [waiter ttl](lockkeeper_core::ClientBuilder::waiter_ttl) later.
/// - **Permits on a majority of servers.** A semaphore is on one server. A majority of servers can agree on whether one
///   claim holds, but not on how many permits are taken.
/// - **The limit when the server loses data.** This is true of every lease: after a failover that lost grants, more
///   permits than the limit may be held for up to one ttl.
#[derive(Clone)]
pub struct Semaphore {
    target: Target,
    limit: u32,
    heard: Arc<AtomicU32>,
}

impl Semaphore {
    /// Creates a handle to the semaphore called `name` with this limit; each acquisition takes one permit. Nothing is
    /// sent; an invalid name or a limit of zero is reported by the first acquisition.
    pub fn new(client: &Client, name: &str, limit: u32) -> Self {
        let heard = Arc::default();
        let protocol = |name| match limit {
            0 => Err(Error::config(
                "the limit of a semaphore must be at least one",
            )),
            _ => Ok(of_name(name, 1, limit, &heard)),
        };
        let target = Target::checked(client, name, protocol);
        Self {
            target,
            limit,
            heard,
        }
    }

    /// Returns the same semaphore, whose acquisitions take this many permits each. Zero, or more than the limit, is
    /// reported by the first acquisition.
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
            0 => Err(Error::config(
                "an acquisition must take at least one permit",
            )),
            _ if permits > limit => Err(Error::config(format!(
                "{permits} permits are more than the semaphore's limit of {limit}"
            ))),
            _ => Ok(of_name(name, permits, limit, &heard)),
        });
        Self {
            target,
            limit,
            heard,
        }
    }

    /// Acquires the permits, waiting in the queue without a time limit unless you set one.
    ///
    /// When it returns `Ok`, every earlier waiter has been served or has stopped waiting, no more permits are held
    /// than the limit allows, and this claim's lease is renewed while its guard lives.
    ///
    /// # Errors
    ///
    /// - [`OverLimit`](lockkeeper_core::Error::OverLimit) if the limit on the server is lower than the number of
    ///   permits asked for;
    /// - [`Timeout`](lockkeeper_core::Error::Timeout) if a time limit was set and has passed;
    /// - [`QueueFull`](lockkeeper_core::Error::QueueFull) if a [bound](lockkeeper_core::Acquire::max_queue) was set
    ///   and is reached;
    /// - [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or does not answer for one ttl or for
    ///   the time limit, whichever is longer;
    /// - [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// - [`Config`](lockkeeper_core::Error::Config) for an invalid name, ttl, limit or number of permits, before
    ///   anything is sent;
    /// - [`Closed`](lockkeeper_core::Error::Closed) if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future withdraws the claim from the queue, and releases it if it was granted without
    /// your code seeing it.
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

    /// Acquires the permits if enough are free and nobody waits; otherwise returns `None`. It never overtakes a
    /// waiter.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that too few free permits are not an error. If the server does not
    /// answer, the request is sent once more before the error is returned.
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

    /// Returns how many permits are free under the limit on the server. Waiters are not considered: while there are
    /// any, a newcomer gets none of these permits.
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

    /// Changes the limit for all holders and waiters, whatever limits their clients were given. Returns false if there
    /// are none: then nothing was changed, and the next client sets the limit.
    ///
    /// A lower limit takes no permits from holders; no claim is granted any until enough are released. A claim that
    /// waits for more permits than the new limit gets [`Error::OverLimit`] with its next heartbeat. A higher limit
    /// grants to waiters at the front of the queue at once.
    ///
    /// Call it when you deploy a version of your program with another limit. Otherwise the new version follows the old
    /// limit while the old version holds permits. This `Semaphore` itself keeps its own limit, and uses it when it is
    /// the first to acquire.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`], and [`Error::Config`] for zero.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the limit may or may not have been changed.
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
            return Err(Error::config(
                "the limit of a semaphore must be at least one",
            ));
        }
        Ok(self.target.permits(Some(limit)).await?.is_some())
    }

    /// Returns this semaphore, with its number of permits, as a member of a `MultiLock`, which acquires several locks
    /// together.
    pub fn target(&self) -> Target {
        self.target.clone()
    }

    /// Returns the limit on the server, how many permits are held and how many claims wait; `None` if nobody holds or
    /// waits.
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

    /// Returns the place in the queue of `owner`'s first waiting acquisition by this client, counted from 1; `None` if
    /// there is none.
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
    pub struct SemaphoreGuard: Queued, SingleServer, CoolsDown;
}
