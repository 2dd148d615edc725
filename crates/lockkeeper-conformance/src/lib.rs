//! The tests that a store must pass, and every kind of lock over it: to be run by whoever connects Lockkeeper to a server by a client library
//! of their own. The stores of Lockkeeper pass the same.
//!
//! A store is what implements [`Store`](lockkeeper_core::store::Store). Say by a [`Site`](site::Site) how a test makes one, and how a stranger meddles
//! with its server; then [`everything!`] makes some two hundred tests. The crate in which they stand needs `tokio`, with `macros` and `rt`.
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
//!         # Site::command(&self.server, words).await
//!     }
//!
//!     async fn keys(&self) -> Result<Vec<String>> {
//!         // `KEYS *`
//!         # Site::keys(&self.server).await
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
//! | [`mod@store`] | what the engine asks of a store |
//! | [`mod@contract`] | what every kind of lock must do |
//! | [`subject`] | which kinds these are |
//! | [`history`] | when which lease was valid, and whether that was allowed |
//! | [`gated`] | a store that stops around every request, and futures dropped in the middle |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod contract;
pub mod gated;
pub mod history;
pub mod site;
pub mod store;
pub mod subject;

pub use anyhow::Result;
#[doc(hidden)]
pub use lockkeeper;

/// Makes all tests of one site: a module for the [store](mod@store), and one for each kind of lock.
///
/// Behind the site, which each test makes anew, stands what `#[tokio::test]` is given.
#[macro_export]
macro_rules! everything {
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
