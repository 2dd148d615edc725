//! The claims of one client in the order of their [agendas](Agenda). At any moment it shows which claims need a request
//! and which have expired. Pure: no clock, no task, no order except that of time.

pub(crate) mod pause;
#[doc(hidden)]
pub mod tally;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::words::agenda::{Agenda, Number};
use crate::words::moment::Moment;

/// A request that is due within this fraction of its interval goes out together with those that are due now, so that
/// claims collect in batches.
const GATHER: u32 = 20;

/// The most by which a request goes out early to join a batch.
const GATHER_MOST: Duration = Duration::from_millis(500);

/// An index of claims by their agendas. It [follows](Self::follow) changes of agendas and decides nothing.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    due: BTreeMap<(Moment, Number), Due<T>>,
    deadlines: BTreeMap<(Moment, Number), T>,
    to_verify: BTreeMap<Number, T>,
}

#[derive(Debug)]
struct Due<T> {
    /// How much earlier the request may go out.
    early: Duration,
    claim: T,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            to_verify: BTreeMap::new(),
        }
    }
}

impl<T: Clone> Schedule<T> {
    /// Updates the index after the agenda of a claim has changed.
    pub(crate) fn follow(&mut self, number: Number, claim: &T, before: Agenda, after: Agenda) {
        if before.due != after.due {
            if let Some(due) = before.due {
                self.due.remove(&(due, number));
            }
            if let Some(due) = after.due {
                let early = (after.interval / GATHER).min(GATHER_MOST);
                let claim = claim.clone();
                self.due.insert((due, number), Due { early, claim });
            }
        }
        if before.deadline != after.deadline {
            if let Some(deadline) = before.deadline {
                self.deadlines.remove(&(deadline, number));
            }
            if let Some(deadline) = after.deadline {
                self.deadlines.insert((deadline, number), claim.clone());
            }
        }
        if after.verify {
            self.to_verify.insert(number, claim.clone());
        } else {
            self.to_verify.remove(&number);
        }
    }

    /// The claims for which to send a request at `now`. There are none until one is due; then those that are due soon
    /// are included.
    pub(crate) fn due(&self, now: Moment) -> Vec<T> {
        if self
            .due
            .first_key_value()
            .is_none_or(|((due, _), _)| *due > now)
        {
            return Vec::new();
        }
        let soon = (now.after(GATHER_MOST), Number::MAX);
        let gathered = self.due.range(..=soon);
        let gathered = gathered.filter(|((due, _), it)| *due <= now.after(it.early));
        gathered.map(|(_, it)| it.claim.clone()).collect()
    }

    /// The claims that have expired at `now`.
    pub(crate) fn overdue(&self, now: Moment) -> Vec<T> {
        let overdue = self.deadlines.range(..=(now, Number::MAX));
        overdue.map(|(_, claim)| claim.clone()).collect()
    }

    /// The claims to ask the server about.
    pub(crate) fn to_verify(&self) -> Vec<T> {
        self.to_verify.values().cloned().collect()
    }

    /// Whether the index has this claim exactly where its agenda says, and nowhere else.
    #[cfg(any(test, feature = "shuttle"))]
    pub(crate) fn has(&self, number: Number, agenda: Agenda) -> bool {
        let all = |(moment, other): &(Moment, Number)| (*other == number).then_some(*moment);
        let due = self.due.keys().filter_map(all);
        let deadlines = self.deadlines.keys().filter_map(all);
        due.eq(agenda.due)
            && deadlines.eq(agenda.deadline)
            && self.to_verify.contains_key(&number) == agenda.verify
    }

    /// When something happens next; `None` if nothing ever does.
    pub(crate) fn next(&self) -> Option<Moment> {
        let due = self.due.keys().next().map(|(moment, _)| *moment);
        let deadline = self.deadlines.keys().next().map(|(moment, _)| *moment);
        due.into_iter().chain(deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_elapsed(Duration::from_millis(ms))
    }

    fn agenda(due: u64, deadline: u64) -> Agenda {
        Agenda {
            due: Some(at(due)),
            deadline: Some(at(deadline)),
            interval: Duration::from_millis(1000),
            ..Agenda::default()
        }
    }

    fn schedule(agendas: &[Agenda]) -> Schedule<usize> {
        let mut schedule = Schedule::default();
        for (number, after) in agendas.iter().enumerate() {
            let before = Agenda::default();
            schedule.follow(number as Number, &number, before, *after);
        }
        schedule
    }

    #[test]
    fn what_is_due_soon_goes_out_with_what_is_due_now() {
        let schedule = schedule(&[1000, 1050, 1051].map(|due| agenda(due, due + 1900)));
        assert!(
            schedule.due(at(999)).is_empty(),
            "nothing alone goes out early"
        );
        assert_eq!(schedule.due(at(1000)), [0, 1]);
        assert_eq!(schedule.next(), Some(at(1000)));
    }

    #[test]
    fn a_claim_is_found_where_its_agenda_says_and_nowhere_else() {
        let (first, second) = (agenda(10, 29), agenda(20, 39));
        let mut schedule = schedule(&[first]);
        schedule.follow(0, &0, first, second);
        assert!(schedule.has(0, second) && !schedule.has(0, first));
        assert!(schedule.due(at(19)).is_empty() && schedule.overdue(at(38)).is_empty());
        assert_eq!(schedule.due(at(20)), [0]);
        assert_eq!(schedule.overdue(at(39)), [0]);
        let asked = Agenda {
            due: None,
            verify: true,
            ..second
        };
        schedule.follow(0, &0, second, asked);
        assert!(schedule.due(at(20)).is_empty(), "it is on its way");
        assert_eq!(schedule.to_verify(), [0]);
        assert_eq!(schedule.next(), Some(at(39)), "its deadline stands");
        schedule.follow(0, &0, asked, Agenda::default());
        assert_eq!(schedule.next(), None);
        assert!(schedule.to_verify().is_empty());
    }
}
