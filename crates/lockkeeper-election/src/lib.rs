//! Exactly one of many instances in charge, and everybody knows which.
//!
//! Use it through the crate `lockkeeper`, which re-exports these types: `lockkeeper::Election` and so on.

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

/// The protocol of an election called `name`: its requests and how it reads the replies. For models of it that drive
/// the same protocol.
#[doc(hidden)]
pub fn protocol(name: Name, value: &str) -> Arc<dyn Protocol> {
    Arc::new(ElectionProtocol::new(name, None, value))
}

/// The request that asks who leads, for the same models.
#[doc(hidden)]
pub fn leader_call(name: &Name) -> ScriptCall {
    protocol::leader(name)
}

/// The largest value, in bytes: enough for an address and some more. Every observer receives it, and a large value
/// would hold up the server.
const LARGEST: usize = 1_024;

/// The most candidates that are returned: more than anybody reads.
const MOST_CANDIDATES: u32 = 1_000;

/// Elects a leader: of all candidates for one name, one at a time leads, in the order in which they asked.
///
/// # Which lock should I use?
///
/// Use this one if one of many instances must be in charge for as long as it lives, and others must know which one and
/// how to reach it. If nobody needs to know, a [fair
/// lock](https://docs.rs/lockkeeper/latest/lockkeeper/struct.FairLock.html) is enough; for work that must be done
/// once, use [`Once`](https://docs.rs/lockkeeper/latest/lockkeeper/struct.Once.html).
///
/// # How it works
///
/// Candidates wait in a queue on the server. The leader has a lease, which is renewed, and a *term*: its fencing
/// token, larger for every later leader. When the leader resigns, the same script makes the next candidate the leader
/// and notifies it with one message. When the leader dies, the next candidate leads after the end of the lease. The
/// leader's [value](Self::value), for example its address, is stored with its claim and deleted with it.
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
/// - **A new leader immediately after a crash.** A leader that crashes leads until its lease ends. Then the first
///   candidate asks, usually within milliseconds, and at the latest a third of the [waiter
///   ttl](lockkeeper_core::ClientBuilder::waiter_ttl) later. A candidate that dies just as it becomes the leader
///   costs one waiter ttl.
/// - **That observers know at once.** A message tells them about every new leader, and about a resignation after which
///   nobody leads. If the message is lost, the leader dies, or it resigns before its value was stored, they notice by
///   themselves within a third of the waiter ttl. What an observer knows may be out of
///   date: pass the term to each resource that the leader changes, so that the resource can refuse an older one.
/// - **One leader when the server loses data.** This is true of every lease: after a failover that lost the grant,
///   two candidates may both consider themselves the leader for up to one ttl. The later one has the larger term.
/// - **A vote.** The order of asking decides, not which candidate is fit to lead: start only candidates that are fit.
#[derive(Clone)]
pub struct Election {
    target: Target,
    label: Option<Arc<str>>,
}

impl Election {
    /// Creates a handle to the election called `name`. Nothing is sent; an invalid name is reported by the first
    /// campaign.
    pub fn new(client: &Client, name: &str) -> Self {
        let label = client.label();
        let target = Target::new(client, name, |name| {
            ElectionProtocol::new(name, label.clone(), "")
        });
        Self { target, label }
    }

    /// Sets the value that observers see while this candidate leads, usually the address at which others reach it. At
    /// most 1,024 bytes; a longer value is reported by the first campaign. [`Leadership::proclaim`] changes it later.
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

    /// Joins the queue of candidates and waits until this candidate leads, without a time limit unless you set one.
    ///
    /// When it returns `Ok`, nobody else leads, and the lease of this leadership is renewed while it lives. The value
    /// is sent in the background, so observers know it a moment later.
    ///
    /// # Errors
    ///
    /// - [`Timeout`](Error::Timeout) if a time limit was set and has passed;
    /// - [`QueueFull`](Error::QueueFull) if a [bound](Acquire::max_queue) was set and is reached;
    /// - [`Backend`](Error::Backend) if the server refuses, or does not answer for one ttl or for the time limit,
    ///   whichever is longer;
    /// - [`WrongKind`](Error::WrongKind) if the name holds something else;
    /// - [`Config`](Error::Config) for an invalid name, value or ttl, before anything is sent;
    /// - [`Closed`](Error::Closed) if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future withdraws the candidate from the queue, and resigns if it became the leader
    /// without your code seeing it.
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

    /// Campaigns, runs the work while it leads, and campaigns again when it no longer leads, until the work returns
    /// [`Break`](ControlFlow::Break).
    ///
    /// When the leadership is lost, the work is dropped at one of its await points, before another candidate can lead.
    /// Work that returns [`Continue`](ControlFlow::Continue) resigns and rejoins at the end of the queue. Work that
    /// returns `Break` resigns, and its value is returned. Work that ends just as its leadership is lost counts as
    /// stopped. If a task that the work started still has a clone of the `Arc<Leadership>`, this method waits until
    /// the clone is dropped, and continues to lead meanwhile.
    ///
    /// # Errors
    ///
    /// As for [`campaign`](Self::campaign), except for [transient](Error::is_transient) errors, after which it
    /// campaigns again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future drops the work and resigns in the background, or withdraws from the queue. For
    /// an orderly stop, let the work return `Break` when your program asks it to, and drop the future if it is
    /// waiting.
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
                // The campaign has already tried for one ttl.
                Err(error) if error.is_transient() => continue,
                Err(error) => return Err(error),
            };
            let lease = Lease::clone(&leadership);
            // A loss is not reported: another candidate may lead, and this one rejoins the queue.
            let Ok(done) = lease.run(work(Arc::clone(&leadership))).await else {
                continue;
            };
            match Arc::into_inner(leadership) {
                // The result is ignored: an unanswered release is repeated in the background, and the work is done.
                Some(leadership) => drop(leadership.resign().await),
                None => drop(lease.ended().await),
            }
            if let ControlFlow::Break(last) = done {
                return Ok(last);
            }
        }
    }

    /// Returns the current leader; `None` if nobody leads.
    ///
    /// When it returns `Ok`, nothing has changed. The result was true when the server answered, and may be out of
    /// date.
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

    /// Returns a stream that gives what [`leader`](Self::leader) returns, now and at each change, in the order of
    /// terms. See [`Leaders`].
    pub fn observe(&self) -> Leaders {
        Leaders::new(self.target.clone())
    }

    /// Returns the candidates that wait to lead, in order, at most the first 1,000. Use it to choose one for
    /// [`Leadership::hand_over_to`]. Dead candidates count until they are passed over.
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

    /// Returns this election as a member of a `MultiLock`, which acquires several locks together.
    pub fn target(&self) -> Target {
        self.target.clone()
    }
}

/// Checks that a value can be proclaimed.
fn check(value: &str) -> Result<()> {
    match value.len() {
        ..=LARGEST => Ok(()),
        length => Err(Error::config(format!(
            "the value of a leader must be at most {LARGEST} bytes long, this one has {length}: store the rest elsewhere and its location here"
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
