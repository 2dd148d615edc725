//! Pauses between attempts: exponential, capped, with jitter, so that competing clients do not stay in step.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

/// The first pause: a few round trips, so that a hiccup costs little.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest pause: short enough to notice soon that a server is back, long enough not to hammer one that is down.
const LONGEST: Duration = Duration::from_millis(500);

/// An endless sequence of pauses.
#[derive(Debug)]
pub(crate) struct Pauses(ExponentialBackoff);

impl Pauses {
    /// A sequence whose jitter is derived from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let row = ExponentialBuilder::new()
            // Jitter adds up to as much again.
            .with_min_delay(SHORTEST / 2)
            .with_max_delay(LONGEST / 2)
            .with_jitter()
            .with_jitter_seed(seed)
            .without_max_times();
        Self(row.build())
    }

    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        self.0.next().unwrap_or(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_never_beyond() {
        let mut pauses = Pauses::new(7);
        let row: Vec<Duration> = (0..200).map(|_| pauses.next()).collect();
        assert!(row[0] <= SHORTEST, "{:?}", row[0]);
        let longest = row.iter().max().copied().unwrap_or_default();
        assert!(longest <= LONGEST && longest > LONGEST / 2, "{longest:?}");
    }
}
