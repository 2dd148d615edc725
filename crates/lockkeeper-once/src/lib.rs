//! One piece of work, one result, across all processes.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::Once`.

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

/// What work called `name` asks of the server, and how it reads the answers: for models of it that drive the same protocol.
#[doc(hidden)]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(OnceProtocol::new(name, &Arc::default()))
}

/// The same of a caller whose work is done with this token, and whose releases store an empty result for so long.
#[doc(hidden)]
pub fn storing_protocol(name: Name, token: FencingToken, keep_for: Duration) -> Arc<dyn Protocol> {
    let to_store = OnceLock::from(ToStore::done(token, b"", keep_for));
    Arc::new(OnceProtocol::new(name, &Arc::new(to_store)))
}

/// For how long a result is kept unless something else is said: as long as services that take idempotency keys most often promise.
const KEEP_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// No result is kept for longer: what is to last belongs into a database.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The largest result, bytes: a server should not be held up by a large one, and every caller receives it.
const LARGEST: usize = 65_536;

/// One piece of work under a name, which is done by one caller, and whose result all callers receive.
///
/// # Which lock should I use?
///
/// This one if what matters is that something *has been done*, and not only that nobody else does it at the same time: an answer that is
/// computed once for all who ask ("single flight" in front of a cache), a payment whose request is repeated, a report of the night. A
/// [mutex](https://docs.rs/lockkeeper/latest/lockkeeper/struct.Mutex.html) excludes for as long as the work takes, and lets the next caller do it again.
///
/// # How it works
///
/// The first caller becomes the holder of an ordinary claim, with a lease that is renewed, a fencing token and a notice of its loss, and does
/// the work. Everybody who asks meanwhile waits. When the work is done, one script stores its result and releases the claim, if that still
/// holds; those who wait are told and receive the result. Who asks later receives it by one request, until [`keep_for`](Self::keep_for) is over.
///
/// When whoever does the work dies, one other caller does it after the end of the lease. When the work fails, one other caller does it at once,
/// or nobody does for [`retry_after`](Self::retry_after).
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
/// - **Exactly once.** Work whose holder dies is done again, from its beginning, and what it did to others before stays done. It is the *result*
///   that is stored once. Hand the [fencing token](lockkeeper_core::Lease::fencing_token) to whatever the work changes.
/// - **The result when the server loses data.** After a failover that lost it, or if it is evicted from a full server, the work is done again. A
///   failover that lost the claim lets a second caller begin beside the first; the first one's result is refused then.
/// - **Order.** Of those who wait, anyone is next when the work fails.
/// - **A second level.** Work that asks for its own name waits for itself.
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
    /// The work called `name`. Nothing is sent; a bad name is reported by the first call.
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

    /// Length of the lease of whoever does the work, whole milliseconds (default: the client's). It is renewed as long as the work goes on; it
    /// says how soon another caller takes over when that one dies.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// For how long a result is kept (default: 24 hours): 1 ms to 366 days. Those who wait may need seconds to hear of it when messages are lost, so less
    /// than some seconds makes them do the work again.
    #[must_use]
    pub const fn keep_for(mut self, keep_for: Duration) -> Self {
        self.keep_for = keep_for;
        self
    }

    /// Work that fails is not tried again for so long, 1 ms to 366 days: who asks meanwhile gets [`Error::WorkFailed`]. Without it the next
    /// caller tries at once.
    #[must_use]
    pub const fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// What the work is asked for, for example the body of a request. A result that was stored for another fingerprint, or for none, is
    /// [`Error::Mismatch`]: the name was used for something else. Its SHA-256 is stored with the result. Who has none is given any result.
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

    /// Waits for another caller's work for no longer than this (default: for as long as it takes). Then it is [`Error::Timeout`], or
    /// [`Error::Backend`] if the server had stopped answering. Zero asks the server once. It does not bound work of one's own.
    #[must_use]
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// The stored result; or, if there is none, does the work and stores what it makes. While another caller does the work, it waits for
    /// that.
    ///
    /// When it returns `Ok`, the result is stored, and every caller until the end of [`keep_for`](Self::keep_for) receives it, unless it is
    /// [forgotten](Self::forget). A result of more than 65,536 bytes is not stored.
    ///
    /// # Errors
    ///
    /// [`OnceError::Work`] with the work's own error if it failed. [`OnceError::NotKept`] with what the work made if that is not known to be
    /// stored. [`OnceError::Lock`] otherwise, with [`Error::Mismatch`] if a result is stored for another [fingerprint](Self::fingerprint);
    /// [`Error::WorkFailed`] if another caller's work failed and is not to be tried yet; [`Error::Lost`] if the lease was lost while this call
    /// worked, which was stopped then at one of its awaits; [`Error::Timeout`] if a [wait](Self::wait_for) was set and has passed;
    /// [`Error::Backend`] if the server refuses, or does not answer for one ttl; [`Error::WrongKind`] if the name holds something else;
    /// [`Error::Config`] for a bad name, ttl or time, before anything is sent; [`Error::Closed`] if the client is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future while it waits gives up waiting. While it works, that drops the work and releases its claim, and
    /// another caller does the work at once. Once the work is done, its result is stored in the background.
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

    /// As [`get_or_run`](Self::get_or_run), with a result of any type that serde knows, which is stored as JSON.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::Config`] if what the work made cannot be JSON, in [`OnceError::NotKept`], or if what is stored is no JSON of this type, in
    /// [`OnceError::Lock`].
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
                Error::config(format!("the result of {name:?} cannot be JSON: {error}"))
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

    /// What has come of the work, without doing it or waiting for it; `None` if nothing is stored: nobody has done it, somebody does it now, or
    /// what came of it is kept no more. That it failed is told as long as [`retry_after`](Self::retry_after) lasts.
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

    /// Forgets what has come of the work until the call returns, so that the next caller does it again; false if nothing was stored. Work that goes on now is not
    /// stopped, and stores what it makes.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves unknown whether it was forgotten. A result that is stored later never is.
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

    /// A run of the work that is no closure. If a result is stored, its acquisition is [`Error::Done`], or it is done `again`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a bad time.
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
                // A release without answer is repeated in the background, and the work's own error says more.
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

    /// Releases the claim, and stores what the work has made with it.
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
                // As above: the next caller need not wait for the end of the lease.
                let _ = hold.release().await;
                Err(error)
            }
        }
    }

    /// The release of the claim with this token is to store this value, if it is not too large.
    fn set_done(
        &self,
        to_store: &OnceLock<ToStore>,
        token: FencingToken,
        value: &[u8],
    ) -> Result<()> {
        let length = value.len();
        if length > LARGEST {
            return Err(Error::config(format!(
                "the result of {:?} has {length} bytes, and at most {LARGEST} are stored: store it elsewhere, and here where it is",
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

    /// The result that is stored, for this caller.
    fn value_of(&self, record: &Record) -> Result<Vec<u8>> {
        let name = self.target.name();
        let asked_for = self.fingerprint.as_deref();
        if asked_for.is_some_and(|fingerprint| fingerprint != record.fingerprint) {
            return Err(Error::mismatch(name));
        }
        let failed = || Error::work_failed(name, record.left.unwrap_or_default());
        record.value.clone().ok_or_else(failed)
    }

    /// Checks what was set, before anything is sent.
    fn check(&self) -> Result<()> {
        for (what, time) in [
            ("keep_for", Some(self.keep_for)),
            ("retry_after", self.retry_after),
        ] {
            if time.is_some_and(|time| time < Duration::from_millis(1) || time > LONGEST) {
                return Err(Error::config(format!(
                    "{what} must be between 1 ms and 366 days"
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
