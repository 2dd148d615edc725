//! What guards of every kind have in common.

use std::fmt;
use std::ops::Deref;

use crate::grant::hold::Hold;
use crate::grant::lease::Lease;
use crate::words::ending::Released;
use crate::words::error::Result;

/// A held lock of any kind, for code that is generic over kinds. Kinds declare their guards with
/// [`guard!`](crate::guard).
///
/// # Examples
///
/// ```
/// use lockkeeper_core::{Guard, Released};
///
/// async fn report_and_release(guard: impl Guard) -> lockkeeper_core::Result<Released> {
///     println!("{} has token {}", guard.lease().name(), guard.lease().fencing_token());
///     guard.release().await
/// }
/// ```
pub trait Guard:
    Deref<Target = Lease> + From<Hold> + Into<Hold> + fmt::Debug + Send + Sync + 'static
{
    /// Returns a view of the grant. Its clones may outlive the guard.
    fn lease(&self) -> &Lease {
        self
    }

    /// Releases the lock and waits until the server has confirmed it: see the `release` of each guard.
    fn release(self) -> impl Future<Output = Result<Released>> + Send {
        let hold: Hold = self.into();
        hold.release()
    }
}

/// Marks guards of locks whose waiters queue on the server. Only their acquisitions have `max_queue`.
pub trait Queued: Guard {}

/// Marks guards of locks that are on one server each. Only their acquisitions have `min_replicas`.
pub trait SingleServer: Guard {}

/// Marks guards of locks that a release can keep unavailable for a while. Only their acquisitions have `min_hold`.
pub trait CoolsDown: SingleServer {}

impl Guard for Hold {}
impl Queued for Hold {}
impl SingleServer for Hold {}
impl CoolsDown for Hold {}

/// Declares the guard of a kind. The guard wraps a [`Hold`](crate::Hold), dereferences to its
/// [`Lease`](crate::Lease), has a `release`, and implements the marker traits after the colon.
///
/// # Examples
///
/// ```
/// lockkeeper_core::guard! {
///     /// A held lock of mine.
///     pub struct MyGuard: SingleServer;
/// }
/// ```
#[macro_export]
macro_rules! guard {
    ($(#[$about:meta])* pub struct $name:ident $(: $($mark:ident),+)?;) => {
        $(#[$about])*
        ///
        /// Dropping it releases the lock in the background; [`release`](Self::release) waits for the servers to
        /// confirm. A guard cannot be cloned: `guard.clone()` gives a [`Lease`]($crate::Lease), which only watches
        /// the grant.
        ///
        /// Bind it to a name: `let _guard = …` keeps it until the end of the block, while `let _ = …` drops it at
        /// once, and so releases the lock.
        #[derive(Debug)]
        #[must_use = "dropping a guard releases the lock"]
        pub struct $name($crate::Hold);

        impl $name {
            /// Releases the lock and waits until the server has confirmed it.
            ///
            /// When it returns `Ok`, the lock is free, already granted to the next waiter, or in another state that
            /// [`Released`]($crate::Released) shows.
            ///
            /// # Errors
            ///
            /// - [`Lost`]($crate::Error::Lost) at once if the lease was lost before: treat `Lost` with
            ///   [`Revoked`]($crate::LossReason::Revoked) as "stopped as asked";
            /// - [`Backend`]($crate::Error::Backend) if the server did not confirm within the client's release
            ///   timeout; for several servers, if no majority did;
            /// - [`Partial`]($crate::Error::Partial) if some of several locks were not released; the others were.
            ///
            /// In every case the guard is gone, and an unconfirmed release is repeated in the background.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe: dropping the future has the same effect as dropping the guard.
            pub async fn release(self) -> $crate::Result<$crate::Released> {
                self.0.release().await
            }
        }

        impl ::std::ops::Deref for $name {
            type Target = $crate::Lease;

            fn deref(&self) -> &$crate::Lease {
                &self.0
            }
        }

        impl ::std::convert::From<$crate::Hold> for $name {
            fn from(hold: $crate::Hold) -> Self {
                Self(hold)
            }
        }

        impl ::std::convert::From<$name> for $crate::Hold {
            fn from(guard: $name) -> Self {
                guard.0
            }
        }

        impl $crate::Guard for $name {}
        $($(impl $crate::$mark for $name {})+)?
    };
}
