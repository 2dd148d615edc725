//! The kinds of locks as models know them: what each can do, which claims may hold together, and which token a grant may have.
//! Each kind is one value of [`KindModel`], for searches, simulation and recorded histories; one whose claims poll in the empty
//! namespace and queue in all others is two.

mod guards;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Client, Election, FairLock, Mutex, ReentrantLock, RwLock, Semaphore, Target};
use lockkeeper_core::Name;
use lockkeeper_core::protocol::Protocol;
use lockkeeper_redisson as redisson;

pub(crate) use guards::{Converted, Held, convert, reenter};
pub(crate) use rules::letter;
pub use rules::{Claimant, Grant, Holder, Standing};

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
    /// The mode of a claim with this share in the wire format. A request without a share takes all of the name.
    pub(crate) fn of_share(share: &str) -> Self {
        match share.split_once('/') {
            Some((permits, limit)) => Self::Permits {
                permits: permits.parse().unwrap_or(u8::MAX),
                limit: limit.parse().unwrap_or(u8::MAX),
            },
            None if ["", "x"].contains(&share) => Self::Write,
            None => Self::Read,
        }
    }

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

/// Builds a kind's protocol for a mode, a name and a lease duration.
type Build = fn(Mode, Name, Duration) -> Arc<dyn Protocol>;

/// Makes a lock of a kind, to be taken in a mode.
type Lock = fn(&Client, &str, Mode) -> Target;

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
    /// The modes that a claim can have; for a semaphore, those that a search uses.
    pub modes: &'static [Mode],
    /// The value stored under the name before any acquisition.
    pub value: Option<&'static str>,
    /// Whether the server's data refers to clients only in text, so that a model can swap clients in it.
    pub renames: bool,
    build: Build,
    lock: Lock,
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
        lock: |client, name, _| Mutex::new(client, name).target(),
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
        lock: |client, name, _| ReentrantLock::new(client, name).target(),
        ..Self::MUTEX
    };

    /// The same, where no other library shares the names: claims wait in a queue.
    pub const QUEUED_REENTRANT: Self = Self {
        waits_in_a_queue: true,
        build: |_, name, _| lockkeeper_reentrant::queueing_protocol(name),
        ..Self::REENTRANT
    };

    /// One owner, in arrival order.
    pub const FAIR: Self = Self {
        name: "fair",
        waits_in_a_queue: true,
        build: |_, name, _| lockkeeper_fair::protocol(name),
        lock: |client, name, _| FairLock::new(client, name).target(),
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
        lock: |client, name, mode| match mode {
            Mode::Read => RwLock::new(client, name).reader().target(),
            _ => RwLock::new(client, name).writer().target(),
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
        lock: |client, name, mode| {
            let limit = mode.limit().unwrap_or(1);
            let lock = Semaphore::new(client, name, limit.into());
            lock.permits(mode.permits().into()).target()
        },
        ..Self::FAIR
    };

    /// The same with clients that state different limits.
    pub const SEMAPHORE_OF_TWO_LIMITS: Self = Self {
        modes: &[permits(1, 1), permits(1, 2), permits(2, 2)],
        ..Self::SEMAPHORE
    };

    /// One permit of a semaphore that has no more.
    pub const ONE_PERMIT: Self = Self {
        modes: &[permits(1, 1)],
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
        lock: |client, name, _| Election::new(client, name).target(),
        ..Self::FAIR
    };

    /// Has no holders, but its requests look like those of a lock.
    pub const LATCH: Self = Self {
        name: "latch",
        build: |_, name, _| lockkeeper_latch::protocol(name),
        ..Self::MUTEX
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
        lock: |client, name, _| redisson::RedissonLock::new(client, name).target(),
        ..Self::REENTRANT
    };

    /// The same in arrival order. A claim is granted only when it asks again, and a dead waiter blocks for longer than any
    /// search runs.
    pub const REDISSON_FAIR: Self = Self {
        name: "redisson-fair",
        waits_in_a_queue: true,
        build: |_, name, _| lockkeeper_redisson::fair_protocol(name, Duration::from_secs(300)),
        lock: |client, name, _| redisson::RedissonFairLock::new(client, name).target(),
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
        lock: |client, name, mode| match mode {
            Mode::Read => redisson::RedissonReadWriteLock::new(client, name)
                .reader()
                .target(),
            _ => redisson::RedissonReadWriteLock::new(client, name)
                .writer()
                .target(),
        },
        ..Self::RWLOCK
    };

    /// One permit of a semaphore that another library shares.
    pub const REDISSON_SEMAPHORE: Self = Self {
        name: "redisson-semaphore",
        value: Some("1"),
        build: |_, name, _| lockkeeper_redisson::semaphore_protocol(name),
        lock: |client, name, _| redisson::RedissonSemaphore::new(client, name).target(),
        ..Self::MUTEX
    };

    /// The same, where each permit has an expiry that the other library knows.
    pub const REDISSON_PERMITS: Self = Self {
        name: "redisson-permits",
        renames: false,
        build: |_, name, _| lockkeeper_redisson::permits_protocol(name),
        lock: |client, name, _| {
            redisson::RedissonPermitExpirableSemaphore::new(client, name).target()
        },
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

    /// What tasks on real servers hold, alone or together, and record. Each of them excludes all others, or is shared by readers.
    pub const UNDER_LOAD: [Self; 5] = [
        Self::COHORT,
        Self::QUEUED_REENTRANT,
        Self::FAIR,
        Self::RWLOCK,
        Self::ONE_PERMIT,
    ];

    /// Builds the protocol for a mode; `ttl` is the lease duration on every server.
    pub fn protocol(&self, mode: Mode, name: Name, ttl: Duration) -> Arc<dyn Protocol> {
        (self.build)(mode, name, ttl)
    }

    /// The lock with this name, to be taken in a mode. For work that is done once, a latch and a Redlock it is a mutex: they have
    /// locks of other types.
    pub fn lock(&self, client: &Client, name: &str, mode: Mode) -> Target {
        (self.lock)(client, name, mode)
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

    /// Whether it is a latch, which nobody holds.
    pub fn is_a_latch(&self) -> bool {
        self.name == Self::LATCH.name
    }

    /// Whether a claim on one server proves nothing, because a majority decides.
    pub fn needs_a_majority(&self) -> bool {
        self.name == Self::REDLOCK.name
    }

    /// Whether a script that frees a name grants it to the first claim in the queue.
    pub fn grants_in_turn(&self) -> bool {
        self.waits_in_a_queue && self.name != Self::REDISSON_FAIR.name
    }

    /// Whether its names are another library's too.
    pub fn is_anothers(&self) -> bool {
        self.name.starts_with(Self::REDISSON.name)
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
}

const fn permits(permits: u8, limit: u8) -> Mode {
    Mode::Permits { permits, limit }
}
