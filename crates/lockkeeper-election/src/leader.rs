//! The current leader, and the stream of leaders.

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

/// The current leader, as the server reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The term: the fencing token of the leadership, larger for every later one.
    pub term: FencingToken,
    /// The leader's value, usually its address. Empty until the leader has sent it, a moment after its election.
    pub value: String,
    /// The [label](lockkeeper_core::ClientBuilder::label) of the leader's client; `None` if it has none or has not
    /// sent it yet.
    pub label: Option<String>,
    /// When the leader sent its first value of this term, by the server's clock; `None` if it has not sent one yet.
    pub since: Option<SystemTime>,
    /// The claim of the leader.
    pub claim: String,
    /// The owner of the claim; `None` if another program wrote the claim.
    pub owner: Option<Owner>,
    /// The number of this value among the values of this term, counted from 1.
    number: u64,
}

impl Leader {
    /// Creates a leader with this term, value and claim and nothing else, for tests of your own code. A test can set
    /// the other fields.
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

    /// Asks the server who leads.
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

    /// Reads a script's reply about a leader; `None` if it breaks the contract.
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

    /// Orders leaders by term, and values of one leader by their number.
    const fn order(&self) -> (FencingToken, u64) {
        (self.term, self.number)
    }
}

/// A stream that gives what [`Election::leader`](crate::Election::leader) returns: the current answer first, then each
/// change. `None` means that nobody leads. [`Election::observe`](crate::Election::observe) creates it.
///
/// Terms never go back, whichever server answers. The stream asks the server when a message about a leader arrives,
/// when the connection was lost, and otherwise every third of the [waiter
/// ttl](lockkeeper_core::ClientBuilder::waiter_ttl), so it notices a dead leader and a lost message. If several
/// changes happen between two of these requests, it returns only the last. Each stream sends its own requests; one
/// stream per process is enough.
///
/// While the server does not answer, the stream waits. It ends after an error that repeating cannot fix: the client
/// was closed, the server refuses, or the name is invalid or holds something else.
///
/// It implements [`Stream`] and also has its own [`next`](Self::next).
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

    /// Waits for the next change of leader; `None` after an error.
    ///
    /// # Errors
    ///
    /// As for [`Election::leader`](crate::Election::leader), reported once. [Transient](Error::is_transient) errors
    /// are not reported.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no change is missed.
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

/// The state of a stream.
struct Observing {
    target: Target,
    watch: Option<Watch>,
    /// The last leader that was returned.
    last: Option<(FencingToken, u64)>,
    /// What was returned last: a leader (true) or that nobody leads (false); `None`: nothing yet.
    told: Option<bool>,
}

impl Observing {
    async fn next(mut self) -> (Result<Option<Leader>>, Self) {
        let leader = self.change().await;
        (leader, self)
    }

    /// Waits for a change of leader.
    async fn change(&mut self) -> Result<Option<Leader>> {
        loop {
            match &mut self.watch {
                Some(watch) => watch.changed().await?,
                // Subscribe before the first request, so that no change after it is missed.
                None => self.watch = Some(self.target.watch()?),
            }
            match Leader::of(&self.target).await {
                Ok(leader) if self.is_news(leader.as_ref()) => return Ok(leader),
                Err(error) if !error.is_transient() => return Err(error),
                _ => {}
            }
        }
    }

    /// Whether this answer differs from the last one and is not older.
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
