//! The lock that Java services have as `RFencedLock`.

use std::fmt;

use lockkeeper_core::{Acquire, Client, Lock, Name, Plan, Result, Target, TryAcquire};
#[cfg(doc)]
use lockkeeper_core::{Lease, Owner};

use crate::protocol::Tokens;
use crate::shared::{Variety, redisson_lock};

redisson_lock! {
    /// Redisson's `RFencedLock`: one owner at a time among Rust and Java services, with the fencing tokens of Redisson.
    ///
    /// It is a [`RedissonLock`](crate::RedissonLock), which it excludes and is excluded by, and all that is said there is true here. Its tokens come from the counter that
    /// Java services draw from by `lockAndGetToken`: later holders of either side have larger ones.
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
    /// - **Tokens that never go back.** The counter is a number on the server, without a clock: one that is lost in a failover, evicted, or deleted
    ///   by `RFencedLock.delete()` begins anew. Those of all other locks of Lockkeeper do not.
    /// - **Tokens for an `RLock` of the same name.** It excludes, and draws none.
    /// - **A counter that ends.** Redisson's has no ttl: each name that was ever locked leaves one behind.
    /// - What [`RedissonLock`](crate::RedissonLock) does not promise otherwise.
    pub struct RedissonFencedLock, RedissonFencedGuard, Tokens = Tokens::Redissons;
}
