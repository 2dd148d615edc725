//! The lock that Java services have as `RReadWriteLock`.

mod guard;
mod protocol;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{Acquire, Client, Inspection, Lock, Name, Plan, Result, Target, TryAcquire};
#[cfg(doc)]
use lockkeeper_core::{Holder, Owner};

pub use guard::{RedissonReadGuard, RedissonWriteGuard};
pub(crate) use protocol::{Mode, ReadWriteProtocol};

/// The protocol of those that read by this main key. Not for users: the engine's part is missing. The exhaustive search drives it by itself.
#[doc(hidden)]
#[must_use]
pub fn read_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(ReadWriteProtocol::new(name, Mode::Read))
}

/// The protocol of those that write, for the same search.
#[doc(hidden)]
#[must_use]
pub fn write_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(ReadWriteProtocol::new(name, Mode::Write))
}

/// The protocol of a mode of the lock under this key, which belongs to no namespace.
fn of_key(mode: Mode, key: &str) -> Result<ReadWriteProtocol> {
    Ok(ReadWriteProtocol::new(Name::new("", key)?, mode))
}

/// The same of a name.
pub(crate) const fn of_name(mode: Mode) -> impl FnOnce(Name) -> ReadWriteProtocol {
    move |name| ReadWriteProtocol::new(name, mode)
}

/// Redisson's `RReadWriteLock`: many readers or one writer, among Rust and Java services.
///
/// # Which lock should I use?
///
/// This one only for a name that Java services lock by `getReadWriteLock`. Among Rust services alone an `RwLock` lets nobody starve, and converts
/// guards from one mode to the other.
///
/// # How it works
///
/// What lies under the name is what Redisson 4.7 writes: the mode, and each owner that holds, `<uuid>:<number>`, with how often it does; beside it a
/// key for each owner that reads, with its lease. The last of either side to leave tells the waiters of both by one message. A holder here is told of its
/// loss, ends before its lease does, and is released when its guard is dropped, as with every lock of Lockkeeper; what is needed for that lies in
/// a key of its own.
///
/// An [`Owner`] that writes is let in again in either mode, and one that reads is let in again to read. One that reads and asks to write would
/// wait for itself: in Java it does, here it gets [`WouldDeadlock`](lockkeeper_core::Error::WouldDeadlock) at once. To a Java service an owner is what
/// a thread of a `RedissonClient` is: give one that reads `<id of the client>:<id of the thread>` to act for that thread. Without
/// [`owner`](Acquire::owner) each acquisition is for a new one.
///
/// # Tokens
///
/// Each write has a fencing token of its own. Readers that hold together share one, which the first of them draws after a write. A read inside a write
/// has the token of that write, and keeps it when it outlives the write; those that come to read beside it then share another, a larger one. Holders
/// in Java have none.
///
/// # The name
///
/// **The name is the key**, as in Java, whatever the client's namespace. What a `NameMapper` of the Java services puts in front goes into
/// [`key_prefix`](Self::key_prefix).
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
/// // In Java: redisson.getReadWriteLock("prices").readLock().lock();
/// let prices = RedissonReadWriteLock::new(&client, "prices");
/// let (one, other) = (prices.read().await?, prices.read().await?);
/// assert_eq!(one.fencing_token(), other.fencing_token());
/// assert!(prices.try_write().await?.is_none());
/// one.release().await?;
/// other.release().await?;
///
/// // From writing to reading, with nobody who writes in between: read inside, then let the write go.
/// let writing = prices.write().await?;
/// let reading = writing.read().await?;
/// writing.release().await?;
/// assert!(prices.try_read().await?.is_some());
/// reading.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **That writers are served.** Readers come in beside readers, whoever waits: where some always read, in Rust or in Java, a writer starves.
/// - **Order.** A free name goes to the first who asks.
/// - **Anything for holders in Java.** They learn of a loss when they unlock, or never; a repeated request of theirs may count twice.
/// - **Fencing against Java.** Tokens grow among the grants of this library; a Java holder has none.
/// - **A lease for each claim.** Redisson keeps one for the name, which is the longest. A reader that dies without a release stays counted until
///   that lease ends, which is up to one ttl after others have stopped to read here. A reader in Java sets it to its `lockWatchdogTimeout` when it
///   renews: a longer ttl here is cut by it, until the next renewal.
/// - **An owner that is shared with a thread in Java** is only as safe as Redisson: where that thread reads inside a write held here, its `unlock`
///   may cut the lease of the write.
/// - **A cooldown beside Java.** A reader in Java that leaves last frees the name, whatever [`min_hold`](Acquire::min_hold) says.
/// - **Exclusion with an `RLock` of the same name.** This lock refuses such a name with [`WrongKind`](lockkeeper_core::Error::WrongKind);
///   `RReadWriteLock` in Java does not, and reads beside it.
#[derive(Clone)]
pub struct RedissonReadWriteLock {
    read: Target,
    write: Target,
}

impl RedissonReadWriteLock {
    /// The lock that Java services call `name`. Nothing is sent; a bad name is reported by the first acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        let read = Target::checked(client, name, |name| of_key(Mode::Read, name.as_str()));
        let write = read.by(of_name(Mode::Write));
        Self { read, write }
    }

    /// The same behind a prefix, as a `NameMapper` in Java puts one in front of each name.
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
    /// let lock = RedissonReadWriteLock::new(&client, "prices").key_prefix("shop:");
    /// let _guard = lock.read().await?;
    /// assert_eq!(lock.reader().target().key()?, "shop:prices");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key_prefix(&self, prefix: &str) -> Self {
        let read = self
            .read
            .by_checked(|name| of_key(Mode::Read, &format!("{prefix}{}", name.main())));
        let write = read.by(of_name(Mode::Write));
        Self { read, write }
    }

    /// Acquires to read, together with others that read, waiting for as long as it takes unless told otherwise. It does not wait for writers that
    /// wait. With an [owner](Acquire::owner) that writes already it is granted inside the write.
    ///
    /// When it returns `Ok`, no other owner writes, in Rust or in Java, and this claim's lease is renewed as long as its guard lives.
    ///
    /// # Errors
    ///
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed; [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or
    /// does not answer for one ttl, or for a longer wait that was set; [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something
    /// else, as an `RLock`; [`Config`](lockkeeper_core::Error::Config) for a bad name or ttl, before anything is sent;
    /// [`Closed`](lockkeeper_core::Error::Closed) if the client is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives this claim up, also when it had been granted unseen. The owner's other claims stay.
    ///
    /// # Examples
    ///
    /// See [`RedissonReadWriteLock`].
    pub fn read(&self) -> Acquire<RedissonReadGuard> {
        Acquire::new(self.read.clone())
    }

    /// Acquires to write, alone, waiting for as long as it takes unless told otherwise. With an [owner](Acquire::owner) that writes already it
    /// is granted at once.
    ///
    /// When it returns `Ok`, no other owner reads or writes, in Rust or in Java, and this claim's lease is renewed as long as its guard lives.
    ///
    /// # Errors
    ///
    /// [`WouldDeadlock`](lockkeeper_core::Error::WouldDeadlock) if the owner reads; otherwise as for [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_redisson::RedissonReadWriteLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let prices = RedissonReadWriteLock::new(&client, "prices");
    /// let owner = client.new_owner();
    /// let _reading = prices.read().owner(&owner).await?;
    /// let refused = prices.write().owner(&owner).await;
    /// assert!(matches!(refused, Err(Error::WouldDeadlock { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&self) -> Acquire<RedissonWriteGuard> {
        Acquire::new(self.write.clone())
    }

    /// Acquires to read if no other owner writes, now; `None` if it cannot be had now.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read), except that being held is no error. A server that does not answer is asked once more and then reported.
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
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
    /// let prices = RedissonReadWriteLock::new(&client, "prices");
    /// let _writing = prices.write().await?;
    /// assert!(prices.try_read().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_read(&self) -> TryAcquire<RedissonReadGuard> {
        Acquire::new(self.read.clone())
    }

    /// Acquires to write if nobody else holds, now; `None` if it cannot be had now.
    ///
    /// # Errors
    ///
    /// As for [`try_read`](Self::try_read), and [`WouldDeadlock`](lockkeeper_core::Error::WouldDeadlock) if the owner reads.
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// See [`RedissonReadWriteLock`].
    pub fn try_write(&self) -> TryAcquire<RedissonWriteGuard> {
        Acquire::new(self.write.clone())
    }

    /// Its readers as a lock of their own: for code that does not know kinds, or as a member of a `MultiLock`.
    pub fn reader(&self) -> RedissonReader {
        RedissonReader(self.read.clone())
    }

    /// Its writers as a lock of their own. Otherwise as [`reader`](Self::reader).
    pub fn writer(&self) -> RedissonWriter {
        RedissonWriter(self.write.clone())
    }

    /// Who holds, of either side: each claim of this library, and the owners that hold in Java.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// See [`force_release`](Self::force_release).
    pub async fn inspect(&self) -> Result<Vec<Inspection>> {
        self.reader().inspect().await
    }

    /// Asks all that hold to let go, if they are of this library; how many claims were told, 0 if nobody holds. Others may come in to read meanwhile.
    ///
    /// # Errors
    ///
    /// As for [`Client::revoke`]; if only holders in Java hold it is [`Foreign`](lockkeeper_core::Error::Foreign): Redisson knows no revocation.
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::revoke`].
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
    /// let prices = RedissonReadWriteLock::new(&client, "prices");
    /// let guard = prices.read().await?;
    /// assert_eq!(prices.revoke().await?, 1);
    /// assert!(guard.verify().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revoke(&self) -> Result<u64> {
        self.read.revoke().await
    }

    /// Takes away what `holder` holds, by force: what [`inspect`](Self::inspect) shows as [`claim`](Holder::claim), of a holder in
    /// Java its owner. Whether it held. Others that read go on, unlike with `forceUnlock` in Java, which ends the holds of all.
    ///
    /// **Unsafe for what the lock protects:** a holder in Java works on and is told when it unlocks; one of this library hears of it by a
    /// message, or by its next renewal if that is lost.
    ///
    /// # Errors
    ///
    /// As for [`Client::force_release`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::force_release`].
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
    /// let prices = RedissonReadWriteLock::new(&client, "prices");
    /// let _guard = prices.read().await?;
    /// for holder in &prices.inspect().await?[0].holders {
    ///     assert!(prices.force_release(&holder.claim).await?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, holder: &str) -> Result<bool> {
        self.read.force_release(holder).await
    }
}

impl fmt::Debug for RedissonReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read.fmt(f)
    }
}

/// Defines one side of the lock as a lock of its own.
macro_rules! side {
    ($(#[$about:meta])* pub struct $side:ident, $guard:ident;) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $side(Target);

        impl $side {
            /// This side of the lock as one of several that are acquired together, by a `MultiLock`.
            pub fn target(&self) -> Target {
                self.0.clone()
            }
        }

        impl Lock for $side {
            type Guard = $guard;

            fn plan(&self) -> Plan {
                self.0.clone().into()
            }
        }

        impl From<&$side> for Target {
            fn from(lock: &$side) -> Self {
                lock.target()
            }
        }

        impl fmt::Debug for $side {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

side! {
    /// The readers of a [`RedissonReadWriteLock`], as a lock of their own.
    pub struct RedissonReader, RedissonReadGuard;
}

side! {
    /// The writers of a [`RedissonReadWriteLock`], as a lock of their own.
    pub struct RedissonWriter, RedissonWriteGuard;
}
