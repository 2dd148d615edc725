//! One holder at a time, whose own nested calls get in again.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::ReentrantLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol};
use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Result, Target, TryAcquire};
#[cfg(doc)]
use lockkeeper_core::{Lease, Owner};

/// A lock with one owner at a time, who may hold it several times over.
///
/// # Which lock should I use?
///
/// This one if a method that holds a lock calls another that takes the same lock. If nothing nests, a mutex is cheaper:
/// it costs the same round trips, and the server less work.
///
/// # How it works
///
/// A holder is an [`Owner`], not a task and not a thread: make one with [`Client::new_owner`] and hand it to whoever acts
/// for the same holder, in another process too (it can be written as text). Each acquisition is a claim with a lease of
/// its own, so a short inner lease never shortens the outer one, and one that is not renewed ends by itself while the
/// owner's others live on. The lock is free when the last claim has left or ended. All claims of one hold share one fencing
/// token.
///
/// An owner that holds gets in at once, unless its hold was revoked: then nobody gets in, not even it, until its guards
/// are gone or their leases end. So run the outer work in `guard.run(…)`, which stops a nested call too.
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
/// - **Exclusion among those who share an owner.** Two tasks with the same owner are the same holder and run side by side.
/// - **Exclusion when the server loses data, or between the last check and the write.** As for every lease; only a
///   resource that checks fencing tokens closes this.
/// - **A larger token than those before, for an owner whose former hold a failover brought back.** It gets in again with the
///   token of then; a resource that checks tokens refuses it.
/// - **Order.** Today waiters are served as they came, but for the empty namespace. Only the fair lock promises it.
#[derive(Clone)]
pub struct ReentrantLock(Target);

impl ReentrantLock {
    /// The lock called `name`. Nothing is sent; a bad name is reported by the first acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Target::new(client, name, of_name))
    }

    /// Acquires, for an [owner](Acquire::owner) of yours or for a new one, waiting for as long as it takes unless told otherwise.
    ///
    /// An owner that holds gets in at once, unless its hold was [revoked](Client::revoke): then nobody gets in, not even
    /// it, until its guards are gone or their leases end. So run the outer work in [`guard.run(…)`](Lease::run), which
    /// stops a nested call too.
    ///
    /// When it returns `Ok`, no other owner holds, and this claim's lease is renewed as long as its guard lives.
    ///
    /// # Errors
    ///
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed; [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or
    /// does not answer for one ttl, or for a longer wait that was set; [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// [`Config`](lockkeeper_core::Error::Config) for a bad name or ttl, before anything is sent; [`Closed`](lockkeeper_core::Error::Closed) if the client
    /// is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives this claim up, also when it had been granted unseen. The owner's other
    /// claims stay.
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

    /// Acquires if the lock is free, or the [owner](Acquire::owner)'s own, now. `None` if it cannot be had now: another owner holds it,
    /// this owner's hold was revoked, or the name is kept.
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
    /// See [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> TryAcquire<ReentrantGuard> {
        Acquire::new(self.0.clone())
    }

    /// This lock as one of several that are acquired together, by a `MultiLock`: for the owner of that acquisition,
    /// or [one of its own](Target::owner).
    pub fn target(&self) -> Target {
        self.0.clone()
    }
}

/// The protocol of a re-entrant lock called `name`. Not for users: the engine's part is missing. The exhaustive search and the
/// simulator drive it by themselves, so that they test this object and not a copy of it.
#[doc(hidden)]
#[must_use]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(of_name(name))
}

const fn of_name(name: Name) -> LockProtocol {
    let reentrant = LockProtocol::new(name, Kind::new("reentrant")).reentrant();
    reentrant.queueing_unless_shared()
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
    /// One hold of a [`ReentrantLock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease). The lock is free when the last
    /// hold of its owner is gone.
    pub struct ReentrantGuard: SingleServer;
}

impl ReentrantGuard {
    /// Takes the lock once more for the same owner, without waiting, with a lease of the client's ttl that is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease has ended, here or on the server: then
    /// nothing is held anew. Otherwise as for [`ReentrantLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the new claim up; this guard stays as it is.
    ///
    /// # Examples
    ///
    /// See [`ReentrantLock`].
    pub async fn reenter(&self) -> Result<Self> {
        self.0.reenter().await.map(Self)
    }
}
