//! What is to be done for a claim, and when, in the words of those who decide it, keep it in order and do it.

use std::time::Duration;

use crate::words::moment::Moment;

/// Claims granted one after the other share a bucket, so that they are renewed together.
const BUCKET: u64 = 100;

/// Into how many phases the buckets are spread: after everything was due at once, it is not for ever.
const PHASES: u64 = 16;

/// A claim's number among those of its client, in the order in which they were made.
pub(crate) type Number = u64;

/// How soon a claim says again that it lives, counted from the send of the request before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pace {
    /// After a request that was answered.
    pub(crate) steady: Duration,
    /// After one that was not.
    pub(crate) hurried: Duration,
}

impl Pace {
    /// That of the claim with this number: a little sooner in each phase, by a tenth at most.
    pub(crate) fn of(self, number: u64) -> Self {
        let phase = u32::try_from(number / BUCKET % PHASES).unwrap_or_default();
        Self {
            steady: self.steady - self.steady / 160 * phase,
            ..self
        }
    }
}

/// What is to be done for a claim, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Agenda {
    /// Messages may speak of it: it has been asked for, and has not ended.
    pub(crate) known: bool,
    /// When the request that keeps it is to be sent; `None` while one is on its way.
    pub(crate) due: Option<Moment>,
    /// The steady time between two such requests.
    pub(crate) interval: Duration,
    /// When its time is over.
    pub(crate) deadline: Option<Moment>,
    /// The server is to be asked now whether it holds.
    pub(crate) verify: bool,
}

/// What a message says of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Notice {
    /// It is to leave.
    Revoked,
    /// The server does not have it any more.
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
