//! The kinds of locks as models know them: which claims may hold together, which share a token, and what a kind can do
//! beside. A new kind joins by one value of [`KindModel`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{FencingToken, Name};

/// One acquisition of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "models make and take them apart")]
pub struct Claimant {
    /// Which client, counted from zero. All its claims are of one owner.
    pub client: u8,
    /// Which of its acquisitions, counted from zero.
    pub attempt: u8,
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", letter(self.client), self.attempt + 1)
    }
}

/// The client as traces call it.
pub(crate) fn letter(client: u8) -> char {
    char::from(b'A'.saturating_add(client))
}

/// How a claim holds a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "models match on it")]
pub enum Mode {
    /// Beside others that read.
    Read,
    /// Beside claims of its owner at most. Kinds without modes have this one.
    Write,
    /// With so many permits of a semaphore.
    Permits {
        /// How many.
        permits: u8,
        /// Of how many, as its client says.
        limit: u8,
    },
    /// Alone, for work that is done once, whose result its release stores.
    Stores,
}

impl Mode {
    /// The mode that a claim of this one can be converted to.
    pub const fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
            Self::Permits { .. } | Self::Stores => self,
        }
    }

    /// How many permits it has, of a semaphore.
    pub const fn permits(self) -> u8 {
        match self {
            Self::Permits { permits, .. } => permits,
            _ => 0,
        }
    }

    /// How many there are, as the client of a semaphore says.
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

/// A claim that holds, or asks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "models make and take them apart")]
pub struct Holder {
    /// Whose it is.
    pub claimant: Claimant,
    /// How it holds.
    pub mode: Mode,
}

/// Builds the protocol of a mode of a kind on a name, for leases of a length.
type Build = fn(Mode, Name, Duration) -> Arc<dyn Protocol>;

/// A kind of lock.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct KindModel {
    /// What the kind is called.
    pub name: &'static str,
    /// Whether claims of one owner may hold together. They share a token then.
    pub reenters: bool,
    /// Whether claims wait in a queue on the server, and are granted by it.
    pub waits_in_a_queue: bool,
    /// Whether a claim may hand the name over to another one of its client.
    pub hands_over: bool,
    /// Whether a claim can be converted from one mode to another.
    pub converts_modes: bool,
    /// The modes that a claim can have.
    pub modes: &'static [Mode],
    /// What lies under the name before anybody asks for it.
    pub value: Option<&'static str>,
    /// Whether what the server holds names clients in text alone, so that clients can be exchanged in it.
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

    /// One holder, where other libraries do not share the names: claims wait in a queue, and those of a client are a cohort.
    pub const COHORT: Self = Self {
        waits_in_a_queue: true,
        hands_over: true,
        build: |_, name, _| lockkeeper_mutex::queueing_protocol(name),
        ..Self::MUTEX
    };

    /// One owner, each claim of which has a lease of its own.
    pub const REENTRANT: Self = Self {
        name: "reentrant",
        reenters: true,
        build: |_, name, _| lockkeeper_reentrant::protocol(name),
        ..Self::MUTEX
    };

    /// One owner, first come, first served.
    pub const FAIR: Self = Self {
        name: "fair",
        waits_in_a_queue: true,
        build: |_, name, _| lockkeeper_fair::protocol(name),
        ..Self::REENTRANT
    };

    /// One owner that writes or many that read, first come, first served.
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

    /// Permits of a limit, first come, first served.
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

    /// The same with clients that say different limits.
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

    /// One leader, which is known by what it proclaims, first come, first served.
    pub const ELECTION: Self = Self {
        name: "election",
        reenters: false,
        build: |_, name, _| lockkeeper_election::protocol(name, ""),
        ..Self::FAIR
    };

    /// One holder, by a majority of servers.
    pub const REDLOCK: Self = Self {
        name: "redlock",
        build: |_, name, ttl| lockkeeper_redlock::protocol(name, ttl),
        ..Self::MUTEX
    };

    /// One owner, among those that hold by another library: its claims share one lease.
    pub const REDISSON: Self = Self {
        name: "redisson",
        build: |_, name, _| lockkeeper_redisson::protocol(name),
        ..Self::REENTRANT
    };

    /// The same, first come, first served: nobody is granted the name but by asking for it. A dead waiter is waited for longer than any search goes.
    pub const REDISSON_FAIR: Self = Self {
        name: "redisson-fair",
        waits_in_a_queue: true,
        build: |_, name, _| lockkeeper_redisson::fair_protocol(name, Duration::from_secs(300)),
        ..Self::REDISSON
    };

    /// One owner that writes or many that read, among those that hold by another library: all claims share one lease.
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

    /// One permit of a semaphore that another library has too.
    pub const REDISSON_SEMAPHORE: Self = Self {
        name: "redisson-semaphore",
        value: Some("1"),
        build: |_, name, _| lockkeeper_redisson::semaphore_protocol(name),
        ..Self::MUTEX
    };

    /// The same where each permit has an end that the other library knows.
    pub const REDISSON_PERMITS: Self = Self {
        name: "redisson-permits",
        renames: false,
        build: |_, name, _| lockkeeper_redisson::permits_protocol(name),
        ..Self::REDISSON_SEMAPHORE
    };

    /// Every kind on one server whose claims have leases of their own.
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

    /// The protocol of a mode; `ttl` is the length of a lease on every server.
    pub fn protocol(&self, mode: Mode, name: Name, ttl: Duration) -> Arc<dyn Protocol> {
        (self.build)(mode, name, ttl)
    }

    /// The last of its modes, which takes all of a free name.
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

    /// Whether a claim can take the place of another one of its client.
    pub const fn converts(&self) -> bool {
        self.hands_over || self.converts_modes
    }

    /// Whether its claims can store what came of their work.
    pub const fn stores(&self) -> bool {
        matches!(self.modes, [.., Mode::Stores])
    }

    /// Whether its holders proclaim by what they are known.
    pub fn proclaims(&self) -> bool {
        self.name == Self::ELECTION.name
    }

    /// Whether a script that frees a name grants it to the first in the queue.
    pub fn grants_in_turn(&self) -> bool {
        self.waits_in_a_queue && self.name != Self::REDISSON_FAIR.name
    }

    /// Whether its claims take permits.
    pub const fn has_permits(&self) -> bool {
        matches!(self.modes, [Mode::Permits { .. }, ..])
    }

    /// Whether the newcomer may hold beside those who hold already; of a semaphore, by the limit that the newcomer says.
    pub fn fits(&self, standing: impl IntoIterator<Item = Holder>, newcomer: Holder) -> bool {
        self.fits_in(newcomer.mode.limit(), standing, newcomer)
    }

    /// The same by the limit that stands, of a semaphore.
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

    /// Whether one of the two claims may join the other because they are of one owner.
    pub fn joins(&self, one: Claimant, other: Claimant) -> bool {
        one != other && self.reenters && one.client == other.client
    }

    /// Whether a holder's token is useless because a later grant, which excludes the holder, has a larger one.
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
