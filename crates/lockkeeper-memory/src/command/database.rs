//! The data that commands work on, and what many of them need to read it.

use crate::bus::Bus;
use crate::keyspace::Keyspace;
use crate::resp::{Refusal, Resp};

/// The data that commands work on.
#[derive(Debug, Default)]
pub(crate) struct Database {
    pub(crate) keyspace: Keyspace,
    pub(crate) bus: Bus,
    /// When it was restarted, µs by its own clock; `None` if it never was. A server that starts together with its only users has
    /// lost nothing, so it counts as up for long.
    pub(crate) restarted: Option<i64>,
}

/// The uptime that a server reports if it was never restarted, s: a year.
const LONG_UP: i64 = 365 * 24 * 60 * 60;

pub(super) type Outcome = Result<Resp, Refusal>;

impl Database {
    /// As servers count it: in whole seconds of their clock.
    pub(super) fn uptime_seconds(&self) -> i64 {
        let seconds = |micros: i64| micros.div_euclid(1_000_000);
        let now = seconds(self.keyspace.now_micros());
        self.restarted
            .map_or(LONG_UP, |restarted| now - seconds(restarted))
    }
}

/// Where the elements from index `first` to `last` begin and end; a negative index counts from the end.
pub(super) fn range(first: &[u8], last: &[u8], length: usize) -> Result<(usize, usize), Refusal> {
    let (first, last) = (integer(first)?, integer(last)?);
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |index: i64| match index {
        ..0 => index.saturating_add(length),
        _ => index,
    };
    let first = usize::try_from(place(first)).unwrap_or(0);
    let end = usize::try_from(place(last).saturating_add(1)).unwrap_or(0);
    Ok((first, end))
}

pub(super) fn count(number: usize) -> Resp {
    Resp::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A whole number as Redis reads one: no blanks, no plus, no leading zeros.
pub(crate) fn integer(text: &[u8]) -> Result<i64, Refusal> {
    str::from_utf8(text)
        .ok()
        .and_then(|text| Some((text, text.parse::<i64>().ok()?)))
        .filter(|(text, number)| *text == number.to_string())
        .map(|(_, number)| number)
        .ok_or(Refusal::NOT_AN_INTEGER)
}
