//! The lock that Java services have as `RLock`.

use std::fmt;

use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Result, Target, TryAcquire};
#[cfg(doc)]
use lockkeeper_core::{Lease, Owner};

use crate::protocol::Tokens;
use crate::shared::{Variety, redisson_lock};

redisson_lock! {
    /// Redisson's `RLock`: one owner at a time, among Rust and Java services.
    ///
    /// # Which lock should I use?
    ///
    /// This one only for a name that Java services lock by Redisson. Among Rust services a `Mutex` or a `ReentrantLock` promises more and costs
    /// less. For `RFencedLock` see [`RedissonFencedLock`](crate::RedissonFencedLock), for `RFairLock` [`RedissonFairLock`](crate::RedissonFairLock): all of them exclude one another.
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
    /// - **Exclusion with `RReadWriteLock`, and the queue of an `RFairLock`.** On one name with the former this lock fails with
    ///   [`WrongKind`](lockkeeper_core::Error::WrongKind); the queue of the latter it passes, as `RLock` does.
    pub struct RedissonLock, RedissonGuard, Tokens = Tokens::Ours;
}
