//! **Pure**: a sample for Prometheus, in the text format 0.0.4. Lock names are never labels, so the text has as many lines for ten
//! thousand locks as for one.

use std::fmt::{self, Write as _};

use crate::live::{Row, Sample};

/// The content type of that text.
pub(super) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The kinds, as the server names them. The kind is the only label. `free` means waited for but not held.
const KINDS: [&str; 11] = [
    "mutex",
    "reentrant",
    "fair",
    "rwlock",
    "semaphore",
    "election",
    "once",
    "latch",
    "redlock",
    "free",
    OTHER,
];

/// The label for a kind that is not ours.
const OTHER: &str = "other";

/// Returns the text. If the server does not answer, the text has no present state.
pub(super) fn text(sample: Option<&Sample>) -> String {
    let mut text = Text::default();
    let known = sample.filter(|sample| sample.unreachable.is_none());
    let up = f64::from(u8::from(known.is_some()));
    text.gauge(
        "up",
        "Whether the server that stores the locks answered.",
        up,
    );
    if let Some(sample) = sample {
        text.counts(sample);
    }
    if let Some(sample) = known {
        text.state(sample);
    }
    text.0
}

/// A text of metrics under construction.
#[derive(Default)]
struct Text(String);

/// The result of `write!` is ignored: writing to a string cannot fail.
fn written(outcome: fmt::Result) {
    debug_assert!(outcome.is_ok());
}

impl Text {
    /// Adds the events that were seen since this process started.
    fn counts(&mut self, sample: &Sample) {
        let totals = &sample.totals;
        for (name, help, value) in [
            (
                "grants_seen_total",
                "Claims that were seen to hold and did not hold before.",
                totals.grants,
            ),
            (
                "ended_seen_total",
                "Claims that were seen to hold and no longer do.",
                totals.ended,
            ),
            (
                "expired_seen_total",
                "Claims that were not renewed in time and were gone after the end of their lease.",
                totals.ran_out,
            ),
            (
                "revoked_seen_total",
                "Claims that were seen to be revoked.",
                totals.revoked,
            ),
        ] {
            self.head(name, help, "counter");
            self.line(name, "", number(value));
        }
        let name = "wait_seen_seconds";
        self.head(
            name,
            "How long claims waited that were seen to enter a queue and to be granted.",
            "summary",
        );
        self.line("wait_seen_seconds_sum", "", seconds(sample.waits.sum_ms));
        self.line("wait_seen_seconds_count", "", number(sample.waits.seen));
    }

    /// Adds the present state.
    fn state(&mut self, sample: &Sample) {
        self.by_kind(
            sample,
            "names",
            "Names with holders or waiters.",
            |_| 1.0,
            f64_sum,
        );
        self.by_kind(
            sample,
            "holders",
            "Claims that hold.",
            |row| number(holders(row)),
            f64_sum,
        );
        self.by_kind(
            sample,
            "holders_revoked",
            "Claims that hold although they are revoked.",
            |row| {
                count(
                    row.lock
                        .holders
                        .iter()
                        .filter(|it| it.state == "revoked")
                        .count(),
                )
            },
            f64_sum,
        );
        self.by_kind(sample, "waiters", "Claims that wait.", waiters, f64_sum);
        self.by_kind(
            sample,
            "waiters_most",
            "Waiters of the name that has the most.",
            waiters,
            f64::max,
        );
        self.by_kind(
            sample,
            "held_longest_seconds",
            "How long the longest-held name has been held.",
            |row| row.held_ms.map_or(0.0, seconds),
            f64::max,
        );
        let load = &sample.load;
        self.gauge(
            "look_oldest_seconds",
            "Age of the oldest answer that these numbers are based on.",
            seconds(load.oldest_ms),
        );
        self.gauge(
            "listed",
            "Whether all names were listed once. While names are left out, the numbers are too small.",
            f64::from(u8::from(load.listed_ms.is_some())),
        );
        self.gauge(
            "names_unknown",
            "New names on the list that have no answer yet.",
            number(load.unknown),
        );
        self.gauge(
            "names_left_out",
            "Names that are left out because there are more than are kept in memory.",
            number(load.left_out),
        );
        self.gauge(
            "questions_per_second",
            "Requests to the server per second, except pages of names.",
            load.questions_per_second,
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.line(name, "", value);
    }

    /// Adds one line per kind, with the combined values of its rows.
    fn by_kind(
        &mut self,
        sample: &Sample,
        name: &str,
        help: &str,
        value: impl Fn(&Row) -> f64,
        fold: impl Fn(f64, f64) -> f64,
    ) {
        self.head(name, help, "gauge");
        for kind in KINDS {
            let rows = sample.locks.iter().filter(|row| kind_of(row) == kind);
            let value = rows.map(&value).fold(0.0, &fold);
            self.line(name, &format!("{{kind=\"{kind}\"}}"), value);
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        written(writeln!(
            self.0,
            "# HELP lockkeeper_server_{name} {help}\n# TYPE lockkeeper_server_{name} {kind}"
        ));
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        written(writeln!(self.0, "lockkeeper_server_{name}{labels} {value}"));
    }
}

fn f64_sum(one: f64, other: f64) -> f64 {
    one + other
}

fn kind_of(row: &Row) -> &'static str {
    let kind = row.lock.kind.as_deref().unwrap_or("free");
    KINDS.into_iter().find(|it| *it == kind).unwrap_or(OTHER)
}

/// Returns the number of holders. Claims in cooldown and those of a latch are not holders.
fn holders(row: &Row) -> u64 {
    row.holders_seen_ms
        .iter()
        .flatten()
        .fold(0, |sum, _| sum + 1)
}

fn waiters(row: &Row) -> f64 {
    number(row.lock.waiters.unwrap_or(0))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus counts in floating point"
)]
const fn number(number: u64) -> f64 {
    number as f64
}

fn count(count: usize) -> f64 {
    number(count.try_into().unwrap_or(u64::MAX))
}

fn seconds(millis: u64) -> f64 {
    number(millis) / 1000.0
}
