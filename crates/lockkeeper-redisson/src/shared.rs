//! What the locks share: everything but the source of their tokens and the way they wait.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{Name, Result};

use crate::fair::FairProtocol;
use crate::protocol::{RedissonProtocol, Tokens};

/// Implements the traits that every handle has.
macro_rules! redisson_handle {
    ($handle:ident, $guard:ident) => {
        impl Lock for $handle {
            type Guard = $guard;

            fn plan(&self) -> Plan {
                self.0.clone().into()
            }
        }

        impl From<&$handle> for Target {
            fn from(lock: &$handle) -> Self {
                lock.target()
            }
        }

        impl fmt::Debug for $handle {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

pub(crate) use redisson_handle;

/// Defines a lock with its guard.
macro_rules! redisson_lock {
    ($(#[$about:meta])* pub struct $lock:ident, $guard:ident, $variety:ty = $default:expr;) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $lock(Target, $variety);

        impl $lock {
            /// The lock that Java services call `name`. Nothing is sent; a bad name is reported by the first acquisition.
            pub fn new(client: &Client, name: &str) -> Self {
                let variety: $variety = $default;
                let target = Target::checked(client, name, |name| variety.protocol(name.as_str()));
                Self(target, variety)
            }

            /// The same lock behind a prefix, for Java services whose `NameMapper` puts one in front of each name.
            ///
            /// # Examples
            ///
            /// ```
            /// # use std::sync::Arc;
            /// # use lockkeeper_core::Client;
            #[doc = concat!(" # use lockkeeper_redisson::", stringify!($lock), ";")]
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> lockkeeper_core::Result<()> {
            /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
            #[doc = concat!(" let lock = ", stringify!($lock), "::new(&client, \"order:7\").key_prefix(\"shop:\");")]
            /// let _guard = lock.acquire().await?;
            /// assert_eq!(lock.target().key()?, "shop:order:7");
            /// # Ok(())
            /// # }
            /// ```
            #[must_use]
            pub fn key_prefix(&self, prefix: &str) -> Self {
                let prefixed = |name: Name| self.1.protocol(&format!("{prefix}{}", name.main()));
                Self(self.0.by_checked(prefixed), self.1)
            }

            /// Acquires the lock, for the [owner](Acquire::owner) that you set or for a new one. Waits for as long as it takes,
            /// unless you set a limit.
            ///
            /// When it returns `Ok`, no other owner holds the lock, in Rust or in Java, and this claim's lease is renewed as long
            /// as its guard lives.
            ///
            /// # Errors
            ///
            /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed;
            /// [`Backend`](lockkeeper_core::Error::Backend) if the server refuses, or does not answer for one ttl, or for a longer
            /// wait that was set; [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
            /// [`Config`](lockkeeper_core::Error::Config) for a bad name or ttl, before anything is sent;
            /// [`Closed`](lockkeeper_core::Error::Closed) if the client is closed.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe: dropping the future gives this claim up, even if it was granted before the answer arrived. The owner's
            /// other claims stay.
            ///
            /// # Examples
            ///
            #[doc = concat!(" See [`", stringify!($lock), "`].")]
            pub fn acquire(&self) -> Acquire<$guard> {
                Acquire::new(self.0.clone())
            }

            /// Acquires the lock now if it is free or its holder is the same [owner](Acquire::owner); otherwise returns `None`.
            ///
            /// # Errors
            ///
            /// As for [`acquire`](Self::acquire), except that a held lock is no error. A server that does not answer is asked once
            /// more and then reported.
            ///
            /// # Cancel safety
            ///
            /// As for [`acquire`](Self::acquire).
            ///
            /// # Examples
            ///
            /// ```
            /// # use std::sync::Arc;
            /// # use lockkeeper_core::Client;
            #[doc = concat!(" # use lockkeeper_redisson::", stringify!($lock), ";")]
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> lockkeeper_core::Result<()> {
            /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
            #[doc = concat!(" let lock = ", stringify!($lock), "::new(&client, \"order:7\");")]
            /// let _guard = lock.acquire().await?;
            /// assert!(lock.try_acquire().await?.is_none());
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_acquire(&self) -> TryAcquire<$guard> {
                Acquire::new(self.0.clone())
            }

            /// This lock as a target, to acquire it together with others in a `MultiLock`.
            pub fn target(&self) -> Target {
                self.0.clone()
            }
        }

        $crate::shared::redisson_handle! { $lock, $guard }

        lockkeeper_core::guard! {
            #[doc = concat!(" One hold of a [`", stringify!($lock), "`]. Dereferences to its [`Lease`](lockkeeper_core::Lease). The lock is free when the last hold of its")]
            /// owner is gone.
            pub struct $guard: SingleServer, CoolsDown;
        }

        impl $guard {
            /// Acquires the lock once more for the same owner, without waiting. The new claim's lease has the client's ttl and is
            /// renewed.
            ///
            /// When it returns `Ok`, both guards hold, with the same fencing token.
            ///
            /// # Errors
            ///
            /// [`Lost`](lockkeeper_core::Error::Lost) or [`NotHeld`](lockkeeper_core::Error::NotHeld) if this guard's lease has ended, here or on the server: then
            #[doc = concat!(" nothing is held anew. Otherwise as for [`", stringify!($lock), "::acquire`].")]
            ///
            /// # Cancel safety
            ///
            /// Cancel safe: dropping the future gives the new claim up; this guard stays as it is.
            ///
            /// # Examples
            ///
            /// ```
            /// # use std::sync::Arc;
            /// # use lockkeeper_core::Client;
            #[doc = concat!(" # use lockkeeper_redisson::", stringify!($lock), ";")]
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> lockkeeper_core::Result<()> {
            /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
            /// use lockkeeper_core::Released;
            ///
            #[doc = concat!(" let outer = ", stringify!($lock), "::new(&client, \"order:7\").acquire().await?;")]
            /// let inner = outer.reenter().await?;
            /// assert_eq!(inner.release().await?, Released::StillHeld(1));
            /// assert_eq!(outer.release().await?, Released::Free);
            /// # Ok(())
            /// # }
            /// ```
            pub async fn reenter(&self) -> Result<Self> {
                self.0.reenter().await.map(Self)
            }
        }
    };
}

pub(crate) use redisson_lock;

/// The protocol of a lock with this main key. Not for users: it lacks the engine's part. The exhaustive search drives it directly,
/// so that it tests this object and not a copy of it.
#[doc(hidden)]
#[must_use]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(RedissonProtocol::new(name, Tokens::Ours))
}

/// As `protocol`, of an `RFairLock` with this wait timeout.
#[doc(hidden)]
#[must_use]
pub fn fair_protocol(name: Name, wait: Duration) -> Arc<dyn Protocol> {
    Arc::new(FairProtocol::new(name, wait))
}

/// The settings of a Redisson lock besides its name.
pub(crate) trait Variety: Copy {
    type Protocol: Protocol;

    fn of_name(self, name: Name) -> Result<Self::Protocol>;

    /// The protocol of the lock with this key, which belongs to no namespace.
    fn protocol(self, key: &str) -> Result<Self::Protocol> {
        self.of_name(Name::new("", key)?)
    }
}

impl Variety for Tokens {
    type Protocol = RedissonProtocol;

    fn of_name(self, name: Name) -> Result<RedissonProtocol> {
        Ok(RedissonProtocol::new(name, self))
    }
}
