//! Histories beyond the conditions of the guarantees: one thing happens that the guarantees exclude, or one thing is checked
//! that they do not promise. Each history finds the rule that then breaks: the counter-example of `docs/guarantees.md`, by its
//! seed.

use super::plan::{Fault, Plan};

/// What the guarantees exclude or do not promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// A failover to a server that lacks the last writes; exclusion is checked all the same.
    LostWrites,
    /// The same, but the check is that a claim that joins a restored hold has a larger token than the lost ones.
    ReturnedHold,
    /// Like `LostWrites`, but the new server's clock is up to two ttls behind.
    ClockBehind,
    /// The server's clock jumps ahead by more than the margin, up to two ttls at once.
    ClockAhead,
    /// An outsider deletes the key of a name.
    DeletedKey,
    /// An administrator takes a name from its holder by force.
    Force,
    /// A holder checks that it holds, pauses, and then writes without checking again.
    LateWrite,
    /// A waiter in a queue is silent for longer than its ttl; the check is that it keeps its place.
    Silence,
}

impl Beyond {
    /// All variants.
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

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// The rule that breaks.
    #[must_use]
    pub const fn breaks(self) -> &'static str {
        self.facts().1
    }

    /// Its name, the rule that breaks, and the fault that causes it, if any.
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
    /// A history with only the fault that is beyond the conditions, so that no other fault can be to blame.
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
