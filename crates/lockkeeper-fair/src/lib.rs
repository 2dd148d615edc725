//! First come, first served, across all processes.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::FairLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol};
use lockkeeper_core::{Acquire, Client, Lock, Name, Owner, Plan, Result, Target, TryAcquire};

/// The protocol of a fair lock called `name`: its requests and how it reads the replies. For models of the lock that
/// drive the same protocol.
#[doc(hidden)]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(of_name(name))
}

const fn of_name(name: Name) -> LockProtocol {
    let fair = LockProtocol::new(name, Kind::new("fair"));
    fair.reentrant().queueing().taking()
}

/// A lock with one owner at a time, granted in the order in which it was requested.
///
/// # Which lock should I use?
///
/// Use this one if no waiter may be overtaken, or if many wait: the release itself makes the next waiter the holder,
/// with one message and without a race for the lock. A mutex costs the server less while nobody waits.
///
/// # How it works
///
/// A claim that finds the lock held joins a queue on the server, in the order in which requests reach the server. The
/// script that releases the lock makes the first live waiter the holder and notifies its client. Each waiter sends a
/// heartbeat every third of the [waiter ttl](lockkeeper_core::ClientBuilder::waiter_ttl). A waiter that is silent for
/// one waiter ttl is passed over. A heartbeat also finds a grant whose message was lost, or a lock whose holder has
/// died. A waiter that stops waiting, by a timeout or by dropping the future, is removed from the queue.
///
/// An owner that already holds the lock is granted it again at once, ahead of the queue, as with a re-entrant lock.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_fair::FairLock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let lock = FairLock::new(&client, "printer");
/// let guard = lock.acquire().wait_for(Duration::from_secs(5)).await?;
/// assert_eq!(lock.queue_len().await?, 0);
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **Order before requests reach the server.** The queue order is the order of arrival at the server. Two processes
///   that ask at the same moment are served in the order in which their requests arrive.
/// - **A place for silent waiters.** A waiter whose heartbeats do not arrive for one waiter ttl loses its place, even
///   if only the network was down, and rejoins at the end of the queue. If the server itself froze, the waiters
///   from before keep their order.
/// - **Immediate hand-over after a crash.** A holder that crashes keeps the lock until its lease ends. Then the first
///   waiter asks, usually within milliseconds, and at the latest a third of the waiter ttl later. A waiter that dies
///   just as it is granted the lock costs one waiter ttl.
/// - **Exclusion when the server loses data, or between the last check and the write.** This is true of every lease.
///   Only a resource that checks fencing tokens closes the gap.
#[derive(Clone)]
pub struct FairLock(Target);

impl FairLock {
    /// Creates a handle to the lock called `name`. Nothing is sent; an invalid name is reported by the first
    /// acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Target::new(client, name, of_name))
    }

    /// Acquires the lock, waiting in the queue without a time limit unless you set one. An
    /// [owner](lockkeeper_core::Acquire::owner) that already holds the lock gets it again at once.
    ///
    /// When it returns `Ok`, no other owner holds the lock, every earlier waiter has been served or has stopped
    /// waiting, and this claim's lease is renewed while its guard lives.
    ///
    /// # Errors
    ///
    /// - [`Timeout`](lockkeeper_core::Error::Timeout) if a time limit was set and has passed;
    /// - [`QueueFull`](lockkeeper_core::Error::QueueFull) if a [bound](lockkeeper_core::Acquire::max_queue) was set
    ///   and is reached;
    /// - [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or does not answer for one ttl or for
    ///   the time limit, whichever is longer;
    /// - [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// - [`Config`](lockkeeper_core::Error::Config) for an invalid name or ttl, before anything is sent;
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
    /// # use lockkeeper_fair::FairLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let lock = FairLock::new(&client, "printer");
    /// let owner = client.new_owner();
    /// let outer = lock.acquire().owner(&owner).await?;
    /// let inner = lock.acquire().owner(&owner).await?;
    /// assert_eq!(inner.fencing_token(), outer.fencing_token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire<FairGuard> {
        Acquire::new(self.0.clone())
    }

    /// Acquires the lock if it is free and nobody waits for it, or if the [owner](lockkeeper_core::TryAcquire::owner)
    /// already holds it; otherwise returns `None`. It never overtakes a waiter.
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
    /// # use lockkeeper_fair::FairLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let lock = FairLock::new(&client, "printer");
    /// let _guard = lock.acquire().await?;
    /// assert!(lock.try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> TryAcquire<FairGuard> {
        Acquire::new(self.0.clone())
    }

    /// Returns this lock as a member of a `MultiLock`, which acquires several locks together.
    pub fn target(&self) -> Target {
        self.0.clone()
    }

    /// Returns how many claims of all clients were in the queue when the server answered. Dead waiters count until
    /// they are passed over.
    ///
    /// # Errors
    ///
    /// [`Backend`](lockkeeper_core::Error::Backend) if the server refuses or does not answer;
    /// [`Config`](lockkeeper_core::Error::Config) for an invalid name; [`Closed`](lockkeeper_core::Error::Closed) if
    /// the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// See [`FairLock`].
    pub async fn queue_len(&self) -> Result<u64> {
        Ok(self.0.queue(None).await?.0)
    }

    /// Returns the place in the queue of `owner`'s waiting acquisition, counted from 1; `None` if this client has none
    /// waiting.
    ///
    /// # Errors
    ///
    /// As for [`queue_len`](Self::queue_len).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_fair::FairLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let lock = FairLock::new(&client, "printer");
    /// assert_eq!(lock.position(&client.new_owner()).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn position(&self, owner: &Owner) -> Result<Option<u64>> {
        Ok(self.0.queue(Some(owner)).await?.1)
    }
}

impl Lock for FairLock {
    type Guard = FairGuard;

    fn plan(&self) -> Plan {
        self.0.clone().into()
    }
}

impl From<&FairLock> for Target {
    fn from(lock: &FairLock) -> Self {
        lock.target()
    }
}

impl fmt::Debug for FairLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

lockkeeper_core::guard! {
    /// One hold of a [`FairLock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease). When the last hold of its
    /// owner ends, the next waiter becomes the holder.
    pub struct FairGuard: Queued, SingleServer, CoolsDown;
}

impl FairGuard {
    /// Acquires the lock once more for the same owner, without waiting. The new lease has the client's ttl and is
    /// renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease
    /// has ended, here or on the server; then no new hold exists. Otherwise as for [`FairLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up the new claim; this guard is not affected.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Released};
    /// # use lockkeeper_fair::FairLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let outer = FairLock::new(&client, "printer").acquire().await?;
    /// let inner = outer.reenter().await?;
    /// assert_eq!(inner.release().await?, Released::StillHeld(1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reenter(&self) -> Result<Self> {
        self.0.reenter().await.map(Self)
    }
}
