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
        #[cfg(feature = "mutants")]
        passes::count_one(std::any::type_name::<T>());
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often the engine's mutexes are locked. For development only: the tests' ratchet counts this.
#[cfg(feature = "mutants")]
pub mod passes {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    thread_local! {
        /// `None` while nobody counts.
        static PASSES: RefCell<Option<BTreeMap<&'static str, u64>>> = const { RefCell::new(None) };
    }

    pub(super) fn count_one(guarded: &'static str) {
        PASSES.with_borrow_mut(|passes| {
            if let Some(passes) = passes {
                *passes.entry(guarded).or_default() += 1;
            }
        });
    }

    /// Runs `work` and returns how often the current thread locked the mutexes of each type meanwhile. The keys are the
    /// types of the guarded values.
    pub fn count(work: impl FnOnce()) -> BTreeMap<&'static str, u64> {
        PASSES.set(Some(BTreeMap::new()));
        work();
        PASSES.take().unwrap_or_default()
    }
}
