//! Mistakes made on purpose, each of which something must catch by name.

pub mod claim;
pub mod lua;

/// Mistakes of the engine, switched on for one thread.
pub use lockkeeper_core::mutants as engine;
pub use lua::Patch;
