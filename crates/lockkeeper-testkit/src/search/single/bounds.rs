//! How far a search of one name goes.

use std::fmt;
use std::time::Duration;

use super::TICKS;
use crate::kinds::KindModel;

/// More clients than this are not worth waiting for; a state has room for so many.
pub const MOST_CLIENTS: usize = 3;

/// How far a search of one name goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Bounds {
    /// How many clients there are, at most [`MOST_CLIENTS`].
    pub clients: u8,
    /// How many acquisitions each of them begins, by how many ticks the lease of each lasts.
    pub leases: Vec<u8>,
    /// How many of them, the last, only ask to take the place of one before, of a kind whose claims can.
    pub takers: u8,
    /// For how many ticks a claim in a queue is alive without a word. Of no account to a kind without one.
    pub waiter: u8,
    /// How many may wait in a queue; `None`: any number. Of no account to a kind without one.
    pub max_queue: Option<u64>,
    /// How often time moves on.
    pub ticks: u8,
    /// How many requests are given up, refused or not sent. Those given up may be executed any time later, any number of
    /// times, or never.
    pub faults: u8,
    /// How many clients crash or close.
    pub endings: u8,
    /// Whether the server's clock is behind the last token it gave, as after it was stepped back: then a token is the last one
    /// plus one. Else it is the time, and states that differ in nothing but their tokens are not one.
    pub clock_behind: bool,
    /// Whether the server may lose the key with the last token, which takes an ending. Then requests carry the largest token
    /// that their client has seen; else they carry none, for it makes no difference while the server remembers more.
    pub forgets: bool,
    /// Whether the limit of a semaphore may be set, lowered or raised, which takes an ending.
    pub sets_limit: bool,
}

impl Bounds {
    /// So many clients, the ticks of the lease of each of their attempts, and how often time moves on, requests are in trouble
    /// and clients end.
    pub fn new(clients: u8, leases: &[u8], ticks: u8, faults: u8, endings: u8) -> Self {
        Self {
            clients,
            leases: leases.to_vec(),
            takers: 0,
            waiter: 3,
            max_queue: None,
            ticks,
            faults,
            endings,
            clock_behind: true,
            forgets: false,
            sets_limit: false,
        }
    }

    /// Two clients with two attempts each, one request in trouble, one client that ends.
    pub fn small() -> Self {
        Self::new(2, &[2, 2], 4, 1, 1)
    }

    /// Two clients with two attempts each, of which the second can only take the place of the first.
    pub fn conversions() -> Self {
        Self::new(2, &[2, 2], 3, 1, 0).of_takers()
    }

    fn of_takers(mut self) -> Self {
        self.takers = 1;
        self
    }

    /// The limit of a semaphore may be set.
    #[must_use]
    pub fn limit_set(mut self) -> Self {
        self.sets_limit = true;
        self
    }

    fn clock_right(mut self) -> Self {
        self.clock_behind = false;
        self
    }

    fn short_queue(mut self) -> Self {
        self.max_queue = Some(1);
        self
    }

    fn short_waits(mut self) -> Self {
        self.waiter = 1;
        self
    }

    /// What a contributor waits for: of each thing that can go wrong a little, less of a kind with a queue.
    pub fn short(kind: &KindModel) -> Vec<Self> {
        let new = Self::new;
        if kind.has_permits() {
            return Self::of_limits(
                kind,
                [new(2, &[2], 2, 1, 0), new(3, &[2], 1, 0, 0)],
                new(3, &[2], 1, 0, 1),
            );
        }
        if kind.proclaims() {
            // What is known of a leader makes many states of one.
            return vec![new(2, &[2], 3, 0, 0), new(2, &[2], 1, 1, 0)];
        }
        if kind.hands_over {
            return vec![new(2, &[2, 2], 2, 1, 0).of_takers()];
        }
        if kind.waits_in_a_queue {
            return vec![
                new(2, &[2], 2, 1, 0),
                new(2, &[1, 1], 1, 0, 0).short_waits(),
                new(3, &[2], 2, 0, 0),
                new(3, &[2], 2, 0, 0).short_queue(),
                new(2, &[2], 2, 0, 1).clock_right(),
            ];
        }
        vec![
            new(2, &[2], 3, 1, 1),
            new(2, &[1, 1], 1, 1, 0).short_waits(),
            new(3, &[2], 2, 0, 0),
            new(2, &[2], 3, 0, 1).clock_right(),
        ]
    }

    /// What every change must pass: each goes far in one direction. Where more can happen they go less far.
    pub fn quick(kind: &KindModel) -> Vec<Self> {
        let new = Self::new;
        if kind.converts_modes {
            return vec![
                Self::conversions(),
                // Two requests for a conversion in trouble, or one for each of two.
                new(2, &[2, 2], 1, 2, 0).of_takers(),
                // Two of one owner.
                new(2, &[2, 2], 2, 0, 0),
                // Some read, some write.
                new(3, &[2], 2, 1, 0),
                new(3, &[2], 2, 0, 1).short_queue(),
                // Gaps in which nobody is heard, one after the other.
                new(2, &[2], 5, 1, 1),
            ];
        }
        if kind.hands_over {
            return vec![
                Self::conversions(),
                // Two requests for a handover in trouble, or one for each of two.
                new(2, &[2, 2], 1, 2, 0).of_takers(),
                // A client that ends around a handover.
                new(2, &[2, 2], 2, 0, 1).of_takers(),
            ];
        }
        if kind.has_permits() {
            return Self::of_limits(
                kind,
                [
                    // Some hold beside one another, and one waits.
                    new(3, &[2], 2, 0, 1),
                    // A request in trouble, and a client that ends.
                    new(2, &[2], 4, 1, 1),
                ],
                new(3, &[2], 2, 0, 1),
            );
        }
        if kind.proclaims() {
            return vec![
                // A leader that is late, and one that ends.
                new(2, &[2], 4, 1, 0),
                new(2, &[2], 3, 0, 1),
                // One leads, two stand by.
                new(3, &[2], 3, 0, 0),
                // Two of one client.
                new(2, &[1, 1], 1, 0, 0).short_waits(),
                new(2, &[2], 2, 0, 1).clock_right(),
            ];
        }
        if kind.waits_in_a_queue {
            return vec![
                // Two heartbeats in trouble around a grant.
                new(2, &[2], 4, 2, 1),
                // One holds, two wait.
                new(3, &[2], 4, 1, 0),
                // One holds, one waits, and for a third there is no room.
                new(3, &[2], 4, 0, 1).short_queue(),
                // Of two that wait one dies.
                new(3, &[3], 4, 0, 1),
                // Gaps in which nobody is heard, one after the other.
                new(2, &[2], 7, 1, 1),
                // Two of one owner wait.
                new(2, &[1, 1], 1, 1, 1).short_waits(),
                new(2, &[2], 4, 1, 0).clock_right(),
            ];
        }
        if kind.has_modes() {
            return vec![
                // Two of one owner, of which one may read inside the write of the other.
                new(2, &[2, 2], 1, 1, 0),
                new(2, &[2, 2], 2, 0, 0),
                // Two requests in trouble, and a client that ends.
                new(2, &[2], 4, 2, 1),
                // Some read, some write.
                new(3, &[2], 3, 1, 1),
                // Leases that differ.
                new(2, &[3, 1], 2, 0, 1),
                new(3, &[2], 2, 1, 0).clock_right(),
            ];
        }
        if kind.stores() {
            return vec![
                // One stores, and the next asks again when the result has ended.
                new(2, &[2, 2], 3, 1, 0),
                // Two requests in trouble: a late acquire and a late store.
                new(2, &[2], 4, 2, 1),
                new(2, &[1, 1], 1, 1, 1),
                new(3, &[2], 3, 1, 0),
                new(2, &[2], 3, 1, 1).clock_right(),
            ];
        }
        vec![
            Self::small(),
            // Many things go wrong, around few claims.
            new(2, &[2], 4, 3, 1),
            // Two requests in trouble at the same time.
            new(2, &[1, 1], 1, 2, 0),
            // A nested claim that ends before the one around it.
            new(2, &[3, 2], 5, 1, 0),
            // Three claims want the same name.
            new(3, &[2], 4, 2, 1),
            new(2, &[2, 2], 3, 1, 0).clock_right(),
        ]
    }

    /// The same further out: minutes to hours, and gigabytes.
    pub fn thorough(kind: &KindModel) -> Vec<Self> {
        let new = Self::new;
        if kind.converts_modes {
            return vec![
                new(2, &[2, 2], 3, 1, 1).of_takers(),
                new(2, &[2, 2], 2, 2, 0).of_takers(),
                new(3, &[2, 2], 2, 0, 0).of_takers(),
                new(2, &[3, 2], 3, 0, 1),
                new(3, &[2], 3, 1, 0),
                new(2, &[2], 5, 2, 1),
            ];
        }
        if kind.hands_over {
            return vec![
                new(2, &[2, 2], 3, 1, 1).of_takers(),
                new(2, &[2, 2], 2, 2, 0).of_takers(),
                new(3, &[2, 2], 2, 0, 0).of_takers(),
            ];
        }
        if kind.has_permits() {
            return Self::of_limits(
                kind,
                [
                    new(3, &[2], 3, 1, 1),
                    new(2, &[2, 2], 3, 1, 0),
                    new(2, &[2], 5, 2, 1),
                ],
                new(3, &[2], 2, 0, 2),
            );
        }
        if kind.waits_in_a_queue {
            return vec![
                new(2, &[2], 5, 2, 1),
                new(2, &[2, 2], 3, 1, 0),
                new(2, &[3, 2], 4, 0, 1),
                new(3, &[2], 4, 1, 1),
                new(2, &[2], 3, 3, 1),
                new(3, &[2], 3, 2, 0),
            ];
        }
        vec![
            new(2, &[2, 2], 3, 2, 1),
            new(2, &[2], 5, 4, 1),
            new(2, &[3, 2], 6, 1, 1),
            new(3, &[2], 4, 3, 1),
            new(2, &[2, 2, 2], 4, 1, 1),
            new(2, &[2, 2], 6, 1, 1).clock_right(),
        ]
    }

    /// Those of a semaphore, and where all clients say one limit that which is `set`, lowered and raised.
    fn of_limits<const N: usize>(kind: &KindModel, all: [Self; N], set: Self) -> Vec<Self> {
        let sets = kind.modes == KindModel::SEMAPHORE.modes;
        let set = sets.then(|| set.limit_set());
        all.into_iter().chain(set).collect()
    }

    /// The length of the lease of an attempt on the server.
    pub(super) fn ttl(&self, attempt: u8) -> Duration {
        TICKS.lease(self.leases[usize::from(attempt)])
    }

    /// For how long a claim in a queue is alive without a word.
    pub(super) const fn waiter_ttl(&self) -> Duration {
        TICKS.lease(self.waiter)
    }

    /// How many acquisitions each client begins.
    pub(super) fn attempts(&self) -> u8 {
        u8::try_from(self.leases.len()).unwrap_or(u8::MAX)
    }

    /// The longest lease, ticks.
    pub(super) fn longest(&self) -> u8 {
        self.leases.iter().copied().max().unwrap_or(1)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} clients, leases of {:?} ticks each, {} only by a conversion, {} ticks, {} faults, {} endings, clock {}{}",
            self.clients,
            self.leases,
            self.takers,
            self.ticks,
            self.faults,
            self.endings,
            if self.clock_behind { "behind" } else { "right" },
            self.max_queue
                .map_or_else(String::new, |limit| format!(", {limit} may wait"))
                + if self.sets_limit {
                    ", the limit may be set"
                } else {
                    ""
                },
        )
    }
}
