//! Mistakes made on purpose, each of which something must catch by name.

pub mod claim;
pub mod histories;
pub mod hunt;
pub mod lua;
pub mod rounds;

/// Mistakes of the engine, switched on for one thread.
pub use lockkeeper_core::mutants as engine;
pub use lua::Patch;
