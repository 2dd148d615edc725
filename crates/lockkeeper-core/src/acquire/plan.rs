//! What an acquisition is to acquire: targets, in stages.

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

/// One name of one kind on one client: what every kind of lock wraps, and one of several that are acquired together. Clones are
/// the same lock.
///
/// A name that cannot be one is reported by the first acquisition, so that making a lock never fails.
#[derive(Clone)]
pub struct Target {
    pub(crate) engine: Arc<Engine>,
    protocol: std::result::Result<Arc<dyn Protocol>, Arc<str>>,
    owner: Option<Owner>,
}

impl Target {
    /// A lock called `name`; `protocol` makes its kind's protocol of the checked name.
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

    /// The same name on the same client by another protocol, of another mode for example.
    #[must_use]
    pub fn by<P: Protocol>(&self, protocol: impl FnOnce(Name) -> P) -> Self {
        self.by_checked(|name| Ok(protocol(name)))
    }

    /// The same by a protocol that cannot be made of all that its user may say; what is wrong is reported by the first acquisition.
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

    /// Acquires it for `owner`, whoever the others that are acquired with it are acquired for.
    #[must_use]
    pub const fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(*owner);
        self
    }

    /// Whom it is to be acquired for; `None`: whoever the acquisition is for.
    pub const fn own_owner(&self) -> Option<Owner> {
        self.owner
    }

    /// What the lock is called; empty if it has no name that could be one.
    pub fn name(&self) -> &str {
        self.protocol
            .as_ref()
            .map_or("", |protocol| protocol.name().as_str())
    }

    /// Its main key.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) for a bad name.
    pub fn key(&self) -> Result<&str> {
        Ok(self.protocol()?.name().main())
    }

    /// The kind of the lock.
    ///
    /// # Errors
    ///
    /// As for [`key`](Self::key).
    pub fn kind(&self) -> Result<Kind> {
        Ok(self.protocol()?.kind())
    }

    /// Its kind and mode, or the number of permits it asks for.
    ///
    /// # Errors
    ///
    /// As for [`key`](Self::key).
    pub fn mode(&self) -> Result<Cow<'static, str>> {
        Ok(self.protocol()?.mode())
    }

    /// The group of its main key: one script may name keys of one group.
    ///
    /// # Errors
    ///
    /// As for [`key`](Self::key).
    pub fn group(&self) -> Result<u32> {
        Ok(self.engine.requester.store.group(self.key()?))
    }

    /// What its server is called, if it has a [name](crate::ClientBuilder::store_name).
    pub fn store_name(&self) -> Option<Arc<str>> {
        self.engine.settings.store_name.clone()
    }

    /// A number that all targets of one client have, and no others.
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

/// What is acquired, and how much of it is needed.
#[derive(Clone)]
#[non_exhaustive]
pub enum Plan {
    /// One lock on one server.
    One(Target),
    /// All of several: stage after stage, while the earlier ones are held. The targets of one stage are of one client and one group: one
    /// script takes all of them while they are free, and where it finds one taken, they are acquired one after the other. The order
    /// of all targets must be the same for everybody, or they wait for one another for ever.
    All(Arc<[Vec<Target>]>),
    /// One lock on a majority of several servers.
    Majority(Majority),
}

impl Plan {
    /// All of these, stage after stage.
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
