//! The semaphores that Java services have as `RSemaphore` and `RPermitExpirableSemaphore`.

use std::fmt;

use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{
    Acquire, Client, CoolsDown, Error, Lock, Name, Plan, Result, Target, TryAcquire,
};
use lockkeeper_lua::Status;

use crate::permits::{Ends, PermitsProtocol, set};
use crate::shared::redisson_handle;

/// Defines a semaphore with its guard.
macro_rules! redisson_semaphore {
    ($(#[$about:meta])* pub struct $semaphore:ident, $guard:ident, $ends:expr, $most:literal;) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $semaphore(Target, u32);

        impl $semaphore {
            /// The semaphore that Java services call `name`; each acquisition takes one permit. Nothing is sent; a bad name is reported by the
            /// first acquisition.
            pub fn new(client: &Client, name: &str) -> Self {
                let protocol = |name: Name| PermitsProtocol::of_key($ends, name.as_str(), 1);
                Self(Target::checked(client, name, protocol), 1)
            }

            /// The same behind a prefix, as a `NameMapper` in Java puts one in front of each name.
            ///
            /// # Examples
            ///
            /// ```
            /// # use std::sync::Arc;
            /// # use lockkeeper_core::Client;
            #[doc = concat!(" # use lockkeeper_redisson::", stringify!($semaphore), ";")]
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> lockkeeper_core::Result<()> {
            /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
            #[doc = concat!(" let calls = ", stringify!($semaphore), "::new(&client, \"calls\").key_prefix(\"shop:\");")]
            /// assert_eq!(calls.target().key()?, "shop:calls");
            /// # Ok(())
            /// # }
            /// ```
            #[must_use]
            pub fn key_prefix(&self, prefix: &str) -> Self {
                let key = |name: Name| format!("{prefix}{}", name.main());
                let prefixed = |name: Name| PermitsProtocol::of_key($ends, &key(name), self.1);
                Self(self.0.by_checked(prefixed), self.1)
            }

            /// The same semaphore with acquisitions that take this many permits, all or none. Zero, or more than
            #[doc = concat!(" ", $most, ", is reported by the first acquisition.")]
            ///
            /// # Examples
            ///
            #[doc = concat!(" See [`", stringify!($semaphore), "`].")]
            #[must_use]
            pub fn permits(&self, permits: u32) -> Self {
                let taking = |name: Name| PermitsProtocol::of_key($ends, name.main(), permits);
                Self(self.0.by_checked(taking), permits)
            }

            /// Acquires the permits, waiting for as long as it takes unless told otherwise; also for somebody to set the semaphore up.
            ///
            /// When it returns `Ok`, as many permits have been taken from those available, and this claim's lease is renewed as long as its guard
            /// lives. Waiters of one client are served in order, those of several clients and of Java in any.
            ///
            /// # Errors
            ///
            /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed; [`Backend`](lockkeeper_core::Error::Backend) if the server refuses,
            /// or does not answer for one ttl, or for a longer wait that was set; [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else;
            /// [`Config`](lockkeeper_core::Error::Config) for a bad name, ttl or number of permits, before anything is sent;
            /// [`Closed`](lockkeeper_core::Error::Closed) if the client is.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe: dropping the future gives the claim up, and returns permits that had been taken unseen.
            ///
            /// # Examples
            ///
            #[doc = concat!(" See [`", stringify!($semaphore), "`].")]
            pub fn acquire(&self) -> Acquire<$guard> {
                Acquire::new(self.0.clone())
            }

            /// Acquires the permits if they are available now; `None` if they are not, and if nobody has set the semaphore up.
            ///
            /// # Errors
            ///
            /// As for [`acquire`](Self::acquire), except that too few permits are no error. A server that does not answer is asked once more and then
            /// reported.
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
            #[doc = concat!(" # use lockkeeper_redisson::", stringify!($semaphore), ";")]
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> lockkeeper_core::Result<()> {
            /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
            #[doc = concat!(" let calls = ", stringify!($semaphore), "::new(&client, \"calls\");")]
            /// assert!(calls.try_acquire().await?.is_none(), "nobody has set it up");
            /// calls.try_set_permits(1).await?;
            /// assert!(calls.try_acquire().await?.is_some());
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_acquire(&self) -> TryAcquire<$guard> {
                Acquire::new(self.0.clone())
            }

            /// Sets the semaphore up with this many permits, as `trySetPermits` does in Java, unless it has been. Whether this call did.
            ///
            /// # Errors
            ///
            /// As for [`Client::inspect`], and [`Config`](lockkeeper_core::Error::Config) for no permits or more than 2,147,483,647.
            ///
            /// # Cancel safety
            ///
            /// If you drop the future, the semaphore may or may not have been set up. So it may be when the server did not answer, and a
            /// request that had to be sent again says `false` if the first one was executed.
            ///
            /// # Examples
            ///
            #[doc = concat!(" See [`", stringify!($semaphore), "`].")]
            pub async fn try_set_permits(&self, permits: u32) -> Result<bool> {
                if permits == 0 || permits > i32::MAX.unsigned_abs() {
                    return Err(Error::config(format!(
                        "a semaphore of Redisson's cannot have {permits} permits: it takes 1 to {}",
                        i32::MAX
                    )));
                }
                let reply = ask(&self.0, "set the permits of", $ends, Some(permits)).await?;
                counts(&self.0, &reply).map(|(_, _, own)| own)
            }

            /// How many permits are available, after those of claims whose time is over were given back; `None` if nobody has set the semaphore up.
            /// It is below zero if somebody in Java took permits away that were held.
            ///
            /// # Errors
            ///
            /// As for [`Client::inspect`].
            ///
            /// # Cancel safety
            ///
            /// Cancel safe.
            ///
            /// # Examples
            ///
            #[doc = concat!(" See [`", stringify!($semaphore), "`].")]
            pub async fn available(&self) -> Result<Option<i64>> {
                let reply = ask(&self.0, "ask for the permits of", $ends, None).await?;
                match reply.status() {
                    Status::Gone => Ok(None),
                    _ => counts(&self.0, &reply).map(|(available, ..)| Some(available)),
                }
            }

            /// This semaphore, with its number of permits, as one of several that are acquired together, by a `MultiLock`.
            pub fn target(&self) -> Target {
                self.0.clone()
            }
        }

        redisson_handle! { $semaphore, $guard }

        lockkeeper_core::guard! {
            #[doc = concat!(" Held permits of a [`", stringify!($semaphore), "`]. Dereferences to its [`Lease`](lockkeeper_core::Lease).")]
            pub struct $guard: SingleServer;
        }
    };
}

redisson_semaphore! {
    /// Redisson's `RSemaphore`: a number of permits, shared by Rust and Java services.
    ///
    /// # Which lock should I use?
    ///
    /// Use this one only for a name that Java services use through Redisson. Among Rust services a `Semaphore` promises more: a queue, and a limit that
    /// no crash changes. If you can choose in Java, choose `RPermitExpirableSemaphore`, here
    /// [`RedissonPermitExpirableSemaphore`]: its permits become available again when a process dies, on either side.
    ///
    /// # How it works
    ///
    /// The key of the name stores only the number of available permits, as Redisson 4.7 writes it. A release sends one message that wakes the
    /// waiters of both sides. Redisson knows neither who holds permits nor for how long. So other keys store what the claims of Rust clients hold, with the
    /// end of each lease. From these a holder here learns of its loss. If a Rust process dies, its permits are returned by the next request of any
    /// Rust client that acquires or asks what is [available](Self::available).
    ///
    /// The name is the key, as in Java, whatever the client's namespace; see [`key_prefix`](Self::key_prefix).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_redisson::RedissonSemaphore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// // In Java: redisson.getSemaphore("calls").trySetPermits(8);
    /// let calls = RedissonSemaphore::new(&client, "calls");
    /// calls.try_set_permits(8).await?;
    /// let one = calls.acquire().await?;
    /// let five = calls.permits(5).acquire().await?;
    /// assert_eq!(calls.available().await?, Some(2));
    /// five.release().await?;
    /// one.release().await?;
    /// assert_eq!(calls.available().await?, Some(8));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # What this lock does not promise
    ///
    /// - **Permits that a Java process held when it died.** No key stores them, so they never become available again.
    /// - **Permits of a dead Rust process, while only Java asks.** They become available with the next request of a Rust client.
    /// - **A limit.** Java services add, drain and release permits as they like, also some that were never acquired.
    /// - **A new semaphore under an old name.** What is known of our claims is forgotten when a request finds no number there. If somebody deletes the
    ///   number and sets it anew before that, permits taken before are given back to the new one.
    /// - **[`min_hold`](lockkeeper_core::Acquire::min_hold)**: does not exist here, because nothing would wake Java when it is over:
    ///
    ///   ```compile_fail,E0599
    ///   fn wait(calls: &lockkeeper_redisson::RedissonSemaphore) {
    ///       let _ = calls.acquire().min_hold(std::time::Duration::from_secs(60));
    ///   }
    ///   ```
    /// - **Order**, except among the waiters of one client; a large request there is not passed by small ones behind it, unless it asks for
    ///   more permits than are available and held by claims of this library.
    pub struct RedissonSemaphore, RedissonSemaphoreGuard, Ends::Ours, "2,147,483,647";
}

redisson_semaphore! {
    /// Redisson's `RPermitExpirableSemaphore`: a number of permits that end, shared by Rust and Java services.
    ///
    /// # Which lock should I use?
    ///
    /// Use this one only for a name that Java services use through Redisson. Among Rust services a `Semaphore` promises more and has a queue. For `RSemaphore`
    /// see [`RedissonSemaphore`]: one name belongs to one of the two.
    ///
    /// # How it works
    ///
    /// The keys of the name store what Redisson 4.7 writes: how many permits are available, and each held permit with its end. The end of its permits is
    /// the lease of a claim here, and every renewal moves it. So the permits of a dead process become available again at their end, to Rust and Java.
    /// A Java service may release a permit of ours by its id; the holder learns of that at its next renewal.
    ///
    /// **Two clocks decide when permits end.** Rust clients use the server's clock, a Java service uses its own. If the Java clock is ahead of the server's by
    /// more than the rest of a lease, Java takes permits that are still held, and the Rust holder learns of it at its next renewal. Keep the clocks within a tenth of the ttl.
    ///
    /// The name is the key, as in Java, whatever the client's namespace; see [`key_prefix`](Self::key_prefix).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_redisson::RedissonPermitExpirableSemaphore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// // In Java: redisson.getPermitExpirableSemaphore("calls").trySetPermits(8);
    /// let calls = RedissonPermitExpirableSemaphore::new(&client, "calls");
    /// calls.try_set_permits(8).await?;
    /// let five = calls.permits(5).acquire().await?;
    /// assert_eq!(calls.available().await?, Some(3));
    /// assert_eq!(calls.acquired().await?, 5);
    /// five.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # What this lock does not promise
    ///
    /// - **Anything for holders in Java.** They learn that a permit has ended when they release it.
    /// - **Ends by one clock**: see above.
    /// - **A limit.** Java services may set, add and take permits as they like.
    /// - **Order**, except among the waiters of one client; a large request there is not passed by small ones behind it, unless it asks for
    ///   more permits than are available and held.
    pub struct RedissonPermitExpirableSemaphore, RedissonPermitGuard, Ends::Redissons, "1,000";
}

impl CoolsDown for RedissonPermitGuard {}

impl RedissonPermitExpirableSemaphore {
    /// How many permits are held, here and in Java; 0 if nobody has set the semaphore up.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Examples
    ///
    /// See [`RedissonPermitExpirableSemaphore`].
    pub async fn acquired(&self) -> Result<u64> {
        let reply = ask(&self.0, "ask for the permits of", Ends::Redissons, None).await?;
        match reply.status() {
            Status::Gone => Ok(0),
            _ => counts(&self.0, &reply).map(|(_, held, _)| held),
        }
    }
}

/// Sets a semaphore up with so many permits, or asks only how many are available.
async fn ask(
    target: &Target,
    doing: &'static str,
    ends: Ends,
    permits: Option<u32>,
) -> Result<Reply> {
    loop {
        let reply = target.ask(doing, |name| set(ends, name, permits)).await?;
        if reply.status() != Status::More {
            return Ok(reply);
        }
    }
}

/// What stands in a reply: how many permits are available, how many are held, and whether the request has set the semaphore up.
fn counts(target: &Target, reply: &Reply) -> Result<(i64, u64, bool)> {
    let number = |at: usize| reply.field(at).and_then(Value::as_i64);
    let held = number(1).and_then(|held| u64::try_from(held).ok());
    match (reply.status(), number(0), held, number(2)) {
        (Status::Counts, Some(available), Some(held), Some(own)) => Ok((available, held, own == 1)),
        (status, ..) => Err(Error::unexpected(target.name(), status.as_str())),
    }
}
