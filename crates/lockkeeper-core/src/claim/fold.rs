//! Treats claims that differ only in their pasts as equal, for a search of all states.

use std::time::Duration;

use super::{Claim, Ending, Phase};
use crate::words::answer::Verb;
use crate::words::moment::Moment;

impl Claim {
    /// Forgets everything that makes no difference to what this claim may do and assume from `now` on, so that a search
    /// treats claims that differ only in their pasts as equal. The engine must not use it, because it reports the past
    /// to observers.
    #[doc(hidden)]
    pub fn fold(&mut self, now: Moment) {
        let past = Moment::from_elapsed(Duration::ZERO);
        if self.bounds.is_none() {
            self.granted = None;
        }
        if let Phase::Ended(_) = self.phase {
            self.queue = None;
            if self.inflated || !self.present {
                self.drawn = None;
            }
        }
        let max_hold = self.max_hold();
        if let Some(queue) = &mut self.queue {
            queue.fold(now, max_hold);
        }
        let converts = self.converting || self.may_hand_over();
        match &mut self.phase {
            Phase::Held { deadline, .. } if now >= *deadline => *deadline = past,
            // It may still be converted, or its conversion sent again.
            Phase::Ended(Ending::Released) if converts => {}
            Phase::Ended(ending) => {
                *ending = Ending::Withdrawn;
                (self.converting, self.conversion_in_doubt) = (false, false);
            }
            _ => {}
        }
        if let Some(pending) = &mut self.pending
            && (matches!(self.phase, Phase::Ended(_)) || pending.verb == Verb::Convert)
        {
            pending.sent = past;
        }
    }
}
