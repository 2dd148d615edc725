//! **Pure**: a sample as Prometheus reads it, in the text format 0.0.4. Names are never labels, so there are as many lines with ten
//! thousand locks as with one.

use std::fmt::{self, Write as _};

use crate::live::{Row, Sample};

/// The type of that text.
pub(super) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The kinds, by which the lines are told apart, as the server says them. `free` is what is waited for and not held.
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

/// What somebody else's hand has written.
const OTHER: &str = "other";

/// The text; of a server that does not answer, only that.
pub(super) fn text(sample: Option<&Sample>) -> String {
    let mut text = Text::default();
    let known = sample.filter(|sample| sample.unreachable.is_none());
    let up = f64::from(u8::from(known.is_some()));
    text.gauge("up", "Whether the server of the locks answered.", up);
    if let Some(sample) = sample {
        text.counts(sample);
    }
    if let Some(sample) = known {
        text.state(sample);
    }
    text.0
}

/// A text of metrics that grows.
#[derive(Default)]
struct Text(String);

/// What `write!` says is of no use: a text takes everything.
fn written(outcome: fmt::Result) {
    debug_assert!(outcome.is_ok());
}

impl Text {
    /// What was seen to happen since this process began to look.
    fn counts(&mut self, sample: &Sample) {
        let totals = &sample.totals;
        for (name, help, value) in [
            (
                "grants_seen_total",
                "Claims that were seen to hold and did not before.",
                totals.grants,
            ),
            (
                "ended_seen_total",
                "Claims that were seen to hold no longer.",
                totals.ended,
            ),
            (
                "expired_seen_total",
                "Those of them that were behind with their renewal and gone when their lease was over.",
                totals.ran_out,
            ),
            (
                "revoked_seen_total",
                "Claims that were seen to be asked to leave.",
                totals.revoked,
            ),
        ] {
            self.head(name, help, "counter");
            self.line(name, "", number(value));
        }
        let name = "wait_seen_seconds";
        self.head(
            name,
            "For how long those waited that were seen to come and to be granted.",
            "summary",
        );
        self.line("wait_seen_seconds_sum", "", seconds(sample.waits.sum_ms));
        self.line("wait_seen_seconds_count", "", number(sample.waits.seen));
    }

    /// What is held now.
    fn state(&mut self, sample: &Sample) {
        self.by_kind(
            sample,
            "names",
            "Names that are held or waited for.",
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
            "Claims that hold though they were asked to leave.",
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
            "Claims that wait for the name with most of them.",
            waiters,
            f64::max,
        );
        self.by_kind(
            sample,
            "held_longest_seconds",
            "For how long the name is held that is held for longest.",
            |row| row.held_ms.map_or(0.0, seconds),
            f64::max,
        );
        let load = &sample.load;
        self.gauge(
            "look_oldest_seconds",
            "How long ago the oldest of the answers came that these numbers are made of.",
            seconds(load.oldest_ms),
        );
        self.gauge(
            "listed",
            "Whether all names were listed once: until then, and while some are left out, the numbers are too small.",
            f64::from(u8::from(load.listed_ms.is_some())),
        );
        self.gauge(
            "names_unknown",
            "Names on the list that were not asked about yet.",
            number(load.unknown),
        );
        self.gauge(
            "names_left_out",
            "Names that are left out because there are more than are kept in mind.",
            number(load.left_out),
        );
        self.gauge(
            "questions_per_second",
            "What this asks the server, apart from pages of names.",
            load.questions_per_second,
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.line(name, "", value);
    }

    /// A line for each kind, of its rows' values put together.
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

/// Who only keeps others out, and what a latch has, is no holder.
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
