//! The builders of acquisitions of several locks.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use crate::acquire::{Wait, Wishes};
use crate::bundle::Bundle;
use crate::error::Result;
use crate::gathering::Gathering;
use crate::member::Member;
use crate::owner::Owner;

/// An acquisition of several locks that waits until it has them all. Await it to start; nothing happens before.
///
/// # Cancel safety
///
/// Cancel safe: dropping the future at any point gives every claim up, those that hold and those that ask. At worst one ends
/// with its ttl.
#[must_use = "an acquisition does nothing unless awaited"]
pub struct AcquireAll<G> {
    steps: Arc<[Vec<Member>]>,
    wrap: fn(Bundle) -> G,
    wishes: Wishes,
}

impl<G> AcquireAll<G> {
    /// An acquisition of the members of each of `steps` together, one step after the other while the earlier ones are held;
    /// `wrap` makes the guard. The order of the steps must be the same for everybody, or they wait for one another for ever. A
    /// step of several members is of one client and one group, and of kinds that [join](Member::joins).
    pub fn new(steps: Arc<[Vec<Member>]>, wrap: fn(Bundle) -> G) -> Self {
        Self {
            steps,
            wrap,
            wishes: Wishes::NONE,
        }
    }

    /// Acquires for this owner each member that has none of its own; without it, for a new one of each client.
    pub const fn owner(mut self, owner: &Owner) -> Self {
        self.wishes.owner = Some(*owner);
        self
    }

    /// Length of every lease, whole milliseconds (default: that of each member's client). They are renewed as long as the guard
    /// lives.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.wishes.ttl = Some(ttl);
        self
    }

    /// Fixed leases: they are not renewed, and the whole ends with the first of them.
    pub const fn no_renewal(mut self) -> Self {
        self.wishes.renewed = false;
        self
    }

    /// Bounds the time of holding, counted for each member from when it was asked for; the first that is over ends the whole.
    pub const fn max_hold(mut self, longest: Duration) -> Self {
        self.wishes.max_hold = Some(longest);
        self
    }

    /// Keeps every member from everybody for at least `shortest` after the last was granted, also when they are released sooner,
    /// as [`Acquire::min_hold`](crate::Acquire::min_hold) does. Of leases that are not renewed the first ends sooner, by as much
    /// as the last was granted later.
    pub const fn min_hold(mut self, shortest: Duration) -> Self {
        self.wishes.min_hold = Some(shortest);
        self
    }

    /// Gives up with [`Error::Timeout`](crate::Error::Timeout) after this long in all, naming the member that was waited for (default: waits
    /// for ever). Zero still asks once.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wishes.wait = Wait::For(longest);
        self
    }

    /// Gives up with [`Error::Timeout`](crate::Error::Timeout) at this instant of tokio's time.
    pub const fn wait_until(mut self, instant: Instant) -> Self {
        self.wishes.wait = Wait::Until(instant);
        self
    }

    fn prepare(&self) -> Result<Gathering> {
        Gathering::new(&self.steps, self.wishes)
    }
}

impl<G: 'static> IntoFuture for AcquireAll<G> {
    type Output = Result<G>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<G>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let gathering = self.prepare()?;
            let span = gathering.span();
            gathering
                .unless_closed(async |it| it.wait().await)
                .instrument(span)
                .await
                .map(self.wrap)
        })
    }
}

impl<G> fmt::Debug for AcquireAll<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireAll")
            .field("steps", &self.steps)
            .field("wait", &self.wishes.wait)
            .finish_non_exhaustive()
    }
}

/// An acquisition that takes all locks now or none; `None` means that one of them is held by somebody else.
///
/// # Cancel safety
///
/// As for [`AcquireAll`].
#[must_use = "an acquisition does nothing unless awaited"]
#[derive(Debug)]
pub struct TryAcquireAll<G>(AcquireAll<G>);

impl<G> TryAcquireAll<G> {
    /// The same without waiting.
    pub const fn new(acquire: AcquireAll<G>) -> Self {
        Self(acquire)
    }

    /// As [`AcquireAll::owner`].
    pub fn owner(self, owner: &Owner) -> Self {
        Self(self.0.owner(owner))
    }

    /// As [`AcquireAll::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`AcquireAll::no_renewal`].
    pub fn no_renewal(self) -> Self {
        Self(self.0.no_renewal())
    }

    /// As [`AcquireAll::max_hold`].
    pub fn max_hold(self, longest: Duration) -> Self {
        Self(self.0.max_hold(longest))
    }

    /// As [`AcquireAll::min_hold`].
    pub fn min_hold(self, shortest: Duration) -> Self {
        Self(self.0.min_hold(shortest))
    }
}

impl<G: 'static> IntoFuture for TryAcquireAll<G> {
    type Output = Result<Option<G>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Option<G>>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let gathering = self.0.prepare()?;
            let span = gathering.span();
            let bundle = gathering
                .unless_closed(async |it| it.once().await)
                .instrument(span)
                .await?;
            Ok(bundle.map(self.0.wrap))
        })
    }
}
