//! Locks that a Rust service shares with Java services that use Redisson: both sides hold and wait for the same names.
//!
//! Users depend on `lockkeeper` with its feature `redisson`, which exports these types as `lockkeeper::redisson::RedissonLock` and
//! so on. `docs/redisson.md` lists what Redisson's protocol cannot carry.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod fair;
mod fenced;
mod latch;
mod lock;
mod permits;
mod protocol;
mod rwlock;
mod semaphore;
mod shared;

pub use fair::{RedissonFairGuard, RedissonFairLock};
pub use fenced::{RedissonFencedGuard, RedissonFencedLock};
pub use latch::RedissonCountDownLatch;
pub use lock::{RedissonGuard, RedissonLock};
#[doc(hidden)]
pub use permits::{permits_protocol, semaphore_protocol};
pub use rwlock::{
    RedissonReadGuard, RedissonReadWriteLock, RedissonReader, RedissonWriteGuard, RedissonWriter,
};
#[doc(hidden)]
pub use rwlock::{read_protocol, write_protocol};
pub use semaphore::{
    RedissonPermitExpirableSemaphore, RedissonPermitGuard, RedissonSemaphore,
    RedissonSemaphoreGuard,
};
#[doc(hidden)]
pub use shared::{fair_protocol, protocol};
