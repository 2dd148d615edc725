//! The builders of acquisitions.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use crate::acquisition::Acquisition;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::lock::Lock;
use crate::owner::Owner;
use crate::protocol::Protocol;
use crate::tenure::Terms;

/// An acquisition that waits for its turn. Await it to start; nothing happens before.
///
/// To spawn it, or to poll it by hand, make a future of it: `tokio::spawn(lock.acquire().into_future())`.
///
/// # Cancel safety
///
/// Cancel safe: dropping the future at any point gives the claim up. If it had already been granted unseen, a leave is
/// sent for it in the background; at worst it ends with its ttl. The place among this client's waiters is lost.
///
/// A future that is kept and no longer polled does not keep the lock. Its place in a queue ends when the time of
/// [`wait_for`](Self::wait_for) is over, and a grant that it does not take is handed on after one waiter ttl.
///
/// # Guards of the same client
///
/// A guard that is dropped releases its lock in the background. An acquisition of the same name by the same client waits
/// for that release first, for no longer than one request may take, so that it does not find its own client in the way.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_mutex::Mutex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let lock = Mutex::new(&client, "report");
/// let guard = lock
///     .acquire()
///     .ttl(Duration::from_secs(10)) // renewed while the guard lives
///     .max_hold(Duration::from_secs(60)) // but for no longer than this
///     .wait_for(Duration::from_secs(5))
///     .await?;
///
/// let next = tokio::spawn(lock.acquire().into_future());
/// guard.release().await?;
/// assert!(next.await.is_ok_and(|guard| guard.is_ok()));
/// # Ok(())
/// # }
/// ```
#[must_use = "an acquisition does nothing unless awaited"]
pub struct Acquire<G> {
    lock: Lock,
    wrap: fn(Hold, Lock) -> G,
    max_queue: Option<u64>,
    min_replicas: u32,
    wishes: Wishes,
}

/// What may be wished for of any acquisition, of one name or of several.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    pub(crate) owner: Option<Owner>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) wait: Wait,
}

/// For how long an acquisition waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Forever,
    For(Duration),
    Until(Instant),
}

impl Wishes {
    /// To wait for ever, with leases as the client makes them.
    pub(crate) const NONE: Self = Self {
        owner: None,
        ttl: None,
        renewed: true,
        max_hold: None,
        min_hold: None,
        wait: Wait::Forever,
    };

    /// What that is for a claim by `protocol`, everything checked that can be checked here.
    pub(crate) fn terms(&self, engine: &Engine, protocol: &dyn Protocol) -> Result<Terms> {
        let mut terms = engine.settings.terms(self.ttl, self.renewed)?;
        terms.bound_hold(self.min_hold, self.max_hold)?;
        terms.known_owner = self.owner.is_some();
        if protocol.queues() {
            terms.timeout = terms.timeout.min(terms.waiter_ttl / 6);
        }
        Ok(terms)
    }
}

impl Wait {
    /// For how long from now on; `None`: for ever.
    pub(crate) fn longest(self) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::For(longest) => Some(longest),
            Self::Until(instant) => {
                Some(instant.saturating_duration_since(tokio::time::Instant::now().into_std()))
            }
        }
    }
}

impl<G> Acquire<G> {
    pub(crate) const fn new(lock: Lock, wrap: fn(Hold, Lock) -> G) -> Self {
        Self {
            lock,
            wrap,
            max_queue: None,
            min_replicas: 0,
            wishes: Wishes::NONE,
        }
    }

    /// Acquires for this owner; without it, for a new one.
    pub const fn owner(mut self, owner: &Owner) -> Self {
        self.wishes.owner = Some(*owner);
        self
    }

    /// Length of the lease, whole milliseconds (default: the client's). It is renewed as long as the guard lives.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.wishes.ttl = Some(ttl);
        self
    }

    /// A fixed lease: it is not renewed and ends after its ttl, whatever the guard does.
    pub const fn no_renewal(mut self) -> Self {
        self.wishes.renewed = false;
        self
    }

    /// Bounds the time of holding: `longest` after the grant was asked for, the lease is lost for
    /// [`MaxHold`](crate::LossReason::MaxHold), however well it is renewed. Unless the guard is dropped before, the lock
    /// becomes free up to one ttl later.
    pub const fn max_hold(mut self, longest: Duration) -> Self {
        self.wishes.max_hold = Some(longest);
        self
    }

    /// Keeps the lock from everybody for at least `shortest` after the grant, also when it is released sooner: then it ends
    /// for its holder at once, and stays taken for the rest ([`Released::Kept`](crate::Released::Kept)). A job that must not
    /// run twice within a minute, even if it is done in a second or another machine's clock is off, sets a minute. A holder
    /// that crashes, or whose client is closed, keeps the lock for what is left of its ttl only.
    ///
    /// More than the ttl of a lease without renewal is [`Error::Config`](crate::Error::Config), and so is more than
    /// [`max_hold`](Self::max_hold) or a year.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Released};
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let nightly = Mutex::new(&client, "nightly");
    /// let guard = nightly.acquire().min_hold(Duration::from_secs(60)).await?;
    /// assert!(matches!(guard.release().await?, Released::Kept(_)));
    /// assert!(nightly.try_acquire().await?.is_none()); // a machine whose clock is late
    /// tokio::time::sleep(Duration::from_secs(61)).await;
    /// assert!(nightly.try_acquire().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub const fn min_hold(mut self, shortest: Duration) -> Self {
        self.wishes.min_hold = Some(shortest);
        self
    }

    /// Gives up after this long (default: waits for ever), and not earlier, even during an outage. The error is
    /// [`Error::Timeout`](crate::Error::Timeout), or [`Error::Backend`](crate::Error::Backend) if the server had stopped answering. It may
    /// come up to 100 ms late, while the place in the queue is removed. Zero asks the server once. Without `wait_for`, an
    /// outage of one ttl fails with `Backend`.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wishes.wait = Wait::For(longest);
        self
    }

    /// Gives up with [`Error::Timeout`](crate::Error::Timeout) at this instant. It is compared with tokio's time, which tests can pause; make
    /// it from a `tokio::time::Instant` there.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let lock = Mutex::new(&client, "report");
    /// let _guard = lock.acquire().await?;
    /// let noon = tokio::time::Instant::now() + Duration::from_secs(60);
    /// let late = lock.acquire().wait_until(noon.into_std()).await;
    /// assert!(matches!(late, Err(Error::Timeout { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn wait_until(mut self, instant: Instant) -> Self {
        self.wishes.wait = Wait::Until(instant);
        self
    }

    /// Waits only if at most `most` wait then, this acquisition included; otherwise
    /// [`Error::QueueFull`](crate::Error::QueueFull) at once. For kinds with a queue; zero is
    /// [`Error::Config`](crate::Error::Config), for that is to try.
    pub const fn max_queue(mut self, most: u64) -> Self {
        self.max_queue = Some(most);
        self
    }

    /// The grant counts only once `least` replicas of the server have confirmed that they have it; otherwise it is given back,
    /// and [`Error::NotReplicated`](crate::Error::NotReplicated) says how many had it. Zero, the default, asks for none.
    ///
    /// It narrows what a failover can lose, and does not close it: a replica that has not got the grant may be promoted,
    /// unless all have to have it, and renewals are not waited for. It costs two round trips on a connection of its own. Each
    /// takes at most a request's timeout, so at most a sixth of the ttl, and trouble with the connection is borne with for
    /// one more. No wait bounds that: the lock is held meanwhile. [`min_hold`](Self::min_hold) counts from then on. Observers
    /// are told of the grant when the server gives it, and of its end if it is given back.
    ///
    /// The user needs the right to `WAIT`. An engine in this process has no replicas.
    pub const fn min_replicas(mut self, least: u32) -> Self {
        self.min_replicas = least;
        self
    }

    /// The claim and the way to acquire it, everything checked that can be checked here.
    fn prepare(&self) -> Result<Acquisition> {
        let protocol = Arc::clone(self.lock.protocol()?);
        let engine = Arc::clone(&self.lock.client().engine);
        let mut terms = self.wishes.terms(&engine, &*protocol)?;
        if self.max_queue.is_some() && !protocol.queues() {
            let kind = protocol.kind();
            return Err(Error::config(format!(
                "a {kind} lock has no queue that max_queue could bound"
            )));
        }
        if self.max_queue == Some(0) {
            return Err(Error::config(
                "a max_queue of zero never waits: use try_acquire",
            ));
        }
        terms.queue_limit = self.max_queue;
        let owner = self.wishes.owner.unwrap_or_else(|| engine.new_owner());
        let wait = self.wishes.wait.longest();
        let acquisition = Acquisition::new(engine, protocol, terms, owner, wait)?;
        Ok(acquisition.replicated_to(self.min_replicas))
    }
}

impl<G: 'static> IntoFuture for Acquire<G> {
    type Output = Result<G>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<G>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut acquisition = self.prepare()?;
            let span = acquisition.span();
            acquisition
                .unless_closed(async |it| {
                    let hold = it.wait().await?;
                    it.confirmed(hold).await
                })
                .instrument(span)
                .await
                .map(|hold| (self.wrap)(hold, self.lock))
        })
    }
}

impl<G> fmt::Debug for Acquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("lock", &self.lock)
            .field("wait", &self.wishes.wait)
            .finish_non_exhaustive()
    }
}

/// An acquisition that takes the lock now or not at all; `None` means that somebody else holds it.
///
/// # Cancel safety
///
/// As for [`Acquire`].
#[must_use = "an acquisition does nothing unless awaited"]
#[derive(Debug)]
pub struct TryAcquire<G>(Acquire<G>);

impl<G> TryAcquire<G> {
    pub(crate) const fn new(acquire: Acquire<G>) -> Self {
        Self(acquire)
    }

    /// As [`Acquire::owner`].
    pub fn owner(self, owner: &Owner) -> Self {
        Self(self.0.owner(owner))
    }

    /// As [`Acquire::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`Acquire::no_renewal`].
    pub fn no_renewal(self) -> Self {
        Self(self.0.no_renewal())
    }

    /// As [`Acquire::min_hold`].
    pub fn min_hold(self, shortest: Duration) -> Self {
        Self(self.0.min_hold(shortest))
    }

    /// As [`Acquire::min_replicas`].
    pub fn min_replicas(self, least: u32) -> Self {
        Self(self.0.min_replicas(least))
    }

    /// As [`Acquire::max_hold`].
    pub fn max_hold(self, longest: Duration) -> Self {
        Self(self.0.max_hold(longest))
    }
}

impl<G: 'static> IntoFuture for TryAcquire<G> {
    type Output = Result<Option<G>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Option<G>>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut acquisition = self.0.prepare()?;
            let span = acquisition.span();
            let hold = acquisition
                .unless_closed(async |it| match it.once().await? {
                    Some(hold) => it.confirmed(hold).await.map(Some),
                    None => Ok(None),
                })
                .instrument(span)
                .await?;
            Ok(hold.map(|hold| (self.0.wrap)(hold, self.0.lock)))
        })
    }
}
