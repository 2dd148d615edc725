//! Constructors for every error: for kinds and stores, and for users who test their error handling.

use std::sync::Arc;
use std::time::Duration;

use crate::words::ending::{LossReason, Lost};
use crate::words::error::Error;
use crate::words::holder::Holder;
use crate::words::record::Record;
use crate::words::store_error::StoreError;

/// # Making errors
///
/// Use these to test how your code handles an error. [`Error::Closed`] needs no constructor, and a [`Lost`] converts
/// into an error.
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
    /// An [`Error::Backend`]: the store failed while doing `context`, for example "acquire lock".
    pub fn backend(context: impl Into<String>, cause: StoreError) -> Self {
        Self::Backend {
            context: context.into(),
            source: cause.client_error(),
            cause,
        }
    }

    /// An [`Error::Config`] that says what is wrong and what to do about it.
    pub fn config(message: impl Into<String>) -> Self {
        Self::Config {
            message: message.into(),
        }
    }

    /// An [`Error::Done`]: this is the stored outcome of the work of `name`.
    pub fn done(name: impl Into<String>, record: Record) -> Self {
        Self::Done {
            name: name.into(),
            record: Arc::new(record),
        }
    }

    /// An [`Error::Lost`], on a server without a name.
    pub fn lost(name: impl Into<String>, reason: LossReason) -> Self {
        Lost::new(name, reason).into()
    }

    /// An [`Error::NotHeld`]: the guard of lock `name` is gone, or a later hold of its owner has replaced it.
    pub fn not_held(name: impl Into<String>) -> Self {
        Self::NotHeld { name: name.into() }
    }

    /// An [`Error::Mismatch`]: `name` was used for another request.
    pub fn mismatch(name: impl Into<String>) -> Self {
        Self::Mismatch { name: name.into() }
    }

    /// An [`Error::NotArmed`]: nobody has armed the latch `name`, or it has ended.
    pub fn not_armed(name: impl Into<String>, ended: bool) -> Self {
        let name = name.into();
        Self::NotArmed { name, ended }
    }

    /// An [`Error::NotReplicated`]: only `reached` of the `wanted` replicas confirmed the grant.
    pub fn not_replicated(name: impl Into<String>, wanted: u32, reached: u64) -> Self {
        Self::NotReplicated {
            name: name.into(),
            wanted,
            reached,
        }
    }

    /// An [`Error::Partial`]: of `members` locks, those in `failures` were not released; each has its error.
    pub const fn partial(members: usize, failures: Vec<(String, Self)>) -> Self {
        Self::Partial { members, failures }
    }

    /// An [`Error::OverLimit`]: more permits of the semaphore `name` were asked for than its limit.
    pub fn over_limit(name: impl Into<String>, limit: u32) -> Self {
        let name = name.into();
        Self::OverLimit { name, limit }
    }

    /// An [`Error::Protocol`]: none of our scripts gives the reply that the server gave about lock `name`.
    pub fn protocol(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Protocol {
            name: name.into(),
            message: message.into(),
        }
    }

    /// An [`Error::Protocol`]: the server replied with `answer`, which none of our scripts gives here.
    #[doc(hidden)]
    pub fn unexpected(name: impl Into<String>, answer: &str) -> Self {
        Self::protocol(name, format!("unexpected answer: {answer}"))
    }

    /// An [`Error::QueueFull`]: `length` claims already wait for the lock `name`.
    pub fn queue_full(name: impl Into<String>, length: u64) -> Self {
        let name = name.into();
        Self::QueueFull { name, length }
    }

    /// An [`Error::Timeout`]: the acquisition of the lock `name` waited for this long. Its holder is unknown until
    /// you add one with [`held_by`](Self::held_by).
    pub fn timeout(name: impl Into<String>, waited: Duration) -> Self {
        Self::Timeout {
            name: name.into(),
            waited,
            holder: None,
            place: None,
        }
    }

    /// Adds the holder to an [`Error::Timeout`]; any other error is returned unchanged.
    #[must_use]
    pub fn held_by(mut self, by: Holder) -> Self {
        if let Self::Timeout { holder, .. } = &mut self {
            *holder = Some(Box::new(by));
        }
        self
    }

    /// Adds the place in the queue to an [`Error::Timeout`]; any other error is returned unchanged.
    #[must_use]
    pub const fn at_place(mut self, at: u64) -> Self {
        if let Self::Timeout { place, .. } = &mut self {
            *place = Some(at);
        }
        self
    }

    /// An [`Error::WorkFailed`]: the work of `name` may be tried again after `retry_in`.
    pub fn work_failed(name: impl Into<String>, retry_in: Duration) -> Self {
        Self::WorkFailed {
            name: name.into(),
            retry_in,
        }
    }

    /// An [`Error::WouldDeadlock`]: the owner already reads the lock `name`, and now asks to write.
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

    /// An [`Error::WrongKind`]: the key of `name` holds something other than a lock of this kind.
    pub fn wrong_kind(name: impl Into<String>, kind: &'static str, key: impl Into<String>) -> Self {
        Self::WrongKind {
            name: name.into(),
            kind,
            key: key.into(),
        }
    }
}
