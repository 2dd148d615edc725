//! Lockkeeper's store in this process: the shipped Lua scripts over a small keyspace.
//!
//! For examples, for tests and for programs of one process. The scripts are the very files that run on a server, executed
//! by an embedded Lua 5.1; only the keyspace under them is ours, with just the commands they use. Time is tokio's, so
//! a test with paused time runs leases of minutes at once.
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
//! - It is not Redis: a command that no script uses is unknown, and the text of an error in a script ends where a server
//!   would add the script's SHA-1 and line. A differential test holds the rest against a real server.
//! - `TIME` stands still during a script, as from Redis 7.2 on; before that it moves.
//! - Stores that share a keyspace should share a runtime: with paused time in one and not in the other, they disagree
//!   about what has expired.

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
