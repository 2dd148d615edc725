//! How Lockkeeper behaves, on the embedded engine and on real servers that each test starts for itself.

mod commands;
mod contract;
mod faults;
mod input;
#[cfg(test)] // lets its helpers unwrap
mod interleavings;
mod notice;
mod processes;
mod scripts;
mod tracing;
