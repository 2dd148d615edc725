//! One holder at a time: the cheapest lock of the family.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::Mutex`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol};
use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Target, TryAcquire};

/// A lock with one holder at a time.
///
/// # Which lock should I use?
///
/// Use this one unless you have a reason not to. It costs one round trip to acquire and one to release. A holder that
/// acquires it again waits for itself, the order of waiters is not guaranteed, and readers exclude each other as
/// writers do.
///
/// # How it works
///
/// One string key stores the claim of the holder and expires with its lease. While the guard lives, the lease is
/// renewed after a third of its ttl. Waiters queue on the server. When the holder releases, the script makes the next
/// waiter the holder and sends it a message. When the holder's lease ends without a release, the first waiter asks
/// again by itself. Only one of a client's waiters is in that queue; a holder hands the lock over to the next waiter
/// of its own client with one request. In the empty namespace, which other libraries share, there is no queue: when a
/// message says that the lock is free, one waiter of each client asks again.
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
/// - **Mutual exclusion when the server loses data.** After a failover to a replica that had not received the grant,
///   the lock can be granted again while the old holder still considers its lease valid. Only a resource that checks
///   fencing tokens closes this gap.
/// - **Exclusion between the last check and the write.** A process can pause for longer than the ttl right after
///   [`ensure_held`](lockkeeper_core::Lease::ensure_held). Again, only fencing tokens help.
/// - **Order.** The waiters of one client hand the lock over among themselves, a bounded number of times while others
///   wait. Only the fair lock promises an order.
/// - **Re-entry.** A second acquisition by the same owner waits like any other.
#[derive(Clone)]
pub struct Mutex(Target);

impl Mutex {
    /// Creates a handle to the mutex called `name`. Nothing is sent; an invalid name is reported by the first
    /// acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Target::new(client, name, of_name))
    }

    /// Acquires the lock, waiting without a time limit unless you set one.
    ///
    /// When it returns `Ok`, this claim is the only holder, and its lease is renewed while the guard lives.
    ///
    /// # Errors
    ///
    /// - [`Timeout`](lockkeeper_core::Error::Timeout) if a time limit was set and has passed;
    /// - [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or does not answer for one ttl or for
    ///   the time limit, whichever is longer;
    /// - [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// - [`Config`](lockkeeper_core::Error::Config) for an invalid name or ttl, before anything is sent;
    /// - [`Closed`](lockkeeper_core::Error::Closed) if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up the claim, and releases it if it was granted without your code
    /// seeing it.
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

    /// Acquires the lock if it is free now. Returns `None` if it is held, or if its name is in its cooldown after a
    /// release ([`min_hold`](lockkeeper_core::Acquire::min_hold)).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that a held lock is not an error. If the server does not answer, the
    /// request is sent once more before the error is returned.
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

    /// Returns this lock as a member of a `MultiLock`, which acquires several locks together.
    pub fn target(&self) -> Target {
        self.0.clone()
    }
}

/// The protocol of a mutex called `name`. Not for users: it lacks the engine. The exhaustive search and the simulator
/// drive it themselves, so that they test this object and not a copy of it.
#[doc(hidden)]
#[must_use]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(of_name(name))
}

/// The protocol of a mutex whose waiters queue on the server, whatever its name.
#[doc(hidden)]
#[must_use]
pub fn queueing_protocol(name: Name) -> Arc<dyn Protocol> {
    let protocol = LockProtocol::new(name, KIND).queueing();
    Arc::new(protocol.in_cohorts().taking())
}

const KIND: Kind = Kind::new("mutex");

const fn of_name(name: Name) -> LockProtocol {
    LockProtocol::new(name, KIND)
        .queueing_unless_shared()
        .in_cohorts()
        .taking()
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
    pub struct MutexGuard: SingleServer, CoolsDown;
}
