//! What kinds on one server and the Redlock have in common, by the same words: so much of the contract suite is for both.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use lockkeeper::{
    Acquire, Client, ClientBuilder, Ended, FencingToken, Lease, LeaseState, Lost, QuorumAcquire,
    QuorumLease, QuorumTryAcquire, Redlock, RedlockGuard, Released, Result, TryAcquire,
};
use lockkeeper_core::store::Store;

use crate::site::Site;
use crate::subject::Subject;

/// A [`Subject`], or a [`Majority`].
pub trait Common: Clone + fmt::Debug + Send + Sync + 'static {
    /// What one process has of clients.
    type Party: Party;

    /// As [`Subject::Rival`].
    type Rival: Common<Party = Self::Party>;

    /// What its guard shows.
    type Lease: Held;

    /// Its acquisition that waits.
    type Acquire: Asking<Self::Guard>;

    /// Its acquisition that does not.
    type TryAcquire: IntoFuture<Output = Result<Option<Self::Guard>>, IntoFuture: Send> + Send;

    /// Its guard.
    type Guard: Deref<Target = Self::Lease> + fmt::Debug + Send + Sync + 'static;

    /// As [`Subject::SHARED`].
    const SHARED: bool;

    /// As [`Subject::HELD`].
    const HELD: &'static str;

    /// The lock called `name`, which must be a good one.
    fn new(party: &Self::Party, name: &str) -> Self;

    /// Acquires for a new owner, waiting.
    fn acquire(&self) -> Self::Acquire;

    /// Acquires for a new owner if the lock is free.
    fn try_acquire(&self) -> Self::TryAcquire;

    /// Releases and waits for the servers' word.
    fn release(guard: Self::Guard) -> impl Future<Output = Result<Released>> + Send;

    /// Acquires, runs `work`, releases.
    fn hold<T>(&self, work: impl AsyncFnOnce(Self::Lease) -> T) -> impl Future<Output = Result<T>>;
}

impl<S: Subject> Common for S {
    type Party = Client;
    type Rival = S::Rival;
    type Lease = Lease;
    type Acquire = Acquire<S::Guard>;
    type TryAcquire = TryAcquire<S::Guard>;
    type Guard = S::Guard;

    const SHARED: bool = S::SHARED;
    const HELD: &'static str = S::HELD;

    fn new(client: &Client, name: &str) -> Self {
        <S as Subject>::new(client, name)
    }

    fn acquire(&self) -> Acquire<S::Guard> {
        Subject::acquire(self)
    }

    fn try_acquire(&self) -> TryAcquire<S::Guard> {
        Subject::try_acquire(self)
    }

    fn release(guard: S::Guard) -> impl Future<Output = Result<Released>> + Send {
        <S as Subject>::release(guard)
    }

    fn hold<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> impl Future<Output = Result<T>> {
        Subject::hold(self, work)
    }
}

/// A Redlock on all servers of a site.
///
/// What does not fit it: `min_hold`, which it does not have; inspecting, revoking and forcing, which are about one server;
/// the report of closing, which each client makes of its own part; and bad names, which it refuses before there is anything
/// to acquire. Nor does a real server that has just been started, which stays out for one longest ttl, longer than the suite
/// waits.
#[derive(Debug, Clone)]
pub struct Majority(Redlock);

impl Common for Majority {
    type Party = Vec<Client>;
    type Rival = Self;
    type Lease = QuorumLease;
    type Acquire = QuorumAcquire<RedlockGuard>;
    type TryAcquire = QuorumTryAcquire<RedlockGuard>;
    type Guard = RedlockGuard;

    const SHARED: bool = false;
    const HELD: &'static str = "lockkeeper:name";

    #[expect(clippy::expect_used, reason = "a test names its locks well")]
    fn new(clients: &Vec<Client>, name: &str) -> Self {
        Self(Redlock::new(clients, name).expect("a good name and enough clients"))
    }

    fn acquire(&self) -> QuorumAcquire<RedlockGuard> {
        self.0.acquire()
    }

    fn try_acquire(&self) -> QuorumTryAcquire<RedlockGuard> {
        self.0.try_acquire()
    }

    fn release(guard: RedlockGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }

    fn hold<T>(&self, work: impl AsyncFnOnce(QuorumLease) -> T) -> impl Future<Output = Result<T>> {
        self.0.hold(work)
    }
}

/// The clients of one process.
pub trait Party: Sized + Clone + Send + Sync + 'static {
    /// Those that a kind needs on this site, each by a connection of its own that goes `through` this.
    fn connect(
        site: &dyn Site,
        settings: ClientBuilder,
        through: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> impl Future<Output = anyhow::Result<Self>> + Send;
}

impl Party for Client {
    async fn connect(
        site: &dyn Site,
        settings: ClientBuilder,
        through: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        Ok(settings.build(through(site.store().await?))?)
    }
}

impl Party for Vec<Client> {
    async fn connect(
        site: &dyn Site,
        settings: ClientBuilder,
        through: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        let stores = site.stores().await?.into_iter();
        let clients = stores.map(|store| settings.clone().build(through(store)));
        let clients: Result<Self> = clients.collect();
        clients.context("no client")
    }
}

/// An acquisition before it is awaited.
pub trait Asking<G>:
    IntoFuture<Output = Result<G>, IntoFuture: Send + 'static> + Send + 'static
{
    /// As [`Acquire::ttl`].
    fn ttl(self, ttl: Duration) -> Self;
    /// As [`Acquire::no_renewal`].
    fn no_renewal(self) -> Self;
    /// As [`Acquire::max_hold`].
    fn max_hold(self, longest: Duration) -> Self;
    /// As [`Acquire::wait_for`].
    fn wait_for(self, longest: Duration) -> Self;
    /// As [`Acquire::wait_until`].
    fn wait_until(self, instant: std::time::Instant) -> Self;
}

/// A lease, or the part of it that a guard shows.
pub trait Held: Clone + fmt::Debug + Send + Sync + 'static {
    /// As [`Lease::fencing_token`].
    fn fencing_token(&self) -> FencingToken;
    /// As [`Lease::remaining`].
    fn remaining(&self) -> Duration;
    /// As [`Lease::state`].
    fn state(&self) -> LeaseState;
    /// As [`Lease::ensure_held`].
    fn ensure_held(&self) -> Result<()>;
    /// As [`Lease::verify`].
    fn verify(&self) -> impl Future<Output = Result<()>> + Send;
    /// As [`Lease::lost`].
    fn lost(&self) -> Lost;
    /// As [`Lease::ended`].
    fn ended(&self) -> Ended;
    /// As [`Lease::run`].
    fn run<F: Future>(&self, future: F) -> impl Future<Output = Result<F::Output>>;
}

macro_rules! common {
    ($acquire:ident, $lease:ident) => {
        impl<G: 'static> Asking<G> for $acquire<G> {
            fn ttl(self, ttl: Duration) -> Self {
                self.ttl(ttl)
            }

            fn no_renewal(self) -> Self {
                self.no_renewal()
            }

            fn max_hold(self, longest: Duration) -> Self {
                self.max_hold(longest)
            }

            fn wait_for(self, longest: Duration) -> Self {
                self.wait_for(longest)
            }

            fn wait_until(self, instant: std::time::Instant) -> Self {
                self.wait_until(instant)
            }
        }

        impl Held for $lease {
            fn fencing_token(&self) -> FencingToken {
                self.fencing_token()
            }

            fn remaining(&self) -> Duration {
                self.remaining()
            }

            fn state(&self) -> LeaseState {
                self.state()
            }

            fn ensure_held(&self) -> Result<()> {
                self.ensure_held()
            }

            fn verify(&self) -> impl Future<Output = Result<()>> + Send {
                self.verify()
            }

            fn lost(&self) -> Lost {
                self.lost()
            }

            fn ended(&self) -> Ended {
                self.ended()
            }

            fn run<F: Future>(&self, future: F) -> impl Future<Output = Result<F::Output>> {
                self.run(future)
            }
        }
    };
}

common!(Acquire, Lease);
common!(QuorumAcquire, QuorumLease);
