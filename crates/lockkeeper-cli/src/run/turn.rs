//! The slot of a job for which the program runs.

use std::time::SystemTime;

use lockkeeper::Client;

use super::journal::{Event, Journal, millis};
use super::outage::Outage;
use super::tell_conflict;
use crate::args::Run;
use crate::exit::Failure;
use crate::history::{Entry, History};
use crate::kind::{Held, Wanted};
use crate::out;
use crate::slots::Due;

/// See the module.
pub(crate) struct Turn {
    pub(crate) slot: String,
    /// The history as it is while the lock is held.
    history: History,
    start: SystemTime,
}

impl Turn {
    /// Returns the slot that is due now, after those that this run has tried; `None` if the program has no slots. The inner error
    /// says why no slot is due.
    pub(crate) async fn next(
        wanted: &Wanted,
        client: &Client,
        outage: &Outage<'_>,
        tried: &[String],
    ) -> Result<Result<Option<Self>, Due>, Failure> {
        let (Some(slots), [name, ..]) = (wanted.slots(), wanted.names()) else {
            return Ok(Ok(None));
        };
        let history = outage.ride_out(async || History::read(client, name).await);
        let (history, start) = (history.await?, SystemTime::now());
        Ok(match slots.due(&history, tried, start) {
            Due::Run(slot) => Ok(Some(Self {
                slot,
                history,
                start,
            })),
            due => Err(due),
        })
    }

    /// Notes that the program has ended with this exit code, so that the release of the lock stores it.
    pub(crate) fn end(
        self,
        code: u8,
        label: String,
        wanted: &Wanted,
        held: &Held,
    ) -> Result<(), Failure> {
        let now = SystemTime::now();
        let [start, end] = [self.start, now].map(humantime::format_rfc3339_millis);
        let fence = held.leases.first().map(|lease| lease.fencing_token().get());
        let entry = Entry {
            slot: self.slot,
            code,
            start: start.to_string(),
            end: end.to_string(),
            label,
            fence: fence.unwrap_or_default(),
            runs: 1,
        };
        let keep = wanted.slots().map(|slots| slots.keep).unwrap_or_default();
        let history = self.history.with(entry, keep, now);
        Ok(held.store(&history.into_json()?)?)
    }
}

/// Reports why nothing is run for a slot, and returns the exit code.
pub(crate) fn not_due(due: Due, wanted: &Wanted, options: &Run, journal: &Journal) -> u8 {
    let name = &*wanted.names()[0];
    match due {
        Due::Run(_) => 0,
        Due::Done(entry) => {
            let (slot, end, by) = (&*entry.slot, &entry.end, &entry.label);
            journal.remark(&format!(
                "{name:?}: the slot {slot:?} was done at {end} by {by}"
            ));
            journal.tell(&Event::Done { name, slot });
            0
        }
        Due::Later(entry, left) => {
            let (slot, by, code) = (&*entry.slot, &entry.label, entry.code);
            let left_ms = millis(left);
            journal.tell(&Event::Later {
                name,
                slot,
                left_ms,
            });
            let left = out::duration(left);
            let text = format!(
                "{name:?}: the slot {slot:?} failed with exit code {code} on {by}; it can be tried again in {left}"
            );
            tell_conflict(&text, options, journal)
        }
    }
}

/// Whether the history has the end of the program that held with this token. It may have it although the release failed: the answer
/// to the release may have been lost, and another run may have followed since.
pub(crate) async fn is_stored(client: &Client, name: &str, fence: u64) -> bool {
    let history = History::read(client, name).await;
    history.is_ok_and(|it| it.entries().iter().any(|entry| entry.fence == fence))
}
