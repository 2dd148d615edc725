//! One lock on several independent servers, a majority of which decides.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::plan::Target;
use crate::engine::Engine;
use crate::quorum::Quorum;
use crate::seam::protocol::Protocol;
use crate::words::error::{Error, Result};
use crate::words::name::Name;

/// The same name on several servers, each with a client of its own and, once it is acquired, a claim of its own, all of one id.
/// Clones are the same lock.
#[derive(Clone)]
pub struct Majority {
    pub(super) targets: Arc<[Target]>,
    pub(super) quorum: Quorum,
    /// The longest ttl that anybody uses.
    pub(super) longest: Duration,
}

impl Majority {
    /// A lock called `name` on the servers of these engines; `protocol` makes its kind's protocol of the checked name and the
    /// longest ttl that anybody uses, which is the longest of the clients' own.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] unless the clients are odd in number, three or more and each another one, or for a bad name.
    pub(crate) fn of<P: Protocol>(
        engines: &[&Arc<Engine>],
        name: &str,
        protocol: impl Fn(Name, Duration) -> P,
    ) -> Result<Self> {
        let quorum = Quorum::of(engines.len()).ok_or_else(|| {
            let number = engines.len();
            Error::config(format!(
                "a lock over several servers needs an odd number of them, {} or more, not {number}",
                Quorum::FEWEST
            ))
        })?;
        for (place, engine) in engines.iter().enumerate() {
            if engines[..place].iter().any(|it| Arc::ptr_eq(it, engine)) {
                return Err(Error::config(
                    "each server of a lock over several needs a client of its own: one is there twice",
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

    /// The same lock where the longest ttl that anybody uses is this one.
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

    /// What the lock is called.
    pub fn name(&self) -> &str {
        // There are three or more.
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
