//! Mistakes made on purpose, each of which something must catch by name.

pub mod lua;

pub use lua::Patch;
