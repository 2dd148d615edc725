//! One holder at a time: the cheapest lock of the family.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::Mutex`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol};
use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Target, TryAcquire};

/// A lock with one holder at a time, whoever it is.
///
/// # Which lock should I use?
///
/// This one, unless you know why not. It costs one round trip to acquire and one to release. Whoever holds it and asks
/// again waits for itself; it promises its waiters no order; it does not tell readers from
/// writers.
///
/// # How it works
///
/// One string key holds the claim of the holder and ends with its lease. While the guard lives, the lease is renewed
/// when a third of its ttl has passed. Waiters stand in a queue on the server: the release of the holder makes the next of them
/// the holder and tells it by a message, and the first asks by itself when the holder's lease ends. Of the waiters in one client one
/// stands there, and the holder hands the lock over to the next of its client by one request. In the empty namespace, which other
/// libraries share, one waiter of each client asks instead, when it is told that the lock is free.
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
///   [`ensure_held`](lockkeeper_core::Lease::ensure_held). Again, only fencing tokens help.
/// - **Order.** The waiters of a client hand the lock over among themselves, a bounded number of times while others wait. Only the
///   fair lock promises an order.
/// - **Re-entry.** A second acquisition by the same owner waits like any other.
#[derive(Clone)]
pub struct Mutex(Target);

impl Mutex {
    /// The mutex called `name`. Nothing is sent; a bad name is reported by the first acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Target::new(client, name, of_name))
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
        Acquire::new(self.0.clone())
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
        Acquire::new(self.0.clone())
    }

    /// This lock as one of several that are acquired together, by a `MultiLock`.
    pub fn target(&self) -> Target {
        self.0.clone()
    }
}

/// The protocol of a mutex called `name`. Not for users: the engine's part is missing. The exhaustive search and the
/// simulator drive it by themselves, so that they test this object and not a copy of it.
#[doc(hidden)]
#[must_use]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(of_name(name))
}

/// The same of a mutex whose waiters stand in a queue, whatever its name.
#[doc(hidden)]
#[must_use]
pub fn queueing_protocol(name: Name) -> Arc<dyn Protocol> {
    let protocol = LockProtocol::new(name, KIND).queueing();
    Arc::new(protocol.in_cohorts())
}

const KIND: Kind = Kind::new("mutex");

const fn of_name(name: Name) -> LockProtocol {
    LockProtocol::new(name, KIND)
        .queueing_unless_shared()
        .in_cohorts()
}

impl Lock for Mutex {
    type Guard = MutexGuard;

    fn plan(&self) -> Plan {
        self.0.clone().into()
    }
}

impl From<&Mutex> for Target {
    fn from(mutex: &Mutex) -> Self {
        mutex.target()
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

lockkeeper_core::guard! {
    /// A held [`Mutex`]. Dereferences to its [`Lease`](lockkeeper_core::Lease).
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
    pub struct MutexGuard: SingleServer;
}
