//! How Lockkeeper behaves, on the embedded engine and on real servers that each test starts for itself.

mod contract;
mod interleavings;
