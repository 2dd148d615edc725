//! Leases that a majority of servers keeps, as their holder sees them.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::claim::{Belief, Claim, Ending};
use crate::clock::{Moment, sleep_until};
use crate::error::{Error, Result};
use crate::exchange::Line;
use crate::lease::{End, Ended, LeaseState, LossReason, Lost};
use crate::owner::Owner;
use crate::protocol::{Answer, FencingToken, Kind};
use crate::quorum::Quorum;
use crate::renewal::report_lost;
use crate::store::StoreError;
use crate::tenure::Tenure;

/// A view of one grant by a majority of servers. Clones watch the same grant; none of them ever releases it.
///
/// Each server's part ends by a local, monotonic deadline that is counted from before the granting or renewing request to it
/// was sent. The lease lasts as long as the parts of a majority do, counted over all servers of the lock.
#[derive(Clone)]
pub struct QuorumLease(Arc<Shared>);

/// What the guard, the observers and the renewals of one grant share.
#[derive(Debug)]
pub(crate) struct Shared {
    quorum: Quorum,
    parts: Vec<(Arc<Tenure>, Arc<Line>)>,
    token: FencingToken,
    /// How it ended, once somebody has seen that.
    end: OnceLock<End>,
}

impl Shared {
    pub(super) fn new(
        quorum: Quorum,
        parts: Vec<(Arc<Tenure>, Arc<Line>)>,
        token: FencingToken,
    ) -> Arc<Self> {
        let shared = Arc::new(Self {
            quorum,
            parts,
            token,
            end: OnceLock::new(),
        });
        for (tenure, _) in &shared.parts {
            tenure.join(&shared);
        }
        shared
    }

    /// The guard lets go: unless the lease was lost before, it ends by that.
    pub(super) fn release(&self) {
        if self.end().is_none() {
            let _ = self.end.set(End::Released);
        }
    }

    /// How the lease has ended; `None` while it is believed in. Compares clocks.
    pub(crate) fn end(&self) -> Option<End> {
        if self.end.get().is_none() && !self.quorum.is_reached(self.count(believed)) {
            let _ = self.end.set(End::Lost(self.reason()));
        }
        self.end.get().copied()
    }

    fn count(&self, what: impl Fn(Belief) -> bool) -> usize {
        let parts = self.parts.iter();
        let beliefs = parts.map(|(tenure, line)| tenure.belief(line.clock.now()).0);
        beliefs.filter(|belief| what(*belief)).count()
    }

    /// Why a majority is none any more. Parts can be lost for several reasons; a word to the holder says more than a silence.
    fn reason(&self) -> LossReason {
        let losses = self.parts.iter().filter_map(|(tenure, line)| {
            match tenure.belief(line.clock.now()).0 {
                Belief::Ended(Ending::Lost(reason)) => Some(reason),
                _ => None,
            }
        });
        let weight = |reason: &LossReason| match reason {
            LossReason::Revoked => 4,
            LossReason::ClientClosed => 3,
            LossReason::MaxHold => 2,
            LossReason::Gone => 1,
            LossReason::Expired => 0,
        };
        losses.max_by_key(weight).unwrap_or(LossReason::Expired)
    }

    /// The part with which the majority ends if nothing else happens: how long it is still good for, and which it is.
    fn decisive(&self) -> Option<(Duration, usize)> {
        let parts = self.parts.iter().enumerate();
        let left = parts.filter_map(|(place, (tenure, line))| {
            let now = line.clock.now();
            let (belief, deadline) = tenure.belief(now);
            Some((deadline?.since(now), place)).filter(|_| believed(belief))
        });
        self.quorum.reached_by(left)
    }
}

const fn believed(belief: Belief) -> bool {
    matches!(belief, Belief::Held | Belief::Uncertain)
}

impl QuorumLease {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(super) const fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    fn first(&self) -> &Tenure {
        // A majority of three or more has parts.
        &self.0.parts[0].0
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.first().protocol.name().as_str()
    }

    /// The kind of the lock.
    pub fn kind(&self) -> Kind {
        self.first().protocol.kind()
    }

    /// Who holds.
    pub fn owner(&self) -> Owner {
        self.first().id.owner()
    }

    /// The number to hand to whatever the lock protects, so that it can refuse a holder that came before the last.
    pub fn fencing_token(&self) -> FencingToken {
        self.0.token
    }

    /// How many servers take part in the grant and still may be believed.
    pub fn servers(&self) -> usize {
        self.0.count(believed)
    }

    /// How long the lease may be believed in if no further renewal is answered; zero once it has ended.
    pub fn remaining(&self) -> Duration {
        match self.0.end() {
            Some(_) => Duration::ZERO,
            None => self.0.decisive().map_or(Duration::ZERO, |(left, _)| left),
        }
    }

    /// What the holder may believe now. Compares clocks when asked, so it is right even if no task ran in time.
    pub fn state(&self) -> LeaseState {
        match self.0.end() {
            Some(End::Lost(reason)) => LeaseState::Lost(reason),
            Some(End::Released) => LeaseState::Released,
            None => {
                let sure = self.0.count(|belief| belief == Belief::Held);
                if self.0.quorum.is_reached(sure) {
                    LeaseState::Held
                } else {
                    LeaseState::Uncertain
                }
            }
        }
    }

    /// Checks locally that the lock is held, for use right before a step that matters.
    ///
    /// It cannot protect the time between the check and the step; only a fencing token that the resource checks can.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] with the reason; [`Error::NotHeld`] if the guard has been released.
    pub fn ensure_held(&self) -> Result<()> {
        match self.0.end() {
            None => Ok(()),
            Some(end) => Err(self.end_error(end)),
        }
    }

    /// Asks every server whether the claim holds.
    ///
    /// `Ok` means that a majority had the claim while the question was answered and that the lease is believed in. A server
    /// that does not know the claim takes part no longer.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] or [`Error::NotHeld`] as for [`ensure_held`](Self::ensure_held); [`Error::Backend`] if no majority
    /// answered, which changes nothing.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the question changes nothing on the servers.
    pub async fn verify(&self) -> Result<()> {
        self.ensure_held()?;
        let asked = self.0.parts.iter().map(async |(tenure, line)| {
            let answer = line.verify(tenure).await;
            let lost = match answer {
                Ok(Answer::Gone) => tenure.lose(Claim::seen_gone),
                Ok(Answer::Revoked) => tenure.lose(Claim::revoke),
                _ => None,
            };
            if let Some(reason) = lost {
                report_lost(line, tenure, reason);
            }
            answer
        });
        let answers = join_all(asked).await;
        self.ensure_held()?;
        let held = |answer: &&std::result::Result<Answer, _>| matches!(answer, Ok(Answer::Held(_)));
        if self
            .0
            .quorum
            .is_reached(answers.iter().filter(held).count())
        {
            return Ok(());
        }
        let silence = answers.into_iter().find_map(std::result::Result::err);
        let silence = silence.unwrap_or_else(|| StoreError::unknown("a majority did not answer"));
        let context = format!("verify lock {:?} by a majority of its servers", self.name());
        Err(Error::backend(context, silence))
    }

    /// Resolves when the lease is lost; never if it is released. For `select!`.
    ///
    /// It resolves at most about 2 ms after the deadline on a runtime that is not blocked, at once when a majority is none any
    /// more, and within a second of a sleeping machine waking.
    pub fn lost(&self) -> Lost {
        let lease = self.clone();
        Lost::new(async move {
            match lease.wait().await {
                End::Lost(reason) => reason,
                End::Released => std::future::pending().await,
            }
        })
    }

    /// Resolves when the lease has ended, one way or the other. For watchers that must not wait for ever.
    pub fn ended(&self) -> Ended {
        let lease = self.clone();
        Ended::new(async move { lease.wait().await })
    }

    /// Runs a future for as long as the lease lasts, and stops it by dropping it when the lease ends.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease was lost first, [`Error::NotHeld`] if its guard was released first; the future was
    /// dropped then, at one of its awaits.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `future`; the lease is not touched.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        tokio::select! {
            biased;
            end = self.wait() => Err(self.end_error(end)),
            // It may have blocked past the deadline.
            output = future => self.ensure_held().map(|()| output),
        }
    }

    async fn wait(&self) -> End {
        loop {
            let bells = self.0.parts.iter().map(|(tenure, _)| {
                let mut bell = Box::pin(tenure.bell().notified());
                bell.as_mut().enable();
                bell
            });
            let bells = select_all(bells.collect::<Vec<_>>());
            if let Some(end) = self.0.end() {
                return end;
            }
            let Some((left, place)) = self.0.decisive() else {
                continue;
            };
            let clock = &self.0.parts[place].1.clock;
            let deadline: Moment = clock.now().after(left);
            tokio::select! {
                biased;
                _ = bells => {}
                () = sleep_until(clock, deadline) => {}
            }
        }
    }

    fn end_error(&self, end: End) -> Error {
        match end {
            End::Lost(reason) => self.lost_error(reason),
            End::Released => Error::not_held(self.name()),
        }
    }

    pub(super) fn lost_error(&self, reason: LossReason) -> Error {
        Error::lost(self.first().protocol.name(), reason)
    }
}

impl fmt::Debug for QuorumLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumLease")
            .field("name", &self.name())
            .field("kind", &self.kind().as_str())
            .field("owner", &self.owner().to_string())
            .field("fencing_token", &self.0.token.get())
            .field("servers", &self.servers())
            .field("state", &self.state())
            .finish()
    }
}
