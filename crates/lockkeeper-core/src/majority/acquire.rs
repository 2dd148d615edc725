//! The builders of acquisitions from several servers.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use super::QuorumLock;
use super::acquisition::Acquisition;
use super::hold::QuorumHold;
use crate::acquire::{Wait, Wishes};
use crate::error::{Error, Result};
use crate::owner::Owner;

/// An acquisition that waits until a majority of servers grants. Await it to start; nothing happens before.
///
/// To spawn it, or to poll it by hand, make a future of it: `tokio::spawn(lock.acquire().into_future())`.
///
/// # Cancel safety
///
/// Cancel safe: dropping the future at any point gives the claim up on every server. A leave is sent in the background to each
/// that may have granted it; at worst it ends with its ttl.
#[must_use = "an acquisition does nothing unless awaited"]
pub struct QuorumAcquire<G> {
    lock: QuorumLock,
    wrap: fn(QuorumHold) -> G,
    wishes: Wishes,
}

impl<G> QuorumAcquire<G> {
    pub(super) const fn new(lock: QuorumLock, wrap: fn(QuorumHold) -> G) -> Self {
        Self {
            lock,
            wrap,
            wishes: Wishes::NONE,
        }
    }

    /// Acquires for this owner; without it, for a new one. An owner that holds already waits for itself.
    pub const fn owner(mut self, owner: &Owner) -> Self {
        self.wishes.owner = Some(*owner);
        self
    }

    /// Length of the lease, whole milliseconds (default: the shortest of the clients' own). It is renewed as long as the guard
    /// lives. Longer than the longest ttl of the lock is [`Error::Config`].
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
    /// [`MaxHold`](crate::LossReason::MaxHold), however well it is renewed.
    pub const fn max_hold(mut self, longest: Duration) -> Self {
        self.wishes.max_hold = Some(longest);
        self
    }

    /// Gives up with [`Error::Timeout`] after this long (default: waits for ever). Zero still asks the servers once. If no
    /// majority answered lately, the error is [`Error::Backend`] and names those that did not; without a wait it comes when
    /// no majority has answered for one ttl.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wishes.wait = Wait::For(longest);
        self
    }

    /// Gives up with [`Error::Timeout`] at this instant. It is compared with tokio's time, which tests can pause; make it
    /// from a `tokio::time::Instant` there.
    pub const fn wait_until(mut self, instant: Instant) -> Self {
        self.wishes.wait = Wait::Until(instant);
        self
    }

    /// Everything checked that can be checked here.
    fn prepare(&self) -> Result<Acquisition> {
        let nodes = &self.lock.nodes;
        let defaults = nodes.iter().map(|node| node.engine.settings.ttl);
        let ttl = self.wishes.ttl.or(defaults.min()).unwrap_or_default();
        if ttl > self.lock.longest {
            let longest = self.lock.longest;
            return Err(Error::config(format!(
                "a ttl of {ttl:?} is longer than the longest ttl of this lock, {longest:?}, for which a restarted server stays out: raise that in every process"
            )));
        }
        let wishes = Wishes {
            ttl: Some(ttl),
            ..self.wishes
        };
        let terms = nodes.iter().map(|node| {
            let mut terms = wishes.terms(&node.engine, &*node.protocol)?;
            terms.timeout = terms.timeout.min(ttl / REQUESTS_PER_TTL);
            Ok(terms)
        });
        let terms = terms.collect::<Result<Vec<_>>>()?;
        let owner = wishes.owner.unwrap_or_else(|| nodes[0].engine.new_owner());
        Acquisition::new(self.lock.clone(), terms, owner, wishes.wait.longest())
    }
}

/// A request may take at most this part of the lease: a round has two of them, and what they take is lost to the holder.
const REQUESTS_PER_TTL: u32 = 10;

impl<G: 'static> IntoFuture for QuorumAcquire<G> {
    type Output = Result<G>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<G>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut acquisition = self.prepare()?;
            let span = acquisition.span();
            let hold = acquisition.wait().instrument(span).await?;
            Ok((self.wrap)(hold))
        })
    }
}

impl<G> fmt::Debug for QuorumAcquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumAcquire")
            .field("lock", &self.lock)
            .field("wait", &self.wishes.wait)
            .finish_non_exhaustive()
    }
}

/// An acquisition that takes the lock now or not at all; `None` means that others hold it, or that rivals asked at the same
/// moment and nobody got a majority.
///
/// # Cancel safety
///
/// As for [`QuorumAcquire`].
#[must_use = "an acquisition does nothing unless awaited"]
#[derive(Debug)]
pub struct QuorumTryAcquire<G>(QuorumAcquire<G>);

impl<G> QuorumTryAcquire<G> {
    pub(super) const fn new(acquire: QuorumAcquire<G>) -> Self {
        Self(acquire)
    }

    /// As [`QuorumAcquire::owner`].
    pub fn owner(self, owner: &Owner) -> Self {
        Self(self.0.owner(owner))
    }

    /// As [`QuorumAcquire::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`QuorumAcquire::no_renewal`].
    pub fn no_renewal(self) -> Self {
        Self(self.0.no_renewal())
    }

    /// As [`QuorumAcquire::max_hold`].
    pub fn max_hold(self, longest: Duration) -> Self {
        Self(self.0.max_hold(longest))
    }
}

impl<G: 'static> IntoFuture for QuorumTryAcquire<G> {
    type Output = Result<Option<G>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Option<G>>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut acquisition = self.0.prepare()?;
            let span = acquisition.span();
            let hold = acquisition.once().instrument(span).await?;
            Ok(hold.map(self.0.wrap))
        })
    }
}
