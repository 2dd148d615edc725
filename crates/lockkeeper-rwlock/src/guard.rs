use lockkeeper_core::{Converted, Result};

#[cfg(doc)]
use crate::RwLock;
use crate::{reading, writing};

lockkeeper_core::guard! {
    /// One hold of a [`RwLock`] for reading. Dereferences to its [`Lease`](lockkeeper_core::Lease). When the last
    /// hold ends, the next waiters in the queue become holders.
    pub struct ReadGuard: Queued, SingleServer, CoolsDown;
}

lockkeeper_core::guard! {
    /// One hold of a [`RwLock`] for writing. Dereferences to its [`Lease`](lockkeeper_core::Lease). When the last
    /// hold ends, the next waiters in the queue become holders.
    pub struct WriteGuard: Queued, SingleServer, CoolsDown;
}

/// The outcome of an upgrade.
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
#[expect(clippy::exhaustive_enums, reason = "there are exactly two outcomes")]
pub enum Upgrade {
    /// There was no other reader: this guard writes.
    Write(WriteGuard),
    /// There are other readers: this guard continues to read.
    Busy(ReadGuard),
}

impl ReadGuard {
    /// Acquires the lock for reading once more, for the same owner and without waiting. The new lease has the
    /// client's ttl and is renewed.
    ///
    /// When it returns `Ok`, both guards hold, usually with the same fencing token. The tokens can differ if this
    /// owner got one of its read holds inside a write, and another by a [downgrade](WriteGuard::downgrade) of that
    /// write.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease
    /// has ended, here or on the server; then no new hold exists. Otherwise as for [`RwLock::read`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up the new claim; this guard is not affected.
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

    /// Turns this guard into a write guard if it is the only reader. No other owner gets the lock in between, not even
    /// the waiter at the front of the queue. Observers see this guard's lease as released; the new guard has its own lease
    /// and a larger fencing token. If the same owner also holds a write guard, the upgrade gives a second write guard
    /// beside it, with the same token, even if this owner has other read guards.
    ///
    /// While there are other readers, including guards of the same owner, it returns [`Upgrade::Busy`], and this
    /// guard continues to read. It does not wait: two readers that both waited to upgrade would wait for each other
    /// for ever.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) if this guard's lease has ended, here or on the server;
    /// [`Backend`](lockkeeper_core::Error::Backend) if the server refuses or does not answer within the client's
    /// release timeout; [`Closed`](lockkeeper_core::Error::Closed) if the client is closed. It is also `Backend` if
    /// the server reports other readers after an earlier request got no answer, because that request may still be
    /// executed. After an error nothing is held: what the server may still hold is released in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up both the old hold and the new one.
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
        // A writer excludes everybody that a reader excludes, so this hold may stay valid until the answer.
        Ok(match self.0.convert(writing, true).await? {
            Converted::Done(hold) => Upgrade::Write(WriteGuard(hold)),
            Converted::Refused(hold) => Upgrade::Busy(Self(hold)),
        })
    }
}

impl WriteGuard {
    /// Acquires the lock for writing once more, for the same owner and without waiting. The new lease has the
    /// client's ttl and is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease
    /// has ended, here or on the server; then no new hold exists. Otherwise as for [`RwLock::read`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up the new claim; this guard is not affected.
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

    /// Acquires the lock for reading inside this write, for the same owner and without waiting. The new lease has the
    /// client's ttl and is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token. If this guard is released first, the read
    /// guard keeps its hold.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease
    /// has ended, here or on the server; then no new hold exists. Otherwise as for [`RwLock::read`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up the new claim; this guard is not affected.
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

    /// Turns this guard into a read guard; no other writer gets the lock in between. Readers at the front of the queue get
    /// the lock too, up to the first writer. Observers see this guard's lease as released; the new guard has its own
    /// lease and a larger fencing token, which the readers beside it share. If the same owner holds another write
    /// guard, that one continues to write, and the new guard reads inside that write, with its token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) if this guard's lease has ended, here or on the server;
    /// [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or does not answer within the client's
    /// release timeout; [`Closed`](lockkeeper_core::Error::Closed) if the client is closed. After an error nothing is
    /// held: what the server may still hold is released in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up both the old hold and the new one.
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
