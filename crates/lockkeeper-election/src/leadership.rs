//! The guard that a leader holds.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::protocol::RequestContext;
use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{
    CoolsDown, Error, FencingToken, Guard, Hold, Lease, Name, Queued, Released, Result,
    SingleServer, Waiter,
};
use lockkeeper_lua::Status;

use crate::check;
use crate::protocol::{self, FIRST};

/// The leadership of an [`Election`](crate::Election). Dereferences to its [`Lease`].
///
/// Dropping it resigns in the background; [`resign`](Self::resign) waits for the server to confirm. Bind it to a name:
/// `let _ = …` drops it at once, and so resigns. `leadership.clone()` returns a `Lease`, which lets other code check
/// whether it still leads: [`Lease::end`] is `None` while it does.
#[must_use = "dropping a leadership resigns"]
pub struct Leadership {
    hold: Hold,
    /// The number of the last proclaimed value.
    proclaimed: AtomicU64,
}

/// The outcome of a hand-over.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there are exactly two outcomes")]
pub enum HandOver {
    /// This leadership has been resigned. The candidate leads, unless it has died since: then the next candidate
    /// leads.
    Done(Released),
    /// The candidate no longer waits, and this leader continues to lead.
    Refused(Leadership),
}

impl Leadership {
    /// The term: the fencing token of this leadership, larger for every later one.
    pub fn term(&self) -> FencingToken {
        self.hold.fencing_token()
    }

    /// Returns whether it still leads. This only compares clocks and sends nothing, so it is cheap enough for a
    /// readiness probe, and correct even if no task ran in time.
    ///
    /// It becomes false before another candidate can lead. It stays true while a renewal is unanswered, because the
    /// lease is valid until its deadline.
    pub fn is_leader(&self) -> bool {
        self.hold.end().is_none()
    }

    /// Changes the value that observers see.
    ///
    /// When it returns `Ok`, the server has stored the value, or a later one that this leadership has proclaimed
    /// since, and has notified the observers.
    ///
    /// # Errors
    ///
    /// [`Config`](Error::Config) for more than 1,024 bytes, before anything is sent; [`Lost`](Error::Lost) if it no
    /// longer leads, here or on the server; otherwise as for [`Client::inspect`](lockkeeper_core::Client::inspect).
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the value may or may not have been changed. An older value never comes back.
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

    /// Resigns and waits until the server has confirmed it. Then the next candidate leads.
    ///
    /// # Errors
    ///
    /// [`Lost`](Error::Lost) at once if the leadership was lost before; [`Backend`](Error::Backend) if the server did
    /// not confirm within the client's release timeout. In every case it no longer leads, and an unconfirmed release
    /// is repeated in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has the same effect as dropping the leadership.
    pub async fn resign(self) -> Result<Released> {
        self.hold.release().await
    }

    /// Resigns in favour of this candidate, wherever it stands in the queue.
    ///
    /// First the candidate is moved to the front of the queue, while this leader still leads. If it no longer waits,
    /// the result is [`HandOver::Refused`] and nothing has changed. If it dies between the move and the resignation,
    /// the next candidate leads.
    ///
    /// # Errors
    ///
    /// [`Lost`](Error::Lost) if it no longer leads, here or on the server; otherwise as for [`resign`](Self::resign).
    /// After an error it no longer leads.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has the same effect as dropping the leadership; the order of the candidates
    /// may have changed.
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

    /// Checks that the reply is one that a leader gets. After any other reply, it asks what became of the claim.
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
impl CoolsDown for Leadership {}

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
