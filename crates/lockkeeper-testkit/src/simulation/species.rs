//! The seam by which a kind of lock joins the simulation: its moves, and its abstract model in some twenty lines.
//!
//! To add a kind, write a unit struct, implement [`Model`] (who may hold together, how tokens follow one another, who holds
//! on the server) and [`Species`] (how it is acquired, released, taken once more and, if it has modes, changed), and give it
//! a line in `tests/simulate.rs` and in `tests/simulation.rs`. Everything else, from the faults to the checks, is the same
//! for all.

mod modes;

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{
    Acquire, Client, FairGuard, FairLock, Guard, Lease, Mutex, MutexGuard, Owner, ReentrantGuard,
    ReentrantLock, Released, Result,
};
use lockkeeper_core::store::Value;
use lockkeeper_memory::MemoryStore;

pub use modes::{RwGuard, RwLocks};

/// One grant, as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who holds.
    pub owner: String,
    /// The claim that was granted.
    pub claim: String,
    /// The token it was given.
    pub token: u64,
    /// It is one to read.
    pub reads: bool,
    /// When the server answered, since the beginning of the history.
    pub from: Duration,
    /// Before when its lease cannot have run out on the server.
    pub until: Duration,
}

/// How long those who wait trust silence.
const SAFETY_POLL: Duration = Duration::from_secs(5);

/// How often who waits in a queue heartbeats in the time for which one heartbeat counts.
const HEARTBEATS_PER_WAITER_TTL: u32 = 3;

/// Who holds, on the server or as the client believes, whoever brought it about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Who holds.
    pub owner: String,
    /// The token of the grant.
    pub token: u64,
    /// It is held to read.
    pub reads: bool,
    /// The claims that hold by it, if that is known.
    pub claims: Vec<String>,
}

impl Standing {
    /// Whether one owner holds by one grant.
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        self.owner == other.owner && self.token == other.token
    }
}

/// How an acquisition is to go.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// The length of its lease, if not the client's.
    pub ttl: Option<Duration>,
    /// The lease is not renewed.
    pub fixed: bool,
    /// For how long it is held at most.
    pub max_hold: Option<Duration>,
    /// For how long it waits at most.
    pub wait: Option<Duration>,
}

impl Terms {
    fn of<G: Guard>(self, mut acquire: Acquire<G>) -> Asking<G> {
        if let Some(ttl) = self.ttl {
            acquire = acquire.ttl(ttl);
        }
        if self.fixed {
            acquire = acquire.no_renewal();
        }
        if let Some(longest) = self.max_hold {
            acquire = acquire.max_hold(longest);
        }
        if let Some(longest) = self.wait {
            acquire = acquire.wait_for(longest);
        }
        acquire.into_future()
    }
}

/// An acquisition under way.
pub type Asking<G> = Pin<Box<dyn Future<Output = Result<G>> + Send>>;

/// The same of one that does not wait.
pub type Trying<G> = Asking<Option<G>>;

/// What came of a guard that was to change its mode.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Changed<G> {
    /// Another guard has taken its place.
    Done(G),
    /// It is what it was.
    Refused(G),
}

/// The abstract model of a kind.
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// Whether both may hold, or believe to hold, at the same time.
    fn together(&self, one: &Standing, other: &Standing) -> bool;

    /// Whether the server may answer with `next` when its last answer with a grant of this name, or with one that is not to
    /// read, was `last`.
    fn follows(&self, last: &Grant, next: &Grant) -> bool;

    /// Whether `next` may have a token that `first` was the first to have.
    fn shares(&self, _first: &Grant, _next: &Grant) -> bool {
        true
    }

    /// For how long a name that has ended without a word may be free with somebody waiting, with a heartbeat so often: as if it
    /// had been told, unless the kind says why not.
    fn unheard(&self, _heartbeat: Duration) -> Duration {
        Duration::ZERO
    }

    /// For how long a claim may hold whose leave has been sent, with waiters who heartbeat so often: as if the leave had arrived,
    /// unless the kind says why not.
    fn abandoned(&self, _heartbeat: Duration) -> Duration {
        Duration::ZERO
    }

    /// The grants that stand on the server; none if nobody holds, or if the kind grants nothing but in answer to the acquire
    /// of the one who is granted.
    fn standing(&self, _server: &MemoryStore, _main: &str) -> Vec<Standing> {
        Vec::new()
    }

    /// Whether a name that `holders` hold is there for the next who waits.
    fn is_free(&self, _server: &MemoryStore, _main: &str, holders: &[String]) -> bool {
        holders.is_empty()
    }

    /// The claims that hold the name whose main key this is.
    fn holders(&self, server: &MemoryStore, main: &str) -> Vec<String>;
}

/// What clients can do with a kind.
pub trait Species: Model + Default {
    /// A lock of this kind.
    type Lock: Clone + Send + Sync + 'static;
    /// Its guard.
    type Guard: Deref<Target = Lease> + Send + Sync + 'static;

    /// How it is called on the command line.
    const NAME: &'static str;

    /// Whether its guards have modes, between which they change.
    const MODES: bool = false;

    /// The lock called `name`.
    fn lock(client: &Client, name: &str) -> Self::Lock;

    /// Acquires, waiting, in a mode by chance.
    fn acquire(
        lock: &Self::Lock,
        owner: &Owner,
        terms: Terms,
        random: &mut Rng,
    ) -> Asking<Self::Guard>;

    /// Acquires if that is possible now, in a mode by chance.
    fn try_acquire(lock: &Self::Lock, owner: &Owner, random: &mut Rng) -> Trying<Self::Guard>;

    /// Whether a guard is one to read.
    fn reads(_guard: &Self::Guard) -> bool {
        false
    }

    /// Takes the lock once more beside a guard; `None` if the kind knows no such thing.
    fn again(
        guard: &Self::Guard,
        random: &mut Rng,
    ) -> impl Future<Output = Result<Option<Self::Guard>>> + Send;

    /// Changes the mode of a guard, if the kind has modes.
    fn change(guard: Self::Guard) -> impl Future<Output = Result<Changed<Self::Guard>>> + Send {
        async { Ok(Changed::Refused(guard)) }
    }

    /// Releases and waits for the server's word.
    fn release(guard: Self::Guard) -> impl Future<Output = Result<Released>> + Send;
}

/// One holder at a time.
#[derive(Debug, Default)]
pub struct Mutexes;

impl Model for Mutexes {
    fn together(&self, _one: &Standing, _other: &Standing) -> bool {
        false
    }

    fn follows(&self, last: &Grant, next: &Grant) -> bool {
        let repeated = last.claim == next.claim;
        if repeated && next.from < last.until {
            last.token == next.token
        } else {
            last.token < next.token || repeated && last.token == next.token
        }
    }

    fn holders(&self, server: &MemoryStore, main: &str) -> Vec<String> {
        let holder = server.execute(&["GET", main]).ok();
        let holder = holder.as_ref().and_then(Value::as_str);
        let claim = |holder: &str| holder.strip_prefix("revoked:").unwrap_or(holder).to_owned();
        holder.map(claim).into_iter().collect()
    }
}

impl Species for Mutexes {
    type Lock = Mutex;
    type Guard = MutexGuard;

    const NAME: &'static str = "mutex";

    fn lock(client: &Client, name: &str) -> Mutex {
        Mutex::new(client, name)
    }

    fn acquire(lock: &Mutex, owner: &Owner, terms: Terms, _: &mut Rng) -> Asking<MutexGuard> {
        terms.of(lock.acquire().owner(owner))
    }

    fn try_acquire(lock: &Mutex, owner: &Owner, _: &mut Rng) -> Trying<MutexGuard> {
        lock.try_acquire().owner(owner).into_future()
    }

    async fn again(_guard: &MutexGuard, _: &mut Rng) -> Result<Option<MutexGuard>> {
        Ok(None)
    }

    fn release(guard: MutexGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }
}

/// One owner at a time, with any number of claims, which share a token.
#[derive(Debug, Default)]
pub struct Reentrants;

impl Model for Reentrants {
    fn together(&self, one: &Standing, other: &Standing) -> bool {
        one.is_one_with(other)
    }

    fn follows(&self, last: &Grant, next: &Grant) -> bool {
        last.token < next.token || last.token == next.token && last.owner == next.owner
    }

    /// When the claim with the longest lease goes before others, which then run out, those who wait were told the longer
    /// time.
    fn unheard(&self, _heartbeat: Duration) -> Duration {
        SAFETY_POLL
    }

    fn holders(&self, server: &MemoryStore, main: &str) -> Vec<String> {
        live_claims(server, main)
    }
}

impl Species for Reentrants {
    type Lock = ReentrantLock;
    type Guard = ReentrantGuard;

    const NAME: &'static str = "reentrant";

    fn lock(client: &Client, name: &str) -> ReentrantLock {
        ReentrantLock::new(client, name)
    }

    fn acquire(
        lock: &ReentrantLock,
        owner: &Owner,
        terms: Terms,
        _: &mut Rng,
    ) -> Asking<ReentrantGuard> {
        terms.of(lock.acquire().owner(owner))
    }

    fn try_acquire(lock: &ReentrantLock, owner: &Owner, _: &mut Rng) -> Trying<ReentrantGuard> {
        lock.try_acquire().owner(owner).into_future()
    }

    async fn again(guard: &ReentrantGuard, _: &mut Rng) -> Result<Option<ReentrantGuard>> {
        guard.reenter().await.map(Some)
    }

    fn release(guard: ReentrantGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }
}

/// One owner at a time, first come, first served.
#[derive(Debug, Default)]
pub struct Fairs;

impl Model for Fairs {
    fn together(&self, one: &Standing, other: &Standing) -> bool {
        one.is_one_with(other)
    }

    fn follows(&self, last: &Grant, next: &Grant) -> bool {
        last.token < next.token || last.token == next.token && last.owner == next.owner
    }

    /// Nobody but the next heartbeat notices the end of a lease.
    fn unheard(&self, heartbeat: Duration) -> Duration {
        heartbeat
    }

    /// Whoever stops waiting while no leave gets through counts as alive for one waiter ttl; granted in that time, they hold
    /// for another.
    fn abandoned(&self, heartbeat: Duration) -> Duration {
        heartbeat * HEARTBEATS_PER_WAITER_TTL
    }

    fn standing(&self, server: &MemoryStore, main: &str) -> Vec<Standing> {
        holder(server, main).into_iter().collect()
    }

    fn holders(&self, server: &MemoryStore, main: &str) -> Vec<String> {
        live_claims(server, main)
    }
}

impl Species for Fairs {
    type Lock = FairLock;
    type Guard = FairGuard;

    const NAME: &'static str = "fair";

    fn lock(client: &Client, name: &str) -> FairLock {
        FairLock::new(client, name)
    }

    fn acquire(lock: &FairLock, owner: &Owner, terms: Terms, _: &mut Rng) -> Asking<FairGuard> {
        terms.of(lock.acquire().owner(owner))
    }

    fn try_acquire(lock: &FairLock, owner: &Owner, _: &mut Rng) -> Trying<FairGuard> {
        lock.try_acquire().owner(owner).into_future()
    }

    async fn again(guard: &FairGuard, _: &mut Rng) -> Result<Option<FairGuard>> {
        guard.reenter().await.map(Some)
    }

    fn release(guard: FairGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }
}

/// The owner in the HASH at `main` with its claims that are alive, if there are any.
fn holder(server: &MemoryStore, main: &str) -> Option<Standing> {
    let claims = live_claims(server, main);
    let fact = |field| {
        let fact = server.execute(&["HGET", main, field]).ok()?;
        fact.as_str().map(str::to_owned)
    };
    (!claims.is_empty()).then_some(())?;
    Some(Standing {
        owner: fact("owner")?,
        token: fact("token")?.parse().ok()?,
        reads: false,
        claims,
    })
}

/// The claims alive in the HASH at `main`.
fn live_claims(server: &MemoryStore, main: &str) -> Vec<String> {
    let Ok(Value::List(fields)) = server.execute(&["HGETALL", main]) else {
        return Vec::new();
    };
    let now = server_now(server);
    let live = |field: &[Value]| match field {
        [claim, ends] if ends.as_i64().is_some_and(|ends| ends > now) => {
            let claim = claim.as_str().filter(|claim| claim.contains('/'));
            claim.map(str::to_owned)
        }
        _ => None,
    };
    fields.chunks(2).filter_map(live).collect()
}

/// The server's time, ms.
fn server_now(server: &MemoryStore) -> i64 {
    let time = server.execute(&["TIME"]).ok();
    match &time {
        Some(Value::List(parts)) => match &parts[..] {
            [seconds, micros] => {
                seconds.as_i64().unwrap_or(0) * 1000 + micros.as_i64().unwrap_or(0) / 1000
            }
            _ => 0,
        },
        _ => 0,
    }
}
