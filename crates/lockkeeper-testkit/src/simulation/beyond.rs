//! Beyond the conditions: histories in which one thing happens that the guarantees exclude, or one thing is asked for that they
//! do not promise. Each finds the rule that is then broken: the counter-example of `docs/guarantees.md`, by its seed.

use super::plan::{Fault, Plan};

/// What the guarantees exclude or do not promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// The server is replaced by one that has not heard of the last writes, and exclusion is asked for all the same.
    LostWrites,
    /// The same, and a claim that joins a hold that has come back is to have a token larger than those that were lost.
    ReturnedHold,
    /// The same as the first, by one whose clock is behind by up to two ttls.
    ClockBehind,
    /// The server's clock runs ahead by more than the margin, up to two ttls at once.
    ClockAhead,
    /// Somebody deletes the key of a name.
    DeletedKey,
    /// Somebody takes a name from its holder by force.
    Force,
    /// A holder looks whether it holds, rests, and then writes without looking again.
    LateWrite,
    /// A waiter in a queue is silent for longer than its ttl, and is to keep its place.
    Silence,
}

impl Beyond {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::LostWrites,
        Self::ReturnedHold,
        Self::ClockBehind,
        Self::ClockAhead,
        Self::DeletedKey,
        Self::Force,
        Self::LateWrite,
        Self::Silence,
    ];

    /// How it is called on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// The rule that is broken.
    #[must_use]
    pub const fn breaks(self) -> &'static str {
        self.facts().1
    }

    /// Its name, the rule that is broken, and what befalls the server or a host for it.
    const fn facts(self) -> (&'static str, &'static str, Option<Fault>) {
        match self {
            Self::LostWrites => ("lost-writes", "two holders", Some(Fault::Failover)),
            Self::ReturnedHold => ("returned-hold", "token order", Some(Fault::Failover)),
            Self::ClockBehind => ("clock-behind", "token order", Some(Fault::Failover)),
            Self::ClockAhead => ("clock-ahead", "two holders", Some(Fault::ClockLeap)),
            Self::DeletedKey => ("deleted-key", "two holders", Some(Fault::DeletedKey)),
            Self::Force => ("force", "two holders", Some(Fault::Force)),
            Self::LateWrite => ("late-write", "a stale holder", None),
            Self::Silence => ("silence", "out of turn", Some(Fault::Pause)),
        }
    }
}

impl Plan {
    /// The same history, but for what is beyond the conditions: of its own faults none, which could be to blame instead.
    pub(super) fn beyond(seed: u64, beyond: Beyond) -> Self {
        let mut plan = Self::new(seed);
        plan.drifts = false;
        let (_, _, fault) = beyond.facts();
        plan.forgets = fault == Some(Fault::Failover);
        plan.faults = fault.into_iter().collect();
        plan.beyond = Some(beyond);
        plan
    }
}
