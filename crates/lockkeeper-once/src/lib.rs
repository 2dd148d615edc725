//! One piece of work, one result, across all processes.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::Once`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod by_hand;
mod outcome;
mod protocol;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[doc(hidden)]
pub use by_hand::ByHand;
use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{
    Acquire, Client, Error, FencingToken, Hold, Lease, Name, Record, Result, Target,
};
pub use outcome::{OnceError, OnceOutcome};
use protocol::{OnceProtocol, ToStore};
use sha2::{Digest as _, Sha256};

/// The protocol of work called `name`: its requests and how it reads the replies. For models of it that drive the
/// same protocol.
#[doc(hidden)]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(OnceProtocol::new(name, &Arc::default()))
}

/// The same protocol for a caller that has done its work with this token. Its releases store an empty result for this
/// long.
#[doc(hidden)]
pub fn storing_protocol(name: Name, token: FencingToken, keep_for: Duration) -> Arc<dyn Protocol> {
    let to_store = OnceLock::from(ToStore::done(token, b"", keep_for));
    Arc::new(OnceProtocol::new(name, &Arc::new(to_store)))
}

/// The default time for which a result is kept: what services that take idempotency keys usually promise.
const KEEP_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest time for which a result is kept: longer-lived data belongs in a database.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The largest result, in bytes: a large one would hold up the server, and every caller receives it.
const LARGEST: usize = 65_536;

/// A named piece of work that one caller does, and whose result all callers receive.
///
/// # Which lock should I use?
///
/// Use this one if something must *be done once*, not only by one caller at a time. Examples are an answer that is
/// computed once for all callers ("single flight" in front of a cache), a payment whose request may be repeated, and a
/// nightly report. A [mutex](https://docs.rs/lockkeeper/latest/lockkeeper/struct.Mutex.html) excludes others while the
/// work runs, and then lets the next caller do it again.
///
/// # How it works
///
/// The first caller becomes the holder of an ordinary claim and does the work, with a lease that is renewed, a
/// fencing token and a notice of loss. All other callers wait. When the work is done, one script stores its result
/// and releases the claim, if the claim still holds; the waiting callers are notified and receive the result. Later
/// callers receive it with one request, until [`keep_for`](Self::keep_for) has passed.
///
/// If the caller that does the work dies, one other caller does it after the end of the lease. If the work fails, one
/// other caller does it at once; with [`retry_after`](Self::retry_after), nobody does until that time has passed.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_once::{Once, OnceError, OnceOutcome};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), OnceError<std::io::Error>> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let prices = Once::new(&client, "prices").keep_for(Duration::from_secs(60));
/// let first = prices.get_or_run(async |_lease| Ok(b"computed".to_vec())).await?;
/// assert_eq!(first, OnceOutcome::Ran(b"computed".to_vec()));
///
/// let second = prices.get_or_run(async |_lease| Ok(b"again".to_vec())).await?;
/// assert_eq!(second, OnceOutcome::Stored(b"computed".to_vec()));
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **Exactly once.** If the caller that does the work dies, the work is done again from the beginning, and its
///   earlier effects on other systems remain. Only the *result* is stored once. Pass the [fencing
///   token](lockkeeper_core::Lease::fencing_token) to each resource that the work changes.
/// - **The result when the server loses data.** After a failover that lost it, or if a full server evicts it, the work
///   is done again. After a failover that lost the claim, a second caller can begin while the first one still works.
///   Then the first caller's result is refused.
/// - **Order.** When the work fails, any of the waiting callers may be next.
/// - **Re-entry.** Work that asks for its own name waits for itself.
#[derive(Clone)]
pub struct Once {
    target: Target,
    ttl: Option<Duration>,
    wait_for: Option<Duration>,
    keep_for: Duration,
    retry_after: Option<Duration>,
    fingerprint: Option<Arc<str>>,
}

impl Once {
    /// Creates a handle to the work called `name`. Nothing is sent; an invalid name is reported by the first call.
    pub fn new(client: &Client, name: &str) -> Self {
        let target = Target::new(client, name, |name| {
            OnceProtocol::new(name, &Arc::default())
        });
        Self {
            target,
            ttl: None,
            wait_for: None,
            keep_for: KEEP_FOR,
            retry_after: None,
            fingerprint: None,
        }
    }

    /// Sets the length of the lease of the caller that does the work, in whole milliseconds (default: the client's
    /// ttl). The lease is renewed while the work runs. Its length decides how soon another caller takes over when that
    /// caller dies.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long a result is kept, 1 ms to 366 days (default: 24 hours). When messages are lost, waiting callers
    /// may need seconds to notice the result, so if it is kept for less than a few seconds, they do the work again.
    #[must_use]
    pub const fn keep_for(mut self, keep_for: Duration) -> Self {
        self.keep_for = keep_for;
        self
    }

    /// Sets how long failed work is not tried again, 1 ms to 366 days. Until then, callers get [`Error::WorkFailed`].
    /// Without it, the next caller tries at once.
    #[must_use]
    pub const fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Sets the request that the work answers, for example the body of an HTTP request. Its SHA-256 is the
    /// fingerprint, which is stored with the result. If the stored result has another fingerprint or none, the error
    /// is [`Error::Mismatch`]: the name was used for something else. A caller without a fingerprint accepts any
    /// result.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_once::{Once, OnceError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), OnceError<std::io::Error>> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let payment = Once::new(&client, "payment:7f3a");
    /// let ten = payment.clone().fingerprint(b"10 EUR");
    /// ten.get_or_run(async |_| Ok(b"paid".to_vec())).await?;
    ///
    /// let twenty = payment.fingerprint(b"20 EUR").get_or_run(async |_| Ok(b"paid".to_vec())).await;
    /// # let twenty: Result<_, OnceError<std::io::Error>> = twenty;
    /// assert!(matches!(twenty, Err(OnceError::Lock(Error::Mismatch { .. }))));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fingerprint(mut self, request: impl AsRef<[u8]>) -> Self {
        let digest = Sha256::digest(request.as_ref());
        self.fingerprint = Some(format!("{digest:x}").into());
        self
    }

    /// Limits how long to wait for another caller's work (default: no limit). After that the error is
    /// [`Error::Timeout`], or [`Error::Backend`] if the server had stopped answering. Zero asks the server once. It
    /// does not limit this caller's own work.
    #[must_use]
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// Returns the stored result. If there is none, it does the work and stores the result. While another caller does
    /// the work, it waits for that caller's result.
    ///
    /// When it returns `Ok`, the result is stored, and every caller receives it until [`keep_for`](Self::keep_for)
    /// has passed, unless it is [forgotten](Self::forget). A result of more than 65,536 bytes is not stored.
    ///
    /// # Errors
    ///
    /// - [`OnceError::Work`] with the work's own error if it failed;
    /// - [`OnceError::NotKept`] with the work's result if it is not known to be stored;
    /// - [`OnceError::Lock`] otherwise, with one of these:
    ///   - [`Error::Mismatch`] if a result is stored for another [fingerprint](Self::fingerprint);
    ///   - [`Error::WorkFailed`] if another caller's work failed and may not be tried yet;
    ///   - [`Error::Lost`] if the lease was lost while this call worked: the work was dropped at one of its await points;
    ///   - [`Error::Timeout`] if a [time limit](Self::wait_for) was set and has passed;
    ///   - [`Error::Backend`] if the server refuses, or does not answer for one ttl;
    ///   - [`Error::WrongKind`] if the name holds something else;
    ///   - [`Error::Config`] for an invalid name, ttl or time, before anything is sent;
    ///   - [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future while it waits gives up waiting. Dropping it during the work drops the work
    /// and releases its claim, and another caller does the work at once. Once the work is done, its result is stored
    /// in the background.
    ///
    /// # Examples
    ///
    /// See [`Once`].
    pub async fn get_or_run<F, E>(&self, work: F) -> Result<OnceOutcome, OnceError<E>>
    where
        F: AsyncFnOnce(Lease) -> Result<Vec<u8>, E>,
    {
        self.drive(work, |value| Ok(value.clone()), Ok).await
    }

    /// Like [`get_or_run`](Self::get_or_run), with a result of any serde type, stored as JSON.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::Config`]: in [`OnceError::NotKept`] if the work's result cannot be written as JSON, and
    /// in [`OnceError::Lock`] if the stored result is not JSON of this type.
    ///
    /// # Cancel safety
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_once::{Once, OnceError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), OnceError<std::io::Error, Vec<u32>>> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let primes = Once::new(&client, "primes");
    /// let found = primes.get_or_run_json(async |_| Ok(vec![2, 3, 5])).await?;
    /// assert_eq!(found.into_value(), [2, 3, 5]);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "serde")]
    pub async fn get_or_run_json<T, F, E>(&self, work: F) -> Result<OnceOutcome<T>, OnceError<E, T>>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
        F: AsyncFnOnce(Lease) -> Result<T, E>,
    {
        let name = self.target.name();
        let encode = |value: &T| {
            let json = serde_json::to_vec(value);
            json.map_err(|error| {
                Error::config(format!(
                    "the result of {name:?} cannot be written as JSON: {error}"
                ))
            })
        };
        let decode = |json: Vec<u8>| {
            let value = serde_json::from_slice(&json);
            value.map_err(|error| {
                let message = format!("the stored result of {name:?} is of another type: {error}");
                Error::config(message)
            })
        };
        self.drive(work, encode, decode).await
    }

    /// Returns the stored outcome of the work, without doing it or waiting for it. `None` if nothing is stored: the
    /// work has not been done, is being done now, or its outcome is no longer kept. A failure is stored for as long as
    /// [`retry_after`](Self::retry_after) says.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn peek(&self) -> Result<Option<Record>> {
        self.target.record(None).await
    }

    /// Deletes every outcome that was stored before this call returns, so that the next caller does the work again.
    /// Returns false if nothing was stored. Work that is running is not stopped, and stores its result.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the outcome may or may not have been deleted. A result that is stored later is never
    /// deleted by it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_once::{Once, OnceError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), OnceError<std::io::Error>> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let report = Once::new(&client, "report");
    /// report.get_or_run(async |_| Ok(b"17 orders".to_vec())).await?;
    /// assert!(report.peek().await?.is_some());
    /// assert!(report.forget().await?);
    /// assert!(report.peek().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn forget(&self) -> Result<bool> {
        let mut known = self.target.record(None).await?;
        let found = known.is_some();
        while let Some(record) = known {
            known = self.target.record(Some(record.token)).await?;
        }
        Ok(found)
    }

    /// Creates a run of the work by hand, for work that is not a closure. If a result is stored, acquiring the run
    /// fails with [`Error::Done`], unless `again` is set: then the work is done again.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for an invalid time.
    #[doc(hidden)]
    pub fn by_hand(&self, again: bool) -> Result<ByHand> {
        self.check()?;
        Ok(ByHand::new(self, again))
    }

    async fn drive<V, F, E>(
        &self,
        work: F,
        encode: impl Fn(&V) -> Result<Vec<u8>>,
        decode: impl Fn(Vec<u8>) -> Result<V>,
    ) -> Result<OnceOutcome<V>, OnceError<E, V>>
    where
        F: AsyncFnOnce(Lease) -> Result<V, E>,
    {
        self.check()?;
        let to_store = Arc::default();
        let hold = match self.acquire(&to_store).await {
            Err(Error::Done { record, .. }) => {
                return Ok(OnceOutcome::Stored(decode(self.value_of(&record)?)?));
            }
            outcome => outcome?,
        };
        let done = hold.run(work(hold.lease().clone())).await?;
        match done {
            Ok(value) => match self.store(hold, &to_store, encode(&value)).await {
                Ok(()) => Ok(OnceOutcome::Ran(value)),
                Err(error) => Err(OnceError::NotKept { value, error }),
            },
            Err(error) => {
                if let Some(retry_after) = self.retry_after {
                    let failed = ToStore::failed(hold.fencing_token(), retry_after);
                    self.set(&to_store, failed);
                }
                // Its error is ignored: an unanswered release is repeated in the background, and the work's own error
                // says more.
                let _ = hold.release().await;
                Err(OnceError::Work(error))
            }
        }
    }

    async fn acquire(&self, to_store: &Arc<OnceLock<ToStore>>) -> Result<Hold> {
        let target = self.target.by(|name| OnceProtocol::new(name, to_store));
        let mut acquire = Acquire::<Hold>::new(target);
        if let Some(ttl) = self.ttl {
            acquire = acquire.ttl(ttl);
        }
        if let Some(longest) = self.wait_for {
            acquire = acquire.wait_for(longest);
        }
        acquire.await
    }

    /// Releases the claim, and stores the work's result.
    async fn store(
        &self,
        hold: Hold,
        to_store: &OnceLock<ToStore>,
        value: Result<Vec<u8>>,
    ) -> Result<()> {
        let set = |value: Vec<u8>| self.set_done(to_store, hold.fencing_token(), &value);
        match value.and_then(set) {
            Ok(()) => hold.release().await.map(drop),
            Err(error) => {
                // Released, so that the next caller need not wait for the end of the lease. Its error is ignored, as
                // above.
                let _ = hold.release().await;
                Err(error)
            }
        }
    }

    /// Makes the release of the claim with this token store this value, if it is not too large.
    fn set_done(
        &self,
        to_store: &OnceLock<ToStore>,
        token: FencingToken,
        value: &[u8],
    ) -> Result<()> {
        let length = value.len();
        if length > LARGEST {
            return Err(Error::config(format!(
                "the result of {:?} has {length} bytes, at most {LARGEST} can be stored: store it elsewhere and its location here",
                self.target.name()
            )));
        }
        self.set(to_store, ToStore::done(token, value, self.keep_for));
        Ok(())
    }

    fn set(&self, to_store: &OnceLock<ToStore>, what: ToStore) {
        let fingerprint = self.fingerprint.as_deref().unwrap_or_default();
        to_store.get_or_init(|| what.asked_for_with(fingerprint));
    }

    /// Returns the stored result to this caller, or why the caller does not get it.
    fn value_of(&self, record: &Record) -> Result<Vec<u8>> {
        let name = self.target.name();
        let asked_for = self.fingerprint.as_deref();
        if asked_for.is_some_and(|fingerprint| fingerprint != record.fingerprint) {
            return Err(Error::mismatch(name));
        }
        let failed = || Error::work_failed(name, record.left.unwrap_or_default());
        record.value.clone().ok_or_else(failed)
    }

    /// Checks the settings, before anything is sent.
    fn check(&self) -> Result<()> {
        for (what, time) in [
            ("keep_for", Some(self.keep_for)),
            ("retry_after", self.retry_after),
        ] {
            let fits = |time: &Duration| (Duration::from_millis(1)..=LONGEST).contains(time);
            if let Some(time) = time.filter(|time| !fits(time)) {
                return Err(Error::config(format!(
                    "{what}({time:?}) is invalid: it must be between 1 ms and 366 days"
                )));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}
