//! Which names this client has lately found held by others. The first request for such a name is the one that can wait, so that
//! the one for a free name is not refused in vain.
//!
//! This is only advice: two names may share a counter, and any value of a counter leads to the same result, by one request more or
//! less.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::seam::protocol::{Answer, Protocol};
use crate::words::name::Name;

/// How many counters there are. Names share one by their slots.
const COUNTERS: u16 = 2048;

/// What a refusal adds, up to [`MOST`]. A grant takes one away.
const REFUSED: u8 = 2;
const MOST: u8 = 8;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Refusals(Box<[AtomicU8]>);

impl Default for Refusals {
    fn default() -> Self {
        Self((0..COUNTERS).map(|_| AtomicU8::new(0)).collect())
    }
}

impl Refusals {
    fn counter(&self, name: &Name) -> &AtomicU8 {
        &self.0[usize::from(name.slot() % COUNTERS)]
    }

    /// Whether others are expected to hold the name.
    pub(crate) fn expect_others(&self, name: &Name) -> bool {
        let counter = self.counter(name);
        if mutant!(NoisyAdvice) {
            return counter.fetch_add(1, Ordering::Relaxed).is_multiple_of(3);
        }
        counter.load(Ordering::Relaxed) > 0
    }

    /// Notes the answer to an acquire.
    pub(super) fn note(&self, protocol: &dyn Protocol, answer: Answer) {
        // Two threads that count at the same moment may lose one of the counts.
        let counter = self.counter(protocol.name());
        let before = counter.load(Ordering::Relaxed);
        let after = match answer {
            Answer::Granted(_) => before.saturating_sub(1),
            Answer::Inflated | Answer::Busy(_) | Answer::Waiting { .. } => {
                (before + REFUSED).min(MOST)
            }
            _ => before,
        };
        if after != before {
            counter.store(after, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::seam::protocol::{Kind, LockProtocol};
    use crate::words::token::FencingToken;

    #[test]
    fn a_name_that_was_refused_is_expected_to_be_held_until_it_was_granted_twice_as_often() {
        let refusals = Refusals::default();
        let name = Name::new("lockkeeper", "name").unwrap();
        let protocol = LockProtocol::new(name.clone(), Kind::new("mutex"));
        let granted = Answer::Granted(FencingToken::new(1));
        assert!(!refusals.expect_others(&name));
        refusals.note(&protocol, Answer::Inflated);
        refusals.note(&protocol, granted);
        assert!(refusals.expect_others(&name));
        refusals.note(&protocol, granted);
        assert!(!refusals.expect_others(&name));
        for _ in 0..100 {
            refusals.note(&protocol, Answer::Busy(Some(Duration::ZERO)));
        }
        for _ in 0..MOST {
            assert!(refusals.expect_others(&name));
            refusals.note(&protocol, granted);
        }
        assert!(!refusals.expect_others(&name));
    }
}
