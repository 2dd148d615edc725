//! Claims that hold together: when one of them is lost, none is believed in.

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

    /// One of them is lost: ends belief in the others, which are renewed no more. On the server each stays what it is until the
    /// guard is gone, as one alone does: whoever works under it needs time to stop.
    pub(crate) fn break_up(&self) {
        if mutant!(LossOfOneKeepsTheRest) {
            return;
        }
        let members = self.members();
        let others: Vec<_> = members.iter().map(Armed::handle).collect();
        drop(members);
        for (tenure, engine) in others {
            let now = engine.line.clock.now();
            if !matches!(tenure.belief(now).0, Belief::Ended(Ending::Lost(_))) {
                engine.end(&tenure);
            }
        }
    }

    /// Takes all out, to leave for them.
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
