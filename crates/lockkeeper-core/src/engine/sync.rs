//! What the claims of a client are locked with. With the feature `shuttle` it is a type whose holders a test schedules in every
//! order; all else of the engine stays as it is.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard};
