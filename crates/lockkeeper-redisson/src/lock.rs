//! The lock that Java services know as `RLock`.

use std::fmt;

use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Result, Target, TryAcquire};
#[cfg(doc)]
use lockkeeper_core::{Lease, Owner};

use crate::protocol::Tokens;
use crate::shared::{Variety, redisson_lock};

redisson_lock! {
    /// Redisson's `RLock`: one owner at a time, across Rust and Java services.
    ///
    /// # Which lock should I use?
    ///
    /// Use this one only for a name that Java services lock with Redisson. Between Rust services alone, a `Mutex` or a
    /// `ReentrantLock` promises more and costs less. For `RFencedLock` see [`RedissonFencedLock`](crate::RedissonFencedLock), for
    /// `RFairLock` see [`RedissonFairLock`](crate::RedissonFairLock). All three exclude one another.
    ///
    /// # How it works
    ///
    /// The key holds what Redisson 4.7 writes: the owner, `<uuid>:<number>`, and how often it holds. A release sends one message
    /// that wakes the waiters of both sides. A holder here gets the same as from every lock of Lockkeeper: it learns of a loss, its
    /// deadline is before the end of its lease, and dropping its guard releases the lock. What that needs beside Redisson's count
    /// is in a separate key.
    ///
    /// An [`Owner`] that already holds can acquire again. To a Java service, an owner is what a thread of a `RedissonClient` is. To
    /// act for a certain thread, use an owner that reads `<id of the client>:<id of the thread>`. Without
    /// [`owner`](Acquire::owner), each acquisition gets a new owner and so excludes every other one.
    ///
    /// # The name
    ///
    /// **The name is the key**, as in Java, whatever the client's namespace is: a namespace would make it a different lock. If the
    /// Java services use a `NameMapper` that adds a prefix, pass that prefix to [`key_prefix`](Self::key_prefix).
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
    /// - **Anything for holders in Java.** They learn of a loss when they unlock, or never. One of their requests that is repeated
    ///   may count twice, and the name is then held until its lease ends.
    /// - **Fencing against Java.** Tokens grow among the grants of this library; a Java holder has none.
    ///   [`RedissonFencedLock`](crate::RedissonFencedLock) uses the tokens of `RFencedLock`.
    /// - **A lease for each claim of an owner.** Redisson keeps one lease for the name, the longest. It also sets a shorter one
    ///   when a Java thread of the same owner enters again or unlocks: an owner that is shared with Java is only as safe as
    ///   Redisson is.
    /// - **Revocation of holders in Java.** Redisson has no message for it.
    /// - **Order, and a wake after `RSpinLock`.** Its release sends no message. A waiter polls when the lease would have ended, and
    ///   every 5 s.
    /// - **Exclusion with `RReadWriteLock`, and the queue of an `RFairLock`.** On a name that the former uses, this lock fails with
    ///   [`WrongKind`](lockkeeper_core::Error::WrongKind). `RReadWriteLock` in Java takes the name even while this lock holds it, and neither
    ///   side is told. This lock overtakes the queue of the latter, as `RLock` does.
    pub struct RedissonLock, RedissonGuard, Tokens = Tokens::Ours;
}
