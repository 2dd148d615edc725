//! Distributed locks on Redis and Valkey whose holder always knows.
//!
//! - **The holder knows.** A lease ends for its holder before it can end on the server, with a reason.
//! - **Every grant carries a fencing token**, so that what the lock protects can refuse a holder that woke up too late.
//! - **Every call is safe to repeat, to cancel and to lose.** A dropped future, a lost reply, a request that arrives twice
//!   hold nothing for longer than one ttl.
//! - **One message hands over.** Waiters sleep until they are told; they look by themselves only when the holder's lease
//!   has run out, and every 5 s as a safety net. In the queue of a [`FairLock`] the next waiter holds when it is told.
//!
//! # Ten lines
//!
//! ```
//! use std::time::Duration;
//! use lockkeeper::Mutex;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> lockkeeper::Result<()> {
//! let client = lockkeeper::connect("memory://").await?; // or redis://127.0.0.1:6379
//! let lock = Mutex::new(&client, "invoice:42");
//!
//! let guard = lock.acquire().wait_for(Duration::from_secs(5)).await?;
//! guard.run(settle_invoice(guard.fencing_token().get())).await?; // stops if the lease is lost
//! guard.release().await?;
//!
//! client.close().await;
//! # Ok(())
//! # }
//! # async fn settle_invoice(_token: u64) {}
//! ```
//!
//! # Which lock?
//!
//! | I need | kind |
//! |---|---|
//! | one holder at a time, cheapest | [`Mutex`] |
//! | one holder, and my own nested calls must get in again | [`ReentrantLock`] |
//! | first come, first served across all processes | [`FairLock`] |
//! | many readers or one writer, neither starving | [`RwLock`] |
//! | a few at a time, but no more than so many | [`Semaphore`] |
//! | exactly one of many instances in charge, all know which | [`Election`] |
//! | this piece of work once, and its result for all who ask | [`Once`] |
//! | wait until so many things have happened | [`Latch`] |
//! | several names at once, all or none | [`MultiLock`] |
//! | no single server may be a point of failure, and no consensus store is at hand | [`Redlock`] |
//!
//! # What holds, and what does not
//!
//! With a single primary that loses no data and evicts nothing, and clocks that run at the same speed to within the margin
//! (1 % of the ttl + 5 ms), there is at most one believed holder at any instant: under any crash, pause and cancellation of
//! clients, and any loss, delay and repetition of messages.
//!
//! - After a **failover** that lost the grant, two holders may believe for up to one ttl. A resource that checks
//!   [fencing tokens](FencingToken) refuses the older one.
//! - A process can **pause** between its last check and its write. Only fencing tokens help there.
//! - A lease is **not a transaction**: what was written before the lease was lost stays written.
//!
//! # Asking for a lock back
//!
//! [`Client::inspect`] shows who holds a name of any kind, known by the [label](ClientBuilder::label) of their client.
//! [`Client::revoke`] asks them to leave: their leases are lost for [`LossReason::Revoked`], and the lock is free when their
//! guards are gone, at the latest when their leases end. [`Client::force_release`] waits for nobody and is unsafe for what
//! the lock protects.
//!
//! # Where it connects to
//!
//! | URL | what |
//! |---|---|
//! | `redis://[[user]:password@]host[:port][/database]` | one Redis or Valkey server |
//! | `unix:///path/to/socket[?db=N&user=U&password=P]` | the same over a unix socket |
//! | `redis-cluster://[[user]:password@]host[:port][,…]` | a cluster, by any of its nodes |
//! | `redis-sentinel://[[user]:password@]host[:port][,…]/service` | the primary that sentinels watch |
//! | `rediss://`, `rediss-cluster://`, `rediss-sentinel://` | the same through TLS, with the feature `tls` |
//! | `memory://` | a fresh engine in this process: for trying out and for tests |
//! | `memory://name` | an engine that all clients of this process share by name |
//!
//! `?password-file=/path` stands in place of a password that changes. `RedisOptions::credentials` asks a provider, for tokens of
//! IAM or Entra; `RedisOptions::connect_redis_rs` and `connect_fred` take over the settings of a client that the program has. What they connect is given to
//! [`ClientBuilder::build`].
//!
//! # Features
//!
//! | feature | what |
//! |---|---|
//! | `redis`, default | servers: all of the table but `memory://`, by the client library redis-rs |
//! | `fred` | the same by the client library fred; with both, `RedisOptions::transport` chooses, and redis-rs is the default |
//! | `memory`, default | `memory://`, whose Lua engine needs a C compiler |
//! | `tls` | the schemes with `rediss`, by either library |
//! | `serde` | results of a [`Once`] as JSON |
//! | `redisson` | the module `redisson`: Redisson's locks, held and waited for together with Java services |
//! | `metrics` | `Metrics`, an [`Observer`] that counts and measures by the crate `metrics`, for which most systems have an exporter |
//!
//! A service that needs no C compiler: `lockkeeper = { version = "0.1", default-features = false, features = ["redis"] }`.
//!
//! # Testing your own code
//!
//! On `memory://` leases run on tokio's time, so the clients of one engine belong on one runtime: give each test an engine of
//! its own, or a name of its own. Faults, like an outage or a lost reply, are injected by [`memory::Faults`], and every error can be
//! made ([`Error::timeout`] and the others). A test with `start_paused = true` lets an hour of leases pass at once:
//!
//! ```
//! use std::time::Duration;
//! use lockkeeper::{LossReason, LeaseState, Mutex};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> lockkeeper::Result<()> {
//! let client = lockkeeper::connect("memory://").await?;
//! let guard = Mutex::new(&client, "job").acquire().ttl(Duration::from_secs(60)).no_renewal().await?;
//! tokio::time::sleep(Duration::from_secs(60)).await;
//! assert_eq!(guard.state(), LeaseState::Lost(LossReason::Expired));
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod url;

/// The store behind `memory://`, for tests of your own code: what they may do to its server, and the faults that they may inject
/// into a client.
///
/// ```
/// use std::sync::Arc;
/// use lockkeeper::memory::MemoryStore;
/// use lockkeeper::{Client, Mutex};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> lockkeeper::Result<()> {
/// let store = MemoryStore::new();
/// let faults = store.faults();
/// let client = Client::builder().build(Arc::new(store))?;
///
/// faults.disconnect();
/// let unreachable = Mutex::new(&client, "report").try_acquire().await;
/// assert!(unreachable.is_err_and(|error| error.is_transient()));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "memory")]
pub mod memory {
    pub use lockkeeper_core::store::Value;
    pub use lockkeeper_memory::{Faults, MemoryStore, Snapshot};
}

/// Redisson's locks, which Java services hold and wait for under the same names.
///
/// ```
/// use lockkeeper::redisson::RedissonLock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper::Result<()> {
/// let client = lockkeeper::connect("memory://").await?;
/// let guard = RedissonLock::new(&client, "order:7").acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "redisson")]
pub mod redisson {
    pub use lockkeeper_redisson::{
        RedissonFencedGuard, RedissonFencedLock, RedissonGuard, RedissonLock,
    };
}

pub use lockkeeper_core::store::{Outcome, StoreError};
pub use lockkeeper_core::{
    Acquire, AcquisitionEvent, AcquisitionOutcome, Advice, Client, ClientBuilder, ClientEvent,
    CloseReport, End, Error, FencingToken, Guard, Holder, HolderState, Inspection, Kind, Lease,
    LeaseEvent, LeaseState, Lock, LossReason, Lost, Names, Observed, Observer, Owner, Permits,
    Queued, Record, Released, Result, ServerFacts, SingleServer, Target, Tries, TryAcquire,
    UntilEnded, UntilLost, Waiter, Waits, Work,
};
pub use lockkeeper_election::{Election, HandOver, Leader, Leaders, Leadership};
pub use lockkeeper_fair::{FairGuard, FairLock};
pub use lockkeeper_latch::Latch;
#[cfg(feature = "metrics")]
pub use lockkeeper_metrics::Metrics;
pub use lockkeeper_multi::{MultiGuard, MultiLock};
pub use lockkeeper_mutex::{Mutex, MutexGuard};
pub use lockkeeper_once::{Once, OnceError, OnceOutcome};
#[cfg(any(feature = "redis", feature = "fred"))]
pub use lockkeeper_redis::{
    Credentials, CredentialsProvider, PasswordFile, RedisOptions, RedisStore, Transport,
};
pub use lockkeeper_redlock::{Redlock, RedlockGuard};
pub use lockkeeper_reentrant::{ReentrantGuard, ReentrantLock};
pub use lockkeeper_rwlock::{ReadGuard, Reader, RwLock, Upgrade, WriteGuard, Writer};
pub use lockkeeper_semaphore::{Semaphore, SemaphoreGuard};
pub use url::{connect, connect_later, connect_with};

/// The page of this crate on a registry, whose program is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
