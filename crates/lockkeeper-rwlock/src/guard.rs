use lockkeeper_core::{Converted, Result};

#[cfg(doc)]
use crate::RwLock;
use crate::{reading, writing};

lockkeeper_core::guard! {
    /// One hold of a [`RwLock`] to read. Dereferences to its [`Lease`](lockkeeper_core::Lease). With the last one the next in the
    /// queue hold.
    pub struct ReadGuard: Queued, SingleServer;
}

lockkeeper_core::guard! {
    /// One hold of a [`RwLock`] to write. Dereferences to its [`Lease`](lockkeeper_core::Lease). With the last one the next in the
    /// queue hold.
    pub struct WriteGuard: Queued, SingleServer;
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
        self.0.reenter().await.map(Self)
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
    /// Nothing is held then: what the server may still hold is released in the background.
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
        // Whoever is to write excludes whomever a reader does: as long as either is on the server nobody comes in.
        Ok(match self.0.convert(writing, true).await? {
            Converted::Done(hold) => Upgrade::Write(WriteGuard(hold)),
            Converted::Refused(hold) => Upgrade::Busy(Self(hold)),
        })
    }
}

impl WriteGuard {
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
        self.0.reenter().await.map(Self)
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
        let again = self.0.reenter_by(reading).await;
        again.map(ReadGuard)
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
    /// Nothing is held then: what the server may still hold is released in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future lets go of both, the old hold and the new one.
    ///
    /// # Examples
    ///
    /// See [`RwLock`].
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let name = self.name().to_owned();
        match self.0.convert(reading, false).await? {
            Converted::Done(hold) => Ok(ReadGuard(hold)),
            Converted::Refused(_) => Err(lockkeeper_core::Error::not_held(name)),
        }
    }
}
