//! Several locks at once, all or none.
//!
//! Use it through the crate `lockkeeper`, as `lockkeeper::MultiLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod plan;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Acquire, Error, Lease, Lock, Owner, Plan, Result, Target, TryAcquire};

use plan::{Facts, plan};

/// Several locks, of any kinds and on one or several servers, held all or none.
///
/// # Which lock should I use?
///
/// Use this one if one step of your program touches several things that each have their own lock: two accounts, a tree
/// and one of its leaves. If two callers take such locks one by one in opposite orders, both wait for ever. A
/// multi-lock takes its members in the same order in every process, whatever the order in the list. If the same things
/// are always locked together, one lock for all of them is simpler.
///
/// # How it works
///
/// Locks on one server, or in one slot of a cluster, are acquired by one script when all of them are free: all or
/// none, in one round trip for any number of them. One script releases them. If one of them is held, they are acquired
/// one after the other instead. Each of these acquisitions waits as one for a single lock of its kind does, while the
/// ones before it are held.
///
/// Members in another slot or on another server are acquired after that. The order is the same in every process: by
/// the [name of the store](lockkeeper_core::ClientBuilder::store_name), then by slot and key. That is why two
/// multi-locks never wait for each other. If a multi-lock spans several clients, each of them needs a store name.
///
/// Each name stores the data of its own kind. So a multi-lock and a single lock exclude each other, and each member
/// has its own lease and fencing token.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_multi::MultiLock;
/// # use lockkeeper_mutex::Mutex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// let (from, to) = (Mutex::new(&client, "account:7"), Mutex::new(&client, "account:9"));
/// let both = MultiLock::new([&from, &to])?;
///
/// let guard = both.acquire().await?;
/// for lease in guard.parts() {
///     println!("token for {}: {}", lease.name(), lease.fencing_token());
/// }
/// assert!(from.try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **A transaction.** When one member is lost, all are; what was written under them until then stays written.
/// - **One instant for all members.** Members that one script cannot acquire are acquired one after the other, and
///   each lease has its own end. All of them are held together from the last grant to the first end.
/// - **That a loss waits for your code.** When one member is lost, none is renewed any more, even while work under
///   the guard continues; the others stay on their servers until the guard is gone or their leases end. Run the work
///   in [`Lease::run`](lockkeeper_core::Lease::run), and pass each resource the token of its own member.
/// - **That it holds nothing while it waits.** When members are acquired one after the other, the ones already
///   acquired are unavailable to others meanwhile. In return a caller that needs many names has a place in the queue
///   of each, so callers that need one name cannot pass it for ever.
/// - **Progress, if its leases are shorter than the time to acquire all members.** Members that are acquired one
///   after the other are held while it waits for the next. If fixed leases or a `max_hold` are shorter than that
///   wait, it starts again each time, at the end of every queue.
/// - **Protection when you acquire another lock inside.** A lock that you acquire while holding a multi-lock is out
///   of order, and two callers that do so can wait for each other. List it as a member, or set a time limit.
/// - **Order between stores that have wrong names.** Two processes that call the same server by different names take
///   its locks in different orders.
/// - **Exclusion when a server loses data, or between the last check and the write.** This is true of every lease.
///   Only a resource that checks fencing tokens closes the gap.
#[derive(Clone)]
pub struct MultiLock {
    stages: Arc<[Vec<Target>]>,
}

impl MultiLock {
    /// Creates a lock over these members; their order does not matter. Members of one kind can be listed directly,
    /// members of several kinds by their targets: `[mutex.target(), rwlock.reader().target()]`. A member that is
    /// listed twice is taken once, and so are a semaphore's permits. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`Config`](lockkeeper_core::Error::Config) if:
    ///
    /// - there is no member, or a name is invalid;
    /// - two members of one name differ in kind, mode, permits or owner;
    /// - members belong to several clients, and their stores have no names or share one;
    /// - one script would acquire more than 1,024 members, which are on one server or in one slot.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_multi::MultiLock;
    /// # use lockkeeper_rwlock::RwLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let prices = RwLock::new(&client, "prices");
    /// let refused = MultiLock::new([prices.reader().target(), prices.writer().target()]);
    /// assert!(matches!(refused, Err(Error::Config { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new<T: Into<Target>>(locks: impl IntoIterator<Item = T>) -> Result<Self> {
        let targets: Vec<Target> = locks.into_iter().map(Into::into).collect();
        let facts: Vec<_> = targets.iter().map(facts).collect::<Result<_>>()?;
        let stages = plan(&facts).map_err(|refusal| Error::config(refusal.to_string()))?;
        let stage = |stage: Vec<usize>| stage.into_iter().map(|at| targets[at].clone()).collect();
        Ok(Self {
            stages: stages.into_iter().map(stage).collect(),
        })
    }

    /// Acquires all members, waiting without a time limit unless you set one.
    ///
    /// When it returns `Ok`, every member is held, and their leases are renewed while the guard lives. If a member is
    /// lost while others are being acquired, the acquisition starts again with new claims.
    ///
    /// # Errors
    ///
    /// - [`Timeout`](lockkeeper_core::Error::Timeout), with the name of the member it waited for, if a time limit was
    ///   set and has passed;
    /// - [`Backend`](lockkeeper_core::Error::Backend) if a server refuses, or does not answer for one ttl or for the
    ///   time limit, whichever is longer;
    /// - [`WrongKind`](lockkeeper_core::Error::WrongKind) if a name holds something else;
    /// - [`WouldDeadlock`](lockkeeper_core::Error::WouldDeadlock) if the owner reads a name that it is to write;
    /// - [`Config`](lockkeeper_core::Error::Config) for an invalid ttl, before anything is sent;
    /// - [`Closed`](lockkeeper_core::Error::Closed) if one of the clients is closed.
    ///
    /// After an error nothing is held: members that were already acquired are released in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up every claim, and releases those that were granted without your code
    /// seeing it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_multi::MultiLock;
    /// # use lockkeeper_fair::FairLock;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let (printer, paper) = (FairLock::new(&client, "printer"), Mutex::new(&client, "paper"));
    /// let _printing = printer.acquire().await?;
    /// let both = MultiLock::new([printer.target(), paper.target()])?;
    /// let late = both.acquire().wait_for(Duration::from_secs(1)).await;
    /// assert!(matches!(late, Err(Error::Timeout { name, .. }) if name == "printer"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire<MultiGuard> {
        Acquire::new(Lock::plan(self))
    }

    /// Acquires all members if they are free now. Returns `None` if one of them is not: then nothing is held. Members
    /// that had been acquired were released, and their servers have confirmed it unless they did not answer within
    /// the client's release timeout.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that a held lock is not an error;
    /// [`Lost`](lockkeeper_core::Error::Lost) if a member was lost while the others were being acquired. If a server
    /// does not answer, the request is sent once more before the error is returned.
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
    /// # use lockkeeper_multi::MultiLock;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let (one, other) = (Mutex::new(&client, "one"), Mutex::new(&client, "other"));
    /// let held = other.acquire().await?;
    /// let both = MultiLock::new([&one, &other])?;
    /// assert!(both.try_acquire().await?.is_none());
    /// assert!(one.try_acquire().await?.is_some());
    /// # drop(held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> TryAcquire<MultiGuard> {
        Acquire::new(Lock::plan(self))
    }
}

impl Lock for MultiLock {
    type Guard = MultiGuard;

    fn plan(&self) -> Plan {
        Plan::all(Arc::clone(&self.stages))
    }
}

fn facts(target: &Target) -> Result<Facts<Owner>> {
    Ok(Facts {
        store: target.store_name().map(|name| name.to_string()),
        client: target.client(),
        group: target.group()?,
        key: target.key()?.to_owned(),
        mode: target.mode()?,
        owner: target.own_owner(),
    })
}

/// Shows the locks in the order in which they are acquired; locks that are acquired together are in brackets of their
/// own.
impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.stages).finish()
    }
}

lockkeeper_core::guard! {
    /// A held [`MultiLock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease), which is valid while all its parts
    /// are: one for each lock, with its own fencing token. When one of them is lost, all are, and
    /// [`Lost`](lockkeeper_core::Lost) names it.
    ///
    /// Its parts are released in the reverse order of acquiring. All of them are tried, even if some fail; a silent
    /// server does not delay the others. [`release`](Self::release) returns the result that keeps others out for
    /// longest.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, LossReason};
    /// # use lockkeeper_multi::MultiLock;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let (order, stock) = (Mutex::new(&client, "order:7"), Mutex::new(&client, "stock"));
    /// let guard = MultiLock::new([&order, &stock])?.acquire().await?;
    /// for part in guard.parts() {
    ///     println!("what {} protects is told {}", part.name(), part.fencing_token());
    /// }
    /// client.revoke("stock").await?;
    /// let lost = guard.lost().await;
    /// assert_eq!((lost.name.as_str(), lost.reason), ("stock", LossReason::Revoked));
    /// # Ok(())
    /// # }
    /// ```
    pub struct MultiGuard: Queued, SingleServer, CoolsDown;
}

impl MultiGuard {
    /// Returns the lease of the lock called `name`; if locks of several clients have this name, the first.
    pub fn part(&self, name: &str) -> Option<Lease> {
        self.parts().into_iter().find(|part| part.name() == name)
    }
}
