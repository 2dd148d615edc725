//! Who believed to hold when: a record made by the holders themselves, and the check that it was allowed.
//!
//! A holder writes down the grant after it was told of it and the end before it lets go, so what is recorded lies within
//! what was believed: an overlap in the record is an overlap of belief. Moments are boot time and can be compared between
//! the processes of one machine.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Error, Result, bail, ensure};
use lockkeeper::Lease;
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
    /// Whether others may believe the same beside it, with the same token.
    pub shared: bool,
    /// Who believed.
    pub who: String,
}

impl Belief {
    /// What the holder of this lease believes, who was told so at `from`.
    ///
    /// # Errors
    ///
    /// If it does not believe any more.
    pub fn until_now(from: u64, lease: &Lease, shared: bool, who: String) -> Result<Self> {
        // Read before the look, which says that it was true then.
        let until = now();
        lease.ensure_held()?;
        Ok(Self {
            from,
            until,
            token: lease.fencing_token().get(),
            shared,
            who,
        })
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            until,
            token,
            shared,
            who,
        } = self;
        write!(f, "{from} {until} {token} {shared} {who}")
    }
}

impl FromStr for Belief {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        let [from, until, token, shared, who] = words[..] else {
            bail!("a belief has five fields: {line}")
        };
        Ok(Self {
            from: from.parse()?,
            until: until.parse()?,
            token: token.parse()?,
            shared: shared.parse()?,
            who: who.to_owned(),
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

/// What a server that has lost what it granted explains.
pub trait Excuses {
    /// Whether the two may have believed at once: what the earlier one was granted is lost. Its token is the smaller one.
    fn at_once(&self, earlier: &Belief, later: &Belief) -> bool;

    /// Whether the later one, who shares its token, may have joined others with it whom the server remembers although they
    /// have left: what the earlier one was granted since is lost. Its token is the larger one.
    fn joins(&self, earlier: &Belief, later: &Belief) -> bool;
}

/// Nothing is excused.
impl Excuses for () {
    fn at_once(&self, _: &Belief, _: &Belief) -> bool {
        false
    }

    fn joins(&self, _: &Belief, _: &Belief) -> bool {
        false
    }
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

    /// Checks that nobody believed while another did, unless they share a token, and that tokens increase with time; returns
    /// how many there were.
    ///
    /// # Errors
    ///
    /// The two that should not have been.
    pub fn check(&self) -> Result<usize> {
        self.check_unless(&())
    }

    /// The same, but for what is excused.
    ///
    /// # Errors
    ///
    /// As for [`check`](Self::check).
    pub fn check_unless(&self, excuses: &impl Excuses) -> Result<usize> {
        let mut beliefs = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        beliefs.sort_by_key(|belief| belief.from);
        let mut going_on: Vec<&Belief> = Vec::new();
        // Of those that are over, the one with the largest token, and the same of those that shared theirs with nobody.
        let (mut last, mut last_alone): (Option<&Belief>, Option<&Belief>) = (None, None);
        for belief in &beliefs {
            ensure!(belief.from <= belief.until, "time runs backwards: {belief}");
            for over in going_on.extract_if(.., |earlier| earlier.until <= belief.from) {
                last = last.max_by_token(over);
                if !over.shared {
                    last_alone = last_alone.max_by_token(over);
                }
            }
            let joins = |before: &Belief| {
                belief.shared && belief.token < before.token && excuses.joins(before, belief)
            };
            for earlier in &going_on {
                let together = earlier.shared && belief.shared && earlier.token == belief.token
                    || earlier.token < belief.token && excuses.at_once(earlier, belief)
                    || joins(earlier);
                ensure!(together, "two believed at once: {earlier} | {belief}");
            }
            let increases = last_alone
                .is_none_or(|alone| alone.token < belief.token || joins(alone))
                && last.is_none_or(|last| {
                    let together = belief.shared && last.token == belief.token;
                    last.token < belief.token || together || joins(last)
                });
            ensure!(
                increases,
                "tokens do not increase: {} | {belief}",
                last.unwrap_or(belief)
            );
            going_on.push(belief);
        }
        Ok(beliefs.len())
    }
}

/// The later of two times of believing, by their tokens.
trait Later<'a> {
    fn max_by_token(self, other: &'a Belief) -> Self;
}

impl<'a> Later<'a> for Option<&'a Belief> {
    fn max_by_token(self, other: &'a Belief) -> Self {
        self.into_iter().chain([other]).max_by_key(|it| it.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(beliefs: &[(u64, u64, u64)]) -> History {
        let alone = |&(from, until, token): &(u64, u64, u64)| (from, until, token, false);
        mixed(&beliefs.iter().map(alone).collect::<Vec<_>>())
    }

    fn mixed(beliefs: &[(u64, u64, u64, bool)]) -> History {
        let history = History::default();
        for &(from, until, token, shared) in beliefs {
            history.record(Belief {
                from,
                until,
                token,
                shared,
                who: "a b".to_owned(),
            });
        }
        history
    }

    #[test]
    fn those_who_share_a_token_may_believe_together() {
        let readers = [(1, 5, 7, true), (2, 9, 7, true), (6, 8, 7, true)];
        assert_eq!(mixed(&readers).check().unwrap(), 3);
        assert!(mixed(&[(1, 5, 7, true), (2, 9, 8, true)]).check().is_err());
        assert!(mixed(&[(1, 5, 7, true), (2, 9, 7, false)]).check().is_err());
        assert!(
            mixed(&[(1, 9, 7, true), (2, 3, 7, true), (4, 5, 8, false)])
                .check()
                .is_err()
        );
    }

    #[test]
    fn whoever_believes_alone_shares_no_token_with_whom_comes_before_or_after() {
        assert!(mixed(&[(1, 2, 7, true), (3, 4, 7, true)]).check().is_ok());
        assert!(mixed(&[(1, 2, 7, false), (3, 4, 7, true)]).check().is_err());
        assert!(mixed(&[(1, 2, 7, true), (3, 4, 7, false)]).check().is_err());
        assert!(mixed(&[(1, 2, 8, true), (3, 4, 7, true)]).check().is_err());
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

    /// What was granted with token 8 is lost before the moment 5.
    struct Lost;

    impl Excuses for Lost {
        fn at_once(&self, earlier: &Belief, later: &Belief) -> bool {
            earlier.token == 8 && later.from >= 5
        }

        fn joins(&self, earlier: &Belief, later: &Belief) -> bool {
            self.at_once(earlier, later)
        }
    }

    #[test]
    fn whoever_shares_may_be_excused_for_an_old_token_and_nobody_else() {
        for until in [4, 9] {
            let joined = [(1, 2, 7, true), (3, until, 8, false), (5, 6, 7, true)];
            mixed(&joined).check().unwrap_err();
            assert_eq!(mixed(&joined).check_unless(&Lost).unwrap(), 3);
            let too_soon = [(1, 2, 7, true), (3, 4, 8, false), (4, 6, 7, true)];
            mixed(&too_soon).check_unless(&Lost).unwrap_err();
            let alone = [(1, 2, 7, false), (3, until, 8, false), (5, 6, 7, false)];
            mixed(&alone).check_unless(&Lost).unwrap_err();
            let with_its_token = [(3, until, 8, false), (5, 6, 8, true)];
            mixed(&with_its_token).check_unless(&Lost).unwrap_err();
        }
    }

    #[test]
    fn a_belief_reads_back_as_written() {
        let belief = Belief {
            from: 1,
            until: 2,
            token: 3,
            shared: true,
            who: "pid 7, task 1".to_owned(),
        };
        assert_eq!(belief.to_string().parse::<Belief>().unwrap(), belief);
    }
}
