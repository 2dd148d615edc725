//! Releasing: which release a claim that has ended needs, and what the answer to it means.

use crate::claim::{Claim, ReleaseNeeded, Verdict};
use crate::words::answer::{Answer, Verb};

impl Claim {
    /// Returns which release a claim that has ended still needs, if any.
    pub fn release_needed(&self) -> ReleaseNeeded {
        let on_its_way = self
            .pending
            .is_some_and(|pending| pending.verb == Verb::Acquire);
        if mutant!(DropWithoutRelease) && self.granted.is_none() {
            ReleaseNeeded::None
        } else if (self.acquire_in_doubt || on_its_way) && !mutant!(ReleaseWithoutTombstone) {
            ReleaseNeeded::WithTombstone
        } else if self.present {
            ReleaseNeeded::Plain
        } else {
            ReleaseNeeded::None
        }
    }

    /// Notes that the claim may have been released: a release of several claims was refused after it had been executed
    /// for some of them.
    pub(crate) fn may_be_released(&mut self) {
        self.release_in_doubt = true;
    }

    pub(super) fn release_answered(&mut self, answer: Answer) -> Verdict {
        // If an unanswered release was executed, it is unknown whether its wake was published. An unanswered conversion
        // may have removed the claim.
        let in_doubt = self.release_in_doubt || self.conversion_in_doubt;
        let sure = !in_doubt;
        let verdict = match answer {
            Answer::Released { told, holds } => Verdict::Released {
                told: told && sure,
                holds,
            },
            Answer::Cooldown { told, left } => Verdict::Cooldown {
                told: told && sure,
                left,
            },
            Answer::Dropped => Verdict::Dropped,
            Answer::NotHeld { holds } if in_doubt => Verdict::Released { told: false, holds },
            Answer::NotHeld { .. } | Answer::Gone => Verdict::WasGone,
            // The server did nothing.
            Answer::Inflated => {
                self.inflated = true;
                return Verdict::More;
            }
            // It is released, but the waiters behind it are not yet served.
            Answer::More => {
                self.release_in_doubt = true;
                return Verdict::More;
            }
            _ => return Verdict::Unexpected,
        };
        self.present = false;
        self.acquire_in_doubt = false;
        verdict
    }
}
