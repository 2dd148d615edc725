//! How often a repeated failure is logged: once for each cause, and then with a count. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::words::moment::Moment;

/// The time between two lines for the same cause. An outage of a minute gives six lines, and the count is never long
/// out of date.
const INTERVAL: Duration = Duration::from_secs(10);

/// How many causes are counted separately. A server words its own errors, and must not be able to fill the log by
/// varying them.
const CAUSES: usize = 16;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<String, Cause>);

#[derive(Debug)]
struct Cause {
    /// When a line was last written.
    told: Moment,
    /// How often the failure has happened since.
    untold: u64,
    /// Its latest message.
    text: String,
}

impl Tally {
    /// Counts a failure. Returns true if its cause has not occurred lately; then log the failure now.
    pub fn count(&mut self, text: &str, now: Moment) -> bool {
        // Numbers vary (slots, ports, times) while the cause stays the same.
        let mut key = text.replace(|letter: char| letter.is_ascii_digit(), "");
        if self.0.len() >= CAUSES && !self.0.contains_key(&key) {
            key.clear();
        }
        if let Some(cause) = self.0.get_mut(&key) {
            cause.untold += 1;
            text.clone_into(&mut cause.text);
            return false;
        }
        let cause = Cause {
            told: now,
            untold: 0,
            text: String::new(),
        };
        self.0.insert(key, cause);
        true
    }

    /// Returns what to log now about failures that were only counted: the last message of each cause, and how many
    /// there were. Forgets a cause that has not occurred for an interval.
    pub fn take_due(&mut self, now: Moment) -> Vec<(String, u64)> {
        let mut due = Vec::new();
        self.0.retain(|_, cause| {
            if now < cause.told.after(INTERVAL) {
                return true;
            }
            let met = cause.untold > 0;
            if met {
                due.push((std::mem::take(&mut cause.text), cause.untold));
                (cause.told, cause.untold) = (now, 0);
            }
            met
        });
        due
    }

    /// Returns when [`take_due`](Self::take_due) has something to do.
    pub fn next(&self) -> Option<Moment> {
        let told = self.0.values().map(|cause| cause.told);
        told.min().map(|told| told.after(INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_elapsed(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_of_a_cause_is_told_at_once_and_the_others_are_counted() {
        let mut tally = Tally::default();
        assert!(tally.count("no answer in time", at(0)));
        for second in 1..10 {
            assert!(!tally.count("no answer in time", at(second)));
            assert_eq!(tally.take_due(at(second)), []);
        }
        assert_eq!(tally.next(), Some(at(10)));
        let told = [("no answer in time".to_owned(), 9)];
        assert_eq!(tally.take_due(at(10)), told);
        // It has not happened again, so the next time it is news.
        assert_eq!(tally.take_due(at(20)), []);
        assert_eq!(tally.next(), None);
        assert!(tally.count("no answer in time", at(21)));
    }

    #[test]
    fn causes_are_told_apart_but_for_their_numbers() {
        let mut tally = Tally::default();
        assert!(tally.count("nobody has slot 7", at(0)));
        assert!(tally.count("connection refused", at(0)));
        assert!(!tally.count("nobody has slot 8000", at(1)));
        let told = [("nobody has slot 8000".to_owned(), 1)];
        assert_eq!(tally.take_due(at(10)), told);
    }

    #[test]
    fn however_many_texts_there_are_the_lines_stay_few() {
        let mut tally = Tally::default();
        let text = |number: u32| "x".repeat(number as usize);
        let lines = (1..1000).filter(|number| tally.count(&text(*number), at(0)));
        assert_eq!(lines.count(), CAUSES + 1);
        let due = tally.take_due(at(10));
        assert_eq!(due.iter().map(|(_, times)| times).sum::<u64>(), 999 - 17);
        assert_eq!(due.len(), 1);
    }
}
