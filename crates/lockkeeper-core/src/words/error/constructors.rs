//! Every error, to be made: by kinds and stores, and by users in the tests of what they do about it.

use std::sync::Arc;
use std::time::Duration;

use crate::words::ending::{LossReason, Lost};
use crate::words::error::Error;
use crate::words::holder::Holder;
use crate::words::record::Record;
use crate::words::store_error::StoreError;

/// # Making errors
///
/// For a test of what your code does about an error. [`Error::Closed`] is made as it is, and a loss also by a [`Lost`].
///
/// ```
/// use std::time::Duration;
/// use lockkeeper_core::{Error, Holder, LossReason};
/// use lockkeeper_core::store::StoreError;
///
/// let mut holder = Holder::new("67e55044-10b1-426f-9247-bb680e5fe0c8:7/9c1f4d03a2b75e68");
/// holder.label = Some("web-1:4711".to_owned());
/// let busy = Error::timeout("report", Duration::from_secs(1)).held_by(holder).at_place(2);
/// assert_eq!(
///     busy.to_string(),
///     r#"lock "report" did not become free within 1s; held by web-1:4711; place 2 in its queue"#
/// );
/// assert!(busy.is_transient());
///
/// let refused = Error::backend(r#"acquire lock "report""#, StoreError::refused("NOPERM no rights"));
/// assert!(!refused.is_transient());
/// let lost = Error::lost("report", LossReason::Expired);
/// assert!(matches!(lost, Error::Lost { reason: LossReason::Expired, .. }));
/// ```
impl Error {
    /// An [`Error::Backend`]: the store failed when it was to `context`, as in "acquire lock".
    pub fn backend(context: impl Into<String>, cause: StoreError) -> Self {
        Self::Backend {
            context: context.into(),
            source: cause.client_error(),
            cause,
        }
    }

    /// An [`Error::Config`] that says what is wrong and what to do.
    pub fn config(message: impl Into<String>) -> Self {
        Self::Config {
            message: message.into(),
        }
    }

    /// An [`Error::Done`]: the work of `name` has come to this.
    pub fn done(name: impl Into<String>, record: Record) -> Self {
        Self::Done {
            name: name.into(),
            record: Arc::new(record),
        }
    }

    /// An [`Error::Lost`], of a server without a name.
    pub fn lost(name: impl Into<String>, reason: LossReason) -> Self {
        Lost::new(name, reason).into()
    }

    /// An [`Error::NotHeld`]: the guard of lock `name` is gone, or was overtaken by another hold of its owner.
    pub fn not_held(name: impl Into<String>) -> Self {
        Self::NotHeld { name: name.into() }
    }

    /// An [`Error::Mismatch`]: `name` stands for another request.
    pub fn mismatch(name: impl Into<String>) -> Self {
        Self::Mismatch { name: name.into() }
    }

    /// An [`Error::NotArmed`]: nobody has armed the latch `name`, or it has ended.
    pub fn not_armed(name: impl Into<String>, ended: bool) -> Self {
        let name = name.into();
        Self::NotArmed { name, ended }
    }

    /// An [`Error::NotReplicated`]: so many of the replicas that were wanted had the grant.
    pub fn not_replicated(name: impl Into<String>, wanted: u32, reached: u64) -> Self {
        Self::NotReplicated {
            name: name.into(),
            wanted,
            reached,
        }
    }

    /// An [`Error::Partial`]: of so many members these were not released, and why.
    pub const fn partial(members: usize, failures: Vec<(String, Self)>) -> Self {
        Self::Partial { members, failures }
    }

    /// An [`Error::OverLimit`]: the semaphore `name` has fewer permits than were asked for.
    pub fn over_limit(name: impl Into<String>, limit: u32) -> Self {
        let name = name.into();
        Self::OverLimit { name, limit }
    }

    /// An [`Error::Protocol`]: the server said of lock `name` what no script of ours says.
    pub fn protocol(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Protocol {
            name: name.into(),
            message: message.into(),
        }
    }

    /// An [`Error::Protocol`]: the server answered this, which no script of ours says.
    #[doc(hidden)]
    pub fn unexpected(name: impl Into<String>, answer: &str) -> Self {
        Self::protocol(name, format!("an unexpected answer, {answer}"))
    }

    /// An [`Error::QueueFull`]: so many wait for the lock `name` already.
    pub fn queue_full(name: impl Into<String>, length: u64) -> Self {
        let name = name.into();
        Self::QueueFull { name, length }
    }

    /// An [`Error::Timeout`]: the lock `name` was waited for so long. Nobody is known to hold it, unless [`held_by`](Self::held_by)
    /// says so.
    pub fn timeout(name: impl Into<String>, waited: Duration) -> Self {
        Self::Timeout {
            name: name.into(),
            waited,
            holder: None,
            place: None,
        }
    }

    /// Says of an [`Error::Timeout`] who held the lock when the time was over; any other error stays as it is.
    #[must_use]
    pub fn held_by(mut self, by: Holder) -> Self {
        if let Self::Timeout { holder, .. } = &mut self {
            *holder = Some(Box::new(by));
        }
        self
    }

    /// Says of an [`Error::Timeout`] at which place in the queue the acquisition stood; any other error stays as it is.
    #[must_use]
    pub const fn at_place(mut self, at: u64) -> Self {
        if let Self::Timeout { place, .. } = &mut self {
            *place = Some(at);
        }
        self
    }

    /// An [`Error::WorkFailed`]: the work of `name` may be tried in so long.
    pub fn work_failed(name: impl Into<String>, retry_in: Duration) -> Self {
        Self::WorkFailed {
            name: name.into(),
            retry_in,
        }
    }

    /// An [`Error::WouldDeadlock`]: the owner reads the lock `name`, and asked to write.
    pub fn would_deadlock(name: impl Into<String>) -> Self {
        Self::WouldDeadlock { name: name.into() }
    }

    /// An [`Error::Foreign`]: another library holds the lock `name`.
    pub fn foreign(name: impl Into<String>, holder: Holder) -> Self {
        Self::Foreign {
            name: name.into(),
            holder: Box::new(holder),
        }
    }

    /// An [`Error::WrongKind`]: the key of `name` holds something else than a lock of this kind.
    pub fn wrong_kind(name: impl Into<String>, kind: &'static str, key: impl Into<String>) -> Self {
        Self::WrongKind {
            name: name.into(),
            kind,
            key: key.into(),
        }
    }
}
