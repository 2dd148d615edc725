//! The kinds of locks as models know them: which claims may hold together, which share a token, and what else a kind can do.
//! Each kind is one value of [`KindModel`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{FencingToken, Name};

/// One acquisition of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "models make and take them apart")]
pub struct Claimant {
    /// The client, counted from zero. All its claims have the same owner.
    pub client: u8,
    /// The acquisition of that client, counted from zero.
    pub attempt: u8,
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", letter(self.client), self.attempt + 1)
    }
}

/// The client's letter in traces.
pub(crate) fn letter(client: u8) -> char {
    char::from(b'A'.saturating_add(client))
}

/// How a claim holds a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "models match on it")]
pub enum Mode {
    /// Shared with other readers.
    Read,
    /// Exclusive, except that claims of the same owner may join. Kinds without modes use this one.
    Write,
    /// Takes permits of a semaphore.
    Permits {
        /// How many permits it takes.
        permits: u8,
        /// The limit of the semaphore, as this client states it.
        limit: u8,
    },
    /// Exclusive, for work that is done once: releasing stores its result.
    Stores,
}

impl Mode {
    /// The mode to which a claim with this mode can be converted.
    pub const fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
            Self::Permits { .. } | Self::Stores => self,
        }
    }

    /// How many permits it takes, if it is a semaphore's.
    pub const fn permits(self) -> u8 {
        match self {
            Self::Permits { permits, .. } => permits,
            _ => 0,
        }
    }

    /// The limit that the client of a semaphore states.
    pub const fn limit(self) -> Option<u8> {
        match self {
            Self::Permits { limit, .. } => Some(limit),
            _ => None,
        }
    }

    /// Whether it is [`Read`](Self::Read).
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read)
    }
}

/// A claim that holds, or asks to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "models make and take them apart")]
pub struct Holder {
    /// The acquisition.
    pub claimant: Claimant,
    /// How it holds.
    pub mode: Mode,
}

/// Builds a kind's protocol for a mode, a name and a lease duration.
type Build = fn(Mode, Name, Duration) -> Arc<dyn Protocol>;

/// A kind of lock.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct KindModel {
    /// The name of the kind.
    pub name: &'static str,
    /// Whether claims of the same owner may hold together. They then share a token.
    pub reenters: bool,
    /// Whether claims wait in a queue on the server, which grants them.
    pub waits_in_a_queue: bool,
    /// Whether a claim may hand the name over to another claim of its client.
    pub hands_over: bool,
    /// Whether a claim can be converted from one mode to another.
    pub converts_modes: bool,
    /// The modes that a claim can have.
    pub modes: &'static [Mode],
    /// The value stored under the name before any acquisition.
    pub value: Option<&'static str>,
    /// Whether the server's data refers to clients only in text, so that a model can swap clients in it.
    pub renames: bool,
    build: Build,
}

impl KindModel {
    /// One holder.
    pub const MUTEX: Self = Self {
        name: "mutex",
        reenters: false,
        waits_in_a_queue: false,
        hands_over: false,
        converts_modes: false,
        modes: &[Mode::Write],
        value: None,
        renames: true,
        build: |_, name, _| lockkeeper_mutex::protocol(name),
    };

    /// One holder, where no other library shares the names: claims wait in a queue, and those of one client form a cohort.
    pub const COHORT: Self = Self {
        waits_in_a_queue: true,
        hands_over: true,
        build: |_, name, _| lockkeeper_mutex::queueing_protocol(name),
        ..Self::MUTEX
    };

    /// One owner; each of its claims has a lease of its own.
    pub const REENTRANT: Self = Self {
        name: "reentrant",
        reenters: true,
        build: |_, name, _| lockkeeper_reentrant::protocol(name),
        ..Self::MUTEX
    };

    /// One owner, in arrival order.
    pub const FAIR: Self = Self {
        name: "fair",
        waits_in_a_queue: true,
        build: |_, name, _| lockkeeper_fair::protocol(name),
        ..Self::REENTRANT
    };

    /// One owner that writes or many that read, in arrival order.
    pub const RWLOCK: Self = Self {
        name: "rwlock",
        converts_modes: true,
        modes: &[Mode::Read, Mode::Write],
        build: |mode, name, _| match mode {
            Mode::Read => lockkeeper_rwlock::read_protocol(name),
            _ => lockkeeper_rwlock::write_protocol(name),
        },
        ..Self::FAIR
    };

    /// Permits up to a limit, in arrival order.
    pub const SEMAPHORE: Self = Self {
        name: "semaphore",
        reenters: false,
        modes: &[permits(1, 2), permits(2, 2)],
        build: |mode, name, _| {
            let limit = mode.limit().unwrap_or(1);
            lockkeeper_semaphore::protocol(name, mode.permits().into(), limit.into())
        },
        ..Self::FAIR
    };

    /// The same with clients that state different limits.
    pub const SEMAPHORE_OF_TWO_LIMITS: Self = Self {
        modes: &[permits(1, 1), permits(1, 2), permits(2, 2)],
        ..Self::SEMAPHORE
    };

    /// Work that is done once: claims whose work fails, and claims whose release stores a result.
    pub const ONCE: Self = Self {
        name: "once",
        modes: &[Mode::Write, Mode::Stores],
        build: |_, name, _| lockkeeper_once::protocol(name),
        ..Self::MUTEX
    };

    /// One leader with a proclaimed identity, in arrival order.
    pub const ELECTION: Self = Self {
        name: "election",
        reenters: false,
        build: |_, name, _| lockkeeper_election::protocol(name, ""),
        ..Self::FAIR
    };

    /// One holder, on a majority of servers.
    pub const REDLOCK: Self = Self {
        name: "redlock",
        build: |_, name, ttl| lockkeeper_redlock::protocol(name, ttl),
        ..Self::MUTEX
    };

    /// One owner, compatible with another library: all its claims share one lease.
    pub const REDISSON: Self = Self {
        name: "redisson",
        build: |_, name, _| lockkeeper_redisson::protocol(name),
        ..Self::REENTRANT
    };

    /// The same in arrival order. A claim is granted only when it asks again, and a dead waiter blocks for longer than any
    /// search runs.
    pub const REDISSON_FAIR: Self = Self {
        name: "redisson-fair",
        waits_in_a_queue: true,
        build: |_, name, _| lockkeeper_redisson::fair_protocol(name, Duration::from_secs(300)),
        ..Self::REDISSON
    };

    /// One owner that writes or many that read, compatible with another library: all claims share one lease.
    pub const REDISSON_RWLOCK: Self = Self {
        name: "redisson-rwlock",
        waits_in_a_queue: false,
        converts_modes: false,
        build: |mode, name, _| match mode {
            Mode::Read => lockkeeper_redisson::read_protocol(name),
            _ => lockkeeper_redisson::write_protocol(name),
        },
        ..Self::RWLOCK
    };

    /// One permit of a semaphore that another library shares.
    pub const REDISSON_SEMAPHORE: Self = Self {
        name: "redisson-semaphore",
        value: Some("1"),
        build: |_, name, _| lockkeeper_redisson::semaphore_protocol(name),
        ..Self::MUTEX
    };

    /// The same, where each permit has an expiry that the other library knows.
    pub const REDISSON_PERMITS: Self = Self {
        name: "redisson-permits",
        renames: false,
        build: |_, name, _| lockkeeper_redisson::permits_protocol(name),
        ..Self::REDISSON_SEMAPHORE
    };

    /// Every kind on one server whose claims each have a lease of their own.
    pub const ON_ONE_SERVER: [Self; 9] = [
        Self::MUTEX,
        Self::COHORT,
        Self::REENTRANT,
        Self::FAIR,
        Self::RWLOCK,
        Self::SEMAPHORE,
        Self::SEMAPHORE_OF_TWO_LIMITS,
        Self::ONCE,
        Self::ELECTION,
    ];

    /// Builds the protocol for a mode; `ttl` is the lease duration on every server.
    pub fn protocol(&self, mode: Mode, name: Name, ttl: Duration) -> Arc<dyn Protocol> {
        (self.build)(mode, name, ttl)
    }

    /// The last mode of the kind, which takes a free name entirely.
    pub const fn largest(&self) -> Mode {
        match self.modes {
            [.., largest] => *largest,
            [] => Mode::Write,
        }
    }

    /// Whether claims read or write.
    pub const fn has_modes(&self) -> bool {
        matches!(self.modes, [Mode::Read, ..])
    }

    /// Whether a claim can replace another claim of its client.
    pub const fn converts(&self) -> bool {
        self.hands_over || self.converts_modes
    }

    /// Whether its claims can store the result of their work.
    pub const fn stores(&self) -> bool {
        matches!(self.modes, [.., Mode::Stores])
    }

    /// Whether its holders proclaim an identity.
    pub fn proclaims(&self) -> bool {
        self.name == Self::ELECTION.name
    }

    /// Whether a script that frees a name grants it to the first claim in the queue.
    pub fn grants_in_turn(&self) -> bool {
        self.waits_in_a_queue && self.name != Self::REDISSON_FAIR.name
    }

    /// Whether its claims take permits.
    pub const fn has_permits(&self) -> bool {
        matches!(self.modes, [Mode::Permits { .. }, ..])
    }

    /// Whether all claims state the same limit.
    pub fn has_one_limit(&self) -> bool {
        let mut limits = self.modes.iter().map(|mode| mode.limit());
        let first = limits.next();
        limits.all(|limit| Some(limit) == first)
    }

    /// Whether the newcomer may hold beside the present holders. For a semaphore, the newcomer's limit applies.
    pub fn fits(&self, standing: impl IntoIterator<Item = Holder>, newcomer: Holder) -> bool {
        self.fits_in(newcomer.mode.limit(), standing, newcomer)
    }

    /// The same with an explicit limit, for a semaphore.
    pub fn fits_in(
        &self,
        limit: Option<u8>,
        standing: impl IntoIterator<Item = Holder>,
        newcomer: Holder,
    ) -> bool {
        let apart = |other: &Holder| {
            other.claimant != newcomer.claimant
                && !self.joins(other.claimant, newcomer.claimant)
                && !(other.mode.reads() && newcomer.mode.reads())
        };
        let mut others = standing.into_iter().filter(apart);
        match limit {
            None => others.next().is_none(),
            Some(limit) => {
                let held: u8 = others.map(|other| other.mode.permits()).sum();
                held + newcomer.mode.permits() <= limit
            }
        }
    }

    /// Whether one of the two claims may join the other because both have the same owner.
    pub fn joins(&self, one: Claimant, other: Claimant) -> bool {
        one != other && self.reenters && one.client == other.client
    }

    /// Whether a holder's token is outdated: a later grant that excludes the holder has a larger one.
    pub fn is_passed(
        &self,
        (holder, token): (Holder, FencingToken),
        (later, larger): (Holder, FencingToken),
    ) -> bool {
        larger > token && !self.fits([later], holder)
    }
}

const fn permits(permits: u8, limit: u8) -> Mode {
    Mode::Permits { permits, limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_can_do_what_its_protocol_can() {
        let others = [
            KindModel::REDLOCK,
            KindModel::REDISSON,
            KindModel::REDISSON_FAIR,
            KindModel::REDISSON_RWLOCK,
            KindModel::REDISSON_SEMAPHORE,
            KindModel::REDISSON_PERMITS,
        ];
        for kind in [&KindModel::ON_ONE_SERVER[..], &others].concat() {
            let name = Name::new("", "n").unwrap();
            let protocol = kind.protocol(kind.largest(), name, Duration::from_secs(1));
            assert_eq!(kind.name, protocol.kind().as_str());
            assert_eq!(kind.reenters, protocol.reenters(), "{kind:?}");
            assert_eq!(
                kind.waits_in_a_queue,
                protocol.queue().is_some(),
                "{kind:?}"
            );
            assert_eq!(kind.has_modes(), protocol.modes().is_some(), "{kind:?}");
            let converts = protocol.conversion().is_some();
            assert_eq!(kind.converts(), converts, "{kind:?}");
            assert_eq!(kind.hands_over, protocol.has_cohorts(), "{kind:?}");
            let has_limit = protocol.limited().is_some();
            assert_eq!(kind.has_permits(), has_limit, "{kind:?}");
            assert_eq!(kind.stores(), protocol.recorded().is_some(), "{kind:?}");
        }
    }

    #[test]
    fn only_claims_of_one_reentrant_owner_and_readers_hold_together() {
        let holder = |client, attempt, mode| Holder {
            claimant: Claimant { client, attempt },
            mode,
        };
        let fits = |kind: KindModel, one, other| kind.fits([one], other);
        let writer = |client, attempt| holder(client, attempt, Mode::Write);
        assert!(!fits(KindModel::MUTEX, writer(0, 0), writer(0, 1)));
        assert!(fits(KindModel::REENTRANT, writer(0, 0), writer(0, 1)));
        for kind in KindModel::ON_ONE_SERVER {
            let whole = |client| holder(client, 0, kind.largest());
            assert!(!fits(kind, whole(0), whole(1)), "{kind:?}");
            assert!(fits(kind, whole(0), whole(0)), "{kind:?}");
        }
        let reader = |client| holder(client, 0, Mode::Read);
        assert!(fits(KindModel::RWLOCK, reader(0), writer(0, 1)));
        assert!(fits(KindModel::RWLOCK, reader(0), reader(1)));
        assert!(!fits(KindModel::RWLOCK, reader(0), writer(1, 0)));
    }

    #[test]
    fn permits_hold_together_up_to_the_limit() {
        let holder = |client, mode| Holder {
            claimant: Claimant { client, attempt: 0 },
            mode,
        };
        let [one, two] = [permits(1, 2), permits(2, 2)];
        let kind = KindModel::SEMAPHORE;
        assert!(kind.fits([holder(0, one)], holder(1, one)));
        assert!(!kind.fits([holder(0, one)], holder(1, two)));
        let both = [holder(0, one), holder(1, one)];
        assert!(!kind.fits(both, holder(2, one)));
        assert!(kind.fits_in(Some(3), both, holder(2, one)));
        assert!(!kind.fits_in(Some(1), [], holder(2, two)));
    }
}
