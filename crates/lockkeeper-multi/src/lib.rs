//! Several locks at once, all or none.
//!
//! Users depend on `lockkeeper`, which has this type as `lockkeeper::MultiLock`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod plan;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Acquire, Error, Lease, Lock, Owner, Plan, Result, Target, TryAcquire};

use plan::{Facts, plan};

/// Several locks, of any kinds and of one or several servers, that are held all or none.
///
/// # Which lock should I use?
///
/// This one if a step touches several things that each have a lock of their own: two accounts, a tree and one of its leaves.
/// Taking them one by one in whatever order they come waits for ever as soon as somebody else takes them the other way round;
/// a multi-lock does not, however its members are listed. If the same things are always taken together, one lock for all of
/// them is simpler.
///
/// # How it works
///
/// Locks of one server, or of one slot of a cluster, are taken by one script while all of them are free: all or none, in one
/// round trip for any number of them, and let go by one. If one of them is taken, they are acquired one after the other instead:
/// each is waited for as a single lock of its kind is, while those before it are held.
///
/// What lies on another slot or server is taken after that. The order is the same in every process: by the
/// [name of the store](lockkeeper_core::ClientBuilder::store_name), which every client needs as soon as a multi-lock is over
/// several of them, then by slot and key. That is what keeps two of them from waiting for one another.
///
/// Under each name lies what its own kind writes. So a multi-lock and a single lock exclude one another, and each member has a
/// lease and a fencing token of its own.
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
/// - **One instant for all members.** Members that one script cannot take are acquired one after the other, and all leases
///   end at moments of their own. The whole is held from the last grant to the first end.
/// - **That a loss waits for your code.** When one member is lost none is renewed any more, also while work under the guard goes
///   on; the others stay on their servers until the guard is gone, or until their leases end. Run the work in
///   [`Lease::run`](lockkeeper_core::Lease::run), and hand each resource the token of its member.
/// - **That it holds nothing while it waits.** Members that are waited for one after the other are held meanwhile, and so kept from
///   others. In return nobody who needs one name passes one who needs many for ever: it has its place in the queue of each.
/// - **An end, if its leases do not outlast the collecting.** Members that are taken one after the other are held while the next
///   is waited for. Fixed leases, or a `max_hold`, that are shorter than that wait make it begin again each time, at the end of
///   every queue.
/// - **Protection from single locks inside.** Whoever holds a multi-lock and acquires one more lock by itself takes it out of
///   order, and two who do so can wait for one another. List it as a member, or use a wait that ends.
/// - **Order between stores without their names' being true.** Two processes that call the same server by different names take
///   its locks in different orders.
/// - **Exclusion when a server loses data, or between the last check and the write.** As for every lease; only a resource that
///   checks fencing tokens closes this.
#[derive(Clone)]
pub struct MultiLock {
    stages: Arc<[Vec<Target>]>,
}

impl MultiLock {
    /// A lock over these; their order does not matter. Locks of one kind can be listed by themselves, those of several kinds by
    /// their targets: `[mutex.target(), rwlock.reader().target()]`. One that is listed twice is taken once, a semaphore with
    /// its permits too. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`Config`](lockkeeper_core::Error::Config) for no member at all or a bad name; for two members of one name that differ in kind,
    /// mode, permits or owner; for members of several clients whose stores have no names, or share one; for more than 1,024 members of one
    /// server, or slot, that a script would take together.
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

    /// Acquires all members, waiting for as long as it takes unless told otherwise.
    ///
    /// When it returns `Ok`, every member is held, and their leases are renewed as long as the guard lives. A member that is lost
    /// while the others are collected makes it begin again, with new claims.
    ///
    /// # Errors
    ///
    /// [`Timeout`](lockkeeper_core::Error::Timeout) if a wait was set and has passed, with the name of the member that was waited for;
    /// [`Backend`](lockkeeper_core::Error::Backend) if a server refuses, or does not answer for one ttl, or for a longer wait that was set;
    /// [`WrongKind`](lockkeeper_core::Error::WrongKind) if a name holds something else;
    /// [`WouldDeadlock`](lockkeeper_core::Error::WouldDeadlock) if the owner reads a name that it is to write;
    /// [`Config`](lockkeeper_core::Error::Config) for a bad ttl, before anything is sent; [`Closed`](lockkeeper_core::Error::Closed) if one of the
    /// clients is. Nothing is held then: what was held in part is released in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives every claim up, also those that had been granted unseen.
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

    /// Acquires all members if they can be had now. `None` if one of them cannot: then nothing is held, and what had been taken
    /// in part was let go and its servers have said so, unless they did not answer within the client's release timeout.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), except that being held is no error; [`Lost`](lockkeeper_core::Error::Lost) if a member was lost while
    /// the others were asked for. A server that does not answer is asked once more and then reported.
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

/// The locks in the order in which they are taken; what is taken together stands in brackets of its own.
impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.stages).finish()
    }
}

lockkeeper_core::guard! {
    /// A held [`MultiLock`]. Dereferences to its [`Lease`](lockkeeper_core::Lease), which is valid as long as all its parts are: one
    /// for each lock, with a fencing token of its own. When one of them is lost all are, and
    /// [`Lost`](lockkeeper_core::Lost) says which it was.
    ///
    /// Its parts are released in the reverse order of acquiring. Every one is tried, whatever becomes of the others; a server that is
    /// silent does not keep them. What [`release`](Self::release) returns is what keeps others out for longest.
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
    pub struct MultiGuard: Queued, SingleServer;
}

impl MultiGuard {
    /// The lease of the lock called `name`; the first, if locks of several clients are called so.
    pub fn part(&self, name: &str) -> Option<Lease> {
        self.parts().into_iter().find(|part| part.name() == name)
    }
}
