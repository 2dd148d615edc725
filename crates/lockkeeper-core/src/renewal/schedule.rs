//! Which lease is to be renewed or has run out at a given moment. Pure: no clock, no task, no order but time's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::clock::Moment;

/// A lease in the schedule, numbered in the order of grants.
pub(crate) type LeaseId = u64;

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
}

/// All leases of one client by what happens to them next.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    entries: BTreeMap<LeaseId, Entry>,
    by_due: BTreeSet<(Moment, LeaseId)>,
    by_deadline: BTreeSet<(Moment, LeaseId)>,
}

impl Schedule {
    /// A lease was granted by a request sent at `sent`.
    pub(crate) fn add(&mut self, id: LeaseId, pace: Option<Pace>, sent: Moment, deadline: Moment) {
        self.entries.insert(
            id,
            Entry {
                pace,
                deadline,
                due: None,
            },
        );
        self.by_deadline.insert((deadline, id));
        if let Some(pace) = pace {
            self.set_due(id, sent.after(pace.steady));
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

    /// The leases to renew at `now`, most urgent first. Each stays out until [`renewed`](Self::renewed) or
    /// [`failed`](Self::failed) puts it back.
    pub(crate) fn take_due(&mut self, now: Moment) -> Vec<LeaseId> {
        let mut due = Vec::new();
        while let Some(&(moment, id)) = self.by_due.first() {
            if moment > now {
                break;
            }
            self.by_due.pop_first();
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.due = None;
                due.push((entry.deadline, id));
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
        self.by_deadline.insert((deadline, id));
        if let Some(pace) = entry.pace {
            self.set_due(id, sent.after(pace.steady));
        }
    }

    /// A renewal sent at `sent` was not answered.
    pub(crate) fn failed(&mut self, id: LeaseId, sent: Moment) {
        if let Some(pace) = self.entries.get(&id).and_then(|entry| entry.pace) {
            self.set_due(id, sent.after(pace.hurried));
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
