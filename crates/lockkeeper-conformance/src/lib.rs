//! Tests for your own store over another client library: what the engine requires of a [`Store`](lockkeeper_core::store::Store),
//! and what seven kinds of lock must do over it. Lockkeeper's own stores pass the same tests.
//!
//! Implement [`Site`](site::Site): how a test makes a store, and how it executes a command as another client would. [`everything!`]
//! then makes some 250 tests. Your crate needs these dependencies for its tests: `lockkeeper-conformance`, `lockkeeper-core`,
//! `async-trait`, and `tokio` with `macros`, `time` and `rt-multi-thread`.
//!
//! The suite does not test what takes a failing server: that messages arrive again after a lost connection, and that no request
//! gets the reply of another one. `lockkeeper-redis` has such tests for its own store.
//!
//! ```
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use lockkeeper_conformance::{Result, everything, site::Site};
//! use lockkeeper_core::store::Store;
//! # use lockkeeper_memory::MemoryStore;
//!
//! /// A server that was started for one test, and ends with it.
//! struct MySite {
//!     # server: MemoryStore,
//!     // …
//! }
//!
//! impl MySite {
//!     async fn start() -> Result<Self> {
//!         // …
//!         # Ok(Self { server: MemoryStore::new() })
//!     }
//! }
//!
//! #[async_trait]
//! impl Site for MySite {
//!     async fn store(&self) -> Result<Arc<dyn Store>> {
//!         // Connect yours.
//!         # Ok(Arc::new(self.server.sibling()))
//!     }
//!
//!     async fn command(&self, words: &[&str]) -> Result<String> {
//!         // As `redis-cli` would.
//!         # Ok(format!("{:?}", self.server.execute(words)?))
//!     }
//!
//!     async fn keys(&self) -> Result<Vec<String>> {
//!         // `KEYS *`
//!         # Ok(self.server.keys())
//!     }
//! }
//!
//! everything!(MySite::start().await?, flavor = "multi_thread", worker_threads = 2);
//! # fn main() {}
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`site`] | where a test runs |
//! | [`mod@store`] | what the engine requires of a store |
//! | [`mod@contract`] | what every kind of lock must do |
//! | [`subject`] | which kinds these are |
//! | [`history`] | when each lease was valid, and whether that was allowed |
//! | [`mod@time`] | how long a test waits, and with which leases, on a machine of any speed |
//! | [`gated`] | a store that yields around every request, and futures that are dropped halfway |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod contract;
pub mod gated;
pub mod history;
pub mod site;
pub mod store;
pub mod subject;
pub mod time;

pub use anyhow::Result;
#[doc(hidden)]
pub use lockkeeper;

/// Makes all tests of one site, in modules called `store`, `mutex`, `reentrant`, `fair`, `writers`, `readers`, `election` and
/// `semaphore`. If your module has such names, call it in a separate module.
///
/// The first argument is an expression that makes a site; each test evaluates it. The other arguments go to `#[tokio::test]`.
#[macro_export]
macro_rules! everything {
    ($site:expr) => {
        $crate::everything!($site,);
    };
    ($site:expr, $($runtime:tt)*) => {
        $crate::store_contract!(store, $site, $($runtime)*);
        $crate::contract!(mutex, $crate::lockkeeper::Mutex, $site, $($runtime)*);
        $crate::contract!(reentrant, $crate::lockkeeper::ReentrantLock, $site, $($runtime)*);
        $crate::contract!(fair, $crate::lockkeeper::FairLock, $site, $($runtime)*);
        $crate::contract!(writers, $crate::lockkeeper::Writer, $site, $($runtime)*);
        $crate::contract!(readers, $crate::lockkeeper::Reader, $site, $($runtime)*);
        $crate::contract!(election, $crate::lockkeeper::Election, $site, $($runtime)*);
        $crate::contract!(semaphore, $crate::lockkeeper::Semaphore, $site, $($runtime)*);
    };
}
