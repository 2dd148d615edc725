//! The lock that Java services know as `RFencedLock`.

use std::fmt;

use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Result, Target, TryAcquire};
#[cfg(doc)]
use lockkeeper_core::{Lease, Owner};

use crate::protocol::Tokens;
use crate::shared::{Variety, redisson_lock};

redisson_lock! {
    /// Redisson's `RFencedLock`: one owner at a time across Rust and Java services, with Redisson's fencing tokens.
    ///
    /// It is a [`RedissonLock`](crate::RedissonLock), and all that its page says applies here too. The two exclude each other on
    /// one name. The tokens come from the counter that Java services use in `lockAndGetToken`: a later holder has a larger token,
    /// in Rust or in Java.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_redisson::RedissonFencedLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// // In Java: long token = redisson.getFencedLock("order:7").lockAndGetToken();
    /// let lock = RedissonFencedLock::new(&client, "order:7");
    /// let first = lock.acquire().await?;
    /// let token = first.fencing_token();
    /// first.release().await?;
    /// assert!(lock.acquire().await?.fencing_token() > token);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # What this lock does not promise
    ///
    /// - **Tokens that never go back.** The counter is a plain number on the server, without a clock. It starts again if a failover
    ///   loses it, if it is evicted, or if `RFencedLock.delete()` deletes it. The tokens of all other locks of Lockkeeper do not.
    /// - **Tokens for an `RLock` of the same name.** It excludes this lock, and draws no token.
    /// - **A counter that expires.** Redisson's has no ttl: each name that was ever locked leaves one behind.
    /// - What else [`RedissonLock`](crate::RedissonLock) does not promise.
    pub struct RedissonFencedLock, RedissonFencedGuard, Tokens = Tokens::Redissons;
}
