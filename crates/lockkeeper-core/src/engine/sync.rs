//! The lock type for the claims of a client. With the feature `shuttle`, it is a type that a test can schedule in every
//! order; the rest of the engine stays the same.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard};
