//! How far a search goes, and how long a tick is.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::clock::Moment;

/// The step of time, ms. Nothing happens between two of them.
pub(super) const TICK: u64 = 10;

/// A lease ends so much before a whole number of ticks, on the server. ms.
const EARLY: u64 = 5;

/// How much earlier it ends for its holder: as little as there is, so that what is wrong by a tick shows.
pub(super) const MARGIN: Duration = Duration::from_millis(1);

/// The server's clock at tick zero, ms.
const BEGINNING: u64 = 1_000_000;

/// More clients than this are not worth waiting for; a state has room for so many.
pub const MOST_CLIENTS: usize = 3;

/// How far a search goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// How many clients there are, at most [`MOST_CLIENTS`].
    pub clients: u8,
    /// How many acquisitions each of them begins, by how many ticks the lease of each lasts.
    pub leases: Vec<u8>,
    /// How many of them, the last, only ask to take the place of one before, of a kind whose claims can.
    pub takers: u8,
    /// For how many ticks a claim in a queue is alive without a word. Of no account to a kind without one.
    pub waiter: u8,
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
    /// Stops after so many states. The search is unfinished then.
    pub states: usize,
}

impl Bounds {
    /// Two clients with two attempts each, one request in trouble, one client that ends.
    pub fn small() -> Self {
        Self {
            clients: 2,
            leases: vec![2, 2],
            takers: 0,
            waiter: 3,
            ticks: 4,
            faults: 1,
            endings: 1,
            clock_behind: true,
            forgets: false,
            states: usize::MAX,
        }
    }

    /// What a contributor waits for: of each thing that can go wrong a little, less of a kind with a queue.
    pub fn short(of_queues: bool) -> Vec<Self> {
        let one_each = || Self {
            leases: vec![2],
            ticks: if of_queues { 2 } else { 3 },
            endings: u8::from(!of_queues),
            ..Self::small()
        };
        let two_each = Self {
            leases: vec![1, 1],
            waiter: 1,
            ticks: 1,
            faults: u8::from(!of_queues),
            endings: 0,
            ..Self::small()
        };
        let three = Self {
            clients: 3,
            ticks: 2,
            faults: 0,
            endings: 0,
            ..one_each()
        };
        let clock_right = Self {
            faults: 0,
            endings: 1,
            clock_behind: false,
            ..one_each()
        };
        vec![one_each(), two_each, three, clock_right]
    }

    /// What every change must pass: each goes far in one direction, and together they take less than half a minute.
    pub fn quick() -> Vec<Self> {
        let small = Self::small;
        vec![
            small(),
            // Many things go wrong, around few claims.
            Self {
                leases: vec![2],
                faults: 3,
                ..small()
            },
            // Two requests in trouble at the same time.
            Self {
                leases: vec![1, 1],
                ticks: 1,
                faults: 2,
                endings: 0,
                ..small()
            },
            // A nested claim that ends before the one around it.
            Self {
                leases: vec![3, 2],
                ticks: 5,
                endings: 0,
                ..small()
            },
            // Three claims want the same name.
            Self {
                clients: 3,
                leases: vec![2],
                faults: 2,
                ..small()
            },
            Self {
                ticks: 3,
                endings: 0,
                clock_behind: false,
                ..small()
            },
        ]
    }

    /// What every change to a kind with a queue must pass: there more can happen, so they go less far.
    pub fn quick_of_queues() -> Vec<Self> {
        let small = Self::small;
        let one_each = || Self {
            leases: vec![2],
            ..small()
        };
        vec![
            // Two heartbeats in trouble around a grant.
            Self {
                faults: 2,
                ..one_each()
            },
            // One holds, two wait.
            Self {
                clients: 3,
                endings: 0,
                ..one_each()
            },
            // Of those who wait one dies.
            Self {
                clients: 3,
                leases: vec![3],
                faults: 0,
                ..small()
            },
            // Gaps in which nobody is heard, one after the other.
            Self {
                ticks: 7,
                ..one_each()
            },
            // Two of one owner wait.
            Self {
                leases: vec![1, 1],
                waiter: 1,
                ticks: 1,
                ..small()
            },
            Self {
                endings: 0,
                clock_behind: false,
                ..one_each()
            },
        ]
    }

    /// Two clients with two attempts each, of which the second can only take the place of the first.
    pub fn conversions() -> Self {
        Self {
            takers: 1,
            ticks: 3,
            endings: 0,
            ..Self::small()
        }
    }

    /// What every change to a kind with modes must pass: there still more can happen.
    pub fn quick_of_modes() -> Vec<Self> {
        let conversions = Self::conversions;
        let one_each = || Self {
            leases: vec![2],
            ..Self::small()
        };
        vec![
            conversions(),
            // Two requests for a conversion in trouble, or one for each of two.
            Self {
                ticks: 1,
                faults: 2,
                ..conversions()
            },
            // Two of one owner, one of which dies.
            Self {
                leases: vec![2, 2],
                ticks: 2,
                faults: 0,
                endings: 0,
                ..one_each()
            },
            // Some read, some write.
            Self {
                clients: 3,
                ticks: 2,
                endings: 0,
                ..one_each()
            },
            // Gaps in which nobody is heard, one after the other.
            Self {
                ticks: 5,
                ..one_each()
            },
        ]
    }

    /// The same further out.
    pub fn thorough_of_modes() -> Vec<Self> {
        let conversions = Self::conversions;
        let one_each = || Self {
            leases: vec![2],
            ..Self::small()
        };
        vec![
            Self {
                endings: 1,
                ..conversions()
            },
            Self {
                ticks: 2,
                faults: 2,
                ..conversions()
            },
            Self {
                clients: 3,
                ticks: 2,
                faults: 0,
                ..conversions()
            },
            Self {
                leases: vec![3, 2],
                ticks: 3,
                faults: 0,
                ..one_each()
            },
            Self {
                clients: 3,
                ticks: 3,
                endings: 0,
                ..one_each()
            },
            Self {
                ticks: 5,
                faults: 2,
                ..one_each()
            },
        ]
    }

    /// The same further out.
    pub fn thorough_of_queues() -> Vec<Self> {
        let small = Self::small;
        let one_each = || Self {
            leases: vec![2],
            ..small()
        };
        vec![
            Self {
                ticks: 5,
                faults: 2,
                ..one_each()
            },
            Self {
                ticks: 3,
                endings: 0,
                ..small()
            },
            Self {
                leases: vec![3, 2],
                faults: 0,
                ..small()
            },
            Self {
                clients: 3,
                ..one_each()
            },
            Self {
                ticks: 3,
                faults: 3,
                ..one_each()
            },
            Self {
                clients: 3,
                ticks: 3,
                faults: 2,
                endings: 0,
                ..one_each()
            },
        ]
    }

    /// The same further out: minutes, and gigabytes.
    pub fn thorough() -> Vec<Self> {
        let small = Self::small;
        vec![
            Self {
                ticks: 3,
                faults: 2,
                ..small()
            },
            Self {
                leases: vec![2],
                ticks: 5,
                faults: 4,
                ..small()
            },
            Self {
                leases: vec![3, 2],
                ticks: 6,
                ..small()
            },
            Self {
                clients: 3,
                leases: vec![2],
                faults: 3,
                ..small()
            },
            Self {
                leases: vec![2, 2, 2],
                ..small()
            },
            Self {
                ticks: 6,
                clock_behind: false,
                ..small()
            },
        ]
    }

    /// The length of the lease of an attempt on the server.
    pub(super) fn ttl(&self, attempt: u8) -> Duration {
        length(self.leases[usize::from(attempt)])
    }

    /// For how long a claim in a queue is alive without a word.
    pub(super) fn waiter_ttl(&self) -> Duration {
        length(self.waiter)
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
            "{} clients, leases of {:?} ticks each, {} only by a conversion, {} ticks, {} faults, {} endings, clock {}",
            self.clients,
            self.leases,
            self.takers,
            self.ticks,
            self.faults,
            self.endings,
            if self.clock_behind { "behind" } else { "right" },
        )
    }
}

/// What lasts so many ticks ends a little before the last of them.
fn length(ticks: u8) -> Duration {
    Duration::from_millis(u64::from(ticks) * TICK - EARLY)
}

/// The clients' time at a tick.
pub(super) fn moment(tick: u8) -> Moment {
    Moment::from_elapsed(Duration::from_millis(u64::from(tick) * TICK))
}

/// The server's time at a tick, µs.
pub(super) fn server_time(tick: u8) -> i64 {
    let millis = BEGINNING + u64::from(tick) * TICK;
    i64::try_from(millis * 1000).unwrap_or(i64::MAX)
}
