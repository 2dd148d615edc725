//! Decides when to ask a program to stop and when to kill it, from the time that is left to its lock. Pure.

use std::time::Duration;

use crate::args::{OnLost, Run};
use crate::exit::Failure;

/// The default grace: how long before the end of a lease its program is asked to stop. Enough for most programs to save their
/// files.
const GRACE: Duration = Duration::from_secs(5);

/// The grace may be at most one part in this many of the lease. A renewal is sent after a third of the lease and takes at most a
/// sixth, so there is time to repeat one before the program is stopped.
const LEAST_PARTS: u32 = 3;

/// The longest grace. `super::LEADS_PER_WAITER_TTL` times this must fit into a year.
const MOST_GRACE: Duration = Duration::from_secs(60 * 86_400);

/// The kill is sent at least this long before the end of the lease. A kill takes effect within milliseconds; this allows for a
/// busy machine and many processes.
const LEAST_RESERVE: Duration = Duration::from_millis(50);
const MOST_RESERVE: Duration = Duration::from_millis(250);

/// The times of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    on_lost: OnLost,
    /// From the request to stop to the end of the lease.
    grace: Duration,
    /// From the kill to the end of the lease.
    reserve: Duration,
}

/// What to do with the program now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing for this long, unless the lock is lost.
    Look(Duration),
    /// Ask it to stop, and kill it after this time.
    Terminate(Duration),
    /// Kill it.
    Kill,
    /// Nothing, whatever happens.
    Leave,
}

impl Plan {
    pub(crate) fn new(options: &Run) -> Result<Self, Failure> {
        let ttl = options.ttl;
        let grace = options.grace.unwrap_or_else(|| GRACE.min(ttl / 6));
        let reserve = (grace / 5).clamp(LEAST_RESERVE, MOST_RESERVE);
        let plan = Self {
            on_lost: options.on_lost,
            grace,
            reserve,
        };
        let lead = plan.lead();
        let [most, shown] = [ttl / LEAST_PARTS, lead].map(humantime::format_duration);
        if lead > ttl / LEAST_PARTS {
            let ttl = humantime::format_duration(ttl);
            return Err(Failure::usage(format!(
                "a grace of {shown} does not fit a ttl of {ttl}: it may be at most a third of the ttl, {most}, so that a failed renewal \
                 is repeated before the program is stopped; choose a longer --ttl or a shorter --grace"
            )));
        }
        if lead > MOST_GRACE {
            let days = MOST_GRACE.as_secs() / 86_400;
            return Err(Failure::usage(format!(
                "a grace of {shown} is too long: at most {days} days are allowed"
            )));
        }
        if let Some(longest) = options.max_hold.filter(|longest| *longest <= lead) {
            let longest = humantime::format_duration(longest);
            return Err(Failure::usage(format!(
                "a --max-hold of {longest} is no longer than the grace of {shown}: the program would be stopped at once"
            )));
        }
        Ok(plan)
    }

    /// How much of the lease is left when something must be done.
    pub(crate) fn lead(&self) -> Duration {
        self.grace.max(self.reserve)
    }

    /// Returns what to do while the lock has this much time left. With `lost`, the lock was lost before its time.
    pub(crate) fn step(&self, left: Duration, lost: bool) -> Step {
        match self.on_lost {
            OnLost::Ignore => Step::Leave,
            OnLost::Kill if lost || left <= self.reserve => Step::Kill,
            OnLost::Kill => Step::Look(left - self.reserve),
            OnLost::Terminate if lost || left <= self.lead() => {
                match left.min(self.grace).checked_sub(self.reserve) {
                    None | Some(Duration::ZERO) => Step::Kill,
                    Some(kill) => Step::Terminate(kill),
                }
            }
            OnLost::Terminate => Step::Look(left - self.lead()),
        }
    }

    /// Returns how long processes that a program left behind may take to stop while the lock has this much time left.
    pub(crate) fn tidy(&self, left: Duration) -> Duration {
        left.min(self.grace).saturating_sub(self.reserve)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Arguments, Command};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn plan(words: &str) -> Result<Plan, Failure> {
        let words = format!("lockkeeper run --lock x {words} -- true");
        let arguments = Arguments::try_parse_from(words.split_whitespace()).unwrap();
        match arguments.command {
            Command::Run(options) => Plan::new(&options),
            _ => panic!("{words}"),
        }
    }

    #[test]
    fn a_program_is_asked_first_and_killed_while_the_lease_lasts() {
        let plan = plan("--ttl 30s --grace 5s").unwrap();
        assert_eq!(plan.step(MS(20_000), false), Step::Look(MS(15_000)));
        assert_eq!(plan.step(MS(5_000), false), Step::Terminate(MS(4_750)));
        assert_eq!(plan.step(MS(250), false), Step::Kill);
        assert_eq!(plan.step(MS(0), true), Step::Kill);
        // A lock that is revoked early leaves the whole grace, but no more. One that is lost late leaves the rest of the lease.
        assert_eq!(plan.step(MS(20_000), true), Step::Terminate(MS(4_750)));
        assert_eq!(plan.step(MS(1_000), true), Step::Terminate(MS(750)));
    }

    #[test]
    fn a_program_without_grace_is_killed_in_time() {
        let plan = plan("--ttl 3s --grace 0s").unwrap();
        assert_eq!(plan.step(MS(51), false), Step::Look(MS(1)));
        assert_eq!(plan.step(MS(50), false), Step::Kill);
        assert_eq!(plan.step(MS(2_000), true), Step::Kill);
    }

    #[test]
    fn what_is_to_be_done_is_as_asked() {
        let kill = plan("--on-lost kill").unwrap();
        assert_eq!(kill.step(MS(5_000), false), Step::Look(MS(4_750)));
        assert_eq!(kill.step(MS(5_000), true), Step::Kill);
        let ignore = plan("--on-lost ignore").unwrap();
        assert_eq!(ignore.step(MS(0), true), Step::Leave);
    }

    #[test]
    fn times_that_do_not_fit_are_refused_with_a_reason() {
        for (words, reason) in [
            ("--ttl 12s --grace 4001ms", "does not fit a ttl of 12s"),
            ("--ttl 360d --grace 61d", "at most 60 days"),
            ("--ttl 100ms", "does not fit a ttl of 100ms"),
            ("--max-hold 5s", "no longer than the grace of 5s"),
        ] {
            let failure = plan(words).unwrap_err();
            assert_eq!(failure.code, crate::exit::USAGE);
            assert!(format!("{failure:?}").contains(reason), "{failure:?}");
        }
        plan("--ttl 12s --grace 4s").unwrap();
        plan("--ttl 3s").unwrap();
    }
}
