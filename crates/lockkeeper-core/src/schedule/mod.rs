//! Which lease is to be renewed or has run out at a given moment. Pure: no clock, no task, no order but time's.

pub(crate) mod pause;
#[doc(hidden)]
pub mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::words::moment::Moment;

/// A lease in the schedule, numbered in the order of grants.
pub(crate) type LeaseId = u64;

/// What is due within this part of its period goes out with what is due now, so that leases gather in batches.
const GATHER: u32 = 20;

/// The longest time by which a renewal goes out early for that.
const GATHER_MOST: Duration = Duration::from_millis(500);

/// Leases granted one after the other share a bucket, so that they stay together.
const BUCKET: u64 = 100;

/// Into how many phases the buckets are spread: after everything was due at once, it is not for ever.
const PHASES: u64 = 16;

/// How soon a lease is renewed, counted from the send of the request before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// After a request that was answered.
    pub(crate) steady: Duration,
    /// After one that was not.
    pub(crate) hurried: Duration,
}

#[derive(Debug)]
struct Entry {
    /// `None` for a fixed lease, which only runs out.
    pace: Option<Pace>,
    deadline: Moment,
    /// When to renew; `None` while a renewal is on its way.
    due: Option<Moment>,
    /// Granted by a message, and so for less than a whole lease, and not renewed yet.
    short: bool,
}

impl Pace {
    /// How soon after `sent` lease `id` is renewed: a little sooner in each phase, by a tenth at most.
    fn steady(self, id: LeaseId, sent: Moment) -> Moment {
        let phase = u32::try_from(id / BUCKET % PHASES).unwrap_or_default();
        sent.after(self.steady - self.steady / 160 * phase)
    }

    /// By how much a renewal may go out early.
    fn gather(self) -> Duration {
        (self.steady / GATHER).min(GATHER_MOST)
    }
}

/// All leases of one client by what happens to them next.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    entries: BTreeMap<LeaseId, Entry>,
    by_due: BTreeSet<(Moment, LeaseId)>,
    by_deadline: BTreeSet<(Moment, LeaseId)>,
    /// The longest time by which a renewal of any lease so far may go out early.
    gather: Duration,
}

impl Schedule {
    /// A claim waits since `sent`, and until `until` at most. What was scheduled for it before is forgotten.
    pub(crate) fn wait(&mut self, id: LeaseId, pace: Pace, sent: Moment, until: Moment) {
        self.insert(id, Some(pace), until);
        self.set_due(id, pace.steady(id, sent));
    }

    /// A lease was granted by a request sent at `sent`. What was scheduled for it before is forgotten.
    pub(crate) fn add(&mut self, id: LeaseId, pace: Option<Pace>, sent: Moment, deadline: Moment) {
        self.insert(id, pace, deadline);
        if let Some(pace) = pace {
            let (steady, left) = (pace.steady(id, sent), deadline.since(sent));
            let short = steady.since(sent) > left - left / 3;
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.short = short;
            }
            self.set_due(id, if short { sent.after(left / 3) } else { steady });
        }
    }

    fn insert(&mut self, id: LeaseId, pace: Option<Pace>, deadline: Moment) {
        self.remove(id);
        self.entries.insert(
            id,
            Entry {
                pace,
                deadline,
                due: None,
                short: false,
            },
        );
        self.by_deadline.insert((deadline, id));
        if let Some(pace) = pace {
            self.gather = self.gather.max(pace.gather());
        }
    }

    /// The lease is to be renewed, or the waiting claim to beat, now, unless that is on its way.
    pub(crate) fn hurry(&mut self, id: LeaseId, now: Moment) {
        if self
            .entries
            .get(&id)
            .is_some_and(|entry| entry.due.is_some())
        {
            self.set_due(id, now);
        }
    }

    /// The lease is over, whatever the reason.
    pub(crate) fn remove(&mut self, id: LeaseId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.by_deadline.remove(&(entry.deadline, id));
            if let Some(due) = entry.due {
                self.by_due.remove(&(due, id));
            }
        }
    }

    /// The leases to renew at `now`, most urgent first: none before one is due, and then with it those that are due
    /// soon. Each stays out until [`renewed`](Self::renewed) or [`failed`](Self::failed) puts it back.
    pub(crate) fn take_due(&mut self, now: Moment) -> Vec<LeaseId> {
        if self.by_due.first().is_none_or(|&(due, _)| due > now) {
            return Vec::new();
        }
        let soon = (now.after(self.gather), LeaseId::MAX);
        let gathered = |&&(due, id): &&(Moment, LeaseId)| {
            let pace = self.entries.get(&id).and_then(|entry| entry.pace);
            due <= now.after(pace.map_or(Duration::ZERO, Pace::gather))
        };
        let taken: Vec<_> = self
            .by_due
            .range(..=soon)
            .filter(gathered)
            .copied()
            .collect();
        let mut due = Vec::with_capacity(taken.len());
        for key in taken {
            self.by_due.remove(&key);
            if let Some(entry) = self.entries.get_mut(&key.1) {
                entry.due = None;
                due.push((entry.deadline, key.1));
            }
        }
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// The leases whose deadline has passed at `now`; they are out of the schedule.
    pub(crate) fn take_overdue(&mut self, now: Moment) -> Vec<LeaseId> {
        let mut overdue = Vec::new();
        while let Some(&(deadline, id)) = self.by_deadline.first() {
            if deadline > now {
                break;
            }
            self.remove(id);
            overdue.push(id);
        }
        overdue
    }

    /// A renewal sent at `sent` was answered; the lease is now good until `deadline`.
    pub(crate) fn renewed(&mut self, id: LeaseId, sent: Moment, deadline: Moment) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        self.by_deadline.remove(&(entry.deadline, id));
        entry.deadline = deadline;
        entry.short = false;
        self.by_deadline.insert((deadline, id));
        if let Some(pace) = entry.pace {
            self.set_due(id, pace.steady(id, sent));
        }
    }

    /// A renewal sent at `sent` was not answered.
    pub(crate) fn failed(&mut self, id: LeaseId, sent: Moment) {
        if let Some(entry) = self.entries.get(&id)
            && let Some(pace) = entry.pace
        {
            let left = entry.deadline.since(sent);
            let soon = if entry.short { left / 3 } else { pace.hurried };
            self.set_due(id, sent.after(soon.min(pace.hurried)));
        }
    }

    /// Nobody knows what the server did meanwhile: every lease that renews is due, but for those on their way.
    pub(crate) fn all_due(&mut self, now: Moment) {
        let waiting: Vec<LeaseId> = self.by_due.iter().map(|&(_, id)| id).collect();
        for id in waiting {
            self.set_due(id, now);
        }
    }

    /// When something happens next; `None` if nothing ever does.
    pub(crate) fn next(&self) -> Option<Moment> {
        let due = self.by_due.first().map(|&(moment, _)| moment);
        let deadline = self.by_deadline.first().map(|&(moment, _)| moment);
        due.into_iter().chain(deadline).min()
    }

    fn set_due(&mut self, id: LeaseId, due: Moment) {
        if let Some(entry) = self.entries.get_mut(&id) {
            if let Some(before) = entry.due.replace(due) {
                self.by_due.remove(&(before, id));
            }
            self.by_due.insert((due, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        steady: Duration::from_millis(10),
        hurried: Duration::from_millis(5),
    };

    fn at(ms: u64) -> Moment {
        Moment::from_elapsed(Duration::from_millis(ms))
    }

    #[test]
    fn a_lease_is_due_a_third_after_its_send_and_only_once() {
        let mut schedule = Schedule::default();
        schedule.add(1, Some(PACE), at(0), at(29));
        assert_eq!(schedule.next(), Some(at(10)));
        assert!(schedule.take_due(at(9)).is_empty());
        assert_eq!(schedule.take_due(at(10)), [1]);
        assert!(
            schedule.take_due(at(11)).is_empty(),
            "its renewal is on its way"
        );
        assert_eq!(schedule.next(), Some(at(29)), "its deadline stands");
    }

    #[test]
    fn a_renewal_moves_both_times_and_a_failure_hurries_the_next() {
        let mut schedule = Schedule::default();
        schedule.add(1, Some(PACE), at(0), at(29));
        schedule.take_due(at(10));
        schedule.renewed(1, at(10), at(39));
        assert_eq!(schedule.next(), Some(at(20)));
        schedule.take_due(at(20));
        schedule.failed(1, at(20));
        assert_eq!(schedule.next(), Some(at(25)));
        assert!(schedule.take_overdue(at(38)).is_empty());
        assert_eq!(schedule.take_overdue(at(39)), [1]);
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn a_fixed_lease_only_runs_out() {
        let mut schedule = Schedule::default();
        schedule.add(1, None, at(0), at(29));
        schedule.all_due(at(1));
        assert!(schedule.take_due(at(28)).is_empty());
        assert_eq!(schedule.take_overdue(at(29)), [1]);
    }

    #[test]
    fn the_lease_that_ends_first_is_renewed_first() {
        let mut schedule = Schedule::default();
        schedule.add(1, Some(PACE), at(0), at(90));
        schedule.add(2, Some(PACE), at(0), at(30));
        schedule.add(3, Some(PACE), at(5), at(60));
        assert_eq!(schedule.take_due(at(15)), [2, 3, 1]);
    }

    #[test]
    fn what_is_due_soon_goes_out_with_what_is_due_now() {
        let pace = Pace {
            steady: Duration::from_millis(1000),
            hurried: Duration::from_millis(500),
        };
        let mut schedule = Schedule::default();
        for (id, sent) in [(1, 0), (2, 50), (3, 51)] {
            schedule.add(id, Some(pace), at(sent), at(sent + 2900));
        }
        assert_eq!(
            schedule.take_due(at(999)),
            [],
            "nothing alone goes out early"
        );
        assert_eq!(schedule.take_due(at(1000)), [1, 2]);
        assert_eq!(schedule.next(), Some(at(1051)));
    }

    #[test]
    fn leases_granted_together_stay_together_and_hundreds_spread() {
        let pace = Pace {
            steady: Duration::from_millis(1600),
            hurried: Duration::from_millis(800),
        };
        let due = |id| pace.steady(id, at(0));
        assert_eq!(due(0), due(99));
        assert_eq!(due(100), at(1590));
        assert_eq!(due(1599), at(1450), "a tenth sooner at most");
        assert_eq!(due(1600), due(0));
    }

    #[test]
    fn after_a_gap_everything_is_due_but_what_is_on_its_way() {
        let mut schedule = Schedule::default();
        schedule.add(1, Some(PACE), at(0), at(30));
        schedule.add(2, Some(PACE), at(5), at(35));
        assert_eq!(schedule.take_due(at(10)), [1]);
        schedule.all_due(at(11));
        assert_eq!(schedule.take_due(at(11)), [2]);
    }

    #[test]
    fn a_lease_that_is_over_leaves_no_trace() {
        let mut schedule = Schedule::default();
        schedule.add(1, Some(PACE), at(0), at(30));
        schedule.take_due(at(10));
        schedule.remove(1);
        schedule.renewed(1, at(10), at(40));
        schedule.failed(1, at(10));
        assert_eq!(schedule.next(), None);
    }
}
