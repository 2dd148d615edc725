//! The guard that every kind wraps.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::TryAcquire;
use crate::claim::{Belief, Departure, Ending};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::leave;
use crate::notify::presence::Ear;
use crate::observer::LeaseEvent;
use crate::protocol::FencingToken;
use crate::tenure::Tenure;

/// What is left of a lock after a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock is free, or goes to the next in line.
    Free,
    /// The same owner still holds it by this many other claims.
    StillHeld(u64),
    /// Nobody holds it, and nobody may for this much longer: it was let go before its
    /// [`min_hold`](crate::Acquire::min_hold) was over.
    Kept(Duration),
}

/// A claim that may be on the server, and the duty to leave for it. It exists before the first request is sent.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) engine: Arc<Engine>,
}

impl Armed {
    pub(crate) const fn new(tenure: Arc<Tenure>, engine: Arc<Engine>) -> Self {
        Self { tenure, engine }
    }

    fn is_to_leave(&self) -> bool {
        self.tenure.claim().departure() != Departure::None
    }

    /// Ends belief; from here on nothing but a leave is sent for the claim.
    pub(crate) fn end(&self) {
        self.engine.end(&self.tenure);
    }

    /// What it is, without the duty.
    pub(crate) fn handle(&self) -> (Arc<Tenure>, Arc<Engine>) {
        (Arc::clone(&self.tenure), Arc::clone(&self.engine))
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.end();
        if self.tenure.take_departure() {
            let tenure = Arc::clone(&self.tenure);
            self.engine.reaper.post(&self.engine.line, vec![tenure]);
        }
    }
}

/// Claims of one client that one script acquires, in the order of its items. Dropped, they are left for by one, too.
#[derive(Debug, Default)]
pub(crate) struct Joined(Vec<Armed>);

impl Joined {
    pub(crate) const fn new(claims: Vec<Armed>) -> Self {
        Self(claims)
    }

    /// Takes the claims out, each with its duty.
    pub(crate) fn take(&mut self) -> Vec<Armed> {
        std::mem::take(&mut self.0)
    }
}

impl Deref for Joined {
    type Target = [Armed];

    fn deref(&self) -> &[Armed] {
        &self.0
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        for armed in self.0.iter().rev() {
            armed.end();
        }
        let to_leave: Vec<&Armed> = self.0.iter().filter(|it| it.is_to_leave()).collect();
        if let [first, _, ..] = to_leave[..] {
            let posted = to_leave.iter().filter(|it| it.tenure.take_departure());
            let tenures = posted.map(|it| Arc::clone(&it.tenure)).collect();
            first.engine.reaper.post(&first.engine.line, tenures);
        }
    }
}

/// A held lock: kinds wrap it in guards of their own. Dereferences to its [`Lease`].
///
/// Dropping it ends belief at once and posts a leave, which is sent in the background: dropping never blocks, spawns or
/// panics, and works outside of a runtime too.
#[must_use = "dropping a guard releases the lock"]
pub struct Hold {
    pub(crate) armed: Armed,
    lease: Lease,
    _ear: Option<Ear>,
}

impl Hold {
    /// The claim was granted with `token`, asked for since `started`.
    pub(crate) fn begin(armed: Armed, token: FencingToken, started: Moment) -> Self {
        let Armed { tenure, engine } = &armed;
        engine.renewals.add(tenure);
        // What the maker of the claim's owner is told about it, if that is another client.
        let ear = engine.hub.granted(&*tenure.protocol, tenure.id.owner());
        tracing::debug!(claim = %tenure.id, %token, "granted");
        let waited = engine.line.clock.now().since(started);
        let event = LeaseEvent::Granted { token, waited };
        engine.line.observed.tell(tenure, event);
        engine.renewals.heed(tenure);
        let lease = Lease::new(
            Arc::clone(&armed.tenure),
            Arc::clone(&armed.engine.line),
            token,
        );
        Self {
            armed,
            lease,
            _ear: ear,
        }
    }

    /// Takes the lock once more for the same owner, by an `attempt` that asks for it: the body of every kind's `reenter`.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] or [`Error::NotHeld`] if this hold has ended, here or on the server: then nothing is held anew.
    /// Otherwise as for the attempt.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the new claim up; this one stays as it is.
    pub async fn reenter<G>(&self, attempt: TryAcquire<G>) -> Result<G>
    where
        G: Deref<Target = Lease> + 'static,
    {
        self.ensure_held()?;
        let again = attempt.owner(&self.owner()).await?;
        match again {
            Some(again) if again.fencing_token() == self.fencing_token() => Ok(again),
            // If another hold has begun since, what this one believes in is over, and what was just taken is given back. But an
            // owner may also hold by claims of two tokens at a time, where they do not exclude one another.
            again => {
                self.verify().await?;
                again.ok_or_else(|| Error::not_held(self.name()))
            }
        }
    }

    /// Lets the lock go and waits until the server has confirmed it.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease had been lost before; [`Error::Backend`] if the server did not answer within the
    /// client's release timeout. In every case the guard is gone and belief has ended; a leave without answer is
    /// repeated in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future is dropping the guard.
    pub async fn release(self) -> Result<Released> {
        // Closing waits for a release under way, and for the leave that is posted if this future is dropped: the guard is
        // dropped before the pass. A release that comes after closing is refused by the closed store.
        let pass = self.armed.engine.enter().ok();
        let (hold, _pass) = &(self, pass);
        let Armed { tenure, engine, .. } = &hold.armed;
        hold.armed.end();
        let ended = tenure.belief(engine.line.clock.now()).0;
        if let Belief::Ended(Ending::Lost(reason)) = ended {
            return Err(Error::lost(tenure.protocol.name(), reason));
        }
        let mut left = leave::leave(engine, std::slice::from_ref(tenure)).await;
        let silent = || Err(Error::not_held(hold.name()));
        left.pop().unwrap_or_else(silent)
    }

    /// What it consists of.
    pub(crate) fn into_parts(self) -> (Armed, Lease, Option<Ear>) {
        (self.armed, self.lease, self._ear)
    }

    /// Runs `work` under the lock and releases it: the body of every kind's `hold`.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease was lost before the work was done; it was stopped then at one of its awaits, or its
    /// result is not to be trusted.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock.
    pub async fn within<F, T>(self, work: F) -> Result<T>
    where
        F: AsyncFnOnce(Lease) -> T,
    {
        let output = self.lease.run(work(self.lease.clone())).await?;
        match self.release().await {
            Ok(_) => Ok(output),
            // The work was done while the lease was believed in, and the reaper goes on trying.
            Err(error @ Error::Backend { .. }) => {
                tracing::warn!(%error, "the work is done, its lock not yet released");
                Ok(output)
            }
            Err(error) => Err(error),
        }
    }
}

impl Deref for Hold {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hold").field(&self.lease).finish()
    }
}
