//! One holder at a time, which can acquire the lock again in nested calls.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::ReentrantLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol};
use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Result, Target, TryAcquire};
#[cfg(doc)]
use lockkeeper_core::{Lease, Owner};

/// A lock with one owner at a time, which may hold it several times.
///
/// # Which lock should I use?
///
/// Use this one if a method that holds the lock calls another method that acquires the same lock. If nothing nests, a
/// mutex is cheaper: it costs the same round trips, but less work on the server.
///
/// # How it works
///
/// A holder is an [`Owner`], not a task or a thread. Make one with [`Client::new_owner`] and pass it to all code that
/// acts for the same holder, even in another process: an owner can be written as text. Each acquisition is a claim
/// with its own lease, so a short inner lease never shortens the outer one, and a lease that is not renewed ends by
/// itself while the owner's other leases continue. The lock is free when the last claim has been released or has
/// expired. All claims of one hold share one fencing token.
///
/// An owner that holds the lock gets it again at once. A revoked hold is the exception: nobody gets the lock, not even
/// its owner, until the hold's guards are gone or their leases end. So run the outer work in `guard.run(…)`, which
/// also stops a nested call.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::{Client, Released};
/// # use lockkeeper_reentrant::ReentrantLock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let lock = ReentrantLock::new(&client, "account:7");
/// let owner = client.new_owner();
/// let outer = lock.acquire().owner(&owner).await?;
/// let inner = outer.reenter().await?;
/// assert_eq!(inner.fencing_token(), outer.fencing_token());
/// assert_eq!(inner.release().await?, Released::StillHeld(1));
/// assert_eq!(outer.release().await?, Released::Free);
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **Exclusion among code that shares an owner.** Two tasks with the same owner are the same holder and run side by
///   side.
/// - **Exclusion when the server loses data, or between the last check and the write.** This is true of every lease.
///   Only a resource that checks fencing tokens closes the gap.
/// - **A larger token when a failover brings back an owner's former hold.** The owner gets the lock again with its old
///   token, and a resource that checks tokens refuses it.
/// - **Order.** At present waiters are served in order of arrival, except in the empty namespace. Only the fair lock
///   promises this.
#[derive(Clone)]
pub struct ReentrantLock(Target);

impl ReentrantLock {
    /// Creates a handle to the lock called `name`. Nothing is sent; an invalid name is reported by the first
    /// acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Target::new(client, name, of_name))
    }

    /// Acquires the lock, for an [owner](Acquire::owner) of yours or for a new one, waiting without a time limit
    /// unless you set one.
    ///
    /// An owner that holds the lock gets it again at once. A [revoked](Client::revoke) hold is the exception: nobody
    /// gets the lock, not even its owner, until the hold's guards are gone or their leases end. So run the outer work
    /// in [`guard.run(…)`](Lease::run), which also stops a nested call.
    ///
    /// When it returns `Ok`, no other owner holds the lock, and this claim's lease is renewed while its guard lives.
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
    /// Cancel safe: dropping the future gives up this claim, and releases it if it was granted without your code
    /// seeing it. The owner's other claims are not affected.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_reentrant::ReentrantLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let lock = ReentrantLock::new(&client, "account:7");
    /// let (one, other) = (client.new_owner(), client.new_owner());
    /// let _outer = lock.acquire().owner(&one).await?;
    /// let _inner = lock.acquire().owner(&one).await?;
    /// assert!(lock.try_acquire().owner(&other).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire<ReentrantGuard> {
        Acquire::new(self.0.clone())
    }

    /// Acquires the lock if it is free now, or already held by the [owner](Acquire::owner). Returns `None` if another
    /// owner holds it, if this owner's hold was revoked, or if the name is in its cooldown after a release
    /// ([`min_hold`](Acquire::min_hold)).
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
    /// See [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> TryAcquire<ReentrantGuard> {
        Acquire::new(self.0.clone())
    }

    /// Returns this lock as a member of a `MultiLock`. The owner is that of the multi-lock's acquisition, unless you
    /// set [an owner of its own](Target::owner).
    pub fn target(&self) -> Target {
        self.0.clone()
    }
}

/// The protocol of a re-entrant lock called `name`. Not for users: it lacks the engine. The exhaustive search and the
/// simulator drive it themselves, so that they test this object and not a copy of it.
#[doc(hidden)]
#[must_use]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(of_name(name))
}

/// The protocol of a re-entrant lock whose waiters queue on the server, whatever its name.
#[doc(hidden)]
#[must_use]
pub fn queueing_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(reentrant(name).queueing())
}

const fn of_name(name: Name) -> LockProtocol {
    reentrant(name).queueing_unless_shared()
}

const fn reentrant(name: Name) -> LockProtocol {
    LockProtocol::new(name, Kind::new("reentrant"))
        .reentrant()
        .taking()
}

impl Lock for ReentrantLock {
    type Guard = ReentrantGuard;

    fn plan(&self) -> Plan {
        self.0.clone().into()
    }
}

impl From<&ReentrantLock> for Target {
    fn from(lock: &ReentrantLock) -> Self {
        lock.target()
    }
}

impl fmt::Debug for ReentrantLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

lockkeeper_core::guard! {
    /// One hold of a [`ReentrantLock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease). The lock is free when
    /// the last hold of its owner has ended.
    pub struct ReentrantGuard: SingleServer, CoolsDown;
}

impl ReentrantGuard {
    /// Acquires the lock once more for the same owner, without waiting. The new lease has the client's ttl and is
    /// renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease
    /// has ended, here or on the server; then no new hold exists. Otherwise as for [`ReentrantLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up the new claim; this guard is not affected.
    ///
    /// # Examples
    ///
    /// See [`ReentrantLock`].
    pub async fn reenter(&self) -> Result<Self> {
        self.0.reenter().await.map(Self)
    }
}
