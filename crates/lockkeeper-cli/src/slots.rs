//! The slots of a job. Its program runs once in each slot, and this module decides which slots are due. Pure.

use std::time::{Duration, SystemTime};

use clap::{ArgGroup, Args};

use crate::args::{Run, time};
use crate::exit::Failure;
use crate::history::{Entry, History, MOST};

const DAY: u64 = 86_400;

/// The longest time for which an outcome can be stored.
const LONGEST: Duration = Duration::from_secs(366 * DAY);

/// The default of `--history`: a month of nights, enough to see how the month went.
const HISTORY: Duration = Duration::from_secs(30 * DAY);

/// The Monday from which slots are counted: 1970-01-05, in seconds. So weekly slots begin on Mondays.
const MONDAY: i64 = 4 * DAY.cast_signed();

/// The longest text of a slot, in bytes: the same as for a label.
const LONGEST_TEXT: usize = 256;

/// Options for a program that runs once per slot.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("once").args(["once_per", "slot"])))]
pub(crate) struct SlotOptions {
    /// Run once in each period of this length, on the first machine to start it: 1d, 1h, 15m, 1w. Periods are UTC, by this machine's
    /// clock. If the period's run is done, exit with 0 and run nothing; if it is in progress, wait for it
    #[arg(long, value_name = "TIME", value_parser = time, requires = "locks")]
    #[arg(conflicts_with_all = ["fair", "reenter", "shared", "exclusive", "semaphore", "min_hold"])]
    pub(crate) once_per: Option<Duration>,

    /// The same, with a slot that you name yourself instead of a period: run once for this text
    #[arg(long, value_name = "TEXT", requires = "locks")]
    #[arg(conflicts_with_all = ["fair", "reenter", "shared", "exclusive", "semaphore", "min_hold"])]
    pub(crate) slot: Option<String>,

    /// First run the periods missed since the last one that is done: the newest N, oldest first
    #[arg(long, value_name = "N", requires = "once_per", default_value_t = 0)]
    pub(crate) catch_up: u32,

    /// Do not retry a slot whose program failed until this time has passed; by default the next run tries again at once
    #[arg(long, value_name = "TIME", value_parser = time, requires = "once")]
    pub(crate) retry_after: Option<Duration>,

    /// How long to store the outcome of each slot, for the newest 100 slots; `lockkeeper history` shows them [default: 30d]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "once")]
    pub(crate) history: Option<Duration>,
}

/// The slots of a run, at one moment.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The current slot.
    current: String,
    /// `None` if the slot is a text chosen by the user.
    period: Option<Period>,
    retry_after: Duration,
    /// How long the outcome of a slot is stored.
    pub(crate) keep: Duration,
}

/// The periods of a job. All times are in whole seconds.
#[derive(Debug, Clone, Copy)]
struct Period {
    length: i64,
    /// When the current period began.
    start: i64,
    catch_up: u32,
}

/// What to do about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    /// Run its program for this slot.
    Run(String),
    /// Nothing: this is the outcome of the current slot.
    Done(Entry),
    /// Nothing until this time has passed: the current slot failed in this way.
    Later(Entry, Duration),
}

impl Slots {
    /// `None` if no option asks for slots.
    pub(crate) fn new(options: &Run, now: SystemTime) -> Result<Option<Self>, Failure> {
        let SlotOptions {
            once_per,
            slot,
            catch_up,
            retry_after,
            history,
        } = &options.slots;
        let (current, period) = match (once_per, slot) {
            (Some(length), _) => {
                let period = Period::new(*length, *catch_up, now)?;
                (text(period.start), Some(period))
            }
            // Checked here, because the parser of the command line does not require an option that another one excludes.
            (_, Some(_)) if *catch_up > 0 => {
                return Err(Failure::usage(
                    "--catch-up counts periods, so it needs --once-per and cannot be used with --slot",
                ));
            }
            (_, Some(slot)) if slot.is_empty() || slot.len() > LONGEST_TEXT => {
                return Err(Failure::usage(format!(
                    "a --slot needs 1 to {LONGEST_TEXT} bytes, and this one has {}",
                    slot.len()
                )));
            }
            (_, Some(slot)) => (slot.clone(), None),
            (None, None) => return Ok(None),
        };
        if options.locks.iter().any(|name| *name != options.locks[0]) {
            return Err(Failure::usage(
                "slots belong to one job: use exactly one --lock, the name of the job",
            ));
        }
        let slots = Self {
            current,
            period,
            retry_after: retry_after.unwrap_or_default(),
            keep: history.unwrap_or(HISTORY),
        };
        slots.check()?;
        Ok(Some(slots))
    }

    fn check(&self) -> Result<(), Failure> {
        let [keep, retry] = [self.keep, self.retry_after].map(humantime::format_duration);
        if self.keep < Duration::from_secs(1) || self.keep > LONGEST {
            return Err(Failure::usage(format!(
                "a --history of {keep} is not allowed: choose 1s to 366d"
            )));
        }
        let needed = self.period.map(|it| it.span()).unwrap_or_default();
        if self.keep < needed {
            let needed = humantime::format_duration(needed);
            return Err(Failure::usage(format!(
                "a --history of {keep} is too short: a slot that is done would be forgotten and run again; at least {needed} are needed"
            )));
        }
        if self.retry_after > self.keep {
            return Err(Failure::usage(format!(
                "a --retry-after of {retry} is longer than the --history of {keep}, after which the failure is forgotten"
            )));
        }
        Ok(())
    }

    /// Returns what to do next, according to the history and to the slots that the run has already tried.
    pub(crate) fn due(&self, history: &History, tried: &[String], now: SystemTime) -> Due {
        let stands = |slot: &str| {
            let entry = history.entry(slot)?.clone();
            if entry.is_done() {
                return Some(Due::Done(entry));
            }
            let left = self.retry_after.saturating_sub(entry.age(now));
            (!left.is_zero()).then_some(Due::Later(entry, left))
        };
        let missed = self.period.map(|it| it.missed(history)).unwrap_or_default();
        let is_due = |slot: &String| !tried.contains(slot) && stands(slot).is_none();
        match missed.into_iter().find(is_due) {
            Some(slot) => Due::Run(slot),
            None => stands(&self.current).unwrap_or_else(|| Due::Run(self.current.clone())),
        }
    }

    /// Whether this is the last slot.
    pub(crate) fn ends_with(&self, slot: &str) -> bool {
        self.current == slot
    }
}

impl Period {
    fn new(length: Duration, catch_up: u32, now: SystemTime) -> Result<Self, Failure> {
        let (seconds, shown) = (length.as_secs(), humantime::format_duration(length));
        if length.subsec_nanos() > 0 || seconds == 0 || length > LONGEST {
            return Err(Failure::usage(format!(
                "a --once-per of {shown} is not allowed: choose whole seconds up to 366d"
            )));
        }
        if !DAY.is_multiple_of(seconds) && !seconds.is_multiple_of(DAY) {
            return Err(Failure::usage(format!(
                "a --once-per of {shown} would start at a different time every day: choose a period that divides a day, such as 6h, or whole days"
            )));
        }
        if usize::try_from(catch_up).is_ok_and(|slots| slots >= MOST) {
            return Err(Failure::usage(format!(
                "--catch-up is at most {}: no more than {MOST} slots are stored",
                MOST - 1
            )));
        }
        let now = now.duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_err(|_| Failure::usage("the clock of this machine is before 1970"))?;
        let period = Self {
            length: seconds.cast_signed(),
            start: 0,
            catch_up,
        };
        Ok(Self {
            start: period.cut(now.as_secs().cast_signed()),
            ..period
        })
    }

    /// The start of the period that contains this moment.
    fn cut(self, moment: i64) -> i64 {
        moment - (moment - MONDAY).rem_euclid(self.length)
    }

    /// How long it is from the start of the first period that can be caught up with to the end of the current one.
    fn span(self) -> Duration {
        let periods = i64::from(self.catch_up) + 1;
        Duration::from_secs((self.length * periods).unsigned_abs())
    }

    /// Returns the newest periods between the last one that is done and the current one, oldest first. A job that was never done
    /// has missed none.
    fn missed(self, history: &History) -> Vec<String> {
        let done = history.entries().iter().filter(|entry| entry.is_done());
        let begun = done.filter_map(|entry| moment(&entry.slot));
        let Some(last) = begun.filter(|begun| *begun < self.start).max() else {
            return Vec::new();
        };
        let oldest = self.start - i64::from(self.catch_up) * self.length;
        let first = oldest.max(self.cut(last) + self.length);
        let starts = (0..i64::from(self.catch_up)).map(|slot| first + slot * self.length);
        starts
            .take_while(|start| *start < self.start)
            .map(text)
            .collect()
    }
}

/// The name of the slot that begins at this moment.
fn text(start: i64) -> String {
    let start = Duration::from_secs(start.max(0).unsigned_abs());
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + start).to_string()
}

/// Returns when a slot begins, if its name comes from [`text`].
fn moment(slot: &str) -> Option<i64> {
    let start = humantime::parse_rfc3339(slot).ok()?;
    let start = start.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(start.as_secs().cast_signed())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Arguments, Command};

    /// A Tuesday.
    const NOW: &str = "2026-11-24T15:37:12Z";

    fn slots(words: &str) -> Result<Option<Slots>, Failure> {
        let words = format!("lockkeeper run --lock nightly {words} -- true");
        let arguments = Arguments::try_parse_from(words.split_whitespace());
        match arguments
            .map_err(|error| Failure::usage(error.to_string()))?
            .command
        {
            Command::Run(options) => Slots::new(&options, time_of(NOW)),
            _ => panic!("{words}"),
        }
    }

    fn time_of(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).unwrap()
    }

    /// A history of these slots, with the exit code of each.
    fn history(slots: &[(&str, u8)]) -> History {
        slots
            .iter()
            .fold(History::default(), |history, (slot, code)| {
                let entry = Entry {
                    slot: (*slot).to_owned(),
                    code: *code,
                    start: NOW.to_owned(),
                    end: NOW.to_owned(),
                    label: "db1:7".to_owned(),
                    fence: 9,
                    runs: 1,
                };
                history.with(entry, LONGEST, time_of(NOW))
            })
    }

    /// All slots that a run tries, one after the other, if every program succeeds.
    fn all_due(slots: &Slots, history: &History) -> Vec<String> {
        let mut tried = Vec::new();
        while let Due::Run(slot) = slots.due(history, &tried, time_of(NOW)) {
            let last = slots.ends_with(&slot);
            tried.push(slot);
            if last {
                break;
            }
        }
        tried
    }

    #[test]
    fn a_slot_is_the_time_cut_down_to_the_period() {
        for (period, slot) in [
            ("1d", "2026-11-24T00:00:00Z"),
            ("1h", "2026-11-24T15:00:00Z"),
            ("15m", "2026-11-24T15:30:00Z"),
            ("1s", NOW),
            // It starts on a Monday.
            ("1w", "2026-11-23T00:00:00Z"),
        ] {
            let slots = slots(&format!("--once-per {period}")).unwrap().unwrap();
            assert_eq!(slots.current, slot, "{period}");
            assert_eq!(all_due(&slots, &History::default()), [slot]);
        }
        assert!(slots("").unwrap().is_none());
    }

    #[test]
    fn what_is_done_is_not_due_and_what_has_failed_is_not_before_its_time() {
        let slots = |words: &str| slots(words).unwrap().unwrap();
        let at = |text: &str| time_of(text);
        let (done, failed) = (history(&[("a", 0)]), history(&[("a", 3)]));
        let plain = slots("--slot a");
        assert!(matches!(plain.due(&done, &[], at(NOW)), Due::Done(entry) if entry.slot == "a"));
        assert_eq!(plain.due(&failed, &[], at(NOW)), Due::Run("a".to_owned()));
        let other = slots("--slot b");
        assert_eq!(other.due(&done, &[], at(NOW)), Due::Run("b".to_owned()));

        let patient = slots("--slot a --retry-after 1m");
        let soon = at("2026-11-24T15:37:42Z");
        assert!(
            matches!(patient.due(&failed, &[], soon), Due::Later(_, left) if left.as_secs() == 30)
        );
        let later = at("2026-11-24T15:38:12Z");
        assert_eq!(patient.due(&failed, &[], later), Due::Run("a".to_owned()));
        // If this machine's clock is behind, the time left is still at most a minute.
        let behind = at("2026-11-24T14:00:00Z");
        assert!(
            matches!(patient.due(&failed, &[], behind), Due::Later(_, left) if left.as_secs() == 60)
        );
    }

    #[test]
    fn the_newest_that_were_missed_are_caught_up_with_in_order() {
        let due = |catch_up: u32, of: &[(&str, u8)]| {
            let words = format!("--once-per 1d --catch-up {catch_up}");
            let due = all_due(&slots(&words).unwrap().unwrap(), &history(of));
            let day = |slot: &String| slot[8..10].parse().unwrap();
            due.iter().map(day).collect::<Vec<u32>>()
        };
        let days = |days: &[(u32, u8)]| -> Vec<(String, u8)> {
            let slot = |(day, code): &(u32, u8)| (format!("2026-11-{day:02}T00:00:00Z"), *code);
            days.iter().map(slot).collect()
        };
        let due = |catch_up, of: &[(u32, u8)]| {
            let of = days(of);
            let of: Vec<_> = of.iter().map(|(slot, code)| (&**slot, *code)).collect();
            due(catch_up, &of)
        };
        assert_eq!(due(3, &[(20, 0)]), [21, 22, 23, 24]);
        assert_eq!(due(2, &[(20, 0)]), [22, 23, 24]);
        assert_eq!(due(0, &[(20, 0)]), [24]);
        assert_eq!(due(9, &[(20, 0)]), [21, 22, 23, 24]);
        // A failed slot counts as missed. Slots that were skipped before the last one that is done do not.
        assert_eq!(due(9, &[(18, 0), (20, 0), (22, 1)]), [21, 22, 23, 24]);
        assert_eq!(due(9, &[(20, 0), (24, 0)]), [21, 22, 23]);
        // Nothing is known about earlier slots.
        assert_eq!(due(9, &[]), [24]);
        assert_eq!(due(9, &[(22, 1)]), [24]);
        // The clock of another machine is ahead.
        assert_eq!(due(9, &[(25, 0)]), [24]);
    }

    #[test]
    fn another_period_and_texts_of_others_do_not_confuse_it() {
        let slots = slots("--once-per 1h --catch-up 2").unwrap().unwrap();
        let of = history(&[
            ("2026-11-24T00:00:00Z", 0),
            ("by hand", 0),
            ("2026-11-24T14:15:00Z", 1),
        ]);
        let hours = [
            "2026-11-24T13:00:00Z",
            "2026-11-24T14:00:00Z",
            "2026-11-24T15:00:00Z",
        ];
        assert_eq!(all_due(&slots, &of), hours);
    }

    #[test]
    fn options_that_do_not_fit_are_refused_with_a_reason() {
        for (words, reason) in [
            ("--once-per 0s", "whole seconds up to 366d"),
            ("--once-per 1500ms", "whole seconds up to 366d"),
            ("--once-per 400d", "whole seconds up to 366d"),
            ("--once-per 7h", "divides a day"),
            ("--once-per 1month", "divides a day"),
            ("--once-per 1d --slot a", "cannot be used with"),
            ("--once-per 1d --catch-up 100", "at most 99"),
            ("--once-per 1d --history 23h", "1day are needed"),
            (
                "--once-per 1d --catch-up 6 --history 6d",
                "7days are needed",
            ),
            ("--once-per 1d --history 367d", "1s to 366d"),
            ("--slot a --history 0s", "1s to 366d"),
            (
                "--slot a --history 1h --retry-after 2h",
                "longer than the --history",
            ),
            ("--slot a --catch-up 1", "--once-per"),
            ("--slot=", "1 to 256 bytes"),
            (&format!("--slot {}", "x".repeat(257)), "this one has 257"),
            ("--once-per soon", "--once-per"),
            ("--once-per=-1d", "--once-per"),
            ("--once-per 1d --catch-up=-1", "--catch-up"),
            ("--slot a --retry-after 31d", "--retry-after"),
            ("--slot a --lock other", "one job"),
            ("--history 1d", "--once-per"),
            ("--retry-after 1d", "--once-per"),
            ("--once-per 1d --fair", "cannot be used with"),
            ("--once-per 1d --reenter", "cannot be used with"),
            ("--once-per 1d --shared", "cannot be used with"),
            ("--slot a --exclusive", "cannot be used with"),
            ("--slot a --min-hold 1m", "cannot be used with"),
            ("--slot a --semaphore s --limit 1", "cannot be used with"),
        ] {
            let failure = slots(words).expect_err(words);
            assert_eq!(failure.code, crate::exit::USAGE);
            assert!(failure.message().contains(reason), "{words}: {failure:?}");
        }
        for words in ["--once-per 1d --lock nightly", "--slot a --history 1s"] {
            slots(words).unwrap();
        }
    }
}
