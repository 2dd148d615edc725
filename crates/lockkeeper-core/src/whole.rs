//! Claims that hold together: when one of them is lost, the others are let go.

use std::sync::{Arc, Mutex, PoisonError};

use crate::claim::{Belief, Ending};
use crate::hold::Armed;

/// The claims of one bundle, in the order in which they were acquired. Dropped, it leaves for them in reverse.
#[derive(Debug)]
pub(crate) struct Whole {
    members: Mutex<Vec<Armed>>,
}

impl Whole {
    /// Binds claims together that hold.
    pub(crate) fn bind(members: Vec<Armed>) -> Arc<Self> {
        let tenures: Vec<_> = members.iter().map(|it| Arc::clone(&it.tenure)).collect();
        let whole = Arc::new(Self {
            members: Mutex::new(members),
        });
        for tenure in tenures {
            tenure.bind(&whole);
        }
        whole
    }

    /// One of them is lost: lets go of the others. What is lost but still on the server stays there until the guard is gone, as
    /// it does without others.
    pub(crate) fn break_up(&self) {
        if mutant!(LossOfOneKeepsTheRest) {
            return;
        }
        let mut rest = Vec::new();
        for armed in self.take() {
            let now = armed.engine.line.clock.now();
            match armed.tenure.belief(now).0 {
                Belief::Ended(Ending::Lost(_)) => rest.push(armed),
                // Dropped outside of the lock, and so left for.
                _ => drop(armed),
            }
        }
        *self.members() = rest;
    }

    /// Takes all out that have not been let go.
    pub(crate) fn take(&self) -> Vec<Armed> {
        std::mem::take(&mut *self.members())
    }

    fn members(&self) -> std::sync::MutexGuard<'_, Vec<Armed>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let mut members = self.take();
        while let Some(last) = members.pop() {
            drop(last);
        }
    }
}
