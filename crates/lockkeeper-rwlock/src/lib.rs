//! Many readers or one writer, first come, first served, across all processes.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::RwLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod guard;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::{Kind, LockProtocol, Protocol, Share};
use lockkeeper_core::{Acquire, Client, Lock, Name, Owner, Plan, Result, Target, TryAcquire};

pub use guard::{ReadGuard, Upgrade, WriteGuard};

/// What readers of a lock called `name` ask and how they read the answers: for models of the lock that drive the same
/// protocol.
#[doc(hidden)]
pub fn read_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(reading(name))
}

/// The same for writers.
#[doc(hidden)]
pub fn write_protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(writing(name))
}

/// Together with others.
pub(crate) const fn reading(name: Name) -> LockProtocol {
    of_name(name).in_mode(Share::Parts(1), Share::Whole, "rwlock/read")
}

/// Alone.
pub(crate) const fn writing(name: Name) -> LockProtocol {
    of_name(name).in_mode(Share::Whole, Share::Parts(1), "rwlock/write")
}

const fn of_name(name: Name) -> LockProtocol {
    let lock = LockProtocol::new(name, Kind::new("rwlock"));
    lock.reentrant().queueing()
}

/// A lock that many may hold to read, or one to write, who get in by the order of asking.
///
/// # Which lock should I use?
///
/// This one if most who hold only look, and looking takes long enough that they should not wait for one another. If every
/// holder changes something, a [`FairLock`] or a [`Mutex`] is cheaper.
///
/// [`FairLock`]: https://docs.rs/lockkeeper
/// [`Mutex`]: https://docs.rs/lockkeeper
///
/// # How it works
///
/// Readers and writers stand in one queue on the server, as those of a fair lock do. When nobody writes, the readers in front
/// of it are let in together, up to the first writer; a reader that comes later waits behind that writer. So neither waits
/// for more than those who were there before it. The script by which the last holder leaves lets the next in, and a message
/// tells each of them. Every reader has a lease of its own, so one that dies holds a writer up for its own ttl only.
///
/// An owner that writes gets in again in either mode, one that reads gets in again to read, both past the queue. One that reads
/// and asks to write would wait for itself: that is [`WouldDeadlock`](lockkeeper_core::Error::WouldDeadlock) at once. A guard can change
/// its mode with nobody in between: [`WriteGuard::downgrade`], [`ReadGuard::try_upgrade`].
///
/// Each write has a fencing token of its own, and so has each time of reading: the first reader after a write draws it, and
/// those who join share it. A resource that refuses smaller tokens refuses a writer that wakes up after others have read, and
/// what a late reader would write back.
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
/// - **Order before the server, a place for the dead, an instant after a death.** As for a fair lock: first is who is heard
///   first, a waiter that is silent for one waiter ttl loses its place, and the end of a lease without a word is noticed a
///   third of that time later at most.
/// - **That all readers start at once.** Those in front of the queue are let in 128 at a time, one script after the other.
/// - **Upgrades without end.** Two readers that both upgrade refuse one another. One of them has to let go.
/// - **A larger token than those before, for who joins readers that a failover brought back.** They share the token of then,
///   below that of a writer whom the new primary has not heard of; a resource that checks tokens refuses it.
/// - **Exclusion when the server loses data, or between the last check and the write.** As for every lease; only a
///   resource that checks fencing tokens closes this.
#[derive(Clone)]
pub struct RwLock {
    read: Target,
    write: Target,
}

impl RwLock {
    /// The lock called `name`. Nothing is sent; a bad name is reported by the first acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        let read = Target::new(client, name, reading);
        let write = read.by(writing);
        Self { read, write }
    }

    /// Acquires to read, together with others, waiting in the queue for as long as it takes unless told otherwise. With an
    /// [owner](lockkeeper_core::Acquire::owner) that reads or writes already it gets in at once.
    ///
    /// When it returns `Ok`, no other owner writes, every writer that asked before was served or has gone, and this claim's
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
    /// See [`RwLock`].
    pub fn read(&self) -> Acquire<ReadGuard> {
        Acquire::new(self.read.clone())
    }

    /// Acquires to write, alone, waiting in the queue for as long as it takes unless told otherwise. With an
    /// [owner](lockkeeper_core::Acquire::owner) that writes already it gets in at once.
    ///
    /// When it returns `Ok`, no other owner reads or writes, everybody who asked before was served or has gone, and this
    /// claim's lease is renewed as long as its guard lives.
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

    /// Acquires to read if nobody else writes or waits now, or if the [owner](lockkeeper_core::TryAcquire::owner) reads or writes; `None`
    /// otherwise. It passes nobody.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read), except that being kept out is no error. A server that does not answer is asked once more
    /// and then reported.
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

    /// Acquires to write if nobody else holds or waits now, or if the [owner](lockkeeper_core::TryAcquire::owner) writes; `None`
    /// otherwise.
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

    /// This lock, to be read, as a lock of its own: for code that is generic over kinds, or one of several that are acquired
    /// together, by a `MultiLock`.
    pub fn reader(&self) -> Reader {
        Reader(self.read.clone())
    }

    /// This lock, to be written, as a lock of its own. Otherwise as [`reader`](Self::reader).
    pub fn writer(&self) -> Writer {
        Writer(self.write.clone())
    }

    /// How many wait in the queue, in both modes and of all clients, when the server was asked. Waiters that have died count
    /// until they are passed over.
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

    /// Where the first waiting acquisition of `owner` stands in the queue, 1 for the next; `None` if this client has none that
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

/// A [`RwLock`] to be read, as a lock of its own.
#[derive(Clone)]
pub struct Reader(Target);

impl Reader {
    /// As one of several that are acquired together, by a `MultiLock`.
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

/// A [`RwLock`] to be written, as a lock of its own.
#[derive(Clone)]
pub struct Writer(Target);

impl Writer {
    /// As one of several that are acquired together, by a `MultiLock`.
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
