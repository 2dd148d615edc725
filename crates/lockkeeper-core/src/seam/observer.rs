//! Observers receive events about every acquisition and lease of a client, for metrics and audit.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::seam::protocol::Protocol;
use crate::words::ending::LossReason;
use crate::words::error::Error;
use crate::words::kind::Kind;
use crate::words::owner::{ClaimId, Owner};
use crate::words::token::FencingToken;

/// Receives events about every acquisition and lease of a client, and about its connections.
///
/// By default each method does nothing. The methods are called from the client's own tasks and from the code that
/// acquires and releases, so they must be quick and must not block. The client holds no internal lock during a call,
/// so an observer may use the client. If the observer panics, the panic is caught and logged, and only that
/// observation is lost.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use lockkeeper_core::{AcquisitionEvent, Observed, Observer};
///
/// /// How many acquisitions are under way.
/// #[derive(Debug, Default)]
/// struct UnderWay(AtomicI64);
///
/// impl Observer for UnderWay {
///     fn on_acquisition(&self, _: &Observed<'_>, event: AcquisitionEvent) {
///         match event {
///             AcquisitionEvent::Began => self.0.fetch_add(1, Ordering::Relaxed),
///             AcquisitionEvent::Ended { .. } => self.0.fetch_sub(1, Ordering::Relaxed),
///             _ => 0,
///         };
///     }
/// }
/// ```
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Called for an event of an acquisition, which has no claim yet. A lock on several servers reports only to the
    /// observer of its first client. Several locks that are acquired together are reported one by one.
    fn on_acquisition(&self, _of: &Observed<'_>, _event: AcquisitionEvent) {}

    /// Called for an event of the lease of `claim`. [Inspection](crate::Client::inspect) shows the same id in
    /// [`Holder::claim`](crate::Holder::claim).
    fn on_lease(&self, _of: &Observed<'_>, _claim: &str, _event: LeaseEvent) {}

    /// Called for an event of the client itself.
    fn on_client(&self, _event: ClientEvent) {}
}

/// Calls both observers, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn on_acquisition(&self, of: &Observed<'_>, event: AcquisitionEvent) {
        self.0.on_acquisition(of, event);
        self.1.on_acquisition(of, event);
    }

    fn on_lease(&self, of: &Observed<'_>, claim: &str, event: LeaseEvent) {
        self.0.on_lease(of, claim, event);
        self.1.on_lease(of, claim, event);
    }

    fn on_client(&self, event: ClientEvent) {
        self.0.on_client(event);
        self.1.on_client(event);
    }
}

/// What an event is about: the lock, and the owner of the acquisition or lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observed<'a> {
    /// The name of the lock.
    pub name: &'a str,
    /// The kind of the lock.
    pub kind: Kind,
    /// The owner of the acquisition or lease.
    pub owner: Owner,
}

/// The events of an acquisition. An acquisition that begins ends exactly once; with invalid settings, or on a closed
/// client, it does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquisitionEvent {
    /// The acquisition begins.
    Began,
    /// Others hold the lock, and the acquisition waits. Reported at most once.
    Waiting,
    /// The acquisition has ended.
    #[non_exhaustive]
    Ended {
        /// How it ended.
        outcome: AcquisitionOutcome,
        /// How long it took.
        took: Duration,
        /// Whether it was reported as waiting.
        waited: bool,
    },
}

/// How an acquisition ended. If it takes several locks, or one lock on several servers, all its parts end in the same
/// way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AcquisitionOutcome {
    /// The lock is held.
    Granted,
    /// Others hold the lock, and the acquisition was asked not to wait.
    Refused,
    /// The time to wait ran out while the server was answering.
    TimedOut,
    /// The queue on the server was full.
    QueueFull,
    /// There was nothing to hold: the work of the name was done.
    Done,
    /// Its future was dropped.
    Abandoned,
    /// The client was closed.
    Closed,
    /// It ended with any other error.
    Failed,
}

impl AcquisitionOutcome {
    /// All outcomes.
    pub const ALL: &'static [Self] = &[
        Self::Granted,
        Self::Refused,
        Self::TimedOut,
        Self::QueueFull,
        Self::Done,
        Self::Abandoned,
        Self::Closed,
        Self::Failed,
    ];

    /// Returns the outcome as one lower-case word with underscores, suitable as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::QueueFull => "queue_full",
            Self::Done => "done",
            Self::Abandoned => "abandoned",
            Self::Closed => "closed",
            Self::Failed => "failed",
        }
    }

    pub(crate) const fn of_error(error: &Error) -> Self {
        match error {
            Error::Timeout { .. } => Self::TimedOut,
            Error::QueueFull { .. } => Self::QueueFull,
            Error::Done { .. } => Self::Done,
            Error::Closed => Self::Closed,
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for AcquisitionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The events of a lease. A lease that is granted ends exactly once: released, unconfirmed or lost.
///
/// [`Granted`](Self::Granted) is the first event of a lease, apart from [`OtherLimit`](Self::OtherLimit). Several threads
/// report events, so a renewal, or an uncertainty, that came just before the end may be reported after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseEvent {
    /// The claim holds.
    #[non_exhaustive]
    Granted {
        /// The token of the grant.
        token: FencingToken,
        /// How long the acquisition took.
        waited: Duration,
    },
    /// Others hold the semaphore with a limit other than the one that this client was given. Their limit applies until
    /// nobody holds or waits any more. Reported once for each such limit, even if the claim still waits.
    #[non_exhaustive]
    OtherLimit {
        /// The limit that applies.
        limit: u32,
    },
    /// The lease was renewed.
    #[non_exhaustive]
    Renewed {
        /// How much of the lease was left when the answer came. If this is small, the server is slow for this ttl.
        slack: Duration,
    },
    /// A renewal was not answered; the lease is still valid.
    Uncertain,
    /// The lease was lost.
    #[non_exhaustive]
    Lost {
        /// Why it was lost.
        reason: LossReason,
        /// How long it was held, from the send of the granting request.
        held: Duration,
    },
    /// The claim was released, and the server has confirmed it.
    #[non_exhaustive]
    Released {
        /// How long it was held, from the send of the granting request to the confirmation.
        held: Duration,
    },
    /// The claim was released, but no server has confirmed it: on the server it ends with its ttl.
    #[non_exhaustive]
    Unconfirmed {
        /// How long it was held, from the send of the granting request until the client stopped asking.
        held: Duration,
    },
}

/// The events of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// A connection is down: requests fail and messages are missed.
    Disconnected,
    /// Every connection is up again, and every subscription is in place.
    Connected,
    /// A task of the client is about to send one script for this many claims.
    #[non_exhaustive]
    Batch {
        /// How many claims the script is for.
        work: Work,
        /// For how many claims.
        claims: usize,
        /// How much later than planned it is sent. If this is large, the process is too busy for its leases, or a
        /// server is too slow.
        late: Duration,
    },
}

/// What a task of the client does for its claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Work {
    /// It renews leases.
    Renewal,
    /// It sends the heartbeats of waiting claims.
    Heartbeat,
}

impl Work {
    /// Returns one lower-case word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Renewal => "renewal",
            Self::Heartbeat => "heartbeat",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The observer of a client, if it has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audience(pub(crate) Option<Arc<dyn Observer>>);

impl Audience {
    pub(crate) const fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn on_acquisition(
        &self,
        protocol: &dyn Protocol,
        owner: Owner,
        event: AcquisitionEvent,
    ) {
        let of = of(protocol, owner);
        self.tell(&of, |it| it.on_acquisition(&of, event));
    }

    pub(crate) fn on_lease(&self, protocol: &dyn Protocol, claim: &ClaimId, event: LeaseEvent) {
        let of = of(protocol, claim.owner());
        self.tell(&of, |it| it.on_lease(&of, claim.as_str(), event));
    }

    pub(crate) fn on_client(&self, event: ClientEvent) {
        self.tell(&event, |it| it.on_client(event));
    }

    fn tell(&self, what: &dyn fmt::Debug, tell: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.0 {
            // A panic would end the task that renews all leases, or fail an acquisition that has succeeded.
            let told = catch_unwind(AssertUnwindSafe(|| tell(&**observer)));
            if told.is_err() {
                tracing::error!(?what, "the observer panicked; this observation is lost");
            }
        }
    }
}

fn of(protocol: &dyn Protocol, owner: Owner) -> Observed<'_> {
    Observed {
        name: protocol.name().as_str(),
        kind: protocol.kind(),
        owner,
    }
}
