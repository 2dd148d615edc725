//! The errors of all calls.

mod constructors;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use crate::words::ending::{LossReason, Lost};
use crate::words::holder::Holder;
use crate::words::record::Record;
use crate::words::store_error::StoreError;

/// `Result` with Lockkeeper's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// It is not an error if somebody else holds the lock: `try_acquire` then returns `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server did not answer, or refused. The client library's own error is the
    /// [`source`](std::error::Error::source).
    #[error("could not {context}: {cause}")]
    #[non_exhaustive]
    Backend {
        /// What the client was doing.
        context: String,
        /// What the store reported.
        cause: StoreError,
        /// The client library's own error, if there is one.
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
    /// The client is closed, or the runtime that it was built on is gone.
    #[error("the client is closed")]
    Closed,
    /// A setting, a name or a URL is invalid. Nothing was sent or changed.
    #[error("{message}")]
    #[non_exhaustive]
    Config {
        /// What is wrong and what to do about it.
        message: String,
    },
    /// There is nothing to hold: the work of the name is done, or has failed and may not be tried again yet. `Once`
    /// turns this error into the result that its caller asked for.
    #[error("the work of {name:?} already has a stored outcome")]
    #[non_exhaustive]
    Done {
        /// The name.
        name: String,
        /// The stored outcome.
        record: Arc<Record>,
    },
    /// The lease on the lock was lost before it was released.
    #[error("lock {name:?} was lost: {reason}")]
    #[non_exhaustive]
    Lost {
        /// The lock; for several held together, the one that was lost.
        name: String,
        /// The server's name or address, if it has one.
        server: Option<String>,
        /// Why it was lost.
        reason: LossReason,
    },
    /// The guard of this lease has been released or dropped.
    #[error("lock {name:?} is not held: its guard has been released")]
    #[non_exhaustive]
    NotHeld {
        /// The lock.
        name: String,
    },
    /// A result is stored for another [fingerprint](Record::fingerprint): the name was used for another request.
    #[error(
        "the result of {name:?} was stored for another request (the fingerprints differ): use one name for each request"
    )]
    #[non_exhaustive]
    Mismatch {
        /// The name.
        name: String,
    },
    /// There is no such latch: nobody has armed it, or it has ended. See `lockkeeper::Latch`.
    #[error("latch {name:?} {}", why_not_armed(*ended))]
    #[non_exhaustive]
    NotArmed {
        /// The latch.
        name: String,
        /// Whether it was armed and then ended before it opened: no new id counted for a whole ttl, or the server
        /// lost a part of it.
        ended: bool,
    },
    /// Fewer replicas than [`min_replicas`](crate::Acquire::min_replicas) requires confirmed the grant in time. The
    /// lock has been released.
    #[error(
        "lock {name:?} was granted and released again: only {reached} of the {wanted} required replicas confirmed it in time"
    )]
    #[non_exhaustive]
    NotReplicated {
        /// The lock.
        name: String,
        /// How many replicas were required.
        wanted: u32,
        /// How many confirmed it.
        reached: u64,
    },
    /// Some members of a multi-lock were not released; the others were. None of them is valid any more. Unanswered
    /// releases are repeated in the background.
    #[error("{} of {members} locks were not released; the first: {}", failures.len(), first(failures))]
    #[non_exhaustive]
    Partial {
        /// How many members there were.
        members: usize,
        /// The names of the members that were not released, and why, in the order of the leases.
        failures: Vec<(String, Self)>,
    },
    /// The acquisition asked for more permits than the semaphore has: the limit on the server is lower than this
    /// client's own. It stays while anybody holds or waits, unless `set_limit` changes it.
    #[error(
        "semaphore {name:?} now has a limit of {limit}, fewer permits than requested: ask for fewer, or raise the limit with set_limit"
    )]
    #[non_exhaustive]
    OverLimit {
        /// The semaphore.
        name: String,
        /// Its limit.
        limit: u32,
    },
    /// None of our scripts gives the reply that the server gave: another program may use the same keys or scripts.
    #[error("lock {name:?}: {message}")]
    #[non_exhaustive]
    Protocol {
        /// The lock.
        name: String,
        /// What the server replied.
        message: String,
    },
    /// The queue already has as many waiters as this acquisition's [`max_queue`](crate::Acquire::max_queue) allows.
    #[error("the queue of lock {name:?} is full, with {length} waiting")]
    #[non_exhaustive]
    QueueFull {
        /// The lock.
        name: String,
        /// How many claims wait.
        length: u64,
    },
    /// The lock did not become free in time.
    #[error("lock {name:?} did not become free within {waited:?}{}", in_the_way(holder.as_deref(), *place))]
    #[non_exhaustive]
    Timeout {
        /// The lock.
        name: String,
        /// How long the acquisition waited.
        waited: Duration,
        /// The holder when the time was over; if there were several, the one with most time left. `None` if nobody held
        /// the lock then, if the server did not answer within 100 ms, or if the time to wait was zero. When many waits of
        /// one client end at once, the client asks only for some of them.
        holder: Option<Box<Holder>>,
        /// The last known place in the queue, counted from 1; `None` for kinds without a queue.
        place: Option<u64>,
    },
    /// The work of this name has failed and may not be tried again yet, because its caller asked for that delay.
    #[error("the work of {name:?} has failed and may not be tried again for {retry_in:?}")]
    #[non_exhaustive]
    WorkFailed {
        /// The name.
        name: String,
        /// How long until the next try is allowed, counted from this answer.
        retry_in: Duration,
    },
    /// The acquisition would wait for its own owner for ever: the owner already reads, and now asks to write.
    #[error(
        "this owner already holds lock {name:?} for reading, and now asks to write: release the read guard, or upgrade it"
    )]
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock.
        name: String,
    },
    /// Another library holds the name, and its holder cannot be asked to release.
    #[error(
        "lock {name:?} is held by another library, which cannot be asked to release it: by {holder}; wait, or take it by force if that holder is dead"
    )]
    #[non_exhaustive]
    Foreign {
        /// The lock.
        name: String,
        /// Who holds it.
        holder: Box<Holder>,
    },
    /// The name holds data of another kind of lock, of another program, or of a later version of Lockkeeper.
    #[error(
        "lock {name:?} is no {kind} lock: its key {key:?} holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade"
    )]
    #[non_exhaustive]
    WrongKind {
        /// The lock.
        name: String,
        /// The kind of lock that the caller asked for.
        kind: &'static str,
        /// The key.
        key: String,
    },
}

const fn why_not_armed(ended: bool) -> &'static str {
    match ended {
        true => {
            "ended before it opened: no new id counted for a whole ttl, or the server lost a part of it"
        }
        false => "is not armed: arm it before it is counted down or waited for",
    }
}

fn in_the_way(holder: Option<&Holder>, place: Option<u64>) -> String {
    let holder = holder.map_or_else(String::new, |it| format!("; held by {it}"));
    let place = place.map_or_else(String::new, |it| format!("; place {it} in its queue"));
    holder + &place
}

/// The first failure, which is usually the cause of all.
fn first(failures: &[(String, Error)]) -> String {
    failures
        .first()
        .map_or_else(String::new, |(_, error)| error.to_string())
}

impl Error {
    /// Returns whether the same call may succeed if it is repeated: the server or its replicas could not be reached
    /// or were not ready, or the lock was held for the whole time that the caller would wait.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Backend { cause, .. } => cause.is_transient(),
            Self::Timeout { .. }
            | Self::QueueFull { .. }
            | Self::NotReplicated { .. }
            | Self::WorkFailed { .. } => true,
            _ => false,
        }
    }
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        Self::Lost {
            name: lost.name,
            server: lost.server,
            reason: lost.reason,
        }
    }
}
