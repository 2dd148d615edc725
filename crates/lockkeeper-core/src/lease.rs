//! Leases, as their holder sees them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::claim::{Belief, Claim, Ending, Verdict};
use crate::clock::sleep_until;
use crate::error::{Error, Result};
use crate::exchange::{Failed, Line};
use crate::owner::Owner;
use crate::protocol::{Answer, FencingToken, Kind, Verb};
use crate::renewal::report_lost;
use crate::store::StoreError;
use crate::tenure::Tenure;

/// A view of one granted claim. Clones watch the same claim; none of them ever releases it.
///
/// What a lease says is decided by a local, monotonic deadline that is counted from before the granting or renewing
/// request was sent: a lease ends for its holder before it can end on the server.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use lockkeeper_core::{Client, End, LeaseState};
/// # use lockkeeper_mutex::Mutex;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let guard = Mutex::new(&client, "report").acquire().await?;
/// // Somebody who only watches, and never releases.
/// let lease = guard.clone();
/// let watcher = tokio::spawn(async move { lease.ended().await });
/// assert_eq!(guard.state(), LeaseState::Held);
/// assert!(guard.remaining() > Duration::from_secs(29));
/// guard.release().await?;
/// assert_eq!(watcher.await.ok(), Some(End::Released));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lease {
    tenure: Arc<Tenure>,
    line: Arc<Line>,
    token: FencingToken,
}

/// What a holder may believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is still held; the last renewal was not answered and the deadline has not come yet.
    Uncertain,
    /// The lock is no longer held, and was not let go.
    Lost(LossReason),
    /// The guard has been released or dropped.
    Released,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// The guard was released or dropped.
    Released,
    /// The lease was lost.
    Lost(LossReason),
}

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The deadline passed: no renewal was answered in time, or the lease was a fixed one.
    Expired,
    /// The server said that the claim is not there: the key was deleted, also by
    /// [`Client::force_release`](crate::Client::force_release), or the server lost its data.
    Gone,
    /// Somebody has asked for the lock back, by [`Client::revoke`](crate::Client::revoke). The lock stays taken until the
    /// guard is gone, or the lease ends on the server.
    Revoked,
    /// The longest time to hold, which was set for this acquisition, is over.
    MaxHold,
    /// The client was closed while the guard lived.
    ClientClosed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline passed",
            Self::Gone => "the server no longer knows the claim",
            Self::Revoked => "it was revoked",
            Self::MaxHold => "the longest time to hold it is over",
            Self::ClientClosed => "the client was closed",
        })
    }
}

impl Lease {
    pub(crate) const fn new(tenure: Arc<Tenure>, line: Arc<Line>, token: FencingToken) -> Self {
        Self {
            tenure,
            line,
            token,
        }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.tenure.protocol.name().as_str()
    }

    /// The kind of the lock.
    pub fn kind(&self) -> Kind {
        self.tenure.protocol.kind()
    }

    /// Who holds.
    pub fn owner(&self) -> Owner {
        self.tenure.hand_out_owner()
    }

    /// The number to hand to whatever the lock protects, so that it can refuse a holder that came before the last.
    pub const fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// How long the lease may be believed in if no further renewal is answered; zero once it has ended.
    pub fn remaining(&self) -> Duration {
        let now = self.line.clock.now();
        self.tenure
            .claim()
            .deadline()
            .map_or(Duration::ZERO, |deadline| deadline.since(now))
    }

    /// What the holder may believe now. Compares clocks when asked, so it is right even if no task ran in time.
    pub fn state(&self) -> LeaseState {
        match self.tenure.belief(self.line.clock.now()).0 {
            Belief::Held => LeaseState::Held,
            Belief::Uncertain => LeaseState::Uncertain,
            Belief::Ended(Ending::Lost(reason)) => LeaseState::Lost(reason),
            Belief::None | Belief::Ended(Ending::Released | Ending::Withdrawn) => {
                LeaseState::Released
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
    /// let ttl = Duration::from_secs(10);
    /// let guard = Mutex::new(&client, "report").acquire().ttl(ttl).no_renewal().await?;
    /// guard.ensure_held()?; // … and now the step that matters
    /// tokio::time::sleep(ttl).await;
    /// assert!(matches!(guard.ensure_held(), Err(Error::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_held(&self) -> Result<()> {
        match self.state() {
            LeaseState::Held | LeaseState::Uncertain => Ok(()),
            LeaseState::Lost(reason) => Err(Error::lost(self.tenure.protocol.name(), reason)),
            LeaseState::Released => Err(self.not_held()),
        }
    }

    /// Asks the server whether the claim holds.
    ///
    /// `Ok` means that the server had the claim while the question was answered and that the lease is believed in. A
    /// server that does not know the claim ends the lease here and now.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] or [`Error::NotHeld`] as for [`ensure_held`](Self::ensure_held); [`Error::Backend`] if the server
    /// did not answer, which changes nothing.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the question changes nothing on the server, but for a lease whose acquire once got no answer: that is
    /// verified by renewing it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Error, LossReason};
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let guard = Mutex::new(&client, "report").acquire().await?;
    /// guard.verify().await?;
    /// // Somebody takes the lock away.
    /// let holder = client.inspect("report").await?.holders.remove(0);
    /// client.force_release("report", &holder.claim).await?;
    /// let verified = guard.verify().await;
    /// assert!(matches!(verified, Err(Error::Lost { reason: LossReason::Gone, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify(&self) -> Result<()> {
        self.ensure_held()?;
        let backend = |error| Error::backend(format!("verify lock {:?}", self.name()), error);
        if self.tenure.claim().renewal() == Verb::Acquire {
            // Only the token tells whether the claim on the server is still the one that was granted.
            match self.line.exchange(&self.tenure, Verb::Acquire).await {
                Err(Failed::Store(error)) => return Err(backend(error)),
                Err(Failed::Forbidden(_)) => {
                    let busy =
                        StoreError::not_sent("a renewal is under way and will tell; ask again");
                    return self.ensure_held().and(Err(backend(busy)));
                }
                Ok(Verdict::Lost(reason)) => report_lost(&self.line, &self.tenure, reason),
                Ok(Verdict::Renewed | Verdict::Stale) => {}
                Ok(verdict) => {
                    let answer = StoreError::unknown(format!("an unexpected answer, {verdict:?}"));
                    return self.ensure_held().and(Err(backend(answer)));
                }
            }
        } else {
            let lost = match self.line.verify(&self.tenure).await.map_err(backend)? {
                Answer::Gone => self.tenure.lose(Claim::seen_gone),
                Answer::Revoked => self.tenure.lose(Claim::revoke),
                _ => None,
            };
            if let Some(reason) = lost {
                report_lost(&self.line, &self.tenure, reason);
            }
        }
        self.ensure_held()
    }

    /// Resolves when the lease is lost; never if it is released. For `select!`.
    ///
    /// It resolves at most about 2 ms after the deadline on a runtime that is not blocked, at once if the server reports
    /// the claim gone or revoked, and within a second of a sleeping machine waking.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, LossReason};
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let guard = Mutex::new(&client, "report").acquire().await?;
    /// client.revoke("report").await?;
    /// tokio::select! {
    ///     reason = guard.lost() => assert_eq!(reason, LossReason::Revoked),
    ///     () = tokio::time::sleep(Duration::from_secs(60)) => unreachable!("the work was stopped"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
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
    /// let guard = Mutex::new(&client, "report").acquire().await?;
    /// assert_eq!(guard.run(async { 12 }).await?, 12);
    ///
    /// client.revoke("report").await?;
    /// let outcome = guard.run(tokio::time::sleep(Duration::from_secs(60))).await;
    /// assert!(matches!(outcome, Err(Error::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        tokio::select! {
            biased;
            end = self.wait() => Err(match end {
                End::Lost(reason) => Error::lost(self.tenure.protocol.name(), reason),
                End::Released => self.not_held(),
            }),
            // It may have blocked past the deadline.
            output = future => self.ensure_held().map(|()| output),
        }
    }

    async fn wait(&self) -> End {
        loop {
            let mut changed = std::pin::pin!(self.tenure.bell().notified());
            changed.as_mut().enable();
            let (belief, deadline) = self.tenure.belief(self.line.clock.now());
            match (belief, deadline) {
                (Belief::Ended(Ending::Lost(reason)), _) => return End::Lost(reason),
                (Belief::Held | Belief::Uncertain, Some(deadline)) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = sleep_until(&self.line.clock, deadline) => {}
                },
                _ => return End::Released,
            }
        }
    }

    fn not_held(&self) -> Error {
        Error::not_held(self.name())
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &self.name())
            .field("kind", &self.kind().as_str())
            .field("owner", &self.tenure.id.owner().to_string())
            .field("fencing_token", &self.token.get())
            .field("state", &self.state())
            .finish()
    }
}

/// The future of [`Lease::lost`].
#[must_use = "futures do nothing unless awaited"]
pub struct Lost(Pin<Box<dyn Future<Output = LossReason> + Send>>);

impl Lost {
    pub(crate) fn new(lost: impl Future<Output = LossReason> + Send + 'static) -> Self {
        Self(Box::pin(lost))
    }
}

impl Future for Lost {
    type Output = LossReason;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LossReason> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lost")
    }
}

/// The future of [`Lease::ended`].
#[must_use = "futures do nothing unless awaited"]
pub struct Ended(Pin<Box<dyn Future<Output = End> + Send>>);

impl Ended {
    pub(crate) fn new(ended: impl Future<Output = End> + Send + 'static) -> Self {
        Self(Box::pin(ended))
    }
}

impl Future for Ended {
    type Output = End;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<End> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ended")
    }
}
