//! Acquiring: the builders, and the one loop in which every acquisition waits.
//!
//! Awaiting an [`Acquire`] checks what can be checked locally, draws an owner if none was given, and makes an
//! `acquisition` of the stages of its [`Plan`]. For each stage, `waiting` makes the claims and asks, and the answer
//! decides:
//!
//! - Granted: the parts of the stage become a [`Hold`].
//! - Waiting: the claim stands in the queue on the server, see `queue`.
//! - Busy, where there is no queue: the acquisition joins the client's local queue of the name, see `turn`.
//! - No answer: the same claims ask again after a pause. The acquisition gives up when the server has been unreachable
//!   for one ttl, or for its time limit if that is longer, and so do the waiters of its local queue with no more
//!   patience.
//!
//! Two kinds of acquisition differ: a mutex first looks for others of its client that ask, wait or hold, see `cohort`;
//! a lock on several servers asks in rounds, see `majority` and `round`.

mod acquisition;
mod cohort;
pub(crate) mod majority;
mod options;
pub(crate) mod plan;
mod queue;
mod replicas;
mod round;
mod stage;
mod told;
mod turn;
pub(crate) mod waiting;

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use crate::acquire::acquisition::Acquisition;
use crate::acquire::options::{Options, Wait};
use crate::acquire::plan::{Plan, Target};
use crate::grant::guard::{CoolsDown, Guard, Queued, SingleServer};
use crate::grant::hold::Hold;
use crate::grant::lease::Lease;
use crate::seam::observer::AcquisitionOutcome;
use crate::seam::protocol::Protocol;
use crate::words::error::{Error, Result};
use crate::words::name::Name;
use crate::words::owner::Owner;

/// An acquisition that waits for its turn. Await it to start it; nothing happens before.
///
/// To spawn it or poll it by hand, turn it into a future: `tokio::spawn(lock.acquire().into_future())`.
///
/// # Cancel safety
///
/// Cancel safe: dropping the future at any point gives up every claim, whether it already holds or still waits. A
/// grant that your code has not seen is released in the background; at worst it ends with its ttl. The acquisition
/// loses its place among this client's waiters.
///
/// If you keep the future but stop polling it, it does not block the lock. It keeps its place in a queue no longer than
/// [`wait_for`](Self::wait_for) allows, and a grant that it does not take goes to the next waiter after one waiter ttl.
///
/// # Guards of the same client
///
/// Dropping a guard releases its lock in the background. An acquisition of the same name by the same client first
/// waits for that release, for at most one request timeout, so that the client's own old hold is not in its way.
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
pub struct Acquire<G, W = Waits> {
    plan: Plan,
    options: Options,
    note: Option<Arc<str>>,
    guard: PhantomData<fn() -> (G, W)>,
}

/// Marks an acquisition that waits for its turn.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Waits;

/// Marks an acquisition that takes the lock now or not at all.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Tries;

/// An acquisition that takes the lock now or not at all. `None` means that somebody else holds the lock, or at least
/// one of several locks. For a lock on several servers it can also mean that several callers asked at the same moment
/// and none got a majority. Everything else is as for [`Acquire`].
pub type TryAcquire<G> = Acquire<G, Tries>;

impl<G, W> Acquire<G, W> {
    /// Prepares an acquisition of this plan.
    pub fn new(plan: impl Into<Plan>) -> Self {
        Self {
            plan: plan.into(),
            options: Options::DEFAULT,
            note: None,
            guard: PhantomData,
        }
    }

    /// Acquires for this owner instead of a new one. With several locks, it applies to those that have no owner of
    /// their own.
    pub const fn owner(mut self, owner: &Owner) -> Self {
        self.options.owner = Some(*owner);
        self
    }

    /// Sets the length of the lease in whole milliseconds (default: the client's ttl; for a lock on several servers,
    /// the shortest of the clients' ttls). It is renewed while the guard lives.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets a note that says what this acquisition is for. People see it when they [inspect](crate::Client::inspect)
    /// the name while this claim waits or holds, and in the [timeout](crate::Error::Timeout) error of an acquisition
    /// that waits for this claim. It has at most 256 bytes and no control characters, otherwise the acquisition fails
    /// with [`Error::Config`](crate::Error::Config).
    ///
    /// The note is written in the background when the claim is 100 ms old, so a shorter claim costs the server nothing.
    /// It is deleted when the claim ends; if the client is closed before that, it expires after ten minutes.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().label("web-1").build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let order = Mutex::new(&client, "order:42");
    /// let _guard = order.acquire().note("request 7f3a, user 42").await?;
    /// tokio::time::sleep(Duration::from_secs(1)).await;
    /// let holder = client.inspect("order:42").await?.holders.remove(0);
    /// assert_eq!(holder.note.as_deref(), Some("request 7f3a, user 42"));
    /// let late = order.acquire().wait_for(Duration::from_secs(1)).await.unwrap_err();
    /// assert!(late.to_string().contains(r#"held by web-1 ("request 7f3a, user 42")"#));
    /// # Ok(())
    /// # }
    /// ```
    pub fn note(mut self, note: impl Into<Arc<str>>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Makes the lease fixed: it is not renewed and ends after its ttl, even while the guard lives.
    pub const fn no_renewal(mut self) -> Self {
        self.options.renewed = false;
        self
    }

    /// Limits how long the lock is held: `longest`, at least 1 ms, after the request for the grant, the lease is lost with
    /// [`MaxHold`](crate::LossReason::MaxHold), even if it is renewed. The lock becomes free up to one ttl later, or
    /// when the guard is dropped, if that is sooner.
    pub const fn max_hold(mut self, longest: Duration) -> Self {
        self.options.max_hold = Some(longest);
        self
    }
}

impl<G: CoolsDown, W> Acquire<G, W> {
    /// Keeps the lock unavailable for at least `shortest` after the grant, even if it is released sooner. An early
    /// release ends the lease for its holder at once, and the lock stays taken for the rest of the time
    /// ([`Released::Kept`](crate::Released::Kept)). Use one minute for a job that must not run twice within a minute,
    /// even if it takes a second or another machine's clock is wrong. If the holder crashes or its client is closed,
    /// the lock stays unavailable only for the rest of its ttl.
    ///
    /// Setting more than the ttl of a lease without renewal, more than [`max_hold`](Self::max_hold), or more than a
    /// year is [`Error::Config`](crate::Error::Config).
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
        self.options.min_hold = Some(shortest);
        self
    }
}

impl<G: SingleServer, W> Acquire<G, W> {
    /// Requires that `least` replicas of each server involved confirm the grant before it counts. Otherwise the lock
    /// is released and [`Error::NotReplicated`](crate::Error::NotReplicated) says how many confirmed. Zero, the
    /// default, requires none.
    ///
    /// This makes it less likely that a failover loses the grant, but does not exclude it: unless you require all
    /// replicas, one without the grant may be promoted, and renewals do not wait for replicas.
    ///
    /// It costs two round trips on a connection of its own. Each takes at most a request's timeout, which is at most a
    /// sixth of the ttl, and a connection failure is retried for one such timeout more. [`wait_for`](Self::wait_for)
    /// does not limit this, because the lock is already held. [`min_hold`](Self::min_hold) counts from the confirmation.
    /// Observers receive the grant when the server makes it, and its end if it is released again.
    ///
    /// The client's user needs the right to `WAIT`. An in-process server has no replicas.
    pub const fn min_replicas(mut self, least: u32) -> Self {
        self.options.min_replicas = least;
        self
    }
}

impl<G> Acquire<G> {
    /// Gives up after this long (default: never), and not earlier, even during an outage. The error is
    /// [`Error::Timeout`](crate::Error::Timeout), or [`Error::Backend`](crate::Error::Backend) if the last request
    /// to acquire failed. It can come up to 100 ms late: the client withdraws the claim from the queue and asks the
    /// server who holds the lock. Zero asks the server once. Without `wait_for`, the acquisition fails with `Backend`
    /// after an outage of one ttl.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.options.wait = Wait::For(longest);
        self
    }

    /// Gives up at this instant of tokio's clock, with the errors of [`wait_for`](Self::wait_for). A test that pauses that
    /// clock makes the instant from a `tokio::time::Instant`.
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
        self.options.wait = Wait::Until(instant);
        self
    }
}

impl<G: Queued> Acquire<G> {
    /// Joins the queue only if it then has at most `most` waiters, including this one; otherwise fails with
    /// [`Error::QueueFull`](crate::Error::QueueFull) at once. For kinds with a queue. Zero is
    /// [`Error::Config`](crate::Error::Config): use `try_acquire` instead.
    pub const fn max_queue(mut self, most: u64) -> Self {
        self.options.max_queue = Some(most);
        self
    }
}

impl<G: Guard> Acquire<G> {
    /// Acquires the lock, runs `work` while the lease lasts, and releases it.
    ///
    /// When it returns `Ok`, the work was completed while the lease was valid.
    ///
    /// # Errors
    ///
    /// As for the acquisition, and [`Error::Lost`] if the lease was lost before the work was complete: the work was
    /// then dropped at one of its await points. An unconfirmed release is not an error: it is repeated in the
    /// background.
    ///
    /// In a spawned task each call needs a closure of its own: the compiler cannot show that a task is `Send` which uses
    /// one `async` closure for the locks of two kinds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock, or gives up waiting.
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
    /// let report = Mutex::new(&client, "report");
    /// let acquire = report.acquire().wait_for(Duration::from_secs(5));
    /// let token = acquire.hold(async |lease| lease.fencing_token()).await?;
    /// assert!(token.get() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold<F, T>(self, work: F) -> Result<T>
    where
        F: AsyncFnOnce(Lease) -> T,
    {
        let hold: Hold = self.await?.into();
        hold.within(work).await
    }
}

impl<G: Guard> TryAcquire<G> {
    /// Like [`Acquire::hold`], if the lock is free now; otherwise `None`.
    ///
    /// # Errors
    ///
    /// As for [`Acquire::hold`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Acquire::hold`].
    pub async fn hold<F, T>(self, work: F) -> Result<Option<T>>
    where
        F: AsyncFnOnce(Lease) -> T,
    {
        match self.await? {
            Some(guard) => {
                let hold: Hold = guard.into();
                hold.within(work).await.map(Some)
            }
            None => Ok(None),
        }
    }
}

impl<G: From<Hold> + 'static> IntoFuture for Acquire<G> {
    type Output = Result<G>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<G>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut acquisition = Acquisition::new(&self.plan, self.options, self.note, true)?;
            let (caller, span) = (tracing::Span::current(), acquisition.span());
            let hold = acquisition.wait().instrument(span).await;
            acquisition.is_over(match &hold {
                Ok(_) => AcquisitionOutcome::Granted,
                Err(error) => AcquisitionOutcome::of_error(error),
            });
            Ok(hold?.within_span(&caller).into())
        })
    }
}

impl<G: From<Hold> + 'static> IntoFuture for TryAcquire<G> {
    type Output = Result<Option<G>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Option<G>>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut acquisition = Acquisition::new(&self.plan, self.options, self.note, false)?;
            let (caller, span) = (tracing::Span::current(), acquisition.span());
            let hold = acquisition.once().instrument(span).await;
            acquisition.is_over(match &hold {
                Ok(Some(_)) => AcquisitionOutcome::Granted,
                Ok(None) => AcquisitionOutcome::Refused,
                Err(error) => AcquisitionOutcome::of_error(error),
            });
            Ok(hold?.map(|hold| hold.within_span(&caller).into()))
        })
    }
}

impl<G, W> fmt::Debug for Acquire<G, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("plan", &self.plan)
            .field("wait", &self.options.wait)
            .finish_non_exhaustive()
    }
}

impl Hold {
    /// Acquires the lock once more for the same owner, without waiting. Every kind implements its `reenter` with this.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] or [`Error::NotHeld`] if this hold has ended, here or on the server; then no new hold exists.
    /// Otherwise as for an acquisition.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up the new claim; this hold is not affected.
    pub async fn reenter(&self) -> Result<Self> {
        let (part, _) = self.only_part()?;
        self.reenter_as(Arc::clone(&part.protocol)).await
    }

    /// Like [`reenter`](Self::reenter), in another mode of the name, with another protocol.
    ///
    /// # Errors
    ///
    /// As for [`reenter`](Self::reenter).
    ///
    /// # Cancel safety
    ///
    /// As for [`reenter`](Self::reenter).
    pub async fn reenter_by<P: Protocol>(
        &self,
        protocol: impl FnOnce(Name) -> P + Send,
    ) -> Result<Self> {
        let (part, _) = self.only_part()?;
        let name = part.protocol.name().clone();
        self.reenter_as(Arc::new(protocol(name))).await
    }

    async fn reenter_as(&self, protocol: Arc<dyn Protocol>) -> Result<Self> {
        self.ensure_held()?;
        let (_, engine) = self.only_part()?;
        let target = Target::with(engine, protocol);
        let again = TryAcquire::<Self>::new(target).owner(&self.owner()).await?;
        match again {
            Some(again) if again.fencing_token() == self.fencing_token() => Ok(again),
            // A different token usually means that this hold is over and another has begun; then `verify` fails, and
            // dropping the new hold releases it. But an owner may also hold claims with two tokens at once, if those
            // claims do not exclude each other.
            again => {
                self.verify().await?;
                again.ok_or_else(|| Error::not_held(self.name()))
            }
        }
    }
}
