//! Distributed locks on Redis and Valkey that tell the holder when its lock is lost.
//!
//! - **The holder knows.** A lease ends for its holder before it can end on the server, with a reason.
//! - **Every grant carries a fencing token**, so that the protected resource can refuse a holder that woke up too
//!   late.
//! - **Every call is safe to repeat, to cancel and to lose.** A dropped future, a lost reply or a request that
//!   arrives twice holds nothing for longer than one ttl.
//! - **One message hands the lock over.** Waiters sleep in a queue on the server. A release makes the next waiter the
//!   holder and notifies it with one message. If that message is lost or a holder crashes, the waiters' heartbeats
//!   find the grant or the end of the lease.
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
//! | one holder, whose nested calls acquire the lock again | [`ReentrantLock`] |
//! | first come, first served across all processes | [`FairLock`] |
//! | many readers or one writer, neither starving | [`RwLock`] |
//! | at most N holders at a time | [`Semaphore`] |
//! | exactly one of many instances in charge, and everybody knows which | [`Election`] |
//! | work that is done once, and its result for every caller | [`Once`] |
//! | wait until N things have happened | [`Latch`] |
//! | several names at once, all or none | [`MultiLock`] |
//! | no single server may be a point of failure, and no consensus store is available | [`Redlock`] |
//!
//! The repository has a book in its folder `docs/`: it starts with a lock in a service in ten minutes, has a page for each
//! kind, and says how the locks work, how fast they are, and which test proves which promise.
//!
//! # What holds, and what does not
//!
//! With a single primary that loses no data and evicts nothing, and clocks whose speeds differ by no more than the
//! margin (1 % of the ttl + 5 ms), at most one holder is valid at any moment. This is true under any crash, pause and
//! cancellation of clients, and any loss, delay and repetition of messages.
//!
//! - After a **failover** that lost the grant, two holders may both consider their leases valid for up to one ttl. A
//!   resource that checks [fencing tokens](FencingToken) refuses the older one.
//! - A process can **pause** between its last check and its write. Only fencing tokens help there.
//! - A lease is **not a transaction**: what was written before the lease was lost stays written.
//!
//! # Asking for a lock back
//!
//! [`Client::inspect`] shows who holds a name of any kind, with the [label](ClientBuilder::label) of each holder's
//! client. [`Client::revoke`] asks the holders to release: their leases are lost with [`LossReason::Revoked`], and the
//! lock is free when their guards are gone, or at the latest when their leases end. [`Client::force_release`] does not
//! wait for the holders, and is unsafe for what the lock protects.
//!
//! # Where it connects to
//!
//! | URL | what |
//! |---|---|
//! | `redis://[[user]:password@]host[:port][/database]` | one Redis or Valkey server |
//! | `unix:///path/to/socket[?db=N&user=U&password=P]` | the same over a unix socket |
//! | `redis-cluster://[[user]:password@]host[:port][,…]` | a cluster, given any of its nodes |
//! | `redis-sentinel://[[user]:password@]host[:port][,…]/service` | the primary that the sentinels monitor |
//! | `rediss://`, `rediss-cluster://`, `rediss-sentinel://` | the same over TLS, with the feature `tls` |
//! | `memory://` | a new in-process server: for trying out and for tests |
//! | `memory://name` | an in-process server shared by all clients of this process that use the name |
//!
//! Use `?password-file=/path` for a password that changes. `RedisOptions::credentials` takes a provider, for IAM or
//! Entra tokens. `RedisOptions::connect_redis_rs` and `connect_fred` reuse the settings of a client that your program
//! already has. Pass the store they return to [`ClientBuilder::build`].
//!
//! # Features
//!
//! | feature | what |
//! |---|---|
//! | `redis`, default | all URLs of the table except `memory://`, over the client library redis-rs |
//! | `fred` | the same over the client library fred; with both features, `RedisOptions::transport` chooses, and redis-rs is the default |
//! | `memory`, default | `memory://`, whose Lua engine needs a C compiler |
//! | `tls` | the `rediss` schemes, with either library |
//! | `serde` | results of a [`Once`] as JSON |
//! | `redisson` | the module `redisson`: Redisson's locks, shared with Java services |
//! | `metrics` | `Metrics`, an [`Observer`] that reports through the crate `metrics`, which has exporters for most monitoring systems |
//!
//! Without a C compiler: `lockkeeper = { version = "0.1", default-features = false, features = ["redis"] }`.
//!
//! # Testing your own code
//!
//! On `memory://` leases use tokio's clock, so all clients of one in-process server belong on one runtime: give each
//! test its own server or its own name. [`memory::Faults`] injects faults such as an outage or a lost reply, and your
//! test can construct every error ([`Error::timeout`] and the others). A test with `start_paused = true` lets hours
//! of lease time pass at once:
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

/// The store behind `memory://`, for tests of your own code: it lets a test change the server's state and inject
/// faults into a client.
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

/// Redisson's locks, shared with Java services that use the same names.
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
        RedissonCountDownLatch, RedissonFairGuard, RedissonFairLock, RedissonFencedGuard,
        RedissonFencedLock, RedissonGuard, RedissonLock,
    };
    pub use lockkeeper_redisson::{
        RedissonPermitExpirableSemaphore, RedissonPermitGuard, RedissonSemaphore,
        RedissonSemaphoreGuard,
    };
    pub use lockkeeper_redisson::{
        RedissonReadGuard, RedissonReadWriteLock, RedissonReader, RedissonWriteGuard,
        RedissonWriter,
    };
}

pub use lockkeeper_core::store::{Outcome, StoreError};
pub use lockkeeper_core::{
    Acquire, AcquisitionEvent, AcquisitionOutcome, Advice, Client, ClientBuilder, ClientEvent,
    CloseReport, CoolsDown, End, Error, FencingToken, Guard, Hold, Holder, HolderState, Inspection,
    Kind, Lease, LeaseEvent, LeaseState, Lock, LossReason, Lost, Names, Observed, Observer, Owner,
    Permits, Plan, Queued, Record, Released, Result, ServerFacts, SingleServer, Target, Tries,
    TryAcquire, Until, Waiter, Waits, Watch, Work,
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

/// The README of this crate, so that its program is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
