//! The waiters of one channel, in order. Only [`iter`](LocalQueue::iter) and [`less_patient_than`](LocalQueue::less_patient_than)
//! go through all of them. Pure, like the
//! registry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::registry::WaiterId;
use crate::words::owner::Owner;

#[derive(Debug)]
struct Waiter {
    place: u64,
    /// Whom it waits for, if owners are granted the lock again.
    owner: Option<Owner>,
    /// How long it tolerates a silent server.
    patience: Duration,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct LocalQueue {
    /// By their place in the queue.
    order: BTreeMap<u64, WaiterId>,
    waiters: BTreeMap<WaiterId, Waiter>,
    owners: BTreeSet<(Owner, WaiterId)>,
    end: u64,
}

impl LocalQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn front(&self) -> Option<WaiterId> {
        self.order.first_key_value().map(|(_, waiter)| *waiter)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = WaiterId> {
        self.order.values().copied()
    }

    /// The waiters for this owner.
    pub(super) fn of(&self, owner: Owner) -> impl Iterator<Item = WaiterId> {
        let all = (owner, WaiterId::MIN)..=(owner, WaiterId::MAX);
        self.owners.range(all).map(|(_, waiter)| *waiter)
    }

    pub(super) fn patience(&self, waiter: WaiterId) -> Option<Duration> {
        self.waiters.get(&waiter).map(|waiter| waiter.patience)
    }

    /// The first of the waiters with the least patience, if that is less than this.
    pub(super) fn less_patient_than(&self, patience: Duration) -> Option<WaiterId> {
        let patience_of = |waiter: &WaiterId| self.patience(*waiter).unwrap_or(patience);
        let least = self.iter().min_by_key(patience_of);
        least.filter(|waiter| patience_of(waiter) < patience)
    }

    pub(super) fn push_back(&mut self, waiter: WaiterId, owner: Option<Owner>, patience: Duration) {
        self.end += 1;
        let place = self.end;
        self.order.insert(place, waiter);
        let new = Waiter {
            place,
            owner,
            patience,
        };
        self.waiters.insert(waiter, new);
        self.owners.extend(owner.map(|owner| (owner, waiter)));
    }

    /// Removes a waiter; returns the owner that it waited for.
    pub(super) fn remove(&mut self, waiter: WaiterId) -> Option<Owner> {
        let Waiter { place, owner, .. } = self.waiters.remove(&waiter)?;
        self.order.remove(&place);
        if let Some(owner) = owner {
            self.owners.remove(&(owner, waiter));
        }
        owner
    }

    /// Moves the first waiter to the end.
    pub(super) fn rotate(&mut self) {
        if let Some(first) = self.front()
            && let Some(patience) = self.patience(first)
        {
            let owner = self.remove(first);
            self.push_back(first, owner, patience);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_order_is_that_of_arrival_but_for_those_sent_to_the_back() {
        let mut line = LocalQueue::default();
        for waiter in 1..=4 {
            line.push_back(waiter, None, Duration::ZERO);
        }
        line.rotate();
        line.remove(3);
        line.remove(3);
        assert_eq!(line.iter().collect::<Vec<_>>(), [2, 4, 1]);
        assert_eq!((line.front(), line.len()), (Some(2), 3));
    }

    #[test]
    fn an_owners_waiters_are_found_wherever_they_stand_and_forgotten_with_them() {
        let (one, other) = (Owner::new(Uuid::nil(), 1), Owner::new(Uuid::nil(), 2));
        let mut line = LocalQueue::default();
        for (waiter, owner) in [(1, one), (2, other), (3, one)] {
            line.push_back(waiter, Some(owner), Duration::ZERO);
        }
        line.rotate();
        assert_eq!(line.of(one).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(line.remove(3), Some(one));
        assert_eq!(line.of(one).collect::<Vec<_>>(), [1]);
        assert_eq!(line.of(other).collect::<Vec<_>>(), [2]);
    }
}
