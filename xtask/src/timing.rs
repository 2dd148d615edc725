//! Measures how long each test took, from the lines that libtest prints when a test ends.
//!
//! Libtest itself reports times only on nightly compilers. But it starts tests in the order in which it lists them: first as
//! many as it has threads, then the next one whenever one ends. So the end times also tell when each test began.

use std::time::{Duration, Instant};

/// The running tests, and when they began.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    waiting: std::vec::IntoIter<String>,
    running: Vec<(String, Instant)>,
    times: Vec<(String, Duration)>,
}

impl Stopwatch {
    /// Starts with these tests, in the order in which libtest lists them.
    pub(crate) fn start(tests: Vec<String>, threads: usize, now: Instant) -> Self {
        let mut stopwatch = Self {
            waiting: tests.into_iter(),
            running: Vec::new(),
            times: Vec::new(),
        };
        for _ in 0..threads {
            stopwatch.begin(now);
        }
        stopwatch
    }

    fn begin(&mut self, now: Instant) {
        let next = self.waiting.next();
        self.running.extend(next.map(|name| (name, now)));
    }

    /// Handles a line that libtest printed at this moment. A test that is not running belongs to another program whose output
    /// got in.
    pub(crate) fn hear(&mut self, line: &str, now: Instant) {
        let Some(name) = ended(line) else { return };
        let Some(place) = self.running.iter().position(|(it, _)| it == name) else {
            return;
        };
        let (name, began) = self.running.swap_remove(place);
        self.times.push((name, now - began));
        self.begin(now);
    }

    pub(crate) fn times(self) -> Vec<(String, Duration)> {
        self.times
    }
}

/// The name of the test that has ended, according to this line.
fn ended(line: &str) -> Option<&str> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // `test name - should panic ... ok`
    let name = name.split(" - ").next()?;
    let outcome = outcome.split([',', ' ']).next()?;
    ["ok", "FAILED", "ignored"]
        .contains(&outcome)
        .then_some(name)
}

/// Prints the ten slowest tests.
pub(crate) fn print_slowest(mut times: Vec<(String, Duration)>) {
    const SHOWN: usize = 10;
    times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    if times.is_empty() {
        return;
    }
    println!("\n== the slowest of {} tests", times.len());
    for (name, time) in times.iter().take(SHOWN) {
        println!("{:>7.1} s  {name}", time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_begins_when_one_of_those_before_it_has_ended() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let tests = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let mut stopwatch = Stopwatch::start(tests, 2, at(0));
        stopwatch.hear("running 4 tests", at(0));
        stopwatch.hear("test b ... ok", at(3));
        stopwatch.hear("test c - should panic ... FAILED", at(4));
        stopwatch.hear("test z ... ok", at(4));
        stopwatch.hear("test a ... ok", at(5));
        stopwatch.hear("test d ... ignored, for it takes long", at(9));
        let seconds = |(name, time): (String, Duration)| (name, time.as_secs());
        let times: Vec<_> = stopwatch.times().into_iter().map(seconds).collect();
        let expected = [("b", 3), ("c", 1), ("a", 5), ("d", 5)];
        assert_eq!(times, expected.map(|(name, time)| (name.to_owned(), time)));
    }
}
