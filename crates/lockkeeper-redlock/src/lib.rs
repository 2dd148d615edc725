//! One holder at a time, by a majority of independent servers, so that no single server is a point of failure.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::Redlock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod protocol;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{Acquire, Client, Lock, Majority, Name, Plan, Result, TryAcquire};
use protocol::RedlockProtocol;

/// A lock with one holder at a time, decided by a majority of independent servers.
///
/// # Which lock should I use?
///
/// Use this one if no single server may be a point of failure and no consensus store is available: with five servers,
/// any two may be down. It costs one or two round trips to acquire, to all servers at once, and needs a client for
/// each server. If a failover from one server to its replica is good enough, a `Mutex` is simpler. If you already run
/// etcd, ZooKeeper or a database with the right transactions, and a second holder would cost money, use that.
///
/// # The servers
///
/// Three or five servers (an odd number) that share nothing: separate machines, separate disks, no replication between
/// them. **No failover**: a replica that takes over has been up for a long time, so nothing shows that it lacks grants
/// of the primary. The lock cannot detect that two clients connect to the same server, which makes the majority
/// smaller than it seems.
///
/// A server that has been up for less than the [longest ttl](Self::longest_ttl) may have lost claims that are still
/// valid. It is *quarantined*: it answers, but grants nothing until then. So a server without persistence may crash
/// and come back, and new servers take part one ttl after their start. The lock cannot detect a server that drops
/// keys while it runs (`FLUSHALL`, a `maxmemory-policy` other than `noeviction`).
///
/// # How it works
///
/// Each attempt makes a new claim and asks all servers at once, each for at most a tenth of the ttl. It proposes one
/// fencing token to all of them, a little ahead of their clocks as far as the client knows them. When a majority
/// gives the same token, that is the lock's token, after one round trip. Otherwise the largest token of the majority
/// is written back to the other servers where the claim still holds. The lock is held when a majority has that token
/// and some of the ttl is left. Otherwise the claim is released on every server, including those that did not answer,
/// and the next attempt follows after a random pause. The client of each server renews that server's part after a
/// third of the ttl. The lease lasts while the parts of a majority do.
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
/// Martin Kleppmann ("How to do distributed locking", 2016) criticised Redlock. It has no fencing tokens, so a client
/// that is paused for longer than its lease writes after the next holder has. He saw no simple way to add them: a
/// counter on one server fails with that server, and counters on several servers get out of step, so it would likely
/// take consensus. And its *safety* depends on timing: on bounded delays, bounded pauses and clocks that do not jump.
/// An algorithm should lose only liveness when timing fails. His advice: for efficiency use a single server; for
/// correctness use a consensus system such as ZooKeeper, or at least a database with transactions, and fencing tokens
/// that the resource checks.
///
/// Salvatore Sanfilippo ("Is Redlock safe?", 2016) answered. The client checks the time again after it has reached
/// the majority, so earlier delays and pauses make an attempt fail, and do not make it unsafe; a pause after that
/// check is a problem of every lock that expires by itself. The clocks need not agree: they must only measure time
/// with a bounded error, which careful administration gives. A resource that refuses smaller tokens is already a
/// linearizable store, and then the lock's random value serves as well, with compare-and-set. He agreed that the time
/// should come from a monotonic clock.
///
/// For this implementation that means:
///
/// - **It does give fencing tokens.** They increase from holder to holder, even if the servers' clocks differ. A
///   resource that refuses a token smaller than one it has seen is safe from paused holders; any other resource is
///   not. The claim keeps the servers' counters in step: a majority has either given the token with the grant, or
///   accepted it by write-back while the claim still held. Any two majorities share a server, and on that server the
///   later claim draws a larger token. So data, not timing, orders the tokens: even if a clock jumps and two holders
///   are valid at once, their tokens are in order.
/// - **A server that loses its data forgets its tokens**, and starts again from its clock. Tokens still increase if
///   the data was lost by a restart and the servers' clocks differ by at most half the longest ttl. The server is
///   quarantined for the whole longest ttl.
/// - **Exclusion does depend on timing.** No server's clock may run faster, or be stepped forward, by more than the
///   margin (1 % of the ttl + 5 ms) within one lease. If the clocks of a majority do, or the clock of one server that
///   another claim needs for its majority, two holders may be valid at once. A server also uses its clock to know how
///   long it has been up: if a machine starts with a wrong time that is then set forward, its server takes part too
///   early. Set the clock before the server starts, and only slew it afterwards.
/// - **It checks the time after every step that takes time**, including the write-back of tokens, with a monotonic
///   clock of the client that continues while the machine sleeps; the servers use their wall clocks. What happens
///   between the last check and your write is not covered.
/// - **A held lock survives fewer failures than a new acquisition.** Servers that did not answer in time when the
///   lock was acquired take no part until the next acquisition.
///   [`Lease::valid_parts`](lockkeeper_core::Lease::valid_parts) returns how many servers take part.
/// - **Fairness, re-entry, shared reading.** Use the locks that have them, on one server. Callers that ask at the same
///   moment may all fail, and then try again.
/// - **Revocation by one call.** `revoke` through one client affects only that server's part. The lease is lost when
///   a majority of parts has been revoked.
#[derive(Clone)]
pub struct Redlock(Majority);

impl Redlock {
    /// Creates a handle to the lock called `name` on the servers of these clients. Each client counts as one server.
    /// Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`Config`](lockkeeper_core::Error::Config) unless there is an odd number of at least three clients, all of
    /// them different; and for an invalid name.
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

    /// Sets the longest ttl that **any** process uses for **any** Redlock on these servers (default: the longest of
    /// the clients' own). A restarted server is quarantined for that long. It must be the same in every process.
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

    /// Acquires the lock, waiting without a time limit unless you set one.
    ///
    /// When it returns `Ok`, this claim is the only one that holds a majority of the servers, and its lease is
    /// renewed while the guard lives.
    ///
    /// # Errors
    ///
    /// - [`Timeout`](lockkeeper_core::Error::Timeout) if a time limit was set and has passed;
    /// - [`Backend`](lockkeeper_core::Error::Backend), which names each server and its failure, if no majority
    ///   answers for one ttl or until the time limit, or if the servers are too slow for the ttl;
    /// - [`WrongKind`](lockkeeper_core::Error::WrongKind) if the name holds something else on so many servers that no
    ///   majority is left;
    /// - [`Config`](lockkeeper_core::Error::Config) for an invalid ttl, before anything is sent;
    /// - [`Closed`](lockkeeper_core::Error::Closed) if a majority of the clients are closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up the claim on every server, and releases it where it was granted
    /// without your code seeing it.
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

    /// Acquires the lock if a majority of the servers grants it now. Returns `None` if others hold it, or if several
    /// callers asked at the same moment and none got a majority.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that a held lock is not an error. If no majority answers, all
    /// servers are asked once more, and then the error names those that did not answer: at once if they are down,
    /// after a tenth of the ttl if they are silent.
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

/// The protocol of a Redlock called `name` on one of its servers. Not for users: it lacks the engine. The exhaustive
/// search drives it itself, so that it tests this object and not a copy of it.
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
    /// A held [`Redlock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease), which has a part for each server
    /// that granted the lock.
    ///
    /// When [`release`](Self::release) returns `Ok`, a majority has confirmed it. Servers that have not answered by
    /// then are released in the background; their parts expire by the end of the ttl in any case.
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
