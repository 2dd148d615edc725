//! Who believed to hold when: a record made by the holders themselves, and the check that it was allowed.
//!
//! A holder writes down the grant after it was told of it and the end before it lets go, so what is recorded lies within
//! what was believed: an overlap in the record is an overlap of belief. Moments are boot time and can be compared between
//! the processes of one machine.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Error, Result, bail, ensure};
use lockkeeper_core::clock::{BootClock, Clock, Moment};

/// One time of believing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Belief {
    /// From the grant, nanoseconds.
    pub from: u64,
    /// Until the holder let go, nanoseconds.
    pub until: u64,
    /// The token of the grant.
    pub token: u64,
    /// Who believed.
    pub who: String,
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {}",
            self.from, self.until, self.token, self.who
        )
    }
}

impl FromStr for Belief {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.splitn(4, ' ');
        let mut number =
            || -> Result<u64> { Ok(words.next().context("a belief has four fields")?.parse()?) };
        let (from, until, token) = (number()?, number()?, number()?);
        let who = words.next().context("a belief has four fields")?.to_owned();
        Ok(Self {
            from,
            until,
            token,
            who,
        })
    }
}

/// The present moment for a record, nanoseconds.
pub fn now() -> u64 {
    let elapsed = BootClock
        .now()
        .since(Moment::from_elapsed(std::time::Duration::ZERO));
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// All times of believing in one lock.
#[derive(Debug, Default)]
pub struct History(Mutex<Vec<Belief>>);

impl History {
    /// Writes one down.
    pub fn record(&self, belief: Belief) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(belief);
    }

    /// Checks that nobody believed while another did, and that tokens increase with time; returns how many there were.
    ///
    /// # Errors
    ///
    /// The two that should not have been.
    pub fn check(&self) -> Result<usize> {
        let mut beliefs = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        beliefs.sort_by_key(|belief| belief.from);
        for belief in &beliefs {
            ensure!(belief.from <= belief.until, "time runs backwards: {belief}");
        }
        for pair in beliefs.windows(2) {
            let [earlier, later] = pair else {
                bail!("windows of two have two")
            };
            ensure!(
                earlier.until <= later.from,
                "two believed at once: {earlier} | {later}"
            );
            ensure!(
                earlier.token < later.token,
                "tokens do not increase: {earlier} | {later}"
            );
        }
        Ok(beliefs.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(beliefs: &[(u64, u64, u64)]) -> History {
        let history = History::default();
        for &(from, until, token) in beliefs {
            history.record(Belief {
                from,
                until,
                token,
                who: "a b".to_owned(),
            });
        }
        history
    }

    #[test]
    fn turns_with_increasing_tokens_pass() {
        assert_eq!(history(&[(5, 6, 9), (1, 5, 7)]).check().unwrap(), 2);
    }

    #[test]
    fn an_overlap_is_found() {
        let error = history(&[(1, 5, 7), (4, 6, 9)]).check().unwrap_err();
        assert!(error.to_string().contains("at once"), "{error}");
    }

    #[test]
    fn an_overlap_that_spans_another_is_found() {
        assert!(history(&[(1, 9, 1), (2, 3, 2), (4, 5, 3)]).check().is_err());
    }

    #[test]
    fn a_token_that_does_not_increase_is_found() {
        let error = history(&[(1, 2, 7), (3, 4, 7)]).check().unwrap_err();
        assert!(error.to_string().contains("increase"), "{error}");
    }

    #[test]
    fn a_belief_reads_back_as_written() {
        let belief = Belief {
            from: 1,
            until: 2,
            token: 3,
            who: "pid 7, task 1".to_owned(),
        };
        assert_eq!(belief.to_string().parse::<Belief>().unwrap(), belief);
    }
}
