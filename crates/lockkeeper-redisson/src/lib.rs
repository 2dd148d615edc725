//! Redisson's locks: a Rust service and Java services that use Redisson hold and wait for the same names.
//!
//! Users depend on `lockkeeper` with its feature `redisson`, which has these types as `lockkeeper::redisson::RedissonLock` and so on.
//! What the protocol of Redisson cannot carry is in `docs/redisson.md`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod fair;
mod fenced;
mod lock;
mod protocol;
mod rwlock;
mod shared;

pub use fair::{RedissonFairGuard, RedissonFairLock};
pub use fenced::{RedissonFencedGuard, RedissonFencedLock};
pub use lock::{RedissonGuard, RedissonLock};
pub use rwlock::{
    RedissonReadGuard, RedissonReadWriteLock, RedissonReader, RedissonWriteGuard, RedissonWriter,
};
#[doc(hidden)]
pub use rwlock::{read_protocol, write_protocol};
#[doc(hidden)]
pub use shared::{fair_protocol, protocol};
