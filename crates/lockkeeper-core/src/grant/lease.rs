//! Leases, as their holder sees them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;

use crate::claim::{Validity, Verdict};
use crate::engine::grant::Grant;
use crate::engine::part::Part;
use crate::engine::requester::Failed;
use crate::words::agenda::Notice;
use crate::words::answer::{Answer, Verb};
use crate::words::ending::{End, LeaseState, Lost};
use crate::words::error::{Error, Result};
use crate::words::kind::Kind;
use crate::words::owner::Owner;
use crate::words::store_error::StoreError;
use crate::words::token::FencingToken;

/// A view of one grant: whether the lock is held, for how long, and with which token. Clones watch the same grant; none
/// of them ever releases it.
///
/// A lease is valid until a local, monotonic deadline. The deadline counts from before the granting or renewing request
/// was sent, so the lease ends for its holder before it can end on the server.
///
/// A grant has one or more parts, and is valid while enough of them are:
///
/// - a lock on one server has one part;
/// - several locks held together have one part for each name, and all must be valid;
/// - a lock on several servers has one part for each server, and a majority must be valid.
///
/// When a grant is lost, none of its parts is renewed any more, and [`Lost`] says which part was lost.
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
    grant: Arc<Grant>,
    /// The part that this lease shows; `None` for the whole grant.
    place: Option<usize>,
}

impl Lease {
    pub(crate) const fn new(grant: Arc<Grant>) -> Self {
        Self { grant, place: None }
    }

    pub(crate) const fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// The part that this lease shows; for a whole grant, its first part.
    fn part(&self) -> &Arc<Part> {
        self.grant.part(self.place.unwrap_or_default())
    }

    /// Returns a lease for each part, in the order of acquiring: one for each of several locks, or one for each server
    /// that granted a lock on several servers. Each has the part's own name, owner, token and deadline.
    ///
    /// A part ends when the grant ends, and not before: [`end`](Self::end), [`ensure_held`](Self::ensure_held),
    /// [`lost`](Self::lost) and [`run`](Self::run) answer for the grant. A server that no longer takes part in a lock on
    /// several servers shows in its part's [`state`](Self::state), which is [`Uncertain`](LeaseState::Uncertain), and
    /// in [`remaining`](Self::remaining), which is zero.
    pub fn parts(&self) -> Vec<Self> {
        let places = 0..self.grant.parts().len();
        let part = |place| Self {
            grant: Arc::clone(&self.grant),
            place: Some(place),
        };
        places.map(part).collect()
    }

    /// Returns how many parts are valid now; for a lock on several servers, how many servers take part.
    pub fn valid_parts(&self) -> usize {
        self.grant.count(Validity::holds)
    }

    /// Returns the name of the lock; for several locks held together, all their names.
    pub fn name(&self) -> &str {
        match (&self.grant.names, self.place) {
            (Some(names), None) => names,
            _ => self.part().name(),
        }
    }

    /// Returns the kind of the lock; `multi` for several locks held together.
    pub fn kind(&self) -> Kind {
        match (&self.grant.names, self.place) {
            (Some(_), None) => Kind::new("multi"),
            _ => self.part().protocol.kind(),
        }
    }

    /// Returns the owner that holds the lock; for several locks held together, the owner of the first.
    pub fn owner(&self) -> Owner {
        self.part().id.owner()
    }

    /// Returns the number to pass to the resource that the lock protects, so that the resource can refuse an earlier
    /// holder.
    ///
    /// For several locks held together, this is the token of the lock that is acquired first; it increases among all
    /// callers that take the same set. If only one of the names protects a resource, pass it the token of that
    /// [part](Self::parts).
    pub fn fencing_token(&self) -> FencingToken {
        self.grant.token(self.place.unwrap_or_default())
    }

    /// Returns how long the lease stays valid if no further renewal is answered; zero once it has ended.
    pub fn remaining(&self) -> Duration {
        if self.grant.end().is_some() {
            return Duration::ZERO;
        }
        let left = match self.place {
            Some(_) => self
                .part()
                .validity()
                .1
                .map(|end| end.since(self.part().now())),
            None => self.grant.decisive().map(|(left, _)| left),
        };
        left.unwrap_or_default()
    }

    /// Returns what the holder may assume now. Each call reads the clock, so the result is correct even if no task ran in
    /// time.
    pub fn state(&self) -> LeaseState {
        match self.grant.end() {
            Some(End::Lost(lost)) => LeaseState::Lost(lost.reason),
            Some(End::Released) => LeaseState::Released,
            None => {
                let certain = match self.place {
                    Some(_) => self.part().validity().0 == Validity::Valid,
                    None => self.grant.count(|it| it == Validity::Valid) >= self.grant.needs(),
                };
                match certain {
                    true => LeaseState::Held,
                    false => LeaseState::Uncertain,
                }
            }
        }
    }

    /// Returns how the lease ended, and which part ended it; `None` while it is valid. Each call reads the clock, like
    /// [`state`](Self::state).
    pub fn end(&self) -> Option<End> {
        self.grant.end()
    }

    /// Checks locally that the lock is held. Call it right before a critical step.
    ///
    /// The lease may still end between this check and the step. Only a fencing token that the resource checks protects
    /// against that.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] with the lost part and the reason; [`Error::NotHeld`] if the guard has been released.
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
        self.grant
            .end()
            .map_or(Ok(()), |end| Err(self.ended_by(end)))
    }

    /// Asks the server whether the claim holds; for a grant with several parts, asks about all of them at once.
    ///
    /// `Ok` means that the server had the claim when it answered, and that the lease is valid. For several locks held
    /// together that is true of all, for a lock on several servers of a majority. If a server does not know its claim,
    /// that part ends at once.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] or [`Error::NotHeld`] as for [`ensure_held`](Self::ensure_held); [`Error::Backend`] if the
    /// server did not answer, which does not affect the lease.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the question changes nothing on the server, with one exception. If an acquire request of the lease
    /// got no answer, the lease is verified by renewing it.
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
        let parts = match self.place {
            Some(_) => vec![self.part()],
            None => self.grant.parts().collect(),
        };
        let (all, needs) = (parts.len(), self.grant.needs().min(parts.len()));
        let asked = join_all(parts.into_iter().map(ask)).await;
        self.ensure_held()?;
        let confirmed = asked.iter().filter(|it| matches!(it, Ok(true))).count();
        if confirmed >= needs {
            return Ok(());
        }
        let silence = asked.into_iter().find_map(std::result::Result::err);
        let silence = silence.unwrap_or_else(|| StoreError::unknown("too few servers answered"));
        let name = self.name();
        let of_several = if needs < all {
            " by a majority of its servers"
        } else {
            ""
        };
        Err(Error::backend(
            format!("verify lock {name:?}{of_several}"),
            silence,
        ))
    }

    /// Resolves when the lease is lost; never if it is released. For use in `select!`.
    ///
    /// If the runtime is not blocked, it resolves at most about 2 ms after the deadline, and at once when the server
    /// reports the claim gone or revoked. After a suspended machine wakes, it takes up to a second.
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
    ///     lost = guard.lost() => assert_eq!(lost.reason, LossReason::Revoked),
    ///     () = tokio::time::sleep(Duration::from_secs(60)) => unreachable!("the work was stopped"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> Until<Lost> {
        let grant = Arc::clone(&self.grant);
        Until(Box::pin(async move {
            match grant.ended().await {
                End::Lost(lost) => lost,
                End::Released => std::future::pending().await,
            }
        }))
    }

    /// Resolves when the lease has ended, by release or by loss. Use this in a task that only watches: unlike
    /// [`lost`](Self::lost), it also resolves after a release.
    pub fn ended(&self) -> Until<End> {
        let grant = Arc::clone(&self.grant);
        Until(Box::pin(async move { grant.ended().await }))
    }

    /// Runs a future while the lease lasts, and drops it when the lease ends.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease was lost first, [`Error::NotHeld`] if its guard was released first; the future
    /// was then dropped at one of its await points.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `future`; the lease is not affected.
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
            end = self.grant.ended() => Err(self.ended_by(end)),
            // The future may have blocked past the deadline.
            output = future => self.ensure_held().map(|()| output),
        }
    }

    pub(crate) fn ended_by(&self, end: End) -> Error {
        match end {
            End::Lost(lost) => lost.into(),
            End::Released => Error::not_held(self.name()),
        }
    }
}

/// Asks one server whether it has the claim. If not, returns false, and the claim is lost.
async fn ask(part: &Arc<Part>) -> std::result::Result<bool, StoreError> {
    if part.claim().renewal() == Verb::Acquire {
        // Only the token shows whether the claim on the server is the one that was granted.
        return match part.requester.exchange(part, Verb::Acquire).await {
            Err(Failed::Store(error)) => Err(error),
            Err(Failed::Forbidden(_)) => Err(StoreError::not_sent(
                "a renewal is unanswered and will show whether the claim holds; ask again",
            )),
            Ok(Verdict::Lost(_)) => Ok(false),
            Ok(Verdict::Renewed | Verdict::Ignored) => Ok(true),
            Ok(verdict) => Err(StoreError::unknown(format!(
                "unexpected answer: {verdict:?}"
            ))),
        };
    }
    let notice = match part.requester.verify(part).await? {
        Answer::Gone => Notice::Gone,
        Answer::Revoked => Notice::Revoked,
        _ => return Ok(true),
    };
    part.change(|claim| claim.notice(notice));
    Ok(false)
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Lease");
        shown
            .field("name", &self.name())
            .field("kind", &self.kind().as_str())
            .field("owner", &self.part().id.owner().to_string())
            .field("fencing_token", &self.fencing_token().get());
        if self.grant.parts().len() > 1 {
            shown.field("valid_parts", &self.valid_parts());
        }
        shown.field("state", &self.state()).finish()
    }
}

/// The future of [`Lease::lost`] and [`Lease::ended`].
#[must_use = "futures do nothing unless awaited"]
pub struct Until<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> Future for Until<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.0.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for Until<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Until")
    }
}
