//! The lock that Java services have as `RLock`.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Result, Target, TryAcquire};
#[cfg(doc)]
use lockkeeper_core::{Lease, Owner};

use crate::protocol::{RedissonProtocol, Tokens};

/// Redisson's `RLock`: one owner at a time, among Rust and Java services.
///
/// # Which lock should I use?
///
/// This one only for a name that Java services lock by Redisson. Among Rust services a `Mutex` or a `ReentrantLock` promises more and costs
/// less. For `RFencedLock` see [`RedissonFencedLock`](crate::RedissonFencedLock): the two exclude one another.
///
/// # How it works
///
/// What lies under the name is what Redisson 4.7 writes: the owner, `<uuid>:<number>`, and how often it holds. Whoever releases tells
/// the waiters of both sides by one message. A holder here is told of its loss, ends before its lease does, and is released when its guard is
/// dropped, as with every lock of Lockkeeper; what is needed for that beside Redisson's count lies in a key of its own.
///
/// An [`Owner`] that holds is let in again. To a Java service it is what a thread of a `RedissonClient` is: give one that reads
/// `<id of the client>:<id of the thread>` to act for that thread. Without [`owner`](Acquire::owner) each acquisition is for a new one, and so
/// excludes every other.
///
/// # The name
///
/// **The name is the key**, as in Java, whatever the client's namespace: a lock of the same name must not be another one. What a `NameMapper`
/// of the Java services puts in front goes into [`key_prefix`](Self::key_prefix).
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_redisson::RedissonLock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// // In Java: redisson.getLock("order:7").lock();
/// let lock = RedissonLock::new(&client, "order:7");
/// let guard = lock.acquire().await?;
/// guard.run(async { /* no Java service holds it */ }).await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **Anything for holders in Java.** They learn of a loss when they unlock, or never; a repeated request of theirs may count twice, and
///   the name is then held until its lease ends.
/// - **Fencing against Java.** Tokens grow among the grants of this library; a Java holder has none. [`RedissonFencedLock`](crate::RedissonFencedLock)
///   has those of `RFencedLock`.
/// - **A lease for each claim of an owner.** Redisson keeps one for the name, which is the longest. It also sets a shorter one when a Java thread of the
///   same owner enters again or leaves: an owner that is shared with Java is only as safe as Redisson is.
/// - **Revocation of holders in Java.** Redisson has no word for it.
/// - **Order, and a wake after `RSpinLock`.** Its release tells nobody; a waiter looks when the lease would have ended, and every 5 s.
/// - **Exclusion with `RReadWriteLock` and `RFairLock`.** On one name with the former this lock fails with
///   [`WrongKind`](lockkeeper_core::Error::WrongKind); the queue of the latter it passes, as `RLock` does.
#[derive(Clone)]
pub struct RedissonLock(Target);

impl RedissonLock {
    /// The lock that Java services call `name`. Nothing is sent; a bad name is reported by the first acquisition.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Target::checked(client, name, |name| of_key(name.as_str())))
    }

    /// The same behind a prefix, as a `NameMapper` in Java puts one in front of each name.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_redisson::RedissonLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let lock = RedissonLock::new(&client, "order:7").key_prefix("shop:");
    /// let _guard = lock.acquire().await?;
    /// assert_eq!(lock.target().key()?, "shop:order:7");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key_prefix(&self, prefix: &str) -> Self {
        let prefixed = |name: Name| of_key(&format!("{prefix}{}", name.main()));
        Self(self.0.by_checked(prefixed))
    }

    /// Acquires, for an [owner](Acquire::owner) of yours or for a new one, waiting for as long as it takes unless told otherwise.
    ///
    /// When it returns `Ok`, no other owner holds, in Rust or in Java, and this claim's lease is renewed as long as its guard lives.
    ///
    /// # Errors
    ///
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed; [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or
    /// does not answer for one ttl, or for a longer wait that was set; [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
    /// [`Config`](lockkeeper_core::Error::Config) for a bad name or ttl, before anything is sent; [`Closed`](lockkeeper_core::Error::Closed) if the client
    /// is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives this claim up, also when it had been granted unseen. The owner's other claims stay.
    ///
    /// # Examples
    ///
    /// See [`RedissonLock`].
    pub fn acquire(&self) -> Acquire<RedissonGuard> {
        Acquire::new(self.0.clone())
    }

    /// Acquires if the lock is free, or the [owner](Acquire::owner)'s own, now; `None` if it cannot be had now.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that being held is no error. A server that does not answer is asked once more and then
    /// reported.
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
    /// # use lockkeeper_redisson::RedissonLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let lock = RedissonLock::new(&client, "order:7");
    /// let _guard = lock.acquire().await?;
    /// assert!(lock.try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> TryAcquire<RedissonGuard> {
        Acquire::new(self.0.clone())
    }

    /// Asks the holder to let go, if it is one of this library; how many claims were told, 0 if nobody holds.
    ///
    /// # Errors
    ///
    /// As for [`Client::revoke`]; for a holder in Java it is [`Foreign`](lockkeeper_core::Error::Foreign): Redisson knows no revocation.
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
    /// # use lockkeeper_redisson::RedissonLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let lock = RedissonLock::new(&client, "order:7");
    /// let guard = lock.acquire().await?;
    /// assert_eq!(lock.revoke().await?, 1);
    /// assert!(guard.verify().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revoke(&self) -> Result<u64> {
        self.0.revoke().await
    }

    /// Takes the lock away by force, as `forceUnlock` does in Java, if `holder` holds it: what [`inspect`](Lock::inspect) shows as
    /// [`claim`](lockkeeper_core::Holder::claim), of a holder in Java its owner. Whether it did.
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
    /// # use lockkeeper_redisson::RedissonLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// use lockkeeper_core::Lock as _;
    ///
    /// let lock = RedissonLock::new(&client, "order:7");
    /// let _guard = lock.acquire().await?;
    /// for holder in &lock.inspect().await?[0].holders {
    ///     assert!(lock.force_release(&holder.claim).await?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, holder: &str) -> Result<bool> {
        self.0.force_release(holder).await
    }

    /// This lock as one of several that are acquired together, by a `MultiLock`.
    pub fn target(&self) -> Target {
        self.0.clone()
    }
}

/// The protocol of a lock under this main key. Not for users: the engine's part is missing. The exhaustive search drives it by itself,
/// so that it tests this object and not a copy of it.
#[doc(hidden)]
#[must_use]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(RedissonProtocol::new(name, Tokens::Ours))
}

/// The protocol of the lock under this key, which belongs to no namespace.
fn of_key(key: &str) -> Result<RedissonProtocol> {
    let name = Name::new("", key)?;
    Ok(RedissonProtocol::new(name, Tokens::Ours))
}

impl Lock for RedissonLock {
    type Guard = RedissonGuard;

    fn plan(&self) -> Plan {
        self.0.clone().into()
    }
}

impl From<&RedissonLock> for Target {
    fn from(lock: &RedissonLock) -> Self {
        lock.target()
    }
}

impl fmt::Debug for RedissonLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

lockkeeper_core::guard! {
    /// One hold of a [`RedissonLock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease). The lock is free when the last hold of its
    /// owner is gone.
    pub struct RedissonGuard: SingleServer;
}

impl RedissonGuard {
    /// Takes the lock once more for the same owner, without waiting, with a lease of the client's ttl that is renewed.
    ///
    /// When it returns `Ok`, both guards hold, with the same fencing token.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease has ended, here or on the server: then
    /// nothing is held anew. Otherwise as for [`RedissonLock::acquire`].
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
    /// # use lockkeeper_redisson::RedissonLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// use lockkeeper_core::Released;
    ///
    /// let outer = RedissonLock::new(&client, "order:7").acquire().await?;
    /// let inner = outer.reenter().await?;
    /// assert_eq!(inner.release().await?, Released::StillHeld(1));
    /// assert_eq!(outer.release().await?, Released::Free);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reenter(&self) -> Result<Self> {
        self.0.reenter().await.map(Self)
    }
}
