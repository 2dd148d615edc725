//! Everything known about the names: the answers so far, and which names to ask about next. It sends no requests itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::past::Past;
use super::sample::{Load, Rates, Row, Sample, Totals, Waits, millis};
use crate::look::{Lock, Part};

/// How many names are kept in memory, which takes about 100 MB at most. Further names are only counted.
const MOST_NAMES: usize = 100_000;

/// For how many samples the waits are stored.
const MOST_WAITS: usize = 200;

/// The time over which a rate is averaged.
const RATE_OF: Duration = Duration::from_secs(10);

/// All known names.
#[derive(Debug)]
pub(super) struct Board {
    names: BTreeMap<String, Entry>,
    /// Whether a list of all names was completed.
    listed: bool,
    /// The same since the last [`look_again`](Self::look_again).
    listed_again: bool,
    left_out: u64,
    totals: Totals,
    /// The totals at the last samples, the oldest first.
    before: VecDeque<(Instant, Totals)>,
    waits: Waits,
    /// The longest wait that was seen to end since the last sample.
    longest: Option<Duration>,
}

/// What is known about one name.
#[derive(Debug, Default)]
struct Entry {
    past: Past,
    lock: Option<Arc<Lock>>,
    /// When the server was last asked, and when it last answered.
    tried: Option<Instant>,
    looked: Option<Instant>,
    /// When the server was last asked for the queue, and when it last answered.
    queue_tried: Option<Instant>,
    queue_looked: Option<Instant>,
    /// Whether the list in progress contains the name.
    found: bool,
    /// Whether the name was missing from a complete list. If so, its present holder was granted the lock since then.
    new: bool,
    /// Whether the server is still to answer about it before the board is [whole](Board::is_whole).
    due: bool,
}

impl Entry {
    /// The number of waiters.
    fn waiters(&self) -> u64 {
        self.lock
            .as_ref()
            .and_then(|lock| lock.waiters)
            .unwrap_or(0)
    }

    /// Whether there is anything to show.
    fn is_busy(&self) -> bool {
        self.past.is_held() || self.lock.as_ref().is_some_and(|lock| is_busy(lock))
    }

    /// How many requests a look takes: one for the name, and one for the label of each client that holds it.
    fn cost(&self) -> u64 {
        self.lock
            .as_ref()
            .map_or(2, |lock| questions(&lock.holders))
    }

    fn queue_cost(&self) -> u64 {
        self.lock.as_ref().map_or(1, |lock| questions(&lock.queue))
    }
}

fn is_busy(lock: &Lock) -> bool {
    !lock.holders.is_empty() || lock.waiters.is_some_and(|waiters| waiters > 0)
}

/// How many requests these claims need: one for the claims, and one for the label of each client.
pub(super) fn questions(parts: &[Part]) -> u64 {
    let owners = parts.iter().filter_map(|part| part.owner.as_deref());
    let clients: HashSet<&str> = owners
        .map(|owner| owner.split_once(':').map_or(owner, |(client, _)| client))
        .collect();
    1 + u64::try_from(clients.len()).unwrap_or(u64::MAX)
}

impl Board {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            names: BTreeMap::new(),
            listed: false,
            listed_again: false,
            left_out: 0,
            totals: Totals::default(),
            before: VecDeque::from([(now, Totals::default())]),
            waits: Waits::default(),
            longest: None,
        }
    }

    /// Makes all that is known count as old, because nobody has asked for a while.
    pub(super) fn look_again(&mut self) {
        self.listed_again = false;
        for entry in self.names.values_mut() {
            entry.due = true;
        }
    }

    /// Whether, since the beginning or the last [`look_again`](Self::look_again), a list was completed and the server has answered
    /// about each name on it. Names that come later do not change this.
    pub(super) fn is_whole(&self) -> bool {
        self.listed_again && !self.names.values().any(|entry| entry.due)
    }

    /// Begins a list of all names.
    pub(super) fn list_begins(&mut self) {
        self.left_out = 0;
        for entry in self.names.values_mut() {
            entry.found = false;
        }
    }

    /// Adds a name of the list.
    pub(super) fn found(&mut self, name: String) {
        if let Some(entry) = self.names.get_mut(&name) {
            entry.found = true;
        } else if self.names.len() < MOST_NAMES {
            let entry = Entry {
                found: true,
                new: self.listed,
                due: !self.listed_again,
                ..Entry::default()
            };
            self.names.insert(name, entry);
        } else {
            self.left_out += 1;
        }
    }

    /// Ends the list, which is complete. Removes the names that were asked about, have neither holders nor waiters, and are not on
    /// the list.
    pub(super) fn list_ends(&mut self) {
        self.listed = true;
        self.listed_again = true;
        self.names
            .retain(|_, entry| entry.found || entry.is_busy() || entry.looked.is_none());
    }

    /// Returns the names to ask about at the end of each sample, so that their data is fresh: the `seen` ones, then those with the
    /// most waiters, for about `most` requests. Also returns the number of these requests.
    pub(super) fn first(&self, seen: &[String], most: u64) -> (Vec<String>, u64) {
        let mut crowded: Vec<(&String, &Entry)> = self
            .names
            .iter()
            .filter(|(_, entry)| entry.waiters() > 0)
            .collect();
        crowded.sort_by_key(|(_, entry)| Reverse(entry.waiters()));
        let seen = seen
            .iter()
            .filter_map(|name| self.names.get_key_value(name));
        let mut chosen = BTreeSet::new();
        let mut names = Vec::new();
        let mut asked = 0;
        for (name, entry) in seen.chain(crowded) {
            if asked >= most {
                break;
            }
            if chosen.insert(name) {
                asked += entry.cost();
                names.push(name.clone());
            }
        }
        (names, asked)
    }

    /// Returns the next names in turn, for about `most` requests. The name whose last request is longest ago comes first. Names
    /// that were asked about since `begun` are left out.
    pub(super) fn turn(&self, most: u64, begun: Instant, except: &[String]) -> Vec<String> {
        let except: BTreeSet<&String> = except.iter().collect();
        let mut waiting: Vec<_> = self
            .names
            .iter()
            .filter(|(name, entry)| {
                entry.tried.is_none_or(|tried| tried < begun) && !except.contains(name)
            })
            .collect();
        waiting.sort_by_key(|(_, entry)| entry.tried);
        let mut asked = 0;
        let next = waiting.into_iter().take_while(|(_, entry)| {
            let room = asked < most;
            asked += entry.cost();
            room
        });
        next.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the names whose queues to read, for about `most` requests: the `opened` one, then the others, beginning with the one
    /// that was read longest ago.
    pub(super) fn queues(&self, opened: Option<&str>, most: u64) -> Vec<String> {
        let mut waiting: Vec<_> = self
            .names
            .iter()
            .filter(|(name, entry)| entry.waiters() > 0 || Some(&***name) == opened)
            .collect();
        waiting.sort_by_key(|(name, entry)| {
            let others = Some(&***name) != opened;
            (others, entry.queue_tried, Reverse(entry.waiters()))
        });
        let mut asked = 0;
        let next = waiting.into_iter().take_while(|(_, entry)| {
            let room = asked < most;
            asked += entry.queue_cost();
            room
        });
        next.map(|(name, _)| name.clone()).collect()
    }

    /// Notes that the server is asked about the name.
    pub(super) fn tried(&mut self, name: &str, now: Instant) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.tried = Some(now);
        }
    }

    /// Notes that the server is asked for its queue.
    pub(super) fn queue_tried(&mut self, name: &str, now: Instant) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.queue_tried = Some(now);
        }
    }

    /// Stores the server's answer about a name.
    pub(super) fn looked(&mut self, mut lock: Lock, now: Instant) {
        let Some(entry) = self.names.get_mut(&lock.name) else {
            return;
        };
        let new = entry.looked.is_some() || entry.new;
        let (totals, waits) = entry.past.looked(&lock, new, now);
        if lock.waiters != Some(0)
            && let Some(before) = &entry.lock
        {
            lock.queue.clone_from(&before.queue);
        }
        entry.lock = Some(Arc::new(lock));
        entry.looked = Some(now);
        entry.due = false;
        self.totals += totals;
        for wait in waits {
            self.waits.seen += 1;
            self.waits.sum_ms = self.waits.sum_ms.saturating_add(millis(wait));
            self.longest = self.longest.max(Some(wait));
        }
    }

    /// Stores the server's answer about the queue of a name: its first claims, at most `most` of them.
    pub(super) fn queued(&mut self, name: &str, queue: Vec<Part>, most: usize, now: Instant) {
        let Some(entry) = self.names.get_mut(name) else {
            return;
        };
        entry.queue_looked = Some(now);
        entry.past.queued(&queue, queue.len() < most, now);
        if let Some(lock) = &mut entry.lock {
            Arc::make_mut(lock).queue = queue;
        }
    }

    /// Notes that the key of the name contains no lock.
    pub(super) fn is_no_lock(&mut self, name: &str, now: Instant) {
        if let Some(entry) = self.names.get_mut(name) {
            *entry = Entry {
                tried: Some(now),
                looked: Some(now),
                found: entry.found,
                ..Entry::default()
            };
        }
    }

    /// Returns everything known now. `at` is the time of this machine.
    pub(super) fn sample(&mut self, now: Instant, at: SystemTime) -> Sample {
        let mut locks: Vec<Row> = self
            .names
            .values()
            .filter_map(|entry| entry.row(now, at))
            .collect();
        // The rows come sorted by name, and the sort is stable, so rows with equally many waiters stay in that order.
        locks.sort_by_key(|row| Reverse(row.lock.waiters));
        let longest = self.longest.take().map(millis);
        self.waits.longest_ms.push(longest);
        if self.waits.longest_ms.len() > MOST_WAITS {
            self.waits.longest_ms.remove(0);
        }
        let unknown = self.names.values().filter(|entry| entry.looked.is_none());
        let unknown = unknown.count().try_into().unwrap_or(u64::MAX);
        let holders = locks.iter().flat_map(|row| &row.holders_seen_ms).flatten();
        Sample {
            at: humantime::format_rfc3339_millis(at).to_string(),
            holders: holders.count().try_into().unwrap_or(u64::MAX),
            waiters: locks.iter().filter_map(|row| row.lock.waiters).sum(),
            totals: self.totals,
            per_second: self.rates(now),
            waits: self.waits.clone(),
            load: Load {
                oldest_ms: locks.iter().map(|row| row.looked_ms).max().unwrap_or(0),
                unknown,
                left_out: self.left_out,
                whole: self.is_whole(),
                ..Load::default()
            },
            unreachable: None,
            locks,
        }
    }

    fn rates(&mut self, now: Instant) -> Rates {
        let age = |then: Instant| now.saturating_duration_since(then);
        // Keeps the newest totals that are at least `RATE_OF` old, or, if there are none, the oldest ones.
        while let [_, (second, _), ..] = self.before.make_contiguous()
            && age(*second) >= RATE_OF
        {
            self.before.pop_front();
        }
        let first = self.before.front().copied();
        self.before.push_back((now, self.totals));
        let (then, totals) = first.unwrap_or((now, self.totals));
        (self.totals - totals).over(age(then))
    }
}

impl Entry {
    fn row(&self, now: Instant, at: SystemTime) -> Option<Row> {
        let age = |then: Instant| millis(now.saturating_duration_since(then));
        let (lock, looked) = (self.lock.as_ref()?, self.looked?);
        if !is_busy(lock) {
            return None;
        }
        let first_seen = |part: &Part| self.past.first_seen(&part.claim);
        let seen = |part: &Part| first_seen(part).map(age);
        let seen: Vec<Option<u64>> = lock.holders.iter().map(seen).collect();
        let by_token = lock.held_for(at).map(millis);
        Some(Row {
            held_ms: by_token.or_else(|| seen.iter().copied().flatten().max()),
            lock: Arc::clone(lock),
            looked_ms: age(looked),
            holders_seen_ms: seen,
            queue_looked_ms: self.queue_looked.map(age),
        })
    }
}
