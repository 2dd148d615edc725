//! How far a search of one name goes.

use std::fmt;
use std::time::Duration;

use super::incident::Incident;
use crate::kinds::{Claimant, KindModel};
use crate::search::state::Ticks;

pub(super) const TICKS: Ticks = Ticks(10);

/// The claimants of this many clients with this many attempts each.
pub(super) fn claimants(clients: u8, attempts: u8) -> impl Iterator<Item = Claimant> + use<> {
    let of_client = move |client| (0..attempts).map(move |attempt| Claimant { client, attempt });
    (0..clients).flat_map(of_client)
}

/// The largest number of clients. A state has room for this many, and searches with more take too long.
pub const MOST_CLIENTS: usize = 3;

/// How far a search of one name goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Bounds {
    /// How many clients there are, at most [`MOST_CLIENTS`].
    pub clients: u8,
    /// The lease of each client's attempts, in ticks; one entry per attempt.
    pub leases: Vec<u8>,
    /// How many attempts, the last ones, can only take the place of an earlier one. For kinds whose claims can do so.
    pub takers: u8,
    /// How many ticks a waiter in a queue counts as alive after the server heard from it. Unused for a kind without a queue.
    pub waiter: u8,
    /// How many claims may wait in a queue; `None` for any number. Unused for a kind without a queue.
    pub max_queue: Option<u64>,
    /// How often time advances.
    pub ticks: u8,
    /// How many requests are given up, refused or not sent. A request that was given up may be executed at any later time, any
    /// number of times, or never.
    pub faults: u8,
    /// How many clients crash or close.
    pub endings: u8,
    /// Whether the server's clock is behind its last token, as after it has stepped back: every token is then the last one
    /// plus one. Otherwise a token is the time, and states that differ only in their tokens are distinct.
    pub clock_behind: bool,
    /// For how many ticks after its grant a claim keeps the name from others, even if it is released sooner; 0: not at all.
    pub min_hold: u8,
    /// What may happen to the name on the server, which counts as an ending.
    pub incident: Option<Incident>,
}

impl Bounds {
    /// Bounds for this many clients, the lease of each of their attempts in ticks, and how often time advances, requests get
    /// into trouble and clients end.
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
            min_hold: 0,
            incident: None,
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

    #[must_use]
    pub(crate) const fn clock_right(mut self) -> Self {
        self.clock_behind = false;
        self
    }

    /// Claims keep the name from others for a tick longer than it takes to release it.
    #[must_use]
    pub const fn cooling_down(mut self) -> Self {
        self.min_hold = 2;
        self
    }

    /// This may happen to the name.
    #[must_use]
    pub const fn with(mut self, incident: Incident) -> Self {
        self.incident = Some(incident);
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

    /// The searches that a contributor waits for: a little of each thing that can go wrong, less for a kind with a queue.
    pub fn short(kind: &KindModel) -> Vec<Self> {
        let new = Self::new;
        if kind.has_permits() {
            let three = new(3, &[2], 1, 0, 0);
            if !kind.has_one_limit() {
                // Each claim says one limit or the other, which multiplies the states.
                return vec![three];
            }
            return Self::of_limits(kind, [new(2, &[2], 2, 1, 0), three], new(3, &[2], 1, 0, 1));
        }
        if kind.proclaims() {
            // What the server knows about a leader multiplies the states.
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

    /// The searches that every change must pass. Each goes far in one direction, and less far where more can happen.
    pub fn quick(kind: &KindModel) -> Vec<Self> {
        let mut all = Self::far_in_one_direction(kind);
        all.retain(|bounds| match bounds.incident {
            // If the main key says more than who holds, nobody is served until somebody sets it again.
            Some(Incident::MainKeyLost) => kind.value.is_none(),
            Some(
                Incident::HoldersLost
                | Incident::InflationLost
                | Incident::HoldersBack
                | Incident::TakenByOthers,
            ) => !kind.is_anothers(),
            // Another library's names are revoked by other scripts.
            Some(Incident::Revoked | Incident::Forced) => !kind.is_anothers(),
            // Nor do its claims draw tokens.
            Some(Incident::CounterLost | Incident::CounterBehind) => !kind.is_anothers(),
            _ => bounds.min_hold == 0 || !kind.is_anothers(),
        });
        all
    }

    fn far_in_one_direction(kind: &KindModel) -> Vec<Self> {
        let new = Self::new;
        if kind.converts_modes {
            return vec![
                Self::conversions(),
                // Two requests for a conversion in trouble, or one request for each of two conversions.
                new(2, &[2, 2], 1, 2, 0).of_takers(),
                // Two claims of one owner.
                new(2, &[2, 2], 2, 0, 0),
                // Some read, some write.
                new(3, &[2], 2, 1, 0),
                new(3, &[2], 2, 0, 1).short_queue(),
                // Two gaps in a row in which the server hears from no client.
                new(2, &[2], 5, 1, 1),
                // Claims that are revoked, and then converted.
                new(2, &[2, 2], 2, 0, 1).of_takers().with(Incident::Revoked),
                new(3, &[2], 2, 0, 1).with(Incident::Revoked),
            ];
        }
        if kind.hands_over {
            return vec![
                Self::conversions(),
                // Two requests for a handover in trouble, or one request for each of two handovers.
                new(2, &[2, 2], 1, 2, 0).of_takers(),
                // A client that ends around a handover.
                new(2, &[2, 2], 2, 0, 1).of_takers(),
                // A claim that is revoked, and then handed over.
                new(2, &[2, 2], 3, 0, 1).of_takers().with(Incident::Revoked),
                // Claims that are released into a cooldown instead of being handed over.
                new(2, &[2, 2], 2, 0, 1).of_takers().cooling_down(),
            ];
        }
        if kind.has_permits() {
            return Self::of_limits(
                kind,
                [
                    // Some claims hold together, and one waits.
                    new(3, &[2], 2, 0, 1),
                    // A request in trouble, and a client that ends.
                    new(2, &[2], 4, 1, 1),
                    // Claims that are revoked while another has permits or waits.
                    new(3, &[2], 2, 0, 1).with(Incident::Revoked),
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
                // Two claims of one client.
                new(2, &[1, 1], 1, 0, 0).short_waits(),
                new(2, &[2], 2, 0, 1).clock_right(),
                // A leader that is revoked.
                new(2, &[2], 2, 0, 1).with(Incident::Revoked),
            ];
        }
        if kind.waits_in_a_queue {
            return vec![
                // Two heartbeats in trouble around a grant.
                new(2, &[2], 4, 2, 1),
                // One holds, two wait.
                new(3, &[2], 4, 1, 0),
                // One holds, one waits, and the queue has no room for a third.
                new(3, &[2], 4, 0, 1).short_queue(),
                // One of two waiters dies.
                new(3, &[3], 4, 0, 1),
                // Several gaps in a row in which the server hears from no client.
                new(2, &[2], 7, 1, 1),
                // Two claims of one owner wait.
                new(2, &[1, 1], 1, 1, 1).short_waits(),
                new(2, &[2], 4, 1, 0).clock_right(),
                // A claim that waits, or holds, under a name whose main key was lost.
                new(2, &[2, 2], 2, 0, 1).with(Incident::MainKeyLost),
                // One that waits behind holders that were lost, or holds alone again.
                new(2, &[2, 2], 2, 0, 1).with(Incident::HoldersLost),
                new(2, &[2, 2], 3, 0, 1).with(Incident::InflationLost),
                // Two that wait where the marker does not count a holder.
                new(3, &[2], 3, 0, 1).with(Incident::HoldersBack),
                // Claims that are released into a cooldown while another waits.
                new(2, &[2, 2], 2, 0, 1).cooling_down(),
                new(2, &[2], 4, 1, 0).cooling_down(),
                // Claims that are revoked, one alone or two of an owner, while another waits.
                new(2, &[2, 2], 2, 0, 1).with(Incident::Revoked),
                new(2, &[2], 4, 1, 1).with(Incident::Revoked),
                new(2, &[2, 2], 2, 0, 1).with(Incident::Forced),
                // The clock keeps tokens in order whatever becomes of the counter.
                new(2, &[2], 4, 0, 1)
                    .clock_right()
                    .with(Incident::CounterLost),
                new(2, &[2], 4, 0, 1)
                    .clock_right()
                    .with(Incident::CounterBehind),
            ];
        }
        if kind.has_modes() {
            return vec![
                // Two claims of one owner, of which one may read inside the write of the other.
                new(2, &[2, 2], 1, 1, 0),
                new(2, &[2, 2], 2, 0, 0),
                // Two requests in trouble, and a client that ends.
                new(2, &[2], 4, 2, 1),
                // Some read, some write.
                new(3, &[2], 3, 1, 1),
                // Leases of different lengths.
                new(2, &[3, 1], 2, 0, 1),
                new(3, &[2], 2, 1, 0).clock_right(),
            ];
        }
        if kind.stores() {
            return vec![
                // One claim stores a result, and the next asks again after the result has ended.
                new(2, &[2, 2], 3, 1, 0),
                // Two requests in trouble: a late acquire and a late store.
                new(2, &[2], 4, 2, 1),
                new(2, &[1, 1], 1, 1, 1),
                new(3, &[2], 3, 1, 0),
                new(2, &[2], 3, 1, 1).clock_right(),
                // A claim that is revoked, and stores its result nevertheless.
                new(2, &[2, 2], 2, 0, 1).with(Incident::Revoked),
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
            // A claim that holds under a name whose main key was lost.
            new(2, &[2, 2], 2, 0, 1).with(Incident::MainKeyLost),
            // Claims that are released into a cooldown.
            new(2, &[2], 4, 1, 1).cooling_down(),
            new(2, &[2, 2], 3, 0, 0).cooling_down(),
            // A claim that is revoked, or two of an owner, and requests in trouble.
            new(2, &[2], 4, 1, 1).with(Incident::Revoked),
            new(2, &[2, 2], 2, 0, 1).with(Incident::Revoked),
            new(2, &[2, 2], 2, 0, 1).with(Incident::Forced),
            // A name that other libraries use too.
            new(2, &[2], 4, 1, 2).with(Incident::TakenByOthers),
            // The clock keeps tokens in order whatever becomes of the counter.
            new(2, &[2, 2], 3, 0, 1)
                .clock_right()
                .with(Incident::CounterLost),
            new(2, &[2, 2], 3, 0, 1)
                .clock_right()
                .with(Incident::CounterBehind),
        ]
    }

    /// The same with wider bounds: minutes to hours, and gigabytes.
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

    /// The bounds for a semaphore: these, and `set`, which lowers and raises the limit, if all clients state the same one.
    fn of_limits<const N: usize>(kind: &KindModel, all: [Self; N], set: Self) -> Vec<Self> {
        let set = kind.has_one_limit().then(|| set.with(Incident::LimitSet));
        all.into_iter().chain(set).collect()
    }

    /// The duration of an attempt's lease on the server.
    pub(super) fn ttl(&self, attempt: u8) -> Duration {
        TICKS.lease(self.leases[usize::from(attempt)])
    }

    /// How long a waiter in a queue counts as alive after the server heard from it.
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
                + &match self.min_hold {
                    0 => String::new(),
                    ticks => format!(", held for at least {ticks}"),
                }
                + &self
                    .incident
                    .map_or_else(String::new, |it| format!(", perhaps {}", it.what())),
        )
    }
}
