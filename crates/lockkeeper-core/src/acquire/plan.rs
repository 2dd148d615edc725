//! Plans: the targets that an acquisition acquires, in stages.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::acquire::majority::Majority;
use crate::engine::Engine;
use crate::seam::protocol::Protocol;
use crate::words::error::{Error, Result};
use crate::words::kind::Kind;
use crate::words::name::Name;
use crate::words::owner::Owner;

/// One name of one kind on one client. Every kind of lock wraps one, and a plan can acquire several together. Clones
/// are the same lock.
///
/// Making a lock never fails: if its name is invalid, the first acquisition reports it.
#[derive(Clone)]
pub struct Target {
    pub(crate) engine: Arc<Engine>,
    protocol: std::result::Result<Arc<dyn Protocol>, Arc<str>>,
    owner: Option<Owner>,
}

impl Target {
    /// A lock called `name`; `protocol` makes its kind's protocol from the checked name.
    pub(crate) fn of<P: Protocol>(
        engine: &Arc<Engine>,
        name: &str,
        protocol: impl FnOnce(Name) -> Result<P>,
    ) -> Self {
        let protocol = match engine.name(name).and_then(protocol) {
            Ok(protocol) => Ok(Arc::new(protocol) as Arc<dyn Protocol>),
            Err(error) => Err(error.to_string().into()),
        };
        Self {
            engine: Arc::clone(engine),
            protocol,
            owner: None,
        }
    }

    /// The lock with this protocol.
    pub(crate) const fn with(engine: Arc<Engine>, protocol: Arc<dyn Protocol>) -> Self {
        Self {
            engine,
            protocol: Ok(protocol),
            owner: None,
        }
    }

    /// Returns the same name on the same client with another protocol, for example for another mode.
    #[must_use]
    pub fn by<P: Protocol>(&self, protocol: impl FnOnce(Name) -> P) -> Self {
        self.by_checked(|name| Ok(protocol(name)))
    }

    /// Like [`by`](Self::by), but `protocol` may fail; then the first acquisition reports the error.
    #[must_use]
    pub fn by_checked<P: Protocol>(&self, protocol: impl FnOnce(Name) -> Result<P>) -> Self {
        let by = |ours: &Arc<dyn Protocol>| match protocol(ours.name().clone()) {
            Ok(protocol) => Ok(Arc::new(protocol) as Arc<dyn Protocol>),
            Err(error) => Err(error.to_string().into()),
        };
        Self {
            engine: Arc::clone(&self.engine),
            protocol: self.protocol.as_ref().map_err(Arc::clone).and_then(by),
            owner: self.owner,
        }
    }

    /// Acquires this member for `owner`, whatever the owner of the other members.
    #[must_use]
    pub const fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(*owner);
        self
    }

    /// Returns the member's own owner; `None` if it is acquired for the owner of the acquisition.
    pub const fn own_owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Returns the name of the lock; empty if the name is invalid.
    pub fn name(&self) -> &str {
        self.protocol
            .as_ref()
            .map_or("", |protocol| protocol.name().as_str())
    }

    /// Returns its main key.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) for an invalid name.
    pub fn key(&self) -> Result<&str> {
        Ok(self.protocol()?.name().main())
    }

    /// Returns the kind of the lock.
    ///
    /// # Errors
    ///
    /// As for [`key`](Self::key).
    pub fn kind(&self) -> Result<Kind> {
        Ok(self.protocol()?.kind())
    }

    /// Returns its kind and mode, or the number of permits it asks for.
    ///
    /// # Errors
    ///
    /// As for [`key`](Self::key).
    pub fn mode(&self) -> Result<Cow<'static, str>> {
        Ok(self.protocol()?.mode())
    }

    /// Returns the group of its main key: a script may name keys of one group only.
    ///
    /// # Errors
    ///
    /// As for [`key`](Self::key).
    pub fn group(&self) -> Result<u32> {
        Ok(self.engine.requester.store.group(self.key()?))
    }

    /// Returns the [name](crate::ClientBuilder::store_name) of its server, if it has one.
    pub fn store_name(&self) -> Option<Arc<str>> {
        self.engine.settings.store_name.clone()
    }

    /// Returns a number that all targets of one client share, and no others.
    pub fn client(&self) -> u128 {
        self.engine.id.as_u128()
    }

    pub(crate) fn protocol(&self) -> Result<&Arc<dyn Protocol>> {
        self.protocol
            .as_ref()
            .map_err(|reason| Error::config(&**reason))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.protocol {
            Ok(protocol) => write!(f, "{}({:?})", protocol.kind(), protocol.name().as_str()),
            Err(reason) => write!(f, "Lock({reason})"),
        }
    }
}

/// What to acquire, and how much of it is needed.
#[derive(Clone)]
#[non_exhaustive]
pub enum Plan {
    /// One lock on one server.
    One(Target),
    /// All of several locks, stage after stage; the earlier stages stay held meanwhile. The targets of one stage belong
    /// to one client and one group. One script acquires all of them if they are free; if it finds one held, they are
    /// acquired one after the other. All callers must use the same order of targets, or they wait for each other for
    /// ever.
    All(Arc<[Vec<Target>]>),
    /// One lock on a majority of several servers.
    Majority(Majority),
}

impl Plan {
    /// All of these targets, stage after stage.
    pub fn all(stages: Arc<[Vec<Target>]>) -> Self {
        Self::All(stages)
    }
}

impl From<Target> for Plan {
    fn from(target: Target) -> Self {
        Self::One(target)
    }
}

impl From<Majority> for Plan {
    fn from(majority: Majority) -> Self {
        Self::Majority(majority)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(target) => target.fmt(f),
            Self::All(stages) => f.debug_list().entries(&**stages).finish(),
            Self::Majority(majority) => majority.fmt(f),
        }
    }
}
