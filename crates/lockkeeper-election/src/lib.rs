//! Exactly one of many instances in charge, and all know which.
//!
//! Users depend on `lockkeeper`, which has these types as `lockkeeper::Election` and so on.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod leader;
mod leadership;
mod protocol;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use lockkeeper_core::protocol::{Protocol, ScriptCall};
use lockkeeper_core::{Acquire, Client, Error, Lease, Lock, Name, Plan, Result, Target, Waiter};

pub use leader::{Leader, Leaders};
pub use leadership::{HandOver, Leadership};
use protocol::ElectionProtocol;

/// What an election called `name` asks and how it reads the answers: for models of it that drive the same protocol.
#[doc(hidden)]
pub fn protocol(name: Name, value: &str) -> Arc<dyn Protocol> {
    Arc::new(ElectionProtocol::new(name, None, value))
}

/// What asks who leads, for the same.
#[doc(hidden)]
pub fn leader_call(name: &Name) -> ScriptCall {
    protocol::leader(name)
}

/// The largest value, bytes: an address and what goes with it. Every observer receives it, and a server should not be held up by a large one.
const LARGEST: usize = 1_024;

/// How many candidates are shown at most: more than anybody reads.
const MOST_CANDIDATES: u32 = 1_000;

/// An election: of all who campaign under a name one at a time leads, in the order of asking.
///
/// # Which lock should I use?
///
/// This one if one of many instances is to be in charge for as long as it lives, and others must know which, and where it is reached. If
/// nobody needs to know, a [fair lock](https://docs.rs/lockkeeper/latest/lockkeeper/struct.FairLock.html) does; for work that is to be done once,
/// [`Once`](https://docs.rs/lockkeeper/latest/lockkeeper/struct.Once.html).
///
/// # How it works
///
/// Candidates stand in a queue on the server. The leader has a lease, which is renewed, and a *term*: its fencing token, larger for every later
/// leader. When it resigns, the script by which it does makes the next candidate the leader and tells it by one message; when it dies, the
/// next one leads after the end of its lease. What it is known by, its [value](Self::value), is stored with its claim and goes with it.
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
/// let election = Election::new(&client, "scheduler").value("10.0.0.5:8080");
/// let mut leaders = election.observe();
///
/// let leadership = election.campaign().await?;
/// while let Some(leader) = leaders.next().await {
///     // Known a moment after the grant.
///     if leader?.is_some_and(|leader| leader.value == "10.0.0.5:8080" && leader.term == leadership.term()) {
///         break;
///     }
/// }
/// assert!(leadership.is_leader());
/// leadership.resign().await?;
/// assert_eq!(election.leader().await?, None);
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **A new leader at the moment of a death.** A leader that crashes leads until its lease ends. The first candidate asks then, mostly within milliseconds, and
///   a third of the [waiter ttl](lockkeeper_core::ClientBuilder::waiter_ttl) later at the latest. A candidate that dies just when it is made the leader costs one
///   waiter ttl.
/// - **That observers know at once.** A message tells them of every new leader; one that is lost, and a leader that has died, they find out
///   by themselves within a third of the waiter ttl. What an observer knows may be over: hand the term to whatever the leader
///   changes, so that it can refuse an older one.
/// - **One leader when the server loses data.** As for every lease: after a failover that lost the grant, two may believe that they lead, for up to one
///   ttl. The later one has the larger term.
/// - **A vote.** The order of asking decides, not which candidate is fit to lead: let only those campaign that are.
#[derive(Clone)]
pub struct Election {
    target: Target,
    label: Option<Arc<str>>,
}

impl Election {
    /// The election called `name`. Nothing is sent; a bad name is reported by the first campaign.
    pub fn new(client: &Client, name: &str) -> Self {
        let label = client.label();
        let target = Target::new(client, name, |name| {
            ElectionProtocol::new(name, label.clone(), "")
        });
        Self { target, label }
    }

    /// What observers see of the leader that campaigns by this: most often where it is reached. At most 1,024 bytes, which the first campaign checks. It
    /// can be changed while it leads, by [`Leadership::proclaim`].
    #[must_use]
    pub fn value(&self, value: impl AsRef<str>) -> Self {
        let (value, label) = (value.as_ref(), self.label.clone());
        let target = self.target.by_checked(|name| {
            check(value)?;
            Ok(ElectionProtocol::new(name, label, value))
        });
        Self {
            target,
            label: self.label.clone(),
        }
    }

    /// Stands in the queue of candidates, for as long as it takes unless told otherwise, and leads.
    ///
    /// When it returns `Ok`, nobody else leads, and the lease of this leadership is renewed as long as it lives. What it is known by is
    /// told to the server in the background: observers know it a moment later.
    ///
    /// # Errors
    ///
    /// [`Timeout`](Error::Timeout) if a wait was set and has passed; [`QueueFull`](Error::QueueFull) if a [bound](Acquire::max_queue) was set
    /// and is reached; [`Backend`](Error::Backend) if the server refuses, or does not answer for one ttl, or for a longer wait that was set;
    /// [`WrongKind`](Error::WrongKind) if the name holds something else; [`Config`](Error::Config) for a bad name, value or ttl, before
    /// anything is sent; [`Closed`](Error::Closed) if the client is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the place in the queue up, also when it had been made the leader unseen.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_election::Election;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let election = Election::new(&client, "scheduler");
    /// let leadership = election.campaign().ttl(Duration::from_secs(10)).await?;
    /// let standby = election.campaign().wait_for(Duration::from_secs(1)).await;
    /// assert!(matches!(standby, Err(Error::Timeout { .. })));
    /// # drop(leadership);
    /// # Ok(())
    /// # }
    /// ```
    pub fn campaign(&self) -> Acquire<Leadership> {
        Acquire::new(self.target.clone())
    }

    /// Campaigns, does the work while it leads, and campaigns again whenever it leads no more, until the work says [`Break`](ControlFlow::Break).
    ///
    /// When the leadership is lost, the work is stopped at one of its awaits, by dropping it, before another can lead. Work that returns
    /// [`Continue`](ControlFlow::Continue) resigns and stands at the end of the queue again; work that returns `Break` resigns, and what it
    /// gives is returned. Work that ends just as its leadership is lost counts as stopped. If a task that the work
    /// has started still has a clone of the `Arc<Leadership>`, this one waits, and goes on leading, until that is dropped.
    ///
    /// # Errors
    ///
    /// As for [`campaign`](Self::campaign), but for those that are [transient](Error::is_transient): after those it campaigns again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future drops the work and resigns in the background, or gives the place in the queue up. To stop in order, let
    /// the work return `Break` when it is told to, and drop the future while it waits.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_election::Election;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let election = Election::new(&client, "scheduler");
    /// let last = election.run(|leadership| async move {
    ///     // … and now what only the leader does, until it is told to stop
    ///     ControlFlow::Break(leadership.term())
    /// });
    /// assert!(last.await?.get() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T, F>(&self, mut work: impl FnMut(Arc<Leadership>) -> F) -> Result<T>
    where
        F: Future<Output = ControlFlow<T>>,
    {
        loop {
            let leadership = match self.campaign().await {
                Ok(leadership) => Arc::new(leadership),
                // A campaign has tried for one ttl already.
                Err(error) if error.is_transient() => continue,
                Err(error) => return Err(error),
            };
            let lease = Lease::clone(&leadership);
            // What was lost is no news: somebody else may lead, and this one stands in the queue again.
            let Ok(done) = lease.run(work(Arc::clone(&leadership))).await else {
                continue;
            };
            match Arc::into_inner(leadership) {
                // A release without answer is repeated in the background, and the work is done.
                Some(leadership) => drop(leadership.resign().await),
                None => drop(lease.ended().await),
            }
            if let ControlFlow::Break(last) = done {
                return Ok(last);
            }
        }
    }

    /// Who leads; `None` if nobody does.
    ///
    /// When it returns `Ok`, nothing has changed. What it returns was so when the server was asked, and may be over.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// See [`Election`].
    pub async fn leader(&self) -> Result<Option<Leader>> {
        Leader::of(&self.target).await
    }

    /// What [`leader`](Self::leader) says, now and whenever that changes, in the order of terms: see [`Leaders`].
    pub fn observe(&self) -> Leaders {
        Leaders::new(self.target.clone())
    }

    /// Who waits to lead, in order, the first 1,000 of them; for [`Leadership::hand_over_to`]. Those that have died count until they are passed over.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// See [`Leadership::hand_over_to`].
    pub async fn candidates(&self) -> Result<Vec<Waiter>> {
        self.target.waiters(MOST_CANDIDATES).await
    }

    /// This election as one of several locks that are acquired together, by a `MultiLock`.
    pub fn target(&self) -> Target {
        self.target.clone()
    }
}

/// Whether a value can be proclaimed.
fn check(value: &str) -> Result<()> {
    match value.len() {
        ..=LARGEST => Ok(()),
        length => Err(Error::config(format!(
            "what a leader is known by must be at most {LARGEST} bytes long, this has {length}: say where the rest is"
        ))),
    }
}

impl Lock for Election {
    type Guard = Leadership;

    fn plan(&self) -> Plan {
        self.target.clone().into()
    }
}

impl From<&Election> for Target {
    fn from(election: &Election) -> Self {
        election.target()
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}
