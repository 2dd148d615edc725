//! A Lockkeeper store inside this process, with no server: the shipped Lua scripts run over a small keyspace.
//!
//! Use it for examples, for tests and for programs of one process. An embedded Lua 5.1 executes the same script files that run on a
//! server; only the keyspace under them is reimplemented, with just the commands that the scripts use. Time is tokio's, so a test
//! with paused time runs leases of minutes at once.
//!
//! ```
//! use lockkeeper_memory::MemoryStore;
//!
//! let store = MemoryStore::new();
//! store.execute(&["SET", "greeting", "hello", "PX", "1000"])?;
//! assert_eq!(store.execute(&["GET", "greeting"])?.as_str(), Some("hello"));
//! # Ok::<(), lockkeeper_core::store::StoreError>(())
//! ```
//!
//! # What this store does not promise
//!
//! - Nothing survives the process, and no other process sees it.
//! - It is not Redis. It does not know commands that no script uses, and the text of an error in a script ends where a server would
//!   add the script's SHA-1 and line. A differential test compares everything else with a real server.
//! - `TIME` stands still during a script, as in Redis 7.2 and later; in earlier versions it moves.
//! - Stores that share a keyspace should share a runtime. If time is paused in one and not in the other, they disagree about which
//!   keys have expired.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod bus;
mod command;
mod faults;
mod interpreter;
mod keyspace;
mod resp;
mod server;
mod sorted_set;
mod store;
mod wall_clock;

pub use faults::Faults;
pub use keyspace::Snapshot;
pub use store::MemoryStore;
