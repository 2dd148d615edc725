//! The lock that Java services know as `RReadWriteLock`.

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

/// The protocol of readers with this main key. Not for users: it lacks the engine's part. The exhaustive search drives it directly.
#[doc(hidden)]
#[must_use]
pub fn read_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(ReadWriteProtocol::new(name, Mode::Read))
}

/// The protocol of writers, for the same search.
#[doc(hidden)]
#[must_use]
pub fn write_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(ReadWriteProtocol::new(name, Mode::Write))
}

/// The protocol, in this mode, of the lock with this key, which belongs to no namespace.
fn of_key(mode: Mode, key: &str) -> Result<ReadWriteProtocol> {
    Ok(ReadWriteProtocol::new(Name::new("", key)?, mode))
}

/// The same for a name.
pub(crate) const fn of_name(mode: Mode) -> impl FnOnce(Name) -> ReadWriteProtocol {
    move |name| ReadWriteProtocol::new(name, mode)
}

/// Redisson's `RReadWriteLock`: many readers or one writer, across Rust and Java services.
///
/// # Which lock should I use?
///
/// Use this one only for a name that Java services lock with `getReadWriteLock`. Between Rust services alone, an `RwLock` is
/// better: it starves neither readers nor writers, and it converts guards from one mode to the other.
///
/// # How it works
///
/// The key holds what Redisson 4.7 writes: the mode, and each owner that holds, `<uuid>:<number>`, with how often it holds. Each
/// owner that reads has one more key, with its lease. The last holder to release, on either side, sends one message that wakes the
/// waiters of both. A holder here gets the same as from every lock of Lockkeeper: it learns of a loss, its deadline is before the
/// end of its lease, and dropping its guard releases the lock. What that needs is in a separate key.
///
/// An [`Owner`] that writes can acquire again in either mode; one that reads can acquire again to read. An owner that reads and
/// asks to write would wait for itself: in Java it does; here it gets [`WouldDeadlock`](lockkeeper_core::Error::WouldDeadlock) at
/// once. To a Java service, an owner is what a thread of a `RedissonClient` is. To act for a certain thread, use an owner that
/// reads `<id of the client>:<id of the thread>`. Without [`owner`](Acquire::owner), each acquisition gets a new owner.
///
/// # Tokens
///
/// Each write has its own fencing token. Readers that hold together share one, which the first of them draws after a write. A read
/// inside a write has the token of that write, and keeps it when it outlives the write; readers that join it then share another,
/// larger token. Holders in Java have none.
///
/// # The name
///
/// **The name is the key**, as in Java, whatever the client's namespace is. If the Java services use a `NameMapper` that adds a
/// prefix, pass that prefix to [`key_prefix`](Self::key_prefix).
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
/// - **That a writer gets its turn.** Readers join other readers even if a writer waits: where somebody always reads, in Rust or in
///   Java, a writer starves.
/// - **Order.** A free name goes to the first client that asks.
/// - **Anything for holders in Java.** They learn of a loss when they unlock, or never. One of their requests that is repeated may
///   count twice.
/// - **Fencing against Java.** Tokens grow among the grants of this library; a Java holder has none.
/// - **A lease for each claim.** Redisson keeps one lease for the name, the longest. A reader that dies without a release stays
///   counted, and keeps writers out, until another reader is released when no other lease is left, or until the name's lease
///   ends. A reader in Java sets that lease to
///   its `lockWatchdogTimeout` when it renews: that shortens a longer ttl here until the next renewal.
/// - **Safety for an owner that is shared with a thread in Java.** It is only as safe as Redisson: if that thread reads inside a
///   write held here, its `unlock` may shorten the lease of the write.
/// - **A cooldown beside Java.** If a reader in Java is the last to leave, it frees the name, whatever
///   [`min_hold`](Acquire::min_hold) says.
/// - **Exclusion with an `RLock` of the same name.** This lock refuses such a name with
///   [`WrongKind`](lockkeeper_core::Error::WrongKind). `RReadWriteLock` in Java does not refuse it, and reads or writes beside it.
/// - **A wake by a downgrade in Java.** A thread that releases its write before its read sends no message. Readers here ask again
///   within 5 s.
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

    /// The same lock behind a prefix, for Java services whose `NameMapper` puts one in front of each name.
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

    /// Acquires to read, together with other readers. Waits for as long as it takes, unless you set a limit, but never for a writer
    /// that is only waiting. If its [owner](Acquire::owner) already writes, it is granted inside that write.
    ///
    /// When it returns `Ok`, no other owner writes, in Rust or in Java, and this claim's lease is renewed as long as its guard
    /// lives.
    ///
    /// # Errors
    ///
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed; [`Backend`](lockkeeper_core::Error::Backend)
    /// if the server refuses, or does not answer for one ttl, or for a longer wait that was set;
    /// [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else, such as an `RLock`;
    /// [`Config`](lockkeeper_core::Error::Config) for a bad name or ttl, before anything is sent;
    /// [`Closed`](lockkeeper_core::Error::Closed) if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives this claim up, even if it was granted before the answer arrived. The owner's other
    /// claims stay.
    ///
    /// # Examples
    ///
    /// See [`RedissonReadWriteLock`].
    pub fn read(&self) -> Acquire<RedissonReadGuard> {
        Acquire::new(self.read.clone())
    }

    /// Acquires to write, alone. Waits for as long as it takes, unless you set a limit. If its [owner](Acquire::owner) already
    /// writes, it is granted at once.
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

    /// Acquires to read now if no other owner writes; otherwise returns `None`.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read), except that a held lock is no error. A server that does not answer is asked once more and then
    /// reported.
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

    /// Acquires to write now if no other owner holds; otherwise returns `None`.
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

    /// The reading side as a lock, for code that is generic over locks, or as a member of a `MultiLock`.
    pub fn reader(&self) -> RedissonReader {
        RedissonReader(self.read.clone())
    }

    /// The writing side as a lock. Otherwise as [`reader`](Self::reader).
    pub fn writer(&self) -> RedissonWriter {
        RedissonWriter(self.write.clone())
    }

    /// Shows the holders of both sides: each claim of this library, and the owners that hold in Java.
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

    /// Asks all holders of this library to release. Returns how many claims were asked; 0 if nobody holds. Meanwhile others may
    /// still acquire to read.
    ///
    /// # Errors
    ///
    /// As for [`Client::revoke`]; if only holders in Java hold, it is [`Foreign`](lockkeeper_core::Error::Foreign), because
    /// Redisson has no revocation.
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

    /// Takes away by force what `holder` holds. Returns whether it held anything.
    ///
    /// `holder` is what [`inspect`](Self::inspect) shows as [`claim`](Holder::claim); for a holder in Java, that is its owner.
    /// Other readers go on; `forceUnlock` in Java ends the holds of all.
    ///
    /// **Unsafe for what the lock protects:** a holder in Java works on and learns of the loss when it unlocks. A holder of this
    /// library learns of it by a message, or, if the message is lost, at its next renewal.
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

/// Defines one side of the lock as a lock type.
macro_rules! side {
    ($(#[$about:meta])* pub struct $side:ident, $guard:ident;) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $side(Target);

        impl $side {
            /// This side as a target, to acquire it together with other locks in a `MultiLock`.
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
    /// The reading side of a [`RedissonReadWriteLock`], as a lock.
    pub struct RedissonReader, RedissonReadGuard;
}

side! {
    /// The writing side of a [`RedissonReadWriteLock`], as a lock.
    pub struct RedissonWriter, RedissonWriteGuard;
}
