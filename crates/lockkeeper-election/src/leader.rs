//! Who leads, and the stream of those who do.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_core::Stream;
use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{Error, FencingToken, Owner, Result, Target, Watch};
use lockkeeper_lua::Status;

use crate::protocol;

/// Who leads, as the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The term: the fencing token of the leadership, larger for every later one.
    pub term: FencingToken,
    /// What it is known by. Empty until it has said so, a moment after it was made the leader.
    pub value: String,
    /// The [label](lockkeeper_core::ClientBuilder::label) of its client; `None` if it has none, or has not said anything yet.
    pub label: Option<String>,
    /// Since when it is known, by the server's clock; `None` if it has not said anything yet.
    pub since: Option<SystemTime>,
    /// The claim that leads.
    pub claim: String,
    /// Whose claim it is; `None` if another program's hand has written it.
    pub owner: Option<Owner>,
    /// How many values it has been known by, this one included.
    number: u64,
}

impl Leader {
    /// A claim that leads by this term, known by this value and of which nothing else is known: for a test of your own code, which sets
    /// what it needs.
    ///
    /// # Examples
    ///
    /// ```
    /// use lockkeeper_core::FencingToken;
    /// use lockkeeper_election::Leader;
    ///
    /// let claim = "67e55044-10b1-426f-9247-bb680e5fe0c8:7/9c1f4d03a2b75e68";
    /// let mut leader = Leader::new(FencingToken::new(7), "10.0.0.1:8080", claim);
    /// leader.label = Some("db2:811".to_owned());
    /// ```
    pub fn new(term: FencingToken, value: impl Into<String>, claim: impl Into<String>) -> Self {
        let claim = claim.into();
        Self {
            term,
            value: value.into(),
            label: None,
            since: None,
            owner: Owner::of_claim(&claim),
            claim,
            number: 1,
        }
    }

    /// Asks who leads.
    pub(crate) async fn of(target: &Target) -> Result<Option<Self>> {
        let reply = target
            .ask("ask for the leader of", protocol::leader)
            .await?;
        if reply.status() == Status::Free {
            return Ok(None);
        }
        let leader = Self::read(&reply).map(Some);
        leader.ok_or_else(|| Error::unexpected(target.name(), reply.status().as_str()))
    }

    /// Reads what a script says of a leader; `None` if it is not what the contract says.
    fn read(reply: &Reply) -> Option<Self> {
        let text = |at: usize| match reply.field(at) {
            Some(Value::Bytes(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        let number = |at: usize| u64::try_from(reply.field(at)?.as_i64()?).ok();
        let claim = text(1)?;
        let (times, since) = (number(3)?, Duration::from_millis(number(4)?));
        let is_known = reply.status() == Status::Leader && times > 0;
        Some(Self {
            term: FencingToken::new(number(0)?),
            owner: Owner::of_claim(&claim),
            claim,
            number: times,
            since: SystemTime::UNIX_EPOCH
                .checked_add(since)
                .filter(|_| is_known),
            label: text(5).filter(|label| !label.is_empty()),
            value: text(6)?,
        })
    }

    /// What a later leader, or a later value of the same, has more of.
    const fn order(&self) -> (FencingToken, u64) {
        (self.term, self.number)
    }
}

/// What [`Election::leader`](crate::Election::leader) says, now and whenever that changes: `None` when nobody leads. Made by
/// [`Election::observe`](crate::Election::observe).
///
/// Terms never go back, whatever server answers. It asks when a leader has told the observers, when the connection was lost, and otherwise every third of
/// the [waiter ttl](lockkeeper_core::ClientBuilder::waiter_ttl): so it learns of a leader that has died, and of a message that was lost. Of several
/// changes between two of these moments it gives the last. Each of these streams asks for itself: one for a process is
/// enough.
///
/// While the server does not answer, it waits; nobody knows who leads then. It ends after an error that asking again does not mend:
/// the client was closed, the server refuses, the name is a bad one or holds something else.
///
/// It is a [`Stream`], and has a [`next`](Self::next) of its own.
///
/// # Examples
///
/// See [`Election`](crate::Election).
#[must_use = "a stream does nothing unless polled"]
pub struct Leaders {
    next: Option<Next>,
}

type Next = Pin<Box<dyn Future<Output = (Result<Option<Leader>>, Observing)> + Send>>;

impl Leaders {
    pub(crate) fn new(target: Target) -> Self {
        let observing = Observing {
            target,
            watch: None,
            last: None,
            told: None,
        };
        Self {
            next: Some(Box::pin(observing.next())),
        }
    }

    /// Who leads next; `None` after an error.
    ///
    /// # Errors
    ///
    /// As for [`Election::leader`](crate::Election::leader), once, but for those that are [transient](Error::is_transient).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is lost but the time.
    pub async fn next(&mut self) -> Option<Result<Option<Leader>>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Leaders {
    type Item = Result<Option<Leader>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = &mut self.next else {
            return Poll::Ready(None);
        };
        let Poll::Ready((leader, observing)) = next.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.next = match leader {
            Ok(_) => Some(Box::pin(observing.next())),
            Err(_) => None,
        };
        Poll::Ready(Some(leader))
    }
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaders").finish_non_exhaustive()
    }
}

/// Where a stream is.
struct Observing {
    target: Target,
    watch: Option<Watch>,
    /// The last leader that was given.
    last: Option<(FencingToken, u64)>,
    /// Whether that was the last thing given, or that nobody leads; `None`: nothing was.
    told: Option<bool>,
}

impl Observing {
    async fn next(mut self) -> (Result<Option<Leader>>, Self) {
        let leader = self.change().await;
        (leader, self)
    }

    /// Waits for a change of who leads.
    async fn change(&mut self) -> Result<Option<Leader>> {
        loop {
            match &mut self.watch {
                Some(watch) => watch.changed().await?,
                // First it listens, so that what happens behind its first question is told.
                None => self.watch = Some(self.target.watch()?),
            }
            match Leader::of(&self.target).await {
                Ok(leader) if self.is_news(leader.as_ref()) => return Ok(leader),
                Err(error) if !error.is_transient() => return Err(error),
                _ => {}
            }
        }
    }

    /// Whether this is another answer than the last, and not one of an earlier time.
    fn is_news(&mut self, leader: Option<&Leader>) -> bool {
        let (order, leads) = (leader.map(Leader::order), leader.is_some());
        let is_same = self.told == Some(leads) && (!leads || order == self.last);
        if is_same || leads && order < self.last {
            return false;
        }
        (self.last, self.told) = (order.or(self.last), Some(leads));
        true
    }
}
