//! What must be done for a claim, and when. The code that decides this, the code that orders it and the code that does
//! it share these types.

use std::time::Duration;

use crate::words::moment::Moment;

/// Claims granted one after the other share a bucket, so that they are renewed together.
const BUCKET: u64 = 100;

/// The number of phases that the buckets are spread over. Without phases, claims that are due together once would stay
/// together for ever.
const PHASES: u64 = 16;

/// A claim's number among those of its client, in the order in which they were made.
pub(crate) type Number = u64;

/// How soon a claim renews or sends a heartbeat, counted from when the previous request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pace {
    /// After a request that was answered.
    pub(crate) steady: Duration,
    /// After a request that was not answered.
    pub(crate) hurried: Duration,
}

impl Pace {
    /// The pace of the claim with this number: a little sooner in each phase, at most by a tenth.
    pub(crate) fn of(self, number: u64) -> Self {
        let phase = u32::try_from(number / BUCKET % PHASES).unwrap_or_default();
        Self {
            steady: self.steady - self.steady / 160 * phase,
            ..self
        }
    }
}

/// What must be done for a claim, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Agenda {
    /// It has been requested and has not ended, so messages about it may arrive.
    pub(crate) known: bool,
    /// When to send the next request that keeps it alive; `None` while one is unanswered.
    pub(crate) due: Option<Moment>,
    /// The usual time between two such requests.
    pub(crate) interval: Duration,
    /// When its lease or its wait ends, or until when a grant may be taken.
    pub(crate) deadline: Option<Moment>,
    /// The server must be asked now whether it still holds.
    pub(crate) verify: bool,
}

/// What a message says about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Notice {
    /// It is asked to release.
    Revoked,
    /// The server no longer has it.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_made_together_stay_together_and_hundreds_spread() {
        let pace = Pace {
            steady: Duration::from_millis(1600),
            hurried: Duration::from_millis(800),
        };
        let steady = |number| pace.of(number).steady.as_millis();
        assert_eq!(steady(0), steady(99));
        assert_eq!(steady(100), 1590);
        assert_eq!(steady(1599), 1450, "a tenth sooner at most");
        assert_eq!(steady(1600), steady(0));
    }
}
