//! First come, first served, across all processes.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::FairLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol};
use lockkeeper_core::{Acquire, Client, Lock, Name, Owner, Plan, Result, Target, TryAcquire};

/// What a fair lock called `name` asks and how it reads the answers: for models of the lock that drive the same protocol.
#[doc(hidden)]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(of_name(name))
}

const fn of_name(name: Name) -> LockProtocol {
    let fair = LockProtocol::new(name, Kind::new("fair"));
    fair.reentrant().queueing()
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
pub struct FairLock(Target);

impl FairLock {
    /// The lock called `name`. Nothing is sent; a bad name is reported by the first acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Target::new(client, name, of_name))
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
        Acquire::new(self.0.clone())
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
        Acquire::new(self.0.clone())
    }

    /// This lock as one of several that are acquired together, by a `MultiLock`.
    pub fn target(&self) -> Target {
        self.0.clone()
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
    /// One hold of a [`FairLock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease). With the last hold of its owner the
    /// next in the queue holds.
    pub struct FairGuard: Queued, SingleServer;
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
        self.0.reenter().await.map(Self)
    }
}
