//! One holder at a time, by a majority of independent servers: no single one of them is a point of failure.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::Redlock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod protocol;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{Acquire, Client, Lock, Majority, Name, Plan, Result, TryAcquire};
use protocol::RedlockProtocol;

/// A lock with one holder at a time that a majority of independent servers decides about.
///
/// # Which lock should I use?
///
/// This one if no single server may be a point of failure and there is no consensus store at hand: of five servers any two may
/// be down. It costs one or two round trips to acquire, to all servers at once, and needs a client for each. If a failover of one
/// server with its replica is good enough, a `Mutex` is simpler. If there is an etcd, a ZooKeeper or a database with the
/// right transactions in the house, and a second holder would cost money, use that.
///
/// # The servers
///
/// Three or five servers (an odd number) that share nothing: other machines, other disks, no replication among them. **No
/// failover**: a replica that takes over has been up for long and is not seen to lack what the primary had granted. The
/// same server listed twice by two clients cannot be seen here and makes a majority of fewer servers.
///
/// A server that has been up for less than the [longest ttl](Self::longest_ttl) may have lost claims that are still believed
/// in. It stays *out*: it answers and grants nothing until then. So a server without persistence may crash and come back, and
/// servers that are new take part one ttl after their start. Persistence and eviction: a server that drops keys while it runs
/// (`FLUSHALL`, a `maxmemory-policy` other than `noeviction`) is not noticed.
///
/// # How it works
///
/// Each attempt makes a new claim and asks all servers at once, each for at most a tenth of the ttl. It proposes one fencing token
/// to all of them, a little ahead of their clocks as far as the client has seen them. When a majority has given the same token, that is
/// the lock's, after one round trip. Otherwise the largest token of a majority is written back to the others, where the claim still
/// holds. When a majority has it, and the time that all this took leaves something of the ttl, the lock is held. Otherwise the claim
/// leaves every server, also those that did not answer, and the next attempt follows after a random pause. Each server's part is
/// renewed by its own client when a third of the ttl has passed; the lease lasts as long as the parts of a majority.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use std::sync::Arc;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_redlock::Redlock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let connect = || Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()));
/// let (a, b, c) = (connect()?, connect()?, connect()?); // three servers
/// let lock = Redlock::new([&a, &b, &c], "nightly-report")?;
/// let guard = lock.acquire().wait_for(Duration::from_secs(5)).await?;
/// println!("token for the ledger: {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// Martin Kleppmann ("How to do distributed locking", 2016) said of Redlock: it has no fencing tokens, so a client that is
/// paused for longer than its lease writes after the next one has. He saw no simple way to add them: a counter on one server
/// fails with it, and counters on several go out of step, so it would likely take consensus. And its *safety* rests on timing,
/// on bounded delays, bounded pauses and clocks that do not jump, where an algorithm should lose no more than liveness when
/// timing fails. His advice: for efficiency a single server, for correctness a consensus system such as ZooKeeper, or at least
/// a database with transactions, and fencing tokens that the resource checks.
///
/// Salvatore Sanfilippo ("Is Redlock safe?", 2016) answered: the time is looked at again after the majority was reached, so
/// delays and pauses before that make an attempt fail and not unsafe; a pause behind it is the trouble of every lock that
/// expires by itself, whoever keeps it. The clocks need not agree, only count time with a bounded error, which careful
/// administration gives. A resource that refuses smaller tokens is a linearizable store already, and then the lock's random
/// value serves as well, by compare-and-set. He agreed that the time should come from a monotonic clock.
///
/// What follows for this implementation:
///
/// - **It does give fencing tokens**, which increase from holder to holder, also with server clocks that are apart. A resource
///   that refuses a token smaller than one it has seen is safe from paused holders. One that cannot is not. What keeps the
///   servers' counters in step is the claim: a majority has given the token with the grant, or has taken it back where the claim
///   still holds. Any two majorities share a server, on which the claim that came later draws a larger token.
///   So it is data and not timing that orders tokens: when a clock jumps and two believe, their tokens are still in order.
/// - **A server that loses its data forgets its tokens**, and begins again with its clock. Tokens increase even then as long as
///   it was lost by a restart and the servers' clocks are no further apart than half the longest ttl. It stays out for the
///   whole of that.
/// - **Exclusion does rest on timing.** No server's clock may run faster, or be stepped forward, by more than the margin (1 % of
///   the ttl + 5 ms) within one lease. If the clocks of a majority do, or a clock of one server that others depend on for their
///   majority, two holders may believe. For how long a server has been up it knows by its clock, too: a machine that is started
///   with a wrong time and then set forward comes back too early. Set the clock before the server starts, and let it be slewed.
/// - **It looks at the time after everything that takes time**, also after the tokens are written back, by a clock of the client
///   that neither steps nor stops while the machine sleeps; the servers count by their wall clocks. What happens between the
///   last look and your write is not covered.
/// - **It survives fewer losses while it is held than before.** Servers that did not answer in time when it was acquired take no
///   part until the next acquisition. [`Lease::valid_parts`](lockkeeper_core::Lease::valid_parts) tells how many do.
/// - **Fairness, re-entry, reading beside one another.** Use the locks that have them, on one server. Rivals that ask at the same
///   moment may all fail, and ask again.
/// - **Revoking** by one client's `revoke` concerns that server's part. The lease is lost when a majority of parts was revoked.
#[derive(Clone)]
pub struct Redlock(Majority);

impl Redlock {
    /// The lock called `name` on the servers of these clients, each of which counts as one. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`Config`](lockkeeper_core::Error::Config) unless there is an odd number of clients, three or more, all of them
    /// different; and for a bad name.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let connect = || Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()));
    /// let (a, b) = (connect()?, connect()?);
    /// assert!(matches!(Redlock::new([&a, &b], "report"), Err(Error::Config { .. })));
    /// assert!(matches!(Redlock::new([&a, &b, &a], "report"), Err(Error::Config { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new<'a>(clients: impl IntoIterator<Item = &'a Client>, name: &str) -> Result<Self> {
        Majority::new(clients, name, RedlockProtocol::new).map(Self)
    }

    /// The longest ttl that **any** process uses for **any** Redlock on these servers (default: the longest of the clients' own).
    /// For so long a server that was started again stays out. It must be the same in every process.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let connect = || Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()));
    /// # let (a, b, c) = (connect()?, connect()?, connect()?);
    /// let minute = Duration::from_secs(60);
    /// let lock = Redlock::new([&a, &b, &c], "report")?.longest_ttl(minute);
    /// lock.acquire().ttl(minute).await?.release().await?;
    /// let too_long = lock.acquire().ttl(minute * 2).await;
    /// assert!(matches!(too_long, Err(Error::Config { .. })));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn longest_ttl(self, longest: Duration) -> Self {
        Self(self.0.longest_ttl(longest, RedlockProtocol::new))
    }

    /// Acquires, waiting for as long as it takes unless told otherwise.
    ///
    /// When it returns `Ok`, this claim is the only holder by a majority of the servers, and its lease is renewed as long as the
    /// guard lives.
    ///
    /// # Errors
    ///
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed;
    /// [`Backend`](lockkeeper_core::Error::Backend), which names the servers and says what each failed with, if no majority
    /// answers for one ttl or until the wait is over, or if the servers are too slow for the ttl;
    /// [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else on so many servers that no majority is
    /// left; [`Config`](lockkeeper_core::Error::Config) for a bad ttl, before anything is sent;
    /// [`Closed`](lockkeeper_core::Error::Closed) if a majority of the clients are.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives the claim up on every server, also where it had been granted unseen.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let connect = || Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()));
    /// # let (a, b, c) = (connect()?, connect()?, connect()?);
    /// let lock = Redlock::new([&a, &b, &c], "report")?;
    /// let _guard = lock.acquire().ttl(Duration::from_secs(10)).await?;
    /// let late = lock.acquire().wait_for(Duration::from_millis(100)).await;
    /// assert!(matches!(late, Err(Error::Timeout { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire<RedlockGuard> {
        Acquire::new(self.0.clone())
    }

    /// Acquires if a majority of the servers grants now. `None` if others hold, or if rivals asked at the same moment and
    /// nobody got a majority.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that being held is no error. If no majority answers, all are asked once more,
    /// and then the error names those that did not: with dead servers at once, with silent ones after a tenth of the ttl.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let connect = || Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()));
    /// # let (a, b, c) = (connect()?, connect()?, connect()?);
    /// let Some(guard) = Redlock::new([&a, &b, &c], "nightly")?.try_acquire().await? else {
    ///     return Ok(()); // another machine does it
    /// };
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> TryAcquire<RedlockGuard> {
        Acquire::new(self.0.clone())
    }
}

/// The protocol of a Redlock called `name` on one of its servers. Not for users: the engine's part is missing. The exhaustive
/// search drives it by itself, so that it tests this object and not a copy of it.
#[doc(hidden)]
#[must_use]
pub fn protocol(name: Name, longest: Duration) -> Arc<dyn Protocol> {
    Arc::new(RedlockProtocol::new(name, longest))
}

impl Lock for Redlock {
    type Guard = RedlockGuard;

    fn plan(&self) -> Plan {
        self.0.clone().into()
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

lockkeeper_core::guard! {
    /// A held [`Redlock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease), which has a part for each server that granted.
    ///
    /// When [`release`](Self::release) returns `Ok`, a majority has confirmed it. Servers that have not answered by then are told
    /// in the background, and free by the end of the ttl in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Released};
    /// # use lockkeeper_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let connect = || Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()));
    /// # let (a, b, c) = (connect()?, connect()?, connect()?);
    /// let guard = Redlock::new([&a, &b, &c], "report")?.acquire().await?;
    /// assert_eq!(guard.valid_parts(), 3);
    /// assert_eq!(guard.release().await?, Released::Free);
    /// # Ok(())
    /// # }
    /// ```
    pub struct RedlockGuard;
}
