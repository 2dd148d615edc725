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
}

impl Mode {
    /// The mode that a claim of this one can be converted to.
    pub const fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
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

/// Builds the protocol of a kind on a name, for leases of a length.
type Build = fn(Name, Duration) -> Arc<dyn Protocol>;

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
    /// How many may hold that neither read together nor are of one owner.
    room: usize,
    write: Build,
    read: Option<Build>,
}

impl KindModel {
    /// One holder.
    pub const MUTEX: Self = Self {
        name: "mutex",
        reenters: false,
        waits_in_a_queue: false,
        room: 1,
        write: |name, _| lockkeeper_mutex::protocol(name),
        read: None,
    };

    /// One owner, each claim of which has a lease of its own.
    pub const REENTRANT: Self = Self {
        name: "reentrant",
        reenters: true,
        write: |name, _| lockkeeper_reentrant::protocol(name),
        ..Self::MUTEX
    };

    /// One owner, first come, first served.
    pub const FAIR: Self = Self {
        name: "fair",
        waits_in_a_queue: true,
        write: |name, _| lockkeeper_fair::protocol(name),
        ..Self::REENTRANT
    };

    /// One owner that writes or many that read, first come, first served.
    pub const RWLOCK: Self = Self {
        name: "rwlock",
        write: |name, _| lockkeeper_rwlock::write_protocol(name),
        read: Some(|name, _| lockkeeper_rwlock::read_protocol(name)),
        ..Self::FAIR
    };

    /// One holder, by a majority of servers.
    pub const REDLOCK: Self = Self {
        name: "redlock",
        write: |name, ttl| lockkeeper_redlock::protocol(name, ttl),
        ..Self::MUTEX
    };

    /// Every kind on one server.
    pub const ON_ONE_SERVER: [Self; 4] = [Self::MUTEX, Self::REENTRANT, Self::FAIR, Self::RWLOCK];

    /// The protocol of a mode; `ttl` is the length of a lease on every server.
    pub fn protocol(&self, mode: Mode, name: Name, ttl: Duration) -> Arc<dyn Protocol> {
        match self.read {
            Some(read) if mode.reads() => read(name, ttl),
            _ => (self.write)(name, ttl),
        }
    }

    /// The modes that a claim can have.
    pub const fn modes(&self) -> &'static [Mode] {
        match self.read {
            None => &[Mode::Write],
            Some(_) => &[Mode::Read, Mode::Write],
        }
    }

    /// Whether it has several modes, and claims are converted from one to the other.
    pub const fn has_modes(&self) -> bool {
        self.read.is_some()
    }

    /// Whether the newcomer may hold beside those who hold already.
    pub fn fits(&self, standing: impl IntoIterator<Item = Holder>, newcomer: Holder) -> bool {
        let apart = |other: &Holder| {
            other.claimant != newcomer.claimant
                && !self.joins(other.claimant, newcomer.claimant)
                && !(other.mode.reads() && newcomer.mode.reads())
        };
        standing.into_iter().filter(apart).count() < self.room
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_can_do_what_its_protocol_can() {
        for kind in [&KindModel::ON_ONE_SERVER[..], &[KindModel::REDLOCK]].concat() {
            let name = Name::new("", "n").unwrap();
            let protocol = kind.protocol(Mode::Write, name, Duration::from_secs(1));
            assert_eq!(kind.name, protocol.kind().as_str());
            assert_eq!(kind.reenters, protocol.reenters(), "{kind:?}");
            assert_eq!(
                kind.waits_in_a_queue,
                protocol.queue().is_some(),
                "{kind:?}"
            );
            assert_eq!(kind.has_modes(), protocol.modes().is_some(), "{kind:?}");
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
            assert!(!fits(kind, writer(0, 0), writer(1, 0)), "{kind:?}");
            assert!(fits(kind, writer(0, 0), writer(0, 0)), "{kind:?}");
        }
        let reader = |client| holder(client, 0, Mode::Read);
        assert!(fits(KindModel::RWLOCK, reader(0), writer(0, 1)));
        assert!(fits(KindModel::RWLOCK, reader(0), reader(1)));
        assert!(!fits(KindModel::RWLOCK, reader(0), writer(1, 0)));
    }
}
