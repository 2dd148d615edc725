//! What whoever leads has in hand.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::protocol::RequestContext;
use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{
    Error, FencingToken, Guard, Hold, Lease, Name, Queued, Released, Result, SingleServer, Waiter,
};
use lockkeeper_lua::Status;

use crate::check;
use crate::protocol::{self, FIRST};

/// Being the leader of an [`Election`](crate::Election). Dereferences to its [`Lease`].
///
/// Dropping it resigns in the background; [`resign`](Self::resign) waits for the server's word. Bind it to a name: `let _ = …` drops it at once,
/// and so resigns. `leadership.clone()` gives another view, its `Lease`, by which others can see whether it leads:
/// [`Lease::end`] is `None` as long as it does.
#[must_use = "dropping a leadership resigns"]
pub struct Leadership {
    hold: Hold,
    /// The number of the last value that was proclaimed.
    proclaimed: AtomicU64,
}

/// What came of a hand-over.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum HandOver {
    /// The leadership is resigned, and the candidate leads unless it has died meanwhile: then the next one does.
    Done(Released),
    /// The candidate does not wait any more, and this one leads as before.
    Refused(Leadership),
}

impl Leadership {
    /// The term: the fencing token of this leadership, larger for every later one.
    pub fn term(&self) -> FencingToken {
        self.hold.fencing_token()
    }

    /// Whether it leads. Compares clocks when asked and sends nothing, so it is cheap enough for a readiness probe, and right even if no task
    /// ran in time.
    ///
    /// It is false before another can lead. It is true also while a renewal is unanswered, for the lease is its own until the deadline.
    pub fn is_leader(&self) -> bool {
        self.hold.end().is_none()
    }

    /// Changes what observers see of this leader.
    ///
    /// When it returns `Ok`, the server has the value, or a later one that this leadership has proclaimed meanwhile, and has told the observers.
    ///
    /// # Errors
    ///
    /// [`Config`](Error::Config) for more than 1,024 bytes, before anything is sent; [`Lost`](Error::Lost) if it leads no more, here or on the server;
    /// otherwise as for [`Client::inspect`](lockkeeper_core::Client::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves unknown whether the value was changed. An older value never comes back.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_election::Election;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let election = Election::new(&client, "scheduler").value("starting");
    /// let leadership = election.campaign().await?;
    /// leadership.proclaim("10.0.0.5:8080").await?;
    /// assert_eq!(election.leader().await?.map(|leader| leader.value).as_deref(), Some("10.0.0.5:8080"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        let value = value.as_ref();
        check(value)?;
        let number = self.proclaimed.fetch_add(1, Ordering::Relaxed) + 1;
        let label = self.hold.label();
        let item = |name: &Name, ask: RequestContext<'_>| {
            protocol::proclaim(name, ask, number, label.as_deref(), value)
        };
        let reply = self.hold.ask("proclaim the leader of", item).await?;
        self.leads(&reply, Status::Leader).await
    }

    /// Resigns and waits until the server has confirmed it: the next candidate leads then.
    ///
    /// # Errors
    ///
    /// [`Lost`](Error::Lost) at once if the leadership had been lost before; [`Backend`](Error::Backend) if the server did not confirm within the
    /// client's release timeout. It leads no more in every case, and what was not confirmed is repeated in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future is dropping the leadership.
    pub async fn resign(self) -> Result<Released> {
        self.hold.release().await
    }

    /// Resigns so that this candidate is the next to lead, whoever stands before it.
    ///
    /// First the candidate is put in front of the queue, while this one leads; if it does not wait any more, that is
    /// [`HandOver::Refused`], and nothing has changed. If it dies between that and the resignation, the next one leads.
    ///
    /// # Errors
    ///
    /// [`Lost`](Error::Lost) if it leads no more, here or on the server; otherwise as for [`resign`](Self::resign). It leads no more in every case.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future is dropping the leadership; who is the next may have changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_election::{Election, HandOver};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let election = Election::new(&client, "scheduler");
    /// let leadership = election.campaign().await?;
    /// # let standby = tokio::spawn(election.campaign().into_future());
    /// # tokio::time::sleep(Duration::from_secs(1)).await;
    /// let candidate = election.candidates().await?.remove(0);
    /// assert!(matches!(leadership.hand_over_to(&candidate).await?, HandOver::Done(_)));
    /// # assert!(standby.await.is_ok_and(|it| it.is_ok()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hand_over_to(self, candidate: &Waiter) -> Result<HandOver> {
        let item =
            |name: &Name, ask: RequestContext<'_>| protocol::prefer(name, ask, &candidate.claim);
        let reply = self.hold.ask("hand over", item).await?;
        self.leads(&reply, Status::Queued).await?;
        match reply.field(1).and_then(Value::as_i64) {
            Some(0) => Ok(HandOver::Refused(self)),
            _ => self.resign().await.map(HandOver::Done),
        }
    }

    /// Whether the reply is one to the leader. If it is not, the server says what has become of the claim.
    async fn leads(&self, reply: &Reply, expected: Status) -> Result<()> {
        if reply.status() == expected {
            return Ok(());
        }
        self.hold.verify().await?;
        Err(Error::unexpected(self.hold.name(), reply.status().as_str()))
    }
}

impl Guard for Leadership {}
impl Queued for Leadership {}
impl SingleServer for Leadership {}

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.hold
    }
}

impl From<Hold> for Leadership {
    fn from(hold: Hold) -> Self {
        Self {
            hold,
            proclaimed: AtomicU64::new(FIRST),
        }
    }
}

impl From<Leadership> for Hold {
    fn from(leadership: Leadership) -> Self {
        leadership.hold
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership")
            .field(self.hold.lease())
            .finish()
    }
}
