//! Locks in the form in which they are printed.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use lockkeeper::{FencingToken, Holder, HolderState, Inspection, Record, Waiter};
use serde::Serialize;

use crate::exit::permits;
use crate::history::History;
use crate::kind::Mode;
use crate::out;
use crate::server::place;

/// One lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Lock {
    pub(crate) name: String,
    /// `None` for a free lock.
    pub(crate) kind: Option<String>,
    pub(crate) fence: Option<u64>,
    /// RFC 3339, UTC, by the server's clock.
    pub(crate) since: Option<String>,
    pub(crate) holders: Vec<Part>,
    /// For a semaphore: the number of permits.
    pub(crate) limit: Option<u32>,
    /// The number of waiters; for kinds without a queue, the number of clients that listen.
    pub(crate) waiters: Option<u64>,
    /// The first claims in the queue.
    pub(crate) queue: Vec<Part>,
    /// The outcome of work that is done once. `None`: nothing is stored, or it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Stored>,
}

/// The outcome of work that is done once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Stored {
    state: &'static str,
    /// The newest slot, if this is the history of a job; `label` says which machine and process ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// RFC 3339, UTC, by the server's clock; `None` if somebody has overwritten it with something else.
    at: Option<String>,
    fence: u64,
    claim: String,
    owner: Option<String>,
    /// `None`: without end.
    left_ms: Option<u64>,
    /// The length of the result; `None` if there is none.
    bytes: Option<usize>,
}

/// One claim of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Part {
    pub(crate) claim: String,
    pub(crate) owner: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) label: Option<String>,
    /// The note that its acquisition was given.
    pub(crate) note: Option<String>,
    /// `None`: without end, or in a queue.
    pub(crate) left_ms: Option<u64>,
    pub(crate) state: &'static str,
    /// Whether others may hold beside it, because it reads or has permits. `None` in a queue, because the server does not report
    /// it.
    pub(crate) shared: Option<bool>,
    /// The number of semaphore permits that it has.
    pub(crate) permits: Option<u32>,
}

impl Lock {
    pub(crate) fn new(seen: Inspection, queue: Vec<Waiter>) -> Self {
        Self {
            name: seen.name,
            kind: seen.kind,
            fence: seen.token.map(|token| token.get()),
            since: seen.token.and_then(FencingToken::time).and_then(time),
            holders: seen.holders.into_iter().map(Part::holder).collect(),
            limit: seen.limit,
            waiters: seen.waiters,
            queue: queue.into_iter().map(Part::waiter).collect(),
            result: None,
        }
    }

    pub(crate) fn with_result(mut self, record: Option<&Record>) -> Self {
        self.result = record.map(Stored::new);
        self
    }

    /// How long the lock has been held at `now`, according to its token.
    pub(crate) fn held_for(&self, now: SystemTime) -> Option<Duration> {
        // The clocks may differ.
        let begun = FencingToken::new(self.fence?).time()?;
        Some(now.duration_since(begun).unwrap_or_default())
    }

    /// "3 of 8 permits"; for other kinds, whether all holders share it.
    pub(crate) fn mode(&self) -> String {
        let shared = || mode(self.holders.iter().all(Part::shares)).to_owned();
        self.permits().unwrap_or_else(shared)
    }

    /// For a semaphore: how many of its permits are held. For a latch: how many counts are missing.
    pub(crate) fn permits(&self) -> Option<String> {
        let held = self.holders.iter().filter_map(|part| part.permits);
        let held = held.fold(0, u32::saturating_add);
        let limit = self.limit?;
        Some(format!("{held} of {limit} {}", self.units(limit)))
    }

    /// The unit of that number.
    pub(crate) fn units(&self, number: u32) -> &'static str {
        match self.kind.as_deref() {
            Some("latch") => "counts to come",
            _ => permits(number),
        }
    }

    pub(crate) fn mode_of(&self, part: &Part) -> String {
        match part.permits {
            Some(number) => format!("{number} {}", self.units(number)),
            None => mode(part.shares()).to_owned(),
        }
    }

    /// The parts whose change is worth printing. The remaining time is left out because it always changes, and the holders are
    /// sorted because each renewal changes whose lease is longest.
    pub(crate) fn gist(&self) -> impl PartialEq + use<> {
        let parts = |parts: &[Part]| -> Vec<_> {
            let gist = |part: &Part| (part.claim.clone(), part.state, part.permits);
            parts.iter().map(gist).collect()
        };
        let mut holders = parts(&self.holders);
        holders.sort();
        let queue = parts(&self.queue);
        let result = self.result.as_ref().map(|result| result.fence);
        (self.fence, self.limit, self.waiters, holders, queue, result)
    }
}

impl Stored {
    fn new(record: &Record) -> Self {
        // The result of a job is its history.
        let history = History::of("", Some(record)).unwrap_or_default();
        let slot = history.entries().first();
        let failed = record.is_failure() || slot.is_some_and(|slot| !slot.is_done());
        let millis = |left: Duration| left.as_millis().try_into().unwrap_or(u64::MAX);
        Self {
            state: if failed { "failed" } else { "done" },
            slot: slot.map(|entry| entry.slot.clone()),
            label: slot.map(|entry| entry.label.clone()),
            at: time(record.at),
            fence: record.token.get(),
            claim: record.claim.clone(),
            owner: record.owner.map(|owner| owner.to_string()),
            left_ms: record.left.map(millis),
            bytes: record.value.as_ref().map(Vec::len),
        }
    }

    /// The name by which people know the claim that stored it.
    fn known_as(&self) -> &str {
        let unlabelled = || self.owner.as_deref().unwrap_or(&self.claim);
        self.label.as_deref().unwrap_or_else(unlabelled)
    }

    /// Describes it in a few words.
    pub(crate) fn summary(&self) -> String {
        let slot = self.slot.as_deref().map(out::shown);
        let slot = slot.map_or_else(String::new, |slot| format!("slot {slot} "));
        let by = out::shown(self.known_as());
        let kept = match self.left_ms {
            Some(left) => format!("for {}", out::duration(Duration::from_millis(left))),
            None => "without end".to_owned(),
        };
        let at = self.at.as_deref().unwrap_or("an unknown time");
        let Self { state, fence, .. } = self;
        format!("{slot}{state} at {at} by {by}, token {fence}, stored {kept}")
    }
}

impl Part {
    fn holder(holder: Holder) -> Self {
        let left_ms = holder.left.map(|left| left.as_millis());
        Self {
            left_ms: left_ms.map(|left| left.try_into().unwrap_or(u64::MAX)),
            shared: Some(holder.shared),
            permits: holder.permits,
            state: match holder.state {
                HolderState::Held => "held",
                HolderState::Revoked => "revoked",
                HolderState::Cooldown => "cooldown",
                _ => "unknown",
            },
            note: holder.note,
            ..Self::new(
                holder.claim,
                holder.owner.map(|it| it.to_string()),
                holder.label,
            )
        }
    }

    pub(crate) fn waiter(waiter: Waiter) -> Self {
        Self {
            note: waiter.note,
            ..Self::new(
                waiter.claim,
                waiter.owner.map(|it| it.to_string()),
                waiter.label,
            )
        }
    }

    pub(crate) fn new(claim: String, owner: Option<String>, label: Option<String>) -> Self {
        let place = label.as_deref().and_then(place);
        Self {
            host: place.map(|(host, _)| host.to_owned()),
            pid: place.map(|(_, pid)| pid),
            claim,
            owner,
            label,
            note: None,
            left_ms: None,
            state: "waiting",
            shared: None,
            permits: None,
        }
    }

    pub(crate) fn shares(&self) -> bool {
        self.shared == Some(true)
    }

    /// The name by which people know this claim.
    pub(crate) fn known_as(&self) -> &str {
        let unlabelled = || self.owner.as_deref().unwrap_or(&self.claim);
        self.label.as_deref().unwrap_or_else(unlabelled)
    }

    /// That name, with the note of its acquisition.
    pub(crate) fn described(&self) -> String {
        described(self.known_as(), self.note.as_deref())
    }

    pub(crate) fn left(&self) -> String {
        match self.left_ms {
            Some(left) => out::duration(Duration::from_millis(left)),
            None => "no end".to_owned(),
        }
    }
}

/// A holder as people know it, with its note.
pub(crate) fn described(known_as: &str, note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{known_as} ({note})"),
        None => known_as.to_owned(),
    }
}

/// Returns the word that the options of `run` use.
const fn mode(shared: bool) -> &'static str {
    if shared {
        Mode::Shared.as_str()
    } else {
        Mode::Exclusive.as_str()
    }
}

/// RFC 3339, which ends with the year 9999.
pub(crate) fn time(time: SystemTime) -> Option<String> {
    let mut text = String::new();
    let written = write!(text, "{}", humantime::format_rfc3339_millis(time));
    written.ok().map(|()| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_is_no_change_worth_telling() {
        let lock = |claims: [&str; 2]| Lock {
            name: "name".to_owned(),
            kind: Some("rwlock".to_owned()),
            fence: Some(7),
            since: None,
            holders: claims
                .map(|claim| Part::new(claim.to_owned(), None, None))
                .into(),
            limit: None,
            waiters: Some(0),
            queue: Vec::new(),
            result: None,
        };
        assert!(lock(["a", "b"]).gist() == lock(["b", "a"]).gist());
        assert!(lock(["a", "b"]).gist() != lock(["a", "c"]).gist());
    }

    #[test]
    fn a_time_that_is_none_is_not_shown() {
        let at = |seconds| time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(at(1 << 50), None);
    }
}
