//! Chance by key: each random number is a function of a seed and of what the number is for, so one draw more or less
//! changes no other draw.

use std::time::Duration;

use fastrand::Rng;

/// What a random number is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The random half of a claim.
    Claim,
    /// The seed of an acquisition.
    Acquisition,
    /// The pauses between the requests of an acquisition.
    Pauses,
    /// An extra wait before a request, so that competing clients do not ask together.
    Jitter,
    /// The pauses of a waiter on several servers before a round that may be in vain.
    Doubts,
    /// How long a waiter on several servers waits for the messages of the others.
    Gather,
}

/// A source of random numbers by key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance {
    seed: u64,
}

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The random number for the `number`th use of a purpose.
    pub(crate) fn draw(self, purpose: Purpose, number: u64) -> u64 {
        let mix = |bits| Rng::with_seed(bits).u64(..);
        mix(mix(self.seed ^ purpose as u64) ^ number)
    }

    /// A random time shorter than `longest`, in whole microseconds.
    pub(crate) fn within(self, longest: Duration, purpose: Purpose, number: u64) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.draw(purpose, number) % micros.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draw_depends_on_seed_purpose_and_number_alone() {
        let chance = Chance::new(7);
        let first = chance.draw(Purpose::Claim, 1);
        assert_ne!(first, Chance::new(8).draw(Purpose::Claim, 1));
        assert_ne!(first, chance.draw(Purpose::Jitter, 1));
        assert_ne!(first, chance.draw(Purpose::Claim, 2));
        assert_eq!(first, chance.draw(Purpose::Claim, 1));
    }

    #[test]
    fn time_stays_within_its_limit() {
        let longest = Duration::from_millis(5);
        let times: Vec<_> = (0..1_000)
            .map(|number| Chance::new(3).within(longest, Purpose::Gather, number))
            .collect();
        assert!(times.iter().all(|time| *time < longest));
        assert!(times.iter().any(|time| *time > longest * 9 / 10));
        let none = Chance::new(3).within(Duration::ZERO, Purpose::Gather, 1);
        assert_eq!(none, Duration::ZERO);
    }
}
