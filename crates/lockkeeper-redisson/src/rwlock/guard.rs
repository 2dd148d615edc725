//! The guards of the two modes.

use lockkeeper_core::Result;

use super::{Mode, of_name};
#[cfg(doc)]
use crate::RedissonReadWriteLock;

lockkeeper_core::guard! {
    /// One hold of a [`RedissonReadWriteLock`] to read. Dereferences to its [`Lease`](lockkeeper_core::Lease).
    pub struct RedissonReadGuard: SingleServer, CoolsDown;
}

lockkeeper_core::guard! {
    /// One hold of a [`RedissonReadWriteLock`] to write. Dereferences to its [`Lease`](lockkeeper_core::Lease).
    pub struct RedissonWriteGuard: SingleServer, CoolsDown;
}

impl RedissonReadGuard {
    /// Acquires to read once more for the same owner, without waiting. The new claim's lease has the client's ttl and is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease has ended, here
    /// or on the server; nothing new is held then. Otherwise as for [`RedissonReadWriteLock::read`].
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
    /// # use lockkeeper_redisson::RedissonReadWriteLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// use lockkeeper_core::Released;
    ///
    /// let outer = RedissonReadWriteLock::new(&client, "prices").read().await?;
    /// let inner = outer.reenter().await?;
    /// assert_eq!(inner.release().await?, Released::StillHeld(1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reenter(&self) -> Result<Self> {
        self.0.reenter().await.map(Self)
    }
}

impl RedissonWriteGuard {
    /// Acquires to write once more for the same owner, without waiting. The new claim's lease has the client's ttl and is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// As for [`RedissonReadGuard::reenter`].
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
    /// # use lockkeeper_redisson::RedissonReadWriteLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let outer = RedissonReadWriteLock::new(&client, "prices").write().await?;
    /// let inner = outer.reenter().await?;
    /// assert_eq!(inner.fencing_token(), outer.fencing_token());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reenter(&self) -> Result<Self> {
        self.0.reenter().await.map(Self)
    }

    /// Acquires to read inside this write, for the same owner, without waiting. If you release the write first, the read goes on,
    /// other readers may join it, and the waiters are woken.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// As for [`RedissonReadGuard::reenter`].
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
    /// # use lockkeeper_redisson::RedissonReadWriteLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let writing = RedissonReadWriteLock::new(&client, "prices").write().await?;
    /// let reading = writing.read().await?;
    /// writing.release().await?; // from here on others may read
    /// reading.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self) -> Result<RedissonReadGuard> {
        let again = self.0.reenter_by(of_name(Mode::Read)).await;
        again.map(RedissonReadGuard)
    }
}
