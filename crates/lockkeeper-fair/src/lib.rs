//! First come, first served, across all processes.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::FairLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod protocol;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{
    Acquire, Client, Hold, Lease, Lock, Member, Name, Owner, Released, Result, TryAcquire,
};
use protocol::FairProtocol;

/// What a fair lock called `name` asks and how it reads the answers: for models of the lock that drive the same protocol.
#[doc(hidden)]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(FairProtocol::new(name))
}

/// A lock with one owner at a time, who gets in by the order of asking.
///
/// # Which lock should I use?
///
/// This one if nobody may be passed over, or if many wait: the holder's leaving itself makes the next waiter the holder, by
/// one message, without a race for the lock. A mutex costs the server less where nobody waits.
///
/// # How it works
///
/// Who finds the lock held stands in a queue on the server, in the order in which the server heard of them. The script by
/// which the holder leaves makes the first waiter that is alive the holder and tells its client. A waiter says every third
/// of the [waiter ttl](lockkeeper_core::ClientBuilder::waiter_ttl) that it is alive; one that is silent for longer is passed
/// over, and the same sign finds a grant whose message was lost, or a lock whose holder has died. Whoever stops waiting, by
/// a timeout or by dropping the future, leaves the queue.
///
/// An owner that holds gets in again at once, past the queue, as with a re-entrant lock.
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
/// - **Order before the server.** First is who is heard first. Two processes that ask at the same moment are served in the
///   order in which their requests arrive.
/// - **A place for the dead.** A waiter that is not heard for one waiter ttl loses its place, also if only the network was
///   down; it then stands at the end. After the server itself stood still, the waiters of before keep their order.
/// - **An instant after a death.** A holder that crashes keeps the lock until its lease ends, and the next is let in by a sign
///   of a waiter, at most a third of the waiter ttl later. A waiter that dies just when it is granted costs one waiter ttl.
/// - **Exclusion when the server loses data, or between the last check and the write.** As for every lease; only a
///   resource that checks fencing tokens closes this.
#[derive(Clone)]
pub struct FairLock(Lock);

impl FairLock {
    /// The lock called `name`. Nothing is sent; a bad name is reported by the first acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Lock::new(client, name, FairProtocol::new))
    }

    /// Acquires, waiting in the queue for as long as it takes unless told otherwise. With an
    /// [owner](lockkeeper_core::Acquire::owner) that holds already it gets in at once.
    ///
    /// When it returns `Ok`, no other owner holds, everybody who asked before was served or has gone, and this claim's
    /// lease is renewed as long as its guard lives.
    ///
    /// # Errors
    ///
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed; [`QueueFull`](lockkeeper_core::Error::QueueFull) if a
    /// [bound](lockkeeper_core::Acquire::max_queue) was set and is reached; [`Backend`](lockkeeper_core::Error::Backend) if the server refuses,
    /// or does not answer for one ttl, or for a longer wait that was set; [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// [`Config`](lockkeeper_core::Error::Config) for a bad name or ttl, before anything is sent; [`Closed`](lockkeeper_core::Error::Closed) if the client
    /// is.
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
        self.0.acquire(|hold, lock| FairGuard {
            hold,
            lock: Self(lock),
        })
    }

    /// Acquires if the lock is free now and nobody waits for it, or if the [owner](lockkeeper_core::TryAcquire::owner) holds it;
    /// `None` otherwise. It passes nobody.
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
        self.0.try_acquire(|hold, lock| FairGuard {
            hold,
            lock: Self(lock),
        })
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
    /// As for [`acquire`](Self::acquire), and [`Lost`](lockkeeper_core::Error::Lost) if the lease was lost on the way: the work was then
    /// stopped at one of its awaits.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock, or leaves the queue.
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
    /// let token = FairLock::new(&client, "printer").hold(async |lease| lease.fencing_token()).await?;
    /// assert!(token.get() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold<F, T>(&self, work: F) -> Result<T>
    where
        F: AsyncFnOnce(Lease) -> T,
    {
        self.acquire().await?.hold.within(work).await
    }

    /// How many wait in the queue, of all clients, when the server was asked. Waiters that have died count until they are
    /// passed over.
    ///
    /// # Errors
    ///
    /// [`Backend`](lockkeeper_core::Error::Backend) if the server refuses or does not answer; [`Config`](lockkeeper_core::Error::Config) for a bad name;
    /// [`Closed`](lockkeeper_core::Error::Closed) if the client is.
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

    /// Where the waiting acquisition of `owner` stands in the queue, 1 for the next; `None` if this client has none that
    /// waits.
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

impl fmt::Debug for FairLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One hold of a [`FairLock`]. Dereferences to its [`Lease`].
///
/// Dropping it releases the lock in the background; [`release`](Self::release) waits for the server's word. A guard
/// cannot be cloned: `guard.clone()` gives another observer of its [`Lease`].
///
/// Bind it to a name: `let _guard = lock.acquire().await?` keeps it to the end of its block, while
/// `let _ = lock.acquire().await?` drops it at once, and so releases.
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
pub struct FairGuard {
    hold: Hold,
    lock: FairLock,
}

impl FairGuard {
    /// Takes the lock once more for the same owner, without waiting, with a lease of the client's ttl that is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease has ended, here or on the server: then
    /// nothing is held anew. Otherwise as for [`FairLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the new claim up; this guard stays as it is.
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
        self.hold.reenter(self.lock.try_acquire()).await
    }

    /// Lets this hold go and waits until the server has confirmed it. With the last hold of the owner the next in the queue
    /// holds.
    ///
    /// When it returns `Ok`, the lock is free or already another's, or still the owner's by so many other holds.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) if this claim's lease had been lost before; [`Backend`](lockkeeper_core::Error::Backend) if the server did not
    /// confirm within the client's release timeout. The guard is gone in every case, and the leave is repeated in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future is dropping the guard.
    ///
    /// # Examples
    ///
    /// See [`FairLock`].
    pub async fn release(self) -> Result<Released> {
        self.hold.release().await
    }
}

impl Deref for FairGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.hold
    }
}
