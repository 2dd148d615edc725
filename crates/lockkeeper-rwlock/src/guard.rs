use std::ops::Deref;

use lockkeeper_core::{Hold, Lease, Lock, Released, Result, Swapped};

#[cfg(doc)]
use crate::RwLock;
use crate::protocol::RwProtocol;

/// One hold of a [`RwLock`] to read. Dereferences to its [`Lease`].
///
/// Dropping it releases in the background; [`release`](Self::release) waits for the server's word. A guard cannot be cloned:
/// `guard.clone()` gives another observer of its [`Lease`].
///
/// Bind it to a name: `let _guard = lock.read().await?` keeps it to the end of its block, while
/// `let _ = lock.read().await?` drops it at once, and so releases.
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
pub struct ReadGuard {
    pub(crate) hold: Hold,
    lock: Lock,
}

/// What came of an upgrade.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_rwlock::{RwLock, Upgrade};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let prices = RwLock::new(&client, "prices");
/// let (mine, other) = (prices.read().await?, prices.read().await?);
/// let Upgrade::Busy(mine) = mine.try_upgrade().await? else {
///     unreachable!("somebody else reads");
/// };
/// other.release().await?;
/// let Upgrade::Write(mine) = mine.try_upgrade().await? else {
///     unreachable!("nobody else reads");
/// };
/// mine.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Upgrade {
    /// Nobody else read: this guard writes.
    Write(WriteGuard),
    /// Others read too: this guard goes on reading.
    Busy(ReadGuard),
}

impl ReadGuard {
    pub(crate) const fn new(hold: Hold, lock: Lock) -> Self {
        Self { hold, lock }
    }

    /// Reads once more for the same owner, without waiting, with a lease of the client's ttl that is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token; or with another one under which this owner reads,
    /// if it began one time of reading inside a write and another by a [downgrade](WriteGuard::downgrade) of that.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease has ended, here or on the server: then
    /// nothing is held anew. Otherwise as for [`RwLock::read`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the new claim up; this guard stays as it is.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_rwlock::RwLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// use lockkeeper_core::Released;
    ///
    /// let outer = RwLock::new(&client, "prices").read().await?;
    /// let inner = outer.reenter().await?;
    /// assert_eq!(inner.release().await?, Released::StillHeld(1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reenter(&self) -> Result<Self> {
        self.hold.reenter(self.lock.try_acquire(Self::new)).await
    }

    /// Becomes a writer if this guard is the only one that reads, with nobody in between, past those who wait. Observers of
    /// this guard's lease see it released then; the new guard has a lease and a larger fencing token of its own. Inside a write
    /// of the same owner it becomes a writer beside that, with its token, whoever else of this owner reads.
    ///
    /// While others read, among them guards of the same owner, it is [`Upgrade::Busy`], and this guard reads on. It does not
    /// wait: two readers that waited to upgrade would wait for one another.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) if this guard's lease has ended, here or on the server; [`Backend`](lockkeeper_core::Error::Backend) if the
    /// server refuses, does not answer within the client's release timeout, or says that others read only after a request without
    /// answer, which may still come through; [`Closed`](lockkeeper_core::Error::Closed) if the client is.
    /// Nothing is held then: what the server may still hold is left for in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future lets go of both, the old hold and the new one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_rwlock::RwLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// use lockkeeper_rwlock::Upgrade;
    ///
    /// let reading = RwLock::new(&client, "prices").read().await?;
    /// match reading.try_upgrade().await? {
    ///     Upgrade::Write(writing) => drop(writing.release().await?),
    ///     Upgrade::Busy(reading) => drop(reading.release().await?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_upgrade(self) -> Result<Upgrade> {
        let write = self.lock.by(RwProtocol::writing);
        // Whoever is to write excludes whomever a reader does: as long as either is on the server nobody comes in.
        Ok(match self.hold.swap(&write, true).await? {
            Swapped::Done(hold) => Upgrade::Write(WriteGuard::new(hold, write)),
            Swapped::Refused(hold) => Upgrade::Busy(Self::new(hold, self.lock)),
        })
    }

    /// Lets this hold go and waits until the server has confirmed it. With the last one the next in the queue hold.
    ///
    /// When it returns `Ok`, this owner reads no more, or by so many other holds.
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
    /// See [`RwLock`].
    pub async fn release(self) -> Result<Released> {
        self.hold.release().await
    }
}

impl Deref for ReadGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.hold
    }
}

/// One hold of a [`RwLock`] to write. Dereferences to its [`Lease`].
///
/// Dropping it releases in the background; [`release`](Self::release) waits for the server's word. A guard cannot be cloned:
/// `guard.clone()` gives another observer of its [`Lease`].
///
/// Bind it to a name: `let _guard = lock.write().await?` keeps it to the end of its block, while
/// `let _ = lock.write().await?` drops it at once, and so releases.
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
pub struct WriteGuard {
    pub(crate) hold: Hold,
    lock: Lock,
}

impl WriteGuard {
    pub(crate) const fn new(hold: Hold, lock: Lock) -> Self {
        Self { hold, lock }
    }

    /// Writes once more for the same owner, without waiting, with a lease of the client's ttl that is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease has ended, here or on the server: then
    /// nothing is held anew. Otherwise as for [`RwLock::read`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the new claim up; this guard stays as it is.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_rwlock::RwLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let outer = RwLock::new(&client, "prices").write().await?;
    /// let inner = outer.reenter().await?;
    /// assert_eq!(inner.fencing_token(), outer.fencing_token());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reenter(&self) -> Result<Self> {
        self.hold.reenter(self.lock.try_acquire(Self::new)).await
    }

    /// Reads inside this write, for the same owner and without waiting, with a lease of the client's ttl that is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token. If this guard is released first, the other reads
    /// on.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease has ended, here or on the server: then
    /// nothing is held anew. Otherwise as for [`RwLock::read`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the new claim up; this guard stays as it is.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_rwlock::RwLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let writing = RwLock::new(&client, "prices").write().await?;
    /// let reading = writing.read().await?;
    /// assert_eq!(reading.fencing_token(), writing.fencing_token());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self) -> Result<ReadGuard> {
        let read = self.lock.by(RwProtocol::reading);
        self.hold.reenter(read.try_acquire(ReadGuard::new)).await
    }

    /// Becomes a reader, with nobody in between. The readers in front of the queue come in with it, the writer behind them does
    /// not. Observers of this guard's lease see it released; the new guard has a lease and a larger fencing token of its own,
    /// which those who read with it share. If the same owner writes by another guard too, it goes on writing, and the new
    /// guard reads inside that write, with its token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) if this guard's lease has ended, here or on the server; [`Backend`](lockkeeper_core::Error::Backend) if the
    /// server refuses, or does not answer within the client's release timeout; [`Closed`](lockkeeper_core::Error::Closed) if the client is.
    /// Nothing is held then: what the server may still hold is left for in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future lets go of both, the old hold and the new one.
    ///
    /// # Examples
    ///
    /// See [`RwLock`].
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let name = self.hold.name().to_owned();
        let read = self.lock.by(RwProtocol::reading);
        match self.hold.swap(&read, false).await? {
            Swapped::Done(hold) => Ok(ReadGuard::new(hold, read)),
            Swapped::Refused(_) => Err(lockkeeper_core::Error::not_held(name)),
        }
    }

    /// Lets this hold go and waits until the server has confirmed it. With the last one the next in the queue hold.
    ///
    /// When it returns `Ok`, this owner writes no more, or holds by so many other guards.
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
    /// See [`RwLock`].
    pub async fn release(self) -> Result<Released> {
        self.hold.release().await
    }
}

impl Deref for WriteGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.hold
    }
}
