//! Acquiring: the builders, and the one loop by which every acquisition waits.

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
mod waiting;

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use crate::acquire::acquisition::Acquisition;
use crate::acquire::options::{Options, Wait};
use crate::acquire::plan::{Plan, Target};
use crate::grant::guard::{Guard, Queued, SingleServer};
use crate::grant::hold::Hold;
use crate::grant::lease::Lease;
use crate::seam::observer::AcquisitionOutcome;
use crate::seam::protocol::Protocol;
use crate::words::error::{Error, Result};
use crate::words::name::Name;
use crate::words::owner::Owner;

/// An acquisition that waits for its turn. Await it to start; nothing happens before.
///
/// To spawn it, or to poll it by hand, make a future of it: `tokio::spawn(lock.acquire().into_future())`.
///
/// # Cancel safety
///
/// Cancel safe: dropping the future at any point gives up every claim, those that hold and those that ask. What had been
/// granted unseen is released in the background; at worst it ends with its ttl. The place among this client's waiters is lost.
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

/// An acquisition that takes the lock now or not at all; `None` means that somebody else holds it, or one of several; of a lock
/// on several servers also that rivals asked at the same moment and nobody got a majority. Everything else is as for
/// [`Acquire`].
pub type TryAcquire<G> = Acquire<G, Tries>;

impl<G, W> Acquire<G, W> {
    /// An acquisition of what this plan says.
    pub fn new(plan: impl Into<Plan>) -> Self {
        Self {
            plan: plan.into(),
            options: Options::DEFAULT,
            note: None,
            guard: PhantomData,
        }
    }

    /// Acquires for this owner; without it, for a new one. Of several locks, those that have no owner of their own.
    pub const fn owner(mut self, owner: &Owner) -> Self {
        self.options.owner = Some(*owner);
        self
    }

    /// Length of the lease, whole milliseconds (default: the client's; of a lock on several servers, the shortest of the clients'). It is renewed as long as the guard lives.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Says for whom or what this is, to people who [inspect](crate::Client::inspect) the name while it waits or holds, and to those
    /// whose wait for it [times out](crate::Error::Timeout). At most 256 bytes without control characters; more is
    /// [`Error::Config`](crate::Error::Config). It is written in the background when the claim is 100 ms old, and forgotten when it
    /// ends, or ten minutes after the client was closed before: what is shorter costs the server nothing.
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

    /// A fixed lease: it is not renewed and ends after its ttl, whatever the guard does.
    pub const fn no_renewal(mut self) -> Self {
        self.options.renewed = false;
        self
    }

    /// Bounds the time of holding: `longest` after the grant was asked for, the lease is lost for
    /// [`MaxHold`](crate::LossReason::MaxHold), however well it is renewed. Unless the guard is dropped before, the lock
    /// becomes free up to one ttl later.
    pub const fn max_hold(mut self, longest: Duration) -> Self {
        self.options.max_hold = Some(longest);
        self
    }
}

impl<G: SingleServer, W> Acquire<G, W> {
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
        self.options.min_hold = Some(shortest);
        self
    }

    /// The grant counts only once `least` replicas of the server, of several locks of each server, have confirmed that they have it; otherwise it is given back,
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
        self.options.min_replicas = least;
        self
    }
}

impl<G> Acquire<G> {
    /// Gives up after this long (default: waits for ever), and not earlier, even during an outage. The error is
    /// [`Error::Timeout`](crate::Error::Timeout), or [`Error::Backend`](crate::Error::Backend) if the server had stopped answering. It may
    /// come up to 100 ms late, while the place in the queue is removed and the server is asked who holds. Zero asks the server once. Without `wait_for`, an
    /// outage of one ttl fails with `Backend`.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.options.wait = Wait::For(longest);
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
        self.options.wait = Wait::Until(instant);
        self
    }
}

impl<G: Queued> Acquire<G> {
    /// Waits only if at most `most` wait then, this acquisition included; otherwise
    /// [`Error::QueueFull`](crate::Error::QueueFull) at once. For kinds with a queue; zero is
    /// [`Error::Config`](crate::Error::Config), for that is to try.
    pub const fn max_queue(mut self, most: u64) -> Self {
        self.options.max_queue = Some(most);
        self
    }
}

impl<G: Guard> Acquire<G> {
    /// Acquires, runs `work` for as long as the lease lasts, and releases.
    ///
    /// When it returns `Ok`, the work was done while the lease was valid.
    ///
    /// # Errors
    ///
    /// As for the acquisition, and [`Error::Lost`] if the lease was lost on the way: the work was then stopped at one of its
    /// awaits. A release that is not confirmed is no error: it is repeated in the background.
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
    /// As [`Acquire::hold`], if the lock can be had now; `None` if it cannot.
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
    /// Takes the lock once more for the same owner, without waiting: the body of every kind's `reenter`.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] or [`Error::NotHeld`] if this hold has ended, here or on the server: then nothing is held anew.
    /// Otherwise as for an acquisition.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the new claim up; this one stays as it is.
    pub async fn reenter(&self) -> Result<Self> {
        let (part, _) = self.only_part()?;
        self.reenter_as(Arc::clone(&part.protocol)).await
    }

    /// The same in another mode of the name, by another protocol.
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
            // If another hold has begun since, what this one stands on is over, and what was just taken is given back. But an
            // owner may also hold by claims of two tokens at a time, where they do not exclude one another.
            again => {
                self.verify().await?;
                again.ok_or_else(|| Error::not_held(self.name()))
            }
        }
    }
}
