//! The history of a job: how its program ended in each slot. The server stores it as the result of the job's name. So only the
//! claim that holds the name can write it, and it expires by itself.

use std::time::{Duration, SystemTime};

use lockkeeper::{Client, Once, Record};
use lockkeeper_once::ByHand;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::out;
use crate::server::{Server, place};

/// How many slots are stored: about three months of nights, and few enough to be read with every look at a job.
pub(crate) const MOST: usize = 100;

/// The slots of a job, the last to end first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    slots: Vec<Entry>,
}

/// How the program's last run for a slot ended. Times are RFC 3339, UTC, by the clock of its machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) slot: String,
    pub(crate) code: u8,
    pub(crate) start: String,
    pub(crate) end: String,
    /// Machine and process of the command, and its `--label`.
    pub(crate) label: String,
    pub(crate) fence: u64,
    /// How many runs of the program have ended for this slot.
    pub(crate) runs: u32,
}

impl Entry {
    pub(crate) const fn is_done(&self) -> bool {
        self.code == 0
    }

    /// How long ago the program ended; zero if this machine's clock is behind.
    pub(crate) fn age(&self, now: SystemTime) -> Duration {
        let end = humantime::parse_rfc3339(&self.end).unwrap_or(SystemTime::UNIX_EPOCH);
        now.duration_since(end).unwrap_or_default()
    }
}

impl History {
    /// Reads the history from the result of a name.
    pub(crate) fn of(name: &str, record: Option<&Record>) -> Result<Self, Failure> {
        let Some(record) = record else {
            return Ok(Self::default());
        };
        let value = record.value.as_deref().unwrap_or_default();
        serde_json::from_slice(value).map_err(|_| {
            Failure::usage(format!(
                "{name:?} is not a job of `lockkeeper run --once-per`: it stores the result of other work"
            ))
        })
    }

    pub(crate) async fn read(client: &Client, name: &str) -> Result<Self, Failure> {
        let record = Once::new(client, name).peek().await?;
        Self::of(name, record.as_ref())
    }

    /// The entries, the last to end first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.slots
    }

    pub(crate) fn entry(&self, slot: &str) -> Option<&Entry> {
        self.slots.iter().find(|entry| entry.slot == slot)
    }

    /// Adds the end of a run for a slot, and removes entries that ended longer than `keep` ago.
    pub(crate) fn with(mut self, entry: Entry, keep: Duration, now: SystemTime) -> Self {
        let before = self.entry(&entry.slot).map_or(0, |entry| entry.runs);
        self.slots
            .retain(|old| old.slot != entry.slot && old.age(now) < keep);
        let runs = before.saturating_add(1);
        self.slots.insert(0, Entry { runs, ..entry });
        self.slots.truncate(MOST);
        self
    }

    /// Returns the text to store. If slots and labels are long, it has only as many of the newest entries as fit.
    pub(crate) fn into_json(mut self) -> Result<Vec<u8>, Failure> {
        loop {
            let json = serde_json::to_vec(&self);
            let json = json.map_err(|error| Failure::system("write the history", &error))?;
            if json.len() <= ByHand::LARGEST || self.slots.pop().is_none() {
                return Ok(json);
            }
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    #[serde(flatten)]
    entry: &'a Entry,
    host: Option<&'a str>,
    pid: Option<u32>,
}

/// Prints the history of a job.
pub(crate) async fn show(server: &Server, name: &str, json: bool) -> Result<(), Failure> {
    let client = server.connect(Client::builder()).await?;
    let history = History::read(&client, name).await?;
    if json {
        return history.entries().iter().try_for_each(|entry| {
            let place = place(&entry.label);
            out::json(&Line {
                name,
                entry,
                host: place.map(|(host, _)| host),
                pid: place.map(|(_, pid)| pid),
            })
        });
    }
    let row = |entry: &Entry| {
        vec![
            entry.slot.clone(),
            entry.code.to_string(),
            entry.start.clone(),
            entry.end.clone(),
            entry.runs.to_string(),
            entry.label.clone(),
        ]
    };
    let rows: Vec<_> = history.entries().iter().map(row).collect();
    out::table(&["SLOT", "CODE", "START", "END", "RUNS", "BY"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn at(ago: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW - ago)
    }

    fn entry(slot: &str, code: u8, ago: u64) -> Entry {
        let time = humantime::format_rfc3339_millis(at(ago)).to_string();
        Entry {
            slot: slot.to_owned(),
            code,
            start: time.clone(),
            end: time,
            label: "db1:7".to_owned(),
            fence: 9,
            runs: 1,
        }
    }

    fn slots(history: &History) -> Vec<(&str, u8, u32)> {
        let entries = history.entries().iter();
        entries.map(|it| (&*it.slot, it.code, it.runs)).collect()
    }

    #[test]
    fn a_slot_that_ran_again_is_one_entry_and_counts_its_runs() {
        let keep = Duration::from_secs(60);
        let history = [entry("a", 3, 20), entry("b", 0, 10), entry("a", 0, 5)]
            .into_iter()
            .fold(History::default(), |history, entry| {
                history.with(entry, keep, at(0))
            });
        assert_eq!(slots(&history), [("a", 0, 2), ("b", 0, 1)]);
    }

    #[test]
    fn what_is_old_is_forgotten_and_what_ended_in_the_future_is_not() {
        let keep = Duration::from_secs(60);
        let history = History {
            slots: vec![entry("a", 0, 69), entry("b", 0, 70), entry("c", 0, 0)],
        };
        let history = history.with(entry("d", 0, 0), keep, at(10));
        assert_eq!(slots(&history), [("d", 0, 1), ("a", 0, 1), ("c", 0, 1)]);
    }

    #[test]
    fn no_more_is_stored_than_a_result_may_have() {
        let keep = Duration::from_secs(60);
        let mut history = History::default();
        for number in 0..MOST + 20 {
            // Slot and label of maximal length, in which each character takes six bytes of JSON.
            let mut entry = entry(&format!("{number:0256}"), 0, 0);
            entry.label = "\u{1}".repeat(256);
            history = history.with(entry, keep, at(0));
        }
        assert_eq!(history.entries().len(), MOST);
        let json = history.clone().into_json().unwrap();
        assert!(json.len() <= ByHand::LARGEST);
        let stored: History = serde_json::from_slice(&json).unwrap();
        let number = stored.entries().len();
        assert!((20..MOST).contains(&number), "{number}");
        assert_eq!(stored.entries(), &history.entries()[..number]);
    }
}
