//! The guard that a kind over several servers wraps.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::QuorumLock;
use super::lease::{QuorumLease, Shared};
use super::node::failed_on;
use crate::clock::{Moment, sleep_until_some};
use crate::error::{Error, Result};
use crate::hold::{Armed, Released};
use crate::lease::{End, LossReason};
use crate::leave::{self, Attempt};
use crate::notify::presence::Ear;
use crate::pause::Pauses;
use crate::protocol::FencingToken;
use crate::store::StoreError;

/// How long a release waits for the rest when a majority has confirmed it, at least: a server that is a little slower than
/// the others is free, too, when the release returns.
const LEAST_GRACE: Duration = Duration::from_millis(10);

/// The claim on one server, and the duty to leave for it.
pub(super) struct Member {
    /// Its place in the list of servers.
    place: usize,
    armed: Armed,
    _ear: Option<Ear>,
}

impl Member {
    /// What the maker of the claim's owner is told about it on this server is heard by `ear`.
    pub(super) fn new(place: usize, armed: Armed, ear: Option<Ear>) -> Self {
        Self {
            place,
            armed,
            _ear: ear,
        }
    }
}

/// A lock held by a majority of servers: kinds wrap it in guards of their own. Dereferences to its [`QuorumLease`].
///
/// Dropping it ends belief at once and posts a leave to each server, which is sent in the background: dropping never blocks,
/// spawns or panics, and works outside of a runtime too.
#[must_use = "dropping a guard releases the lock"]
pub struct QuorumHold {
    lock: QuorumLock,
    members: Vec<Member>,
    lease: QuorumLease,
    /// A release has stopped half-way, which only a defect on purpose does.
    stopped: bool,
}

/// How far a release has come.
#[derive(Default)]
struct Tally {
    left: usize,
    /// Servers that had lost the claim before.
    gone: usize,
    /// Servers that will not answer any more.
    failed: usize,
}

impl QuorumHold {
    pub(super) fn new(lock: QuorumLock, members: Vec<Member>, token: FencingToken) -> Self {
        let parts = members.iter().map(|member| {
            let armed = &member.armed;
            (Arc::clone(&armed.tenure), Arc::clone(&armed.engine.line))
        });
        let shared = Shared::new(lock.quorum, parts.collect(), token);
        Self {
            lock,
            members,
            lease: QuorumLease::new(shared),
            stopped: false,
        }
    }

    /// Does what was said of the parts before the grant was known.
    pub(super) fn heed(&self) {
        for Member { armed, .. } in &self.members {
            armed.engine.renewals.heed(&armed.tenure);
        }
    }

    /// Ends belief, on every server before anything is sent to any.
    fn end(&self) {
        self.lease.shared().release();
        for Member { armed, .. } in &self.members {
            armed.end();
        }
    }

    /// Lets the lock go on every server, and waits until so many have confirmed that it is free.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease had been lost before; [`Error::Backend`], which names the servers, if no majority answered
    /// within the first client's release timeout. In every case the guard is gone and belief has ended; leaves without answer
    /// are repeated in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future is dropping the guard.
    pub async fn release(mut self) -> Result<Released> {
        // Closing waits for a release under way; see `Hold::release`.
        let nodes = Arc::clone(&self.lock.nodes);
        let _passes: Vec<_> = nodes.iter().map(|node| node.engine.enter().ok()).collect();
        self.end();
        if let Some(End::Lost(reason)) = self.lease.shared().end() {
            return Err(self.lease.lost_error(reason));
        }
        let troubles = Troubles::new(vec![None; nodes.len()]);
        let timeout = nodes[0].engine.settings.release_timeout;
        let settled = tokio::time::timeout(timeout, self.leave(&troubles)).await;
        let Ok(Some(tally)) = settled else {
            self.stopped = mutant!(ReleaseStopsAtError);
            let troubles = troubles.into_inner();
            let troubles = troubles.unwrap_or_else(PoisonError::into_inner);
            return Err(failed_on(&nodes, "release", &troubles));
        };
        // Fewer than a majority had it: somebody else may have held since.
        if !self.lock.quorum.is_reached(self.members.len() - tally.gone) {
            return Err(self.lease.lost_error(LossReason::Gone));
        }
        Ok(Released::Free)
    }

    /// Leaves every server at once, and waits until a majority has answered and the rest had its time too; `None` if no majority
    /// can answer any more. What is open then is left for in the background.
    async fn leave(&self, troubles: &Troubles) -> Option<Tally> {
        let quorum = self.lock.quorum;
        let clock = Arc::clone(self.lock.first().clock());
        let began = clock.now();
        let abreast = if mutant!(ReleaseStopsAtError) {
            1
        } else {
            self.members.len()
        };
        let mut leaves = Vec::with_capacity(self.members.len());
        for member in &self.members {
            leaves.push(leave_one(member, troubles));
        }
        let mut leaves = stream::iter(leaves).buffer_unordered(abreast);
        let mut tally = Tally::default();
        let mut patience: Option<Moment> = None;
        loop {
            let answer = tokio::select! {
                biased;
                answer = leaves.next() => answer,
                () = sleep_until_some(&clock, patience) => None,
            };
            match answer {
                Some(Left::Gone) => tally.gone += 1,
                Some(Left::Now) => tally.left += 1,
                Some(Left::Failed) => {
                    tally.failed += 1;
                    if mutant!(ReleaseStopsAtError) {
                        return None;
                    }
                }
                None => return quorum.is_reached(tally.left + tally.gone).then_some(tally),
            }
            if !quorum.is_reached(self.members.len() - tally.failed) {
                return None;
            }
            if quorum.is_reached(tally.left + tally.gone) {
                let now = clock.now();
                patience.get_or_insert(now.after(LEAST_GRACE.max(now.since(began))));
            }
        }
    }

    /// Runs `work` under the lock and releases it: the body of a kind's `hold`.
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
        F: AsyncFnOnce(QuorumLease) -> T,
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

/// The last trouble with each server.
type Troubles = Mutex<Vec<Option<StoreError>>>;

/// What came of leaving one server.
enum Left {
    Now,
    Gone,
    Failed,
}

/// Leaves one server, as often as it takes.
async fn leave_one(member: &Member, troubles: &Troubles) -> Left {
    let Armed { tenure, engine, .. } = &member.armed;
    let mut pauses = Pauses::new(tenure.number);
    loop {
        let (error, again) = match leave::attempt(&engine.line, &engine.hub, tenure).await {
            Attempt::Final(Ok(_)) => return Left::Now,
            Attempt::Final(Err(Error::Lost { .. })) => return Left::Gone,
            Attempt::Final(Err(error)) => (error, false),
            Attempt::Again(error) => (error, !mutant!(ReleaseStopsAtError)),
        };
        let trouble = match error {
            Error::Backend { cause, .. } => cause,
            other => StoreError::unknown(other.to_string()),
        };
        troubles.lock().unwrap_or_else(PoisonError::into_inner)[member.place] = Some(trouble);
        if !again {
            return Left::Failed;
        }
        tokio::time::sleep(pauses.next()).await;
    }
}

impl Drop for QuorumHold {
    fn drop(&mut self) {
        self.end();
        if self.stopped {
            std::mem::forget(std::mem::take(&mut self.members));
        }
    }
}

impl Deref for QuorumHold {
    type Target = QuorumLease;

    fn deref(&self) -> &QuorumLease {
        &self.lease
    }
}

impl fmt::Debug for QuorumHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QuorumHold").field(&self.lease).finish()
    }
}
