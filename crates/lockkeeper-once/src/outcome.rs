//! What a call of a `Once` returns.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;

use lockkeeper_core::Error;

/// The result of the work, and which call did it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the work was done by this call, or it was not"
)]
pub enum OnceOutcome<V = Vec<u8>> {
    /// This call did the work, and its result is stored.
    Ran(V),
    /// Another call did the work, before this one or while it waited, and stored this result.
    Stored(V),
}

impl<V> OnceOutcome<V> {
    /// Returns the result, whichever call made it.
    pub fn into_value(self) -> V {
        match self {
            Self::Ran(value) | Self::Stored(value) => value,
        }
    }

    /// Returns whether this call did the work.
    pub const fn ran(&self) -> bool {
        matches!(self, Self::Ran(_))
    }
}

/// Why a call did not return a stored result.
#[derive(Debug)]
#[non_exhaustive]
pub enum OnceError<E, V = Vec<u8>> {
    /// This call did the work, and it failed with this error of its own. Nothing is stored, or only that it failed,
    /// with [`retry_after`](crate::Once::retry_after).
    Work(E),
    /// This call did the work, but its result is not known to be stored: another call may do the work again.
    #[non_exhaustive]
    NotKept {
        /// The work's result.
        value: V,
        /// Why it is not stored:
        ///
        /// - [`Error::Config`]: it is too large. The next call does the work at once.
        /// - [`Error::Lost`]: the lease ended before. Another call may have done the work since.
        /// - [`Error::Backend`]: the server did not answer. Storing it is tried again in the background.
        error: Error,
    },
    /// This call did not do the work, or the work was stopped at one of its await points because the lease was lost
    /// ([`Error::Lost`]).
    Lock(Error),
}

impl<E, V> OnceError<E, V> {
    /// Returns an [`OnceError::NotKept`] with this result and the reason why it is not stored, for tests of your own
    /// code.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use lockkeeper_core::{Error, LossReason};
    /// use lockkeeper_once::OnceError;
    ///
    /// let lost = Error::lost("report", LossReason::Expired);
    /// let error = OnceError::<Infallible, _>::not_kept(b"receipt 1".to_vec(), lost);
    /// assert!(error.to_string().ends_with(r#"lock "report" was lost: its deadline passed"#));
    /// ```
    pub const fn not_kept(value: V, error: Error) -> Self {
        Self::NotKept { value, error }
    }
}

impl<E, V> OnceError<E, V>
where
    E: Into<Box<dyn StdError + Send + Sync>>,
    V: fmt::Debug + Send + Sync + 'static,
{
    /// Returns it as a boxed error, for work whose own error is one: a `Box<dyn Error + Send + Sync>` is no
    /// [`Error`](std::error::Error), so an `OnceError` with it is none either, and `?` does not convert it. The error of
    /// the work becomes the boxed error itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error as StdError;
    /// use lockkeeper_once::OnceError;
    ///
    /// fn report(done: Result<(), OnceError<Box<dyn StdError + Send + Sync>>>) -> Result<(), Box<dyn StdError + Send + Sync>> {
    ///     Ok(done.map_err(OnceError::into_boxed)?)
    /// }
    /// let told = report(Err(OnceError::Work("no paper".into())));
    /// assert!(told.is_err_and(|error| error.to_string() == "no paper"));
    /// ```
    pub fn into_boxed(self) -> Box<dyn StdError + Send + Sync> {
        match self {
            Self::Work(error) => error.into(),
            Self::NotKept { value, error } => {
                Box::new(OnceError::<Infallible, V>::NotKept { value, error })
            }
            Self::Lock(error) => Box::new(error),
        }
    }
}

impl<E, V> From<Error> for OnceError<E, V> {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

impl<E: fmt::Display, V> fmt::Display for OnceError<E, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => error.fmt(f),
            Self::NotKept { error, .. } => write!(
                f,
                "the work is done, but its result is not known to be stored: {error}"
            ),
            Self::Lock(error) => error.fmt(f),
        }
    }
}

impl<E: StdError + 'static, V: fmt::Debug> StdError for OnceError<E, V> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Work(error) => error.source(),
            Self::NotKept { error, .. } => Some(error),
            Self::Lock(error) => error.source(),
        }
    }
}
