//! A record of when each lease was valid, written by the holders themselves, and a check that no two overlap wrongly.
//!
//! A holder records the grant after it learns of it, and the end before it releases. So the record lies within the time in which
//! the lease was valid, and an overlap in the record is an overlap of leases. Moments are boot time, so processes on one machine
//! can be compared.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, bail, ensure};
use lockkeeper::Lease;
use lockkeeper_core::clock::{BootClock, Clock, Moment};
use parking_lot::Mutex;

/// A time span in which a lease was valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidSpan {
    /// From the grant, nanoseconds.
    pub from: u64,
    /// Until the holder released, nanoseconds.
    pub until: u64,
    /// The token of the grant.
    pub token: u64,
    /// Whether others may hold beside it, with the same token.
    pub shared: bool,
    /// The holder's name.
    pub holder: String,
}

impl ValidSpan {
    /// The span of this lease until now; its holder learned of the grant at `from`.
    ///
    /// # Errors
    ///
    /// If the lease is no longer valid.
    pub fn until_now(from: u64, lease: &Lease, shared: bool, holder: String) -> Result<Self> {
        // Read before the check, which shows that the lease was still valid at that moment.
        let until = now();
        lease.ensure_held()?;
        Ok(Self {
            from,
            until,
            token: lease.fencing_token().get(),
            shared,
            holder,
        })
    }
}

impl fmt::Display for ValidSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            until,
            token,
            shared,
            holder,
        } = self;
        write!(f, "{from} {until} {token} {shared} {holder}")
    }
}

impl FromStr for ValidSpan {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        let [from, until, token, shared, holder] = words[..] else {
            bail!("a line has five fields: {line}")
        };
        Ok(Self {
            from: from.parse()?,
            until: until.parse()?,
            token: token.parse()?,
            shared: shared.parse()?,
            holder: holder.to_owned(),
        })
    }
}

/// The current moment for a record, nanoseconds.
pub fn now() -> u64 {
    let elapsed = BootClock
        .now()
        .since(Moment::from_elapsed(std::time::Duration::ZERO));
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Explains violations by a server that has lost grants.
pub trait Excuses {
    /// Whether the two may have been valid at the same time, because the server lost the earlier one's grant. The earlier one has
    /// the smaller token.
    fn at_once(&self, earlier: &ValidSpan, later: &ValidSpan) -> bool;

    /// Whether the later one, whose token is shared, may have joined released holders of that token which the server still
    /// remembers, because it lost the earlier one's grant since. The earlier one has the larger token.
    fn joins(&self, earlier: &ValidSpan, later: &ValidSpan) -> bool;
}

/// Excuses nothing.
impl Excuses for () {
    fn at_once(&self, _: &ValidSpan, _: &ValidSpan) -> bool {
        false
    }

    fn joins(&self, _: &ValidSpan, _: &ValidSpan) -> bool {
        false
    }
}

/// All spans in which leases of one lock were valid.
#[derive(Debug, Default)]
pub struct History(Mutex<Vec<ValidSpan>>);

impl History {
    /// Records a span.
    pub fn record(&self, span: ValidSpan) {
        self.0.lock().push(span);
    }

    /// The number of spans so far.
    pub fn spans(&self) -> usize {
        self.0.lock().len()
    }

    /// Checks that no two leases were valid at the same time, unless they share a token, and that tokens increase with time.
    /// Returns the number of leases.
    ///
    /// # Errors
    ///
    /// The first two that violate this.
    pub fn check(&self) -> Result<usize> {
        self.check_unless(&())
    }

    /// The same, except for what `excuses` allows.
    ///
    /// # Errors
    ///
    /// As for [`check`](Self::check).
    pub fn check_unless(&self, excuses: &impl Excuses) -> Result<usize> {
        let mut spans = self.0.lock().clone();
        spans.sort_by_key(|span| span.from);
        let mut going_on: Vec<&ValidSpan> = Vec::new();
        // Of the spans that have ended: the one with the largest token, and the one with the largest token that was not shared.
        let (mut last, mut last_alone): (Option<&ValidSpan>, Option<&ValidSpan>) = (None, None);
        for span in &spans {
            ensure!(span.from <= span.until, "time runs backwards: {span}");
            for over in going_on.extract_if(.., |earlier| earlier.until <= span.from) {
                last = last.max_by_token(over);
                if !over.shared {
                    last_alone = last_alone.max_by_token(over);
                }
            }
            let joins = |before: &ValidSpan| {
                span.shared && span.token < before.token && excuses.joins(before, span)
            };
            for earlier in &going_on {
                let together = earlier.shared && span.shared && earlier.token == span.token
                    || earlier.token < span.token && excuses.at_once(earlier, span)
                    || joins(earlier);
                ensure!(together, "two valid at once: {earlier} | {span}");
            }
            let increases = last_alone.is_none_or(|alone| alone.token < span.token || joins(alone))
                && last.is_none_or(|last| {
                    let together = span.shared && last.token == span.token;
                    last.token < span.token || together || joins(last)
                });
            ensure!(
                increases,
                "tokens do not increase: {} | {span}",
                last.unwrap_or(span)
            );
            going_on.push(span);
        }
        Ok(spans.len())
    }
}

/// The later of two, by their tokens.
trait Later<'a> {
    fn max_by_token(self, other: &'a ValidSpan) -> Self;
}

impl<'a> Later<'a> for Option<&'a ValidSpan> {
    fn max_by_token(self, other: &'a ValidSpan) -> Self {
        self.into_iter().chain([other]).max_by_key(|it| it.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(spans: &[(u64, u64, u64)]) -> History {
        let alone = |&(from, until, token): &(u64, u64, u64)| (from, until, token, false);
        mixed(&spans.iter().map(alone).collect::<Vec<_>>())
    }

    fn mixed(spans: &[(u64, u64, u64, bool)]) -> History {
        let history = History::default();
        for &(from, until, token, shared) in spans {
            history.record(ValidSpan {
                from,
                until,
                token,
                shared,
                holder: "a b".to_owned(),
            });
        }
        history
    }

    #[test]
    fn holders_that_share_a_token_may_be_valid_together() {
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
    fn a_holder_alone_shares_no_token_with_those_before_or_after_it() {
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

    /// Grants with token 8 are lost before moment 5.
    struct Lost;

    impl Excuses for Lost {
        fn at_once(&self, earlier: &ValidSpan, later: &ValidSpan) -> bool {
            earlier.token == 8 && later.from >= 5
        }

        fn joins(&self, earlier: &ValidSpan, later: &ValidSpan) -> bool {
            self.at_once(earlier, later)
        }
    }

    #[test]
    fn a_holder_that_shares_may_be_excused_for_an_old_token_and_no_other() {
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
    fn a_span_reads_back_as_written() {
        let span = ValidSpan {
            from: 1,
            until: 2,
            token: 3,
            shared: true,
            holder: "pid 7, task 1".to_owned(),
        };
        assert_eq!(span.to_string().parse::<ValidSpan>().unwrap(), span);
    }
}
