//! Observers: told of everything that happens to the leases of a client, for metrics and audit.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::seam::protocol::Protocol;
use crate::words::ending::LossReason;
use crate::words::kind::Kind;
use crate::words::owner::{ClaimId, Owner};
use crate::words::token::FencingToken;

/// Told of everything that happens to the leases of a client.
///
/// It is called from the client's own tasks and from whoever acquires and releases: it must be quick and must not block.
/// The client holds no lock of its own meanwhile, so an observer may use it. A panic of the observer is caught and logged:
/// only that observation is lost.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use lockkeeper_core::{Observation, Observer, LeaseEvent};
///
/// /// How many leases were lost.
/// #[derive(Debug, Default)]
/// struct Losses(AtomicU64);
///
/// impl Observer for Losses {
///     fn observe(&self, observation: &Observation<'_>) {
///         if let LeaseEvent::Lost(_) = observation.event {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Something has happened.
    fn observe(&self, observation: &Observation<'_>);
}

/// Something that has happened to one claim.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Observation<'a> {
    /// The name of the lock.
    pub name: &'a str,
    /// The kind of the lock.
    pub kind: Kind,
    /// The claim, as [inspection](crate::Client::inspect) shows it in [`Holder::claim`](crate::Holder::claim).
    pub claim: &'a str,
    /// Whose claim it is.
    pub owner: Owner,
    /// What has happened.
    pub event: LeaseEvent,
}

/// What can happen to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseEvent {
    /// The lock is held by another claim; the acquisition waits.
    Waiting,
    /// Others hold the semaphore with another limit than this client was given: theirs stands, until nobody holds or waits any more.
    /// Told once for each such limit.
    #[non_exhaustive]
    OtherLimit {
        /// The limit that stands.
        limit: u32,
    },
    /// The claim holds.
    #[non_exhaustive]
    Granted {
        /// The token of the grant.
        token: FencingToken,
        /// How long the acquisition took.
        waited: Duration,
    },
    /// The lease goes on.
    #[non_exhaustive]
    Renewed {
        /// How much of the lease was left when the answer came. Small values say that the server is slow for this ttl.
        slack: Duration,
    },
    /// A renewal was not answered; the lease is still believed in.
    Uncertain,
    /// The lease was lost.
    Lost(LossReason),
    /// The claim has left, and the server has confirmed it.
    #[non_exhaustive]
    Released {
        /// How long it was held, from the send of the granting request to the confirmation.
        held: Duration,
    },
}

/// The observer of a client, if it has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed(pub(crate) Option<std::sync::Arc<dyn Observer>>);

impl Observed {
    pub(crate) fn tell(&self, protocol: &dyn Protocol, claim: &ClaimId, event: LeaseEvent) {
        if let Some(observer) = &self.0 {
            let observation = Observation {
                name: protocol.name().as_str(),
                kind: protocol.kind(),
                claim: claim.as_str(),
                owner: claim.owner(),
                event,
            };
            // A panic would end the task that keeps the leases of all, or fail an acquisition that has succeeded.
            let observed = AssertUnwindSafe(|| observer.observe(&observation));
            if catch_unwind(observed).is_err() {
                tracing::error!(
                    ?observation,
                    "the observer panicked; this observation is lost"
                );
            }
        }
    }
}
