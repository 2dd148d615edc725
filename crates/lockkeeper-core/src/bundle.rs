//! Several held locks as one: the guard that a multi-lock wraps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream::FuturesUnordered};

use crate::error::{Error, Result};
use crate::hold::{Armed, Hold, Joined, Released};
use crate::lease::{Lease, LeaseState, LossReason};
use crate::leave;
use crate::notify::presence::Ear;
use crate::protocol::Kind;
use crate::tenure::Tenure;
use crate::whole::Whole;

/// Several locks that are held together. When one of them is lost, all are: none is believed in or renewed any more.
///
/// Dropping it ends belief in all of them at once and posts their leaves, as for a [`Hold`].
#[must_use = "dropping a guard releases the locks"]
pub struct Bundle {
    whole: Arc<Whole>,
    leases: Vec<Lease>,
    _ears: Vec<Ear>,
}

/// The member by which a bundle was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostMember {
    /// What its lock is called.
    pub name: String,
    /// The kind of its lock.
    pub kind: Kind,
    /// Why it was lost.
    pub reason: LossReason,
}

/// How a bundle ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BundleEnd {
    /// The guard was released or dropped.
    Released,
    /// This member was lost, and the whole with it.
    Lost(LostMember),
}

impl Bundle {
    /// Binds together what has been acquired, step by step. From now on nobody else may hold any of it for `min_hold`.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if one of them has been lost meanwhile: then all are let go.
    pub(crate) fn begin(held: Vec<Vec<Hold>>, min_hold: Option<Duration>) -> Result<Self> {
        let (mut steps, mut leases, mut ears) = (Vec::new(), Vec::new(), Vec::new());
        for step in held {
            let mut claims = Vec::new();
            for hold in step {
                let (claim, lease, ear) = hold.into_parts();
                claims.push(claim);
                leases.push(lease);
                ears.extend(ear);
            }
            steps.push(Joined::new(claims));
        }
        let claims = steps.iter().flat_map(|step| step.iter());
        let clocks: Vec<_> = claims.map(keeping).collect();
        let bundle = Self {
            whole: Whole::bind(steps),
            leases,
            _ears: ears,
        };
        // Whatever is lost from here on breaks the whole; what was lost before is seen now.
        bundle.ensure_held()?;
        if let Some(min_hold) = min_hold {
            for (tenure, now) in clocks {
                tenure.claim().keep_for(min_hold, now);
            }
        }
        Ok(bundle)
    }

    /// The lease of each member, in the order in which they were acquired. After a loss the others' say that they were released.
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// How long the whole may be believed in if no further renewal is answered; zero once it has ended.
    pub fn remaining(&self) -> Duration {
        let remaining = self.leases.iter().map(Lease::remaining).min();
        remaining.unwrap_or_default()
    }

    /// Checks locally that every member is held, for use right before a step that matters.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] with the name of the member that was lost.
    pub fn ensure_held(&self) -> Result<()> {
        match end_of(&self.leases) {
            None => Ok(()),
            Some(end) => Err(self.error(end)),
        }
    }

    /// Asks each server whether the claims hold, all at once.
    ///
    /// # Errors
    ///
    /// The first error of [`Lease::verify`] in the order of the leases.
    ///
    /// # Cancel safety
    ///
    /// As for [`Lease::verify`].
    pub async fn verify(&self) -> Result<()> {
        let answers = join_all(self.leases.iter().map(Lease::verify)).await;
        // Those that ended because of a lost one say nothing about why.
        self.ensure_held()?;
        answers.into_iter().collect()
    }

    /// Resolves when the whole has ended, one way or the other; for watchers too.
    pub fn ended(&self) -> impl Future<Output = BundleEnd> + Send + use<> {
        let leases = self.leases.clone();
        async move {
            let mut endings: FuturesUnordered<_> = leases.iter().map(Lease::ended).collect();
            while endings.next().await.is_some() {
                if let Some(end) = end_of(&leases) {
                    return end;
                }
            }
            BundleEnd::Released
        }
    }

    /// Resolves when a member, and with it the whole, is lost; never if the guard is released. For `select!`.
    pub fn lost(&self) -> impl Future<Output = LostMember> + Send + use<> {
        let ended = self.ended();
        async move {
            match ended.await {
                BundleEnd::Lost(lost) => lost,
                BundleEnd::Released => std::future::pending().await,
            }
        }
    }

    /// Runs a future for as long as the whole lasts, and stops it by dropping it when the whole ends.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] with the name of the member that was lost.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `future`; the leases are not touched.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        tokio::select! {
            biased;
            end = self.ended() => Err(self.error(end)),
            // It may have blocked past a deadline.
            output = future => self.ensure_held().map(|()| output),
        }
    }

    /// Lets all go, in the reverse order of acquiring, and waits until the servers have confirmed it. Every member is tried.
    /// What became of each, in the order of the leases.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the whole had been lost before; [`Error::Partial`] with the members that were not released. In every
    /// case the guard is gone and belief has ended; leaves without answer are repeated in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future is dropping the guard.
    pub async fn release(self) -> Result<Vec<Released>> {
        let steps = self.whole.take();
        let engines = steps.iter().filter_map(|step| step.first());
        let passes: Vec<_> = engines.map(|first| first.engine.enter().ok()).collect();
        // Closing waits for a release under way. As one value: the claims are dropped before the passes.
        let under_way = (steps, passes);
        let steps = &under_way.0;
        for armed in steps.iter().rev().flat_map(|step| step.iter().rev()) {
            armed.end();
        }
        if let Some(BundleEnd::Lost(lost)) = end_of(&self.leases) {
            return Err(self.error(BundleEnd::Lost(lost)));
        }
        let left = leave_steps(steps).await;
        if mutant!(ReleaseStopsAtFirstError) {
            // Or their leaves would be posted.
            std::mem::forget(under_way);
        }
        self.report(left)
    }

    /// All that was released; or what was not.
    fn report(&self, left: Vec<Result<Released>>) -> Result<Vec<Released>> {
        let (mut released, mut failures) = (Vec::new(), Vec::new());
        for (lease, result) in self.leases.iter().zip(left) {
            match result {
                Ok(it) => released.push(it),
                Err(error) => failures.push((lease.name().to_owned(), error)),
            }
        }
        if failures.is_empty() {
            return Ok(released);
        }
        let members = self.leases.len();
        Err(Error::Partial { members, failures })
    }

    /// Runs `work` under all locks and releases them.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if a member was lost before the work was done, or was no longer on its server when it left.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the locks.
    pub async fn within<F, T>(self, work: F) -> Result<T>
    where
        F: AsyncFnOnce(&[Lease]) -> T,
    {
        let output = self.run(work(&self.leases)).await?;
        match self.release().await {
            Ok(_) => Ok(output),
            // The work was done while all leases were believed in, and the reaper goes on trying.
            Err(Error::Partial { members, failures }) => match lost_among(failures) {
                Ok(failures) => {
                    let error = Error::Partial { members, failures };
                    tracing::warn!(%error, "the work is done, not all its locks are yet released");
                    Ok(output)
                }
                Err(lost) => Err(lost),
            },
            Err(error) => Err(error),
        }
    }

    fn error(&self, end: BundleEnd) -> Error {
        match end {
            BundleEnd::Lost(LostMember { name, reason, .. }) => Error::Lost { name, reason },
            BundleEnd::Released => {
                let names: Vec<&str> = self.leases.iter().map(Lease::name).collect();
                Error::not_held(names.join(", "))
            }
        }
    }
}

fn keeping(armed: &Armed) -> (Arc<Tenure>, crate::clock::Moment) {
    (Arc::clone(&armed.tenure), armed.engine.line.clock.now())
}

/// The error that says that one of them had been lost; or all of them, if none does.
fn lost_among(failures: Vec<(String, Error)>) -> std::result::Result<Vec<(String, Error)>, Error> {
    let is_lost = |(_, error): &(String, Error)| matches!(error, Error::Lost { .. });
    match failures.iter().position(is_lost) {
        None => Ok(failures),
        Some(lost) => Err(failures
            .into_iter()
            .nth(lost)
            .map_or(Error::Closed, |(_, lost)| lost)),
    }
}

/// How they ended, if not all are held: the first that was lost tells.
fn end_of(leases: &[Lease]) -> Option<BundleEnd> {
    let held = |lease: &Lease| matches!(lease.state(), LeaseState::Held | LeaseState::Uncertain);
    if leases.iter().all(held) {
        return None;
    }
    // Who was let go because of a loss was so after it: looked for from now on, a loss is found.
    let lost = leases.iter().find_map(|lease| match lease.state() {
        LeaseState::Lost(reason) => Some(BundleEnd::Lost(LostMember {
            name: lease.name().to_owned(),
            kind: lease.kind(),
            reason,
        })),
        _ => None,
    });
    Some(lost.unwrap_or(BundleEnd::Released))
}

/// Leaves for what was acquired by one script.
async fn leave_step(step: &[Armed]) -> Vec<Result<Released>> {
    let Some(first) = step.first() else {
        return Vec::new();
    };
    let tenures: Vec<_> = step.iter().map(|it| Arc::clone(&it.tenure)).collect();
    leave::leave(&first.engine, &tenures).await
}

/// Leaves for all of them, sent in the reverse order of acquiring and answered in any: a server that is silent does not keep the
/// others.
async fn leave_steps(steps: &[Joined]) -> Vec<Result<Released>> {
    let mut left = Vec::new();
    if mutant!(ReleaseStopsAtFirstError) {
        for step in steps.iter().rev() {
            left.push(leave_step(step).await);
            if left.iter().flatten().any(Result::is_err) {
                break;
            }
        }
    } else {
        left = join_all(steps.iter().rev().map(|step| leave_step(step))).await;
    }
    left.reverse();
    left.into_iter().flatten().collect()
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.leases).finish()
    }
}
