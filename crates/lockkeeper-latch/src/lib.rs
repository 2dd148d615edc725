//! Waiting until N things have happened, across all processes.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::Latch`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod protocol;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::protocol::{Protocol, ScriptCall};
use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{Acquire, ClaimId, Client, Error, Hold, Name, Record, Result, Target};
use lockkeeper_lua::{Status, latch};
use protocol::{LatchProtocol, keys, look};

/// The protocol of waiters of the latch called `name`: their requests and how they read the replies. For models of it
/// that drive the same protocol.
#[doc(hidden)]
pub fn protocol(name: Name) -> Arc<dyn Protocol> {
    Arc::new(LatchProtocol::new(name))
}

/// The request of `claim` that arms a latch, for such models.
#[doc(hidden)]
pub fn arming(name: &Name, claim: &ClaimId, n: u32, ttl: Duration) -> ScriptCall {
    let args = [
        claim.as_str().to_owned(),
        n.to_string(),
        ttl.as_millis().to_string(),
    ];
    ScriptCall::new(&latch::ARM, keys(name), args)
}

/// The request by which `id` counts the latch down, for such models.
#[doc(hidden)]
pub fn count(name: &Name, id: &str) -> ScriptCall {
    let args = [id.to_owned(), name.wakes()];
    ScriptCall::new(&latch::COUNT_DOWN, keys(name), args)
}

/// The default lifetime of a latch: longer than the parts of a job usually take, and shorter than a day.
const TTL: Duration = Duration::from_secs(60 * 60);

/// The longest lifetime of a latch: longer-lived data belongs in a database.
const LONGEST_TTL: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The most counts of a latch. Its ids are in one key, which the server frees at once when the latch opens: ten
/// thousand of them take about a millisecond.
const MOST: u32 = 10_000;

/// The longest id, in bytes: with the most counts, a few megabytes in all.
const LONGEST_ID: usize = 256;

/// A latch that opens after a set number of counts, made anywhere, and then lets all its waiters pass.
///
/// # Which lock should I use?
///
/// Use this one to wait until a number of things *have happened*: an import in ten parts, eight workers that are
/// ready, a deployment that has reached all machines. Nobody holds a latch. If you need one result for every caller,
/// use a [`Once`](https://docs.rs/lockkeeper/latest/lockkeeper/struct.Once.html).
///
/// # How it works
///
/// [`arm`](Self::arm) sets how many counts open the latch. Each part counts once with
/// [`count_down`](Self::count_down), under its own id; a part that is not sure whether its count has arrived can
/// safely count again. The last count opens the latch, and one message tells every caller that [waits](Self::wait).
///
/// If nobody counts a latch down for its [`ttl`](Self::ttl), it ends, and its waiters get an error that says so. A
/// latch that has opened stays open for its ttl, for late waiters. So use a new name for each occasion:
/// `import:2026-11-23`, and not `import`.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_latch::Latch;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let imported = Latch::new(&client, "import:42");
/// imported.arm(2).await?;
///
/// // Anywhere, in any order, and as often as it takes to be sure:
/// assert_eq!(imported.count_down("part:1").await?, 1);
/// assert_eq!(imported.count_down("part:1").await?, 1);
/// assert_eq!(imported.count_down("part:2").await?, 0);
///
/// imported.wait().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **That counts for an earlier occasion are ignored.** A late count from yesterday's worker counts for today's
///   latch of the same name.
/// - **Counts that the server has lost.** After a failover that lost some, the latch stays closed until they are made
///   again or it ends. It never opens too early, unless somebody changes its keys by hand.
/// - **That what was counted is still true.** A count cannot be taken back.
/// - **Order.** All waiters pass at the same time.
#[derive(Clone)]
pub struct Latch {
    client: Client,
    target: Target,
    ttl: Duration,
    wait_for: Option<Duration>,
}

impl Latch {
    /// Creates a handle to the latch called `name`. Nothing is sent; an invalid name is reported by the first call.
    pub fn new(client: &Client, name: &str) -> Self {
        Self {
            client: client.clone(),
            target: Target::new(client, name, LatchProtocol::new),
            ttl: TTL,
            wait_for: None,
        }
    }

    /// Sets how long an [armed](Self::arm) latch lives without a new count, and how long an open one is remembered:
    /// whole milliseconds up to 366 days (default: one hour). When messages are lost, waiters may need seconds to
    /// notice that it is open, so with a ttl of less than a few seconds they can miss it.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Limits the time to wait (default: until the latch is open or has ended). After that the error is
    /// [`Error::Timeout`], or [`Error::Backend`] if the server had stopped answering. Zero asks the server once.
    #[must_use]
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// Arms the latch: it opens when `n` ids, at most 10,000, have counted it down; with 0 it is open at once. Returns
    /// true if this call armed it. Returns false if it was already armed with the same `n`; it is then unchanged, and
    /// may even be open.
    ///
    /// When it returns `Ok`, the latch is armed with `n` or open, and can be counted down and waited for. Every
    /// process that knows `n` may arm it, so the order in which processes start does not matter. A latch that has
    /// ended is armed again and counts from the beginning.
    ///
    /// # Errors
    ///
    /// - [`Error::Config`] if it is armed with another `n`, for more than 10,000 counts, or for an invalid name or
    ///   ttl: nothing has changed;
    /// - [`Error::WrongKind`] if the name holds something else;
    /// - [`Error::Backend`] if the server refuses or does not answer;
    /// - [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the latch may or may not be armed. Arm it again.
    ///
    /// # Examples
    ///
    /// See [`Latch`].
    pub async fn arm(&self, n: u32) -> Result<bool> {
        let name = self.target.name();
        if n > MOST {
            return Err(Error::config(format!(
                "latch {name:?} cannot have {n} counts, at most {MOST} are allowed: count several things with one id"
            )));
        }
        if self.ttl < Duration::from_millis(1) || self.ttl > LONGEST_TTL {
            let ttl = self.ttl;
            return Err(Error::config(format!(
                "a latch's ttl of {ttl:?} is invalid: it must be between 1 ms and 366 days"
            )));
        }
        let claim = ClaimId::new(self.client.new_owner(), 0);
        let arming = |name: &Name| arming(name, &claim, n, self.ttl);
        let reply = self.target.ask("arm", arming).await?;
        match (reply.status(), numbers(&reply)) {
            (Status::Counts, (_, Some(stands), own)) if stands == n => Ok(own == Some(1)),
            (Status::Counts, (_, Some(stands), _)) => Err(Error::config(format!(
                "latch {name:?} is already armed with {stands} counts and cannot be armed with {n}: choose another name"
            ))),
            _ => Err(self.unexpected(&reply)),
        }
    }

    /// Counts for `id`, any text of at most 256 bytes, and returns how many counts are missing. An id counts once:
    /// repeating it changes nothing, and neither does a count after the latch has opened.
    ///
    /// When it returns `Ok`, the id has counted, by this call or before. If by this call, the latch lives for a whole
    /// ttl from now. A result of 0 means that the latch is open.
    ///
    /// # Errors
    ///
    /// [`Error::NotArmed`] if the latch is not armed or has ended: nothing was counted. [`Error::Config`] for an
    /// empty or too long id or an invalid name, before anything is sent. Otherwise as for [`arm`](Self::arm).
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the id may or may not have counted. Count again.
    ///
    /// # Examples
    ///
    /// See [`Latch`].
    pub async fn count_down(&self, id: &str) -> Result<u32> {
        if id.is_empty() || id.len() > LONGEST_ID {
            return Err(Error::config(format!(
                "the id of a count must have 1 to {LONGEST_ID} bytes, this one has {}",
                id.len()
            )));
        }
        let counting = |name: &Name| count(name, id);
        let reply = self.target.ask("count down", counting).await?;
        match (reply.status(), numbers(&reply)) {
            (Status::Counts, (Some(left), ..)) => Ok(left),
            (Status::Gone, _) => {
                let state = reply.field(0).and_then(Value::as_str);
                Err(self.not_armed(state == Some("ended")))
            }
            _ => Err(self.unexpected(&reply)),
        }
    }

    /// Waits until the latch is open.
    ///
    /// When it returns `Ok`, as many ids have counted as the latch was armed with. All waiters of one client share
    /// their requests to the server.
    ///
    /// # Errors
    ///
    /// - [`Error::NotArmed`] at once if nobody has armed the latch, and as soon as it ends without having opened: arm
    ///   it before you wait;
    /// - [`Error::Timeout`] if a [time limit](Self::wait_for) was set and has passed;
    /// - [`Error::Backend`] if the server refuses, or does not answer for one ttl of the client's leases. It is asked a
    ///   second after the connection is lost, and every 5 s;
    /// - [`Error::WrongKind`] if the name holds something else;
    /// - [`Error::Config`] for an invalid name, before anything is sent;
    /// - [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_latch::Latch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let ready = Latch::new(&client, "workers:ready").wait_for(Duration::from_millis(10));
    /// let early = ready.wait().await;
    /// assert!(matches!(early, Err(Error::NotArmed { ended: false, .. })));
    ///
    /// ready.arm(1).await?;
    /// assert!(matches!(ready.wait().await, Err(Error::Timeout { .. })));
    /// ready.count_down("worker:1").await?;
    /// ready.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self) -> Result<()> {
        let mut acquire = Acquire::<Hold>::new(self.target.clone());
        if let Some(longest) = self.wait_for {
            acquire = acquire.wait_for(longest);
        }
        match acquire.await {
            Err(Error::Done { record, .. }) => self.opened(&record),
            Err(error) => Err(error),
            Ok(_) => Err(Error::unexpected(self.target.name(), "GRANTED")),
        }
    }

    /// Returns how many counts are missing; 0 if the latch is open.
    ///
    /// # Errors
    ///
    /// [`Error::NotArmed`] if the latch is not armed or has ended. Otherwise as for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_latch::Latch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let imported = Latch::new(&client, "import:43");
    /// imported.arm(10).await?;
    /// imported.count_down("part:7").await?;
    /// assert_eq!(imported.remaining().await?, 9);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remaining(&self) -> Result<u32> {
        let reply = self.target.ask("look at", look).await?;
        match (reply.status(), numbers(&reply), Record::read(&reply)) {
            (Status::Busy, (.., Some(left)), _) => Ok(left),
            (Status::Stored, _, Some(record)) => self.opened(&record).map(|()| 0),
            _ => Err(self.unexpected(&reply)),
        }
    }

    /// Succeeds if the latch has opened.
    fn opened(&self, record: &Record) -> Result<()> {
        match record.value.as_deref() {
            Some(b"open") => Ok(()),
            state => Err(self.not_armed(state == Some(b"ended"))),
        }
    }

    fn not_armed(&self, ended: bool) -> Error {
        Error::not_armed(self.target.name(), ended)
    }

    fn unexpected(&self, reply: &Reply) -> Error {
        Error::unexpected(self.target.name(), reply.status().as_str())
    }
}

/// The first fields of a reply.
fn numbers(reply: &Reply) -> (Option<u32>, Option<u32>, Option<u32>) {
    let number = |at: usize| reply.field(at)?.as_i64()?.try_into().ok();
    (number(0), number(1), number(2))
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}
