//! One holder at a time: the cheapest lock of the family.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::Mutex`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod protocol;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{
    Acquire, Client, Hold, Lease, Lock, Member, Name, Released, Result, TryAcquire,
};
use protocol::MutexProtocol;

/// A lock with one holder at a time, whoever it is.
///
/// # Which lock should I use?
///
/// This one, unless you know why not. It costs one round trip to acquire and one to release. Whoever holds it and asks
/// again waits for itself; it has no queue, so which waiter is next is a matter of chance; it does not tell readers from
/// writers.
///
/// # How it works
///
/// One string key holds the claim of the holder and ends with its lease. While the guard lives, the lease is renewed
/// when a third of its ttl has passed. Waiters are woken by a message when the holder leaves, and look by themselves
/// when its lease ends.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_mutex::Mutex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let mutex = Mutex::new(&client, "invoice:42");
/// let guard = mutex.acquire().wait_for(Duration::from_secs(5)).await?;
/// println!("token for the ledger: {}", guard.fencing_token());
/// assert!(mutex.try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **Mutual exclusion when the server loses data.** After a failover to a replica that had not heard of the grant, the
///   lock can be granted again while the old holder still believes. Only a resource that checks fencing tokens closes
///   this.
/// - **Exclusion between the last check and the write.** A process can pause for longer than the ttl right after
///   [`ensure_held`](Lease::ensure_held). Again, only fencing tokens help.
/// - **Fairness.** Waiters of one client are served in order; among clients chance decides.
/// - **Re-entry.** A second acquisition by the same owner waits like any other.
#[derive(Clone)]
pub struct Mutex(Lock);

impl Mutex {
    /// The mutex called `name`. Nothing is sent; a bad name is reported by the first acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Lock::new(client, name, MutexProtocol::new))
    }

    /// Acquires, waiting for as long as it takes unless told otherwise.
    ///
    /// When it returns `Ok`, this claim is the only holder, and its lease is renewed as long as the guard lives.
    ///
    /// # Errors
    ///
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed;
    /// [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or does not answer for one ttl, or for a longer wait that was set;
    /// [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// [`Config`](lockkeeper_core::Error::Config) for a bad name or ttl, before anything is sent;
    /// [`Closed`](lockkeeper_core::Error::Closed) if the client is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the claim up, also when it had been granted unseen.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let mutex = Mutex::new(&client, "report");
    /// let _guard = mutex.acquire().ttl(Duration::from_secs(10)).await?;
    /// let late = mutex.acquire().wait_for(Duration::from_millis(100)).await;
    /// assert!(matches!(late, Err(Error::Timeout { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire<MutexGuard> {
        self.0.acquire(|hold, _| MutexGuard(hold))
    }

    /// Acquires if the lock is free now. `None` if it cannot be had now: somebody holds it, or the name is kept.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that being held is no error. A server that does not answer is asked once
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
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let Some(guard) = Mutex::new(&client, "nightly").try_acquire().await? else {
    ///     return Ok(()); // another machine does it
    /// };
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> TryAcquire<MutexGuard> {
        self.0.try_acquire(|hold, _| MutexGuard(hold))
    }

    /// This lock as a member of several that are acquired together, by a `MultiLock`.
    pub fn member(&self) -> Member {
        Member::new(self.0.clone())
    }

    /// Acquires, runs `work` for as long as the lease lasts, and releases.
    ///
    /// When it returns `Ok`, the work was done while the lease was believed in.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), and [`Lost`](lockkeeper_core::Error::Lost) if the lease was lost on the way: the
    /// work was then stopped at one of its awaits.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let token = Mutex::new(&client, "report").hold(async |lease| lease.fencing_token()).await?;
    /// assert!(token.get() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold<F, T>(&self, work: F) -> Result<T>
    where
        F: AsyncFnOnce(Lease) -> T,
    {
        self.acquire().await?.0.within(work).await
    }
}

/// The protocol of a mutex called `name`. Not for users: the engine's part is missing. The exhaustive search and the
/// simulator drive it by themselves, so that they test this object and not a copy of it.
#[doc(hidden)]
#[must_use]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(MutexProtocol::new(name))
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A held [`Mutex`]. Dereferences to its [`Lease`].
///
/// Dropping it releases the lock in the background; [`release`](Self::release) waits for the server's word. A guard
/// cannot be cloned: `guard.clone()` gives another view, its [`Lease`].
///
/// Bind it to a name: `let _guard = lock.acquire().await?` keeps it to the end of its block, while
/// `let _ = lock.acquire().await?` drops it at once, and so releases.
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
pub struct MutexGuard(Hold);

impl MutexGuard {
    /// Lets the lock go and waits until the server has confirmed it.
    ///
    /// When it returns `Ok`, the lock is free or already another's.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) if the lease had been lost before;
    /// [`Backend`](lockkeeper_core::Error::Backend) if the server did not confirm within the client's release timeout. The
    /// guard is gone in every case, and the leave is repeated in the background.
    ///
    /// After a loss, `release` returns `Lost` at once; the leave goes out in the background. Treat `Lost(Revoked)` as
    /// "stopped as asked".
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future is dropping the guard.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Released};
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let guard = Mutex::new(&client, "report").acquire().await?;
    /// assert_eq!(guard.release().await?, Released::Free);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<Released> {
        self.0.release().await
    }
}

impl Deref for MutexGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}
