//! One lock on several independent servers, decided by a majority of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::plan::Target;
use crate::engine::Engine;
use crate::quorum::Quorum;
use crate::seam::protocol::Protocol;
use crate::words::error::{Error, Result};
use crate::words::name::Name;

/// The same name on several servers. Each has its own client and, once the lock is acquired, its own claim; all
/// claims have one id. Clones are the same lock.
#[derive(Clone)]
pub struct Majority {
    pub(super) targets: Arc<[Target]>,
    pub(super) quorum: Quorum,
    /// The longest ttl in use.
    pub(super) longest: Duration,
}

impl Majority {
    /// A lock called `name` on the servers of these engines. `protocol` makes its kind's protocol from the checked name
    /// and the longest ttl in use, which is at first the longest of the clients' default ttls.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] unless there is an odd number of at least three clients, all of them different; and for an
    /// invalid name.
    pub(crate) fn of<P: Protocol>(
        engines: &[&Arc<Engine>],
        name: &str,
        protocol: impl Fn(Name, Duration) -> P,
    ) -> Result<Self> {
        let quorum = Quorum::of(engines.len()).ok_or_else(|| {
            let number = engines.len();
            Error::config(format!(
                "a lock over several servers needs an odd number of clients, at least {}, not {number}",
                Quorum::FEWEST
            ))
        })?;
        for (place, engine) in engines.iter().enumerate() {
            if engines[..place].iter().any(|it| Arc::ptr_eq(it, engine)) {
                return Err(Error::config(
                    "a lock over several servers needs a different client for each server: one client is listed twice",
                ));
            }
        }
        let ttls = engines.iter().map(|engine| engine.settings.ttl);
        let longest = ttls.max().unwrap_or_default();
        let target = |engine: &&Arc<Engine>| {
            let protocol = Arc::new(protocol(engine.name(name)?, longest));
            Ok(Target::with(Arc::clone(engine), protocol))
        };
        Ok(Self {
            targets: engines.iter().map(target).collect::<Result<_>>()?,
            quorum,
            longest,
        })
    }

    /// Returns the same lock with `longest` as the longest ttl in use.
    #[must_use]
    pub fn longest_ttl<P: Protocol>(
        &self,
        longest: Duration,
        protocol: impl Fn(Name, Duration) -> P,
    ) -> Self {
        let targets = self.targets.iter();
        let targets = targets.map(|target| target.by(|name| protocol(name, longest)));
        Self {
            targets: targets.collect(),
            quorum: self.quorum,
            longest,
        }
    }

    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter()
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &str {
        // There are at least three targets.
        self.targets[0].name()
    }
}

impl fmt::Debug for Majority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (target, servers) = (&self.targets[0], self.targets.len());
        let kind = target.kind().map_err(|_| fmt::Error)?;
        write!(f, "{kind}({:?} on {servers} servers)", target.name())
    }
}
