//! Many readers or one writer, first come, first served, across all processes.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::RwLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod guard;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol, Share};
use lockkeeper_core::{Acquire, Client, Lock, Name, Owner, Plan, Result, Target, TryAcquire};

pub use guard::{ReadGuard, Upgrade, WriteGuard};

/// The protocol of readers of a lock called `name`: its requests and how it reads the replies. For models of the lock
/// that drive the same protocol.
#[doc(hidden)]
pub fn read_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(reading(name))
}

/// The protocol of writers of a lock called `name`, for the same models.
#[doc(hidden)]
pub fn write_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(writing(name))
}

/// The protocol of a reader, which holds together with other readers.
pub(crate) const fn reading(name: Name) -> LockProtocol {
    of_name(name).in_mode(Share::Parts(1), Share::Whole, "rwlock/read")
}

/// The protocol of a writer, which holds alone.
pub(crate) const fn writing(name: Name) -> LockProtocol {
    of_name(name).in_mode(Share::Whole, Share::Parts(1), "rwlock/write")
}

const fn of_name(name: Name) -> LockProtocol {
    let lock = LockProtocol::new(name, Kind::new("rwlock"));
    lock.reentrant().queueing().taking()
}

/// A lock that many may hold for reading or one for writing, granted in the order in which it was requested.
///
/// # Which lock should I use?
///
/// Use this one if most holders only read, and reading takes long enough that readers should not wait for each other.
/// If every holder changes something, a [`FairLock`] or a [`Mutex`] is cheaper.
///
/// [`FairLock`]: https://docs.rs/lockkeeper
/// [`Mutex`]: https://docs.rs/lockkeeper
///
/// # How it works
///
/// Readers and writers wait in one queue on the server, as in a fair lock. When nobody writes, the readers at the
/// front are granted the lock together, up to the first writer; a reader that arrives later waits behind that writer.
/// So readers and writers wait only for requests that arrived before theirs. The script that releases the last hold
/// grants the lock to the next waiters and sends each of them a message. Every reader has its own lease, so a reader
/// that dies delays a writer only by its own ttl.
///
/// An owner that writes gets the lock again in either mode, and an owner that reads gets it again for reading, both
/// ahead of the queue. An owner that reads and asks to write would wait for itself, so it gets
/// [`WouldDeadlock`](lockkeeper_core::Error::WouldDeadlock) at once. A guard can change its mode with nobody in
/// between: [`WriteGuard::downgrade`], [`ReadGuard::try_upgrade`].
///
/// Each write has its own fencing token. Readers that hold together share one token, which the first reader after a
/// write draws. A resource that refuses smaller tokens refuses a writer that wakes up after others have read, and a
/// late reader that writes back what it read.
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
/// let prices = RwLock::new(&client, "prices");
/// let (one, other) = (prices.read().await?, prices.read().await?);
/// assert_eq!(one.fencing_token(), other.fencing_token());
/// assert!(prices.try_write().await?.is_none());
/// one.release().await?;
/// other.release().await?;
///
/// let guard = prices.write().await?;
/// // … the table is loaded anew …
/// let guard = guard.downgrade().await?; // others may read now, nobody has written in between
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **Order before requests reach the server, a place for silent waiters, immediate hand-over after a crash.** These
///   limits are those of a fair lock. The queue order is the order of arrival at the server. A waiter that is silent
///   for one waiter ttl loses its place. The end of a crashed holder's lease is usually noticed within
///   milliseconds, and at the latest a third of the waiter ttl later.
/// - **That all readers start at once.** Readers at the front of the queue are granted the lock 128 at a time, one
///   script after the other.
/// - **That two readers can both upgrade.** Two readers that both try to upgrade block each other. One of them has to
///   release.
/// - **A larger token for readers that join a hold restored by a failover.** They share its old token. If the new
///   primary does not know of a later writer, that writer's token is larger, and a resource that checks tokens refuses
///   the readers.
/// - **Exclusion when the server loses data, or between the last check and the write.** This is true of every lease.
///   Only a resource that checks fencing tokens closes the gap.
#[derive(Clone)]
pub struct RwLock {
    read: Target,
    write: Target,
}

impl RwLock {
    /// Creates a handle to the lock called `name`. Nothing is sent; an invalid name is reported by the first
    /// acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        let read = Target::new(client, name, reading);
        let write = read.by(writing);
        Self { read, write }
    }

    /// Acquires the lock for reading, together with other readers, waiting in the queue without a time limit unless
    /// you set one. An [owner](lockkeeper_core::Acquire::owner) that already reads or writes gets it at once.
    ///
    /// When it returns `Ok`, no other owner writes, every earlier writer has been served or has stopped waiting, and
    /// this claim's lease is renewed while its guard lives.
    ///
    /// # Errors
    ///
    /// - [`Timeout`](lockkeeper_core::Error::Timeout) if a time limit was set and has passed;
    /// - [`QueueFull`](lockkeeper_core::Error::QueueFull) if a [bound](lockkeeper_core::Acquire::max_queue) was set
    ///   and is reached;
    /// - [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or does not answer for one ttl or for
    ///   the time limit, whichever is longer;
    /// - [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// - [`Config`](lockkeeper_core::Error::Config) for an invalid name or ttl, before anything is sent;
    /// - [`Closed`](lockkeeper_core::Error::Closed) if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future withdraws the claim from the queue, and releases it if it was granted without
    /// your code seeing it.
    ///
    /// # Examples
    ///
    /// See [`RwLock`].
    pub fn read(&self) -> Acquire<ReadGuard> {
        Acquire::new(self.read.clone())
    }

    /// Acquires the lock for writing, alone, waiting in the queue without a time limit unless you set one. An
    /// [owner](lockkeeper_core::Acquire::owner) that already writes gets it at once.
    ///
    /// When it returns `Ok`, no other owner reads or writes, every earlier waiter has been served or has stopped
    /// waiting, and this claim's lease is renewed while its guard lives.
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
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_rwlock::RwLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// use lockkeeper_core::Error;
    ///
    /// let prices = RwLock::new(&client, "prices");
    /// let owner = client.new_owner();
    /// let reading = prices.read().owner(&owner).await?;
    /// let refused = prices.write().owner(&owner).await;
    /// assert!(matches!(refused, Err(Error::WouldDeadlock { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&self) -> Acquire<WriteGuard> {
        Acquire::new(self.write.clone())
    }

    /// Acquires the lock for reading if no other owner writes and nobody waits, or if the
    /// [owner](lockkeeper_core::TryAcquire::owner) already reads or writes; otherwise returns `None`. It never
    /// overtakes a waiter.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read), except that an unavailable lock is not an error. If the server does not answer,
    /// the request is sent once more before the error is returned.
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
    /// # use lockkeeper_rwlock::RwLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let prices = RwLock::new(&client, "prices");
    /// let _writing = prices.write().await?;
    /// assert!(prices.try_read().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_read(&self) -> TryAcquire<ReadGuard> {
        Acquire::new(self.read.clone())
    }

    /// Acquires the lock for writing if nobody else holds it or waits for it, or if the
    /// [owner](lockkeeper_core::TryAcquire::owner) already writes; otherwise returns `None`.
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
    /// See [`RwLock`].
    pub fn try_write(&self) -> TryAcquire<WriteGuard> {
        Acquire::new(self.write.clone())
    }

    /// Returns the reading side of this lock as a lock of its own, for code that is generic over kinds or as a member
    /// of a `MultiLock`.
    pub fn reader(&self) -> Reader {
        Reader(self.read.clone())
    }

    /// Returns the writing side of this lock as a lock of its own. Otherwise like [`reader`](Self::reader).
    pub fn writer(&self) -> Writer {
        Writer(self.write.clone())
    }

    /// Returns how many claims of all clients, in both modes, were in the queue when the server answered. Dead
    /// waiters count until they are passed over.
    ///
    /// # Errors
    ///
    /// [`Backend`](lockkeeper_core::Error::Backend) if the server refuses or does not answer;
    /// [`Config`](lockkeeper_core::Error::Config) for an invalid name; [`Closed`](lockkeeper_core::Error::Closed) if
    /// the client is closed.
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
    /// # use lockkeeper_rwlock::RwLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let prices = RwLock::new(&client, "prices");
    /// assert_eq!(prices.queue_len().await?, 0);
    /// assert_eq!(prices.position(&client.new_owner()).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn queue_len(&self) -> Result<u64> {
        Ok(self.read.queue(None).await?.0)
    }

    /// Returns the place in the queue of `owner`'s first waiting acquisition, counted from 1; `None` if this client
    /// has none waiting.
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
    /// See [`queue_len`](Self::queue_len).
    pub async fn position(&self, owner: &Owner) -> Result<Option<u64>> {
        Ok(self.read.queue(Some(owner)).await?.1)
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read.fmt(f)
    }
}

/// The reading side of a [`RwLock`], as a lock of its own.
#[derive(Clone)]
pub struct Reader(Target);

impl Reader {
    /// Returns this side of the lock as a member of a `MultiLock`, which acquires several locks together.
    pub fn target(&self) -> Target {
        self.0.clone()
    }
}

impl Lock for Reader {
    type Guard = ReadGuard;

    fn plan(&self) -> Plan {
        self.0.clone().into()
    }
}

impl From<&Reader> for Target {
    fn from(lock: &Reader) -> Self {
        lock.target()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The writing side of a [`RwLock`], as a lock of its own.
#[derive(Clone)]
pub struct Writer(Target);

impl Writer {
    /// Returns this side of the lock as a member of a `MultiLock`, which acquires several locks together.
    pub fn target(&self) -> Target {
        self.0.clone()
    }
}

impl Lock for Writer {
    type Guard = WriteGuard;

    fn plan(&self) -> Plan {
        self.0.clone().into()
    }
}

impl From<&Writer> for Target {
    fn from(lock: &Writer) -> Self {
        lock.target()
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
