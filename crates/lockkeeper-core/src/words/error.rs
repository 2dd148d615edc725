//! What can go wrong, in few words.

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
/// That a lock is held by somebody else is no error: `try_acquire` answers `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server did not answer, or refused. The client library's own error is the
    /// [`source`](std::error::Error::source).
    #[error("could not {context}: {cause}")]
    #[non_exhaustive]
    Backend {
        /// What was being done.
        context: String,
        /// What the store said.
        cause: StoreError,
        /// The client library's own error, if there is one.
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
    /// The client has been closed, or the runtime that it was made on is gone.
    #[error("the client is closed")]
    Closed,
    /// A setting, a name or a URL that cannot work; nothing has been touched.
    #[error("{message}")]
    #[non_exhaustive]
    Config {
        /// What is wrong and what to do.
        message: String,
    },
    /// There is nothing to hold: the work of the name is done, or has failed and is not to be tried yet. A `Once` makes of it what its
    /// caller asked for.
    #[error("the work of {name:?} is done already")]
    #[non_exhaustive]
    Done {
        /// The name.
        name: String,
        /// What has come of it.
        record: Arc<Record>,
    },
    /// The lease on the lock was lost before it was released.
    #[error("lock {name:?} was lost: {reason}")]
    #[non_exhaustive]
    Lost {
        /// The lock; of several held together the one that was lost.
        name: String,
        /// What its server is called, if that has a name or an address.
        server: Option<String>,
        /// Why.
        reason: LossReason,
    },
    /// The guard of this lease has been released or dropped.
    #[error("lock {name:?} is not held: its guard has been released")]
    #[non_exhaustive]
    NotHeld {
        /// The lock.
        name: String,
    },
    /// The work of this name was asked for with another [fingerprint](Record::fingerprint): the name stands for another request.
    #[error(
        "the work of {name:?} was asked for with another fingerprint: use another name for another request"
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
        /// Whether it was armed and has ended before it opened: nobody counted it down for its ttl, or the server has lost a part of it.
        ended: bool,
    },
    /// Fewer replicas than [`min_replicas`](crate::Acquire::min_replicas) asks for had the grant in time. It has been given
    /// back.
    #[error("lock {name:?} was granted, but {reached} of {wanted} replicas had it in time")]
    #[non_exhaustive]
    NotReplicated {
        /// The lock.
        name: String,
        /// How many replicas were to have it.
        wanted: u32,
        /// How many confirmed that they have it.
        reached: u64,
    },
    /// Some members of a multi-lock were not released, the others were. Validity in all of them has ended; releases without answer
    /// are repeated in the background.
    #[error("{} of {members} locks were not released: {}", failures.len(), first(failures))]
    #[non_exhaustive]
    Partial {
        /// How many there were.
        members: usize,
        /// The names of those that were not released, and why, in the order of the leases.
        failures: Vec<(String, Self)>,
    },
    /// More permits were asked for than the semaphore has: on the server a lower limit stands than this client was given, as long as
    /// anybody holds or waits.
    #[error(
        "semaphore {name:?} has a limit of {limit} now, and more permits were asked for: ask for fewer, or raise it with set_limit"
    )]
    #[non_exhaustive]
    OverLimit {
        /// The semaphore.
        name: String,
        /// Its limit.
        limit: u32,
    },
    /// The server answered something that no script of ours says; another program uses the same keys or scripts.
    #[error("lock {name:?}: {message}")]
    #[non_exhaustive]
    Protocol {
        /// The lock.
        name: String,
        /// What was answered.
        message: String,
    },
    /// As many wait for the lock as may, by this acquisition's [`max_queue`](crate::Acquire::max_queue).
    #[error("lock {name:?} has a queue of {length} already")]
    #[non_exhaustive]
    QueueFull {
        /// The lock.
        name: String,
        /// How many wait.
        length: u64,
    },
    /// The lock did not become free in time.
    #[error("lock {name:?} did not become free within {waited:?}{}", in_the_way(holder.as_deref(), *place))]
    #[non_exhaustive]
    Timeout {
        /// The lock.
        name: String,
        /// How long it was waited for.
        waited: Duration,
        /// Who held it when the time was over; of several the one with most time left. `None` if nobody did then, if the server did not say within
        /// 100 ms, or if the time to wait was zero. While many waits of one client end at once, it asks for some of them.
        holder: Option<Box<Holder>>,
        /// The place in its queue, counted from one, as last heard; `None` of kinds without a queue.
        place: Option<u64>,
    },
    /// The work of this name has failed, and is not to be tried again for a while, by the wish of whoever did it.
    #[error("the work of {name:?} has failed and is not to be tried again yet")]
    #[non_exhaustive]
    WorkFailed {
        /// The name.
        name: String,
        /// When the next may try: so long after this answer.
        retry_in: Duration,
    },
    /// The owner holds the lock in a way that its own acquisition would wait for for ever: it reads, and asked to write.
    #[error(
        "lock {name:?} is read by the owner that asks to write: release the read guard, or upgrade it"
    )]
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock.
        name: String,
    },
    /// Another library holds the name, which has no word for being asked to release.
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
        "lock {name:?} is no {kind} lock: its key {key:?} holds another kind, or what another program or a later version of Lockkeeper \
         wrote; choose another name or namespace, or upgrade"
    )]
    #[non_exhaustive]
    WrongKind {
        /// The lock.
        name: String,
        /// The kind that was asked for.
        kind: &'static str,
        /// The key.
        key: String,
    },
}

const fn why_not_armed(ended: bool) -> &'static str {
    match ended {
        true => {
            "has ended before it opened: nobody counted it down for its ttl, or the server has lost a part of it"
        }
        false => "is not armed: arm it before it is counted down or waited for",
    }
}

fn in_the_way(holder: Option<&Holder>, place: Option<u64>) -> String {
    let holder = holder.map_or_else(String::new, |it| format!("; held by {it}"));
    let place = place.map_or_else(String::new, |it| format!("; place {it} in its queue"));
    holder + &place
}

/// The first failure, which most often is that of all.
fn first(failures: &[(String, Error)]) -> String {
    failures
        .first()
        .map_or_else(String::new, |(_, error)| error.to_string())
}

impl Error {
    /// Whether the same call may succeed if it is made again: the server was out of reach or not ready, its replicas were, or
    /// the lock was held for as long as the caller would wait.
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
