//! What locks of all kinds have in common, and how kinds make theirs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::majority::Majority;
use crate::acquire::plan::{Plan, Target};
use crate::acquire::{Acquire, TryAcquire};
use crate::admin::inspection::{self, Inspection};
use crate::admin::kind;
use crate::admin::permits::{self, Permits};
use crate::client::Client;
use crate::client::watch::Watch;
use crate::grant::guard::Guard;
use crate::grant::hold::Hold;
use crate::seam::protocol::{Protocol, RequestContext, ScriptCall};
use crate::seam::store::Reply;
use crate::words::error::Result;
use crate::words::holder::Waiter;
use crate::words::name::Name;
use crate::words::owner::Owner;
use crate::words::record::Record;
use crate::words::token::FencingToken;

/// A lock of any kind, for code that is generic over kinds.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_mutex::Mutex;
/// use lockkeeper_core::Lock;
///
/// async fn run_alone(lock: &impl Lock, work: impl AsyncFnOnce()) -> lockkeeper_core::Result<()> {
///     println!("waiting for {}", lock.name());
///     lock.acquire().hold(async |_| work().await).await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// run_alone(&Mutex::new(&client, "report"), async || ()).await
/// # }
/// ```
pub trait Lock: Clone + fmt::Debug + Send + Sync + 'static {
    /// What holds it.
    type Guard: Guard;

    /// What it acquires.
    fn plan(&self) -> Plan;

    /// Acquires, waiting for as long as it takes unless told otherwise.
    fn acquire(&self) -> Acquire<Self::Guard> {
        Acquire::new(self.plan())
    }

    /// Acquires if the lock can be had now.
    fn try_acquire(&self) -> TryAcquire<Self::Guard> {
        Acquire::new(self.plan())
    }

    /// What the lock is called; of several locks together, all their names.
    fn name(&self) -> String {
        self.plan().name()
    }

    /// Looks at the lock: one server, one result; several locks, one for each name; several servers, one for each server.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`], for the first that fails.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    fn inspect(&self) -> impl Future<Output = Result<Vec<Inspection>>> + Send {
        let plan = self.plan();
        async move { plan.inspect().await }
    }
}

impl Target {
    /// A lock called `name` on the client's server; `protocol` makes its kind's protocol of the checked name.
    pub fn new<P: Protocol>(client: &Client, name: &str, protocol: impl FnOnce(Name) -> P) -> Self {
        Self::of(&client.engine, name, |name| Ok(protocol(name)))
    }

    /// The same for a kind that needs more than a name, which may be wrong too: that is reported by the first acquisition.
    pub fn checked<P: Protocol>(
        client: &Client,
        name: &str,
        protocol: impl FnOnce(Name) -> Result<P>,
    ) -> Self {
        Self::of(&client.engine, name, protocol)
    }

    /// How many wait for the lock, of a kind with a queue, and where the first waiting acquisition of `owner` by this client
    /// stands, counted from one.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn queue(&self, owner: Option<&Owner>) -> Result<(u64, Option<u64>)> {
        inspection::queue(&self.engine, &**self.protocol()?, owner).await
    }

    /// How many permits there are and how many are held, of a kind with permits; with a `limit`, there are so many from now on. `None`
    /// if nobody holds and nobody waits: then the limit is that of whoever comes next.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`], and [`Error::Config`](crate::Error::Config) for another kind.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a limit that was sent may stand.
    pub async fn permits(&self, limit: Option<u32>) -> Result<Option<Permits>> {
        permits::limit(&self.engine, &**self.protocol()?, limit).await
    }

    /// What has come of the work of this name, of a kind that keeps it; `None` if nothing is kept. With a `forget`, the one that has this token is
    /// deleted, and one that has come since is returned.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`], and [`Error::Config`](crate::Error::Config) for another kind.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a record that was to be forgotten may be gone.
    pub async fn record(&self, forget: Option<FencingToken>) -> Result<Option<Record>> {
        inspection::record(&self.engine, &**self.protocol()?, forget).await
    }

    /// Asks the server what only locks of this kind are asked, in a request of no claim, until it answers, twice at most: run twice, it must
    /// have the effect of once. Errors say that one could not be `doing` the lock.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// That of what is asked: it may have been done.
    pub async fn ask(
        &self,
        doing: &'static str,
        question: impl Fn(&Name) -> ScriptCall,
    ) -> Result<Reply> {
        let protocol = &**self.protocol()?;
        let item = || question(protocol.name());
        inspection::of_kind(&self.engine, protocol, doing, item).await
    }

    /// Tells of every message on the name's channel, from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) for a bad name; [`Error::Closed`](crate::Error::Closed) if the client is.
    pub fn watch(&self) -> Result<Watch> {
        Watch::new(&self.engine, &self.protocol()?.channel())
    }

    /// Who waits for the lock, of a kind with a queue, as [`Client::waiters`].
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn waiters(&self, most: u32) -> Result<Vec<Waiter>> {
        inspection::waiters(&self.engine, self.protocol()?.name(), most).await
    }

    /// Looks at the lock, as [`Client::inspect`] does.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn inspect(&self) -> Result<Inspection> {
        kind::inspect(&self.engine, &**self.protocol()?).await
    }

    /// Asks whoever holds the lock to let it go, as [`Client::revoke`] does.
    ///
    /// # Errors
    ///
    /// As for [`Client::revoke`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::revoke`].
    pub async fn revoke(&self) -> Result<u64> {
        kind::revoke(&self.engine, &**self.protocol()?).await
    }

    /// Takes the lock away by force, as [`Client::force_release`] does.
    ///
    /// # Errors
    ///
    /// As for [`Client::force_release`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::force_release`].
    pub async fn force_release(&self, claim: &str) -> Result<bool> {
        kind::force_release(&self.engine, &**self.protocol()?, claim).await
    }
}

impl Hold {
    /// The label of the client that holds.
    pub fn label(&self) -> Option<Arc<str>> {
        let (_, engine) = self.only_part().ok()?;
        engine.settings.label()
    }

    /// Runs a script of its kind's own that is about its claim, maybe twice; as [`Target::ask`].
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](crate::Error::Lost) or [`Error::NotHeld`](crate::Error::NotHeld) if this hold has ended; otherwise as for
    /// [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves unknown whether the script ran.
    pub async fn ask(
        &self,
        doing: &'static str,
        item: impl Fn(&Name, RequestContext<'_>) -> ScriptCall,
    ) -> Result<Reply> {
        self.ensure_held()?;
        let (part, engine) = self.only_part()?;
        let protocol = &*part.protocol;
        let item = || item(protocol.name(), part.requester.ask(&part));
        inspection::of_kind(&engine, protocol, doing, item).await
    }
}

impl Plan {
    /// What all that is acquired is called.
    pub fn name(&self) -> String {
        let names: Vec<&str> = match self {
            Self::One(target) => vec![target.name()],
            Self::All(stages) => stages.iter().flatten().map(Target::name).collect(),
            Self::Majority(majority) => vec![majority.name()],
        };
        names.join(", ")
    }

    async fn inspect(&self) -> Result<Vec<Inspection>> {
        let targets: Vec<&Target> = match self {
            Self::One(target) => vec![target],
            Self::All(stages) => stages.iter().flatten().collect(),
            Self::Majority(majority) => majority.targets().collect(),
        };
        let mut seen = Vec::with_capacity(targets.len());
        for target in targets {
            seen.push(target.inspect().await?);
        }
        Ok(seen)
    }
}

impl Majority {
    /// A lock called `name` on the servers of these clients; `protocol` makes its kind's protocol of the checked name and the
    /// longest ttl that anybody uses, which is the longest of the clients' own.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) unless the clients are odd in number, three or more and each another one, or for
    /// a bad name.
    pub fn new<'a, P: Protocol>(
        clients: impl IntoIterator<Item = &'a Client>,
        name: &str,
        protocol: impl Fn(Name, Duration) -> P,
    ) -> Result<Self> {
        let engines: Vec<&Arc<_>> = clients.into_iter().map(|it| &it.engine).collect();
        Self::of(&engines, name, protocol)
    }
}
