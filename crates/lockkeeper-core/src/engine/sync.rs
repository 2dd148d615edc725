//! The mutex for all state that threads of one client share. With the feature `shuttle`, a test can run those threads in every
//! order; the rest of the engine stays the same.

use std::sync::PoisonError;

#[cfg(feature = "shuttle")]
use shuttle::sync as of;
#[cfg(not(feature = "shuttle"))]
use std::sync as of;

pub(crate) use of::MutexGuard;

/// A mutex that remains usable after a panic in a thread that had locked it.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(of::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(of::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
