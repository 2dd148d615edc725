//! Claims that hold together: when one of them is lost, none is believed in.

use std::sync::{Arc, Mutex, PoisonError};

use crate::claim::{Belief, Ending};
use crate::hold::{Armed, Joined};

/// The claims of one bundle, step by step in the order in which they were acquired. Dropped, it leaves for them in reverse.
#[derive(Debug)]
pub(crate) struct Whole {
    steps: Mutex<Vec<Joined>>,
}

impl Whole {
    /// Binds claims together that hold.
    pub(crate) fn bind(steps: Vec<Joined>) -> Arc<Self> {
        let members = steps.iter().flat_map(|step| step.iter());
        let tenures: Vec<_> = members.map(|it| Arc::clone(&it.tenure)).collect();
        let whole = Arc::new(Self {
            steps: Mutex::new(steps),
        });
        for tenure in tenures {
            tenure.bind(&whole);
        }
        whole
    }

    /// One of them is lost: ends belief in the others, which are renewed no more. On the server each stays what it is until the
    /// guard is gone, as one alone does: whoever works under it needs time to stop.
    pub(crate) fn break_up(&self) {
        if mutant!(LossOfOneKeepsTheRest) {
            return;
        }
        let steps = self.steps();
        let members = steps.iter().flat_map(|step| step.iter());
        let others: Vec<_> = members.map(Armed::handle).collect();
        drop(steps);
        for (tenure, engine) in others {
            let now = engine.line.clock.now();
            if !matches!(tenure.belief(now).0, Belief::Ended(Ending::Lost(_))) {
                engine.end(&tenure);
            }
        }
    }

    /// Takes all out, to leave for them.
    pub(crate) fn take(&self) -> Vec<Joined> {
        std::mem::take(&mut *self.steps())
    }

    fn steps(&self) -> std::sync::MutexGuard<'_, Vec<Joined>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let mut steps = self.take();
        while let Some(last) = steps.pop() {
            drop(last);
        }
    }
}
