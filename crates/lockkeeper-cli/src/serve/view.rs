//! **Pure**: selects the part of a sample that a viewer is shown.

use serde::{Deserialize, Serialize};

use crate::live::{Load, Order, Rates, Row, Sample, Totals, Waits, has};
use crate::look::Part;
use crate::out::harmless;

/// The largest number of locks that are shown. Nobody reads more, and each sample sends all of them again.
const MOST: usize = 200;

/// What the viewer asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Question {
    /// Only locks with this text in name, kind or holders.
    filter: String,
    sort: Order,
    /// The lock to show in full, with its queue.
    pub(super) open: Option<String>,
}

/// What is shown.
#[derive(Debug, Serialize)]
pub(super) struct View<'a> {
    /// The number of all locks, and of the matching ones. `locks` contains the first matching ones.
    names: usize,
    matching: usize,
    locks: Vec<Line<'a>>,
    /// The open lock: `None` if nobody holds it and nobody waits.
    open: Option<&'a Row>,
    #[serde(flatten)]
    rest: Rest<'a>,
}

/// A sample without its locks.
#[derive(Debug, Serialize)]
struct Rest<'a> {
    at: &'a str,
    holders: u64,
    waiters: u64,
    totals: &'a Totals,
    per_second: &'a Rates,
    waits: &'a Waits,
    load: &'a Load,
    unreachable: Option<&'a str>,
}

/// A summary of one lock.
#[derive(Debug, Serialize)]
struct Line<'a> {
    name: &'a str,
    /// `None`: nobody holds it.
    kind: Option<&'a str>,
    mode: Option<String>,
    /// The holder with the most time left, as people know it.
    holder: Option<String>,
    state: Option<&'a str>,
    /// The number of holders.
    holders: usize,
    left_ms: Option<u64>,
    held_ms: Option<u64>,
    waiters: Option<u64>,
    looked_ms: u64,
}

impl<'a> View<'a> {
    pub(super) fn new(sample: &'a Sample, question: &Question) -> Self {
        let mut rows: Vec<&Row> = sample.locks.iter().collect();
        rows.retain(|row| has(row, &question.filter));
        rows.sort_by(|one, other| question.sort.compare(one, other));
        let matching = rows.len();
        rows.truncate(MOST);
        let open = question.open.as_ref();
        Self {
            names: sample.locks.len(),
            matching,
            locks: rows.into_iter().map(Line::new).collect(),
            open: open.and_then(|name| sample.locks.iter().find(|row| row.lock.name == **name)),
            rest: Rest {
                at: &sample.at,
                holders: sample.holders,
                waiters: sample.waiters,
                totals: &sample.totals,
                per_second: &sample.per_second,
                waits: &sample.waits,
                load: &sample.load,
                unreachable: sample.unreachable.as_deref(),
            },
        }
    }

    /// As JSON.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self).map(|text| harmless(&text))
    }

    /// The names that are shown.
    pub(super) fn seen(&self) -> Vec<String> {
        self.locks.iter().map(|it| it.name.to_owned()).collect()
    }
}

impl<'a> Line<'a> {
    fn new(row: &'a Row) -> Self {
        let lock = &row.lock;
        let first = lock.holders.first();
        Self {
            name: &lock.name,
            kind: lock.kind.as_deref(),
            mode: first.map(|_| lock.mode()),
            holder: first.map(Part::described),
            state: first.map(|first| first.state),
            holders: lock.holders.len(),
            left_ms: first.and_then(|first| first.left_ms),
            held_ms: row.held_ms,
            waiters: lock.waiters,
            looked_ms: row.looked_ms,
        }
    }
}
