//! The seam by which a kind of lock joins the simulation: its moves, and its abstract model in some twenty lines.
//!
//! To add a kind, write a unit struct, implement [`Model`] (who may hold together, how tokens follow one another, who holds
//! on the server) and [`Species`] (how it is acquired, released and taken once more), and give it a line in
//! `tests/simulate.rs` and in `tests/simulation.rs`. Everything else, from the faults to the checks, is the same for all.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use lockkeeper::{
    Acquire, Client, FairGuard, FairLock, Lease, Mutex, MutexGuard, Owner, ReentrantGuard,
    ReentrantLock, Released, Result, TryAcquire,
};
use lockkeeper_core::store::Value;
use lockkeeper_memory::MemoryStore;

/// One grant, as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who holds.
    pub owner: String,
    /// The claim that was granted.
    pub claim: String,
    /// The token it was given.
    pub token: u64,
    /// When the server answered, since the beginning of the history.
    pub from: Duration,
    /// Before when its lease cannot have run out on the server.
    pub until: Duration,
}

/// How long those who wait trust silence.
const SAFETY_POLL: Duration = Duration::from_secs(5);

/// How often who waits in a queue beats in the time for which one beat counts.
const BEATS_PER_WAITER_TTL: u32 = 3;

/// The grant that stands on the server, whoever brought it about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Who holds.
    pub owner: String,
    /// The token of the grant.
    pub token: u64,
    /// The claims that hold by it.
    pub claims: Vec<String>,
}

/// The abstract model of a kind.
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// Whether both owners may believe in these tokens at the same time.
    fn together(&self, one: (Owner, u64), other: (Owner, u64)) -> bool;

    /// Whether the server may answer with `next` when its last answer with a grant of this name was `last`.
    fn follows(&self, last: &Grant, next: &Grant) -> bool;

    /// For how long a name that has ended without a word may be free with somebody waiting, who beats so often: as if it
    /// had been told, unless the kind says why not.
    fn unheard(&self, _beat: Duration) -> Duration {
        Duration::ZERO
    }

    /// For how long a claim may hold whose leave has been sent, with waiters who beat so often: as if the leave had arrived,
    /// unless the kind says why not.
    fn abandoned(&self, _beat: Duration) -> Duration {
        Duration::ZERO
    }

    /// The grant that stands on the server; `None` if nobody holds, or if the kind grants nothing but in answer to the
    /// acquire of the one who is granted.
    fn standing(&self, _server: &MemoryStore, _main: &str) -> Option<Standing> {
        None
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

    /// The lock called `name`.
    fn lock(client: &Client, name: &str) -> Self::Lock;

    /// Acquires, waiting.
    fn acquire(lock: &Self::Lock, owner: &Owner) -> Acquire<Self::Guard>;

    /// Acquires if that is possible now.
    fn try_acquire(lock: &Self::Lock, owner: &Owner) -> TryAcquire<Self::Guard>;

    /// Takes the lock once more beside a guard; `None` if the kind knows no such thing.
    fn again(guard: &Self::Guard) -> impl Future<Output = Result<Option<Self::Guard>>> + Send;

    /// Releases and waits for the server's word.
    fn release(guard: Self::Guard) -> impl Future<Output = Result<Released>> + Send;
}

/// One holder at a time.
#[derive(Debug, Default)]
pub struct Mutexes;

impl Model for Mutexes {
    fn together(&self, _one: (Owner, u64), _other: (Owner, u64)) -> bool {
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
        let holder = holder.as_ref().and_then(Value::as_str).map(str::to_owned);
        holder.into_iter().collect()
    }
}

impl Species for Mutexes {
    type Lock = Mutex;
    type Guard = MutexGuard;

    const NAME: &'static str = "mutex";

    fn lock(client: &Client, name: &str) -> Mutex {
        Mutex::new(client, name)
    }

    fn acquire(lock: &Mutex, owner: &Owner) -> Acquire<MutexGuard> {
        lock.acquire().owner(owner)
    }

    fn try_acquire(lock: &Mutex, owner: &Owner) -> TryAcquire<MutexGuard> {
        lock.try_acquire().owner(owner)
    }

    async fn again(_guard: &MutexGuard) -> Result<Option<MutexGuard>> {
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
    fn together(&self, one: (Owner, u64), other: (Owner, u64)) -> bool {
        one == other
    }

    fn follows(&self, last: &Grant, next: &Grant) -> bool {
        last.token < next.token || last.token == next.token && last.owner == next.owner
    }

    /// When the claim with the longest lease goes before others, which then run out, those who wait were told the longer
    /// time.
    fn unheard(&self, _beat: Duration) -> Duration {
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

    fn acquire(lock: &ReentrantLock, owner: &Owner) -> Acquire<ReentrantGuard> {
        lock.acquire(owner)
    }

    fn try_acquire(lock: &ReentrantLock, owner: &Owner) -> TryAcquire<ReentrantGuard> {
        lock.try_acquire(owner)
    }

    async fn again(guard: &ReentrantGuard) -> Result<Option<ReentrantGuard>> {
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
    fn together(&self, one: (Owner, u64), other: (Owner, u64)) -> bool {
        one == other
    }

    fn follows(&self, last: &Grant, next: &Grant) -> bool {
        last.token < next.token || last.token == next.token && last.owner == next.owner
    }

    /// Nobody but the next beat notices the end of a lease.
    fn unheard(&self, beat: Duration) -> Duration {
        beat
    }

    /// Whoever stops waiting while no leave gets through counts as alive for one waiter ttl; granted in that time, they hold
    /// for another.
    fn abandoned(&self, beat: Duration) -> Duration {
        beat * BEATS_PER_WAITER_TTL
    }

    fn standing(&self, server: &MemoryStore, main: &str) -> Option<Standing> {
        let claims = live_claims(server, main);
        let fact = |field| {
            let fact = server.execute(&["HGET", main, field]).ok()?;
            fact.as_str().map(str::to_owned)
        };
        (!claims.is_empty()).then_some(())?;
        Some(Standing {
            owner: fact("owner")?,
            token: fact("token")?.parse().ok()?,
            claims,
        })
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

    fn acquire(lock: &FairLock, owner: &Owner) -> Acquire<FairGuard> {
        lock.acquire().owner(owner)
    }

    fn try_acquire(lock: &FairLock, owner: &Owner) -> TryAcquire<FairGuard> {
        lock.try_acquire().owner(owner)
    }

    async fn again(guard: &FairGuard) -> Result<Option<FairGuard>> {
        guard.reenter().await.map(Some)
    }

    fn release(guard: FairGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }
}

/// The claims alive in the HASH at `main`.
fn live_claims(server: &MemoryStore, main: &str) -> Vec<String> {
    let Ok(Value::List(fields)) = server.execute(&["HGETALL", main]) else {
        return Vec::new();
    };
    let time = server.execute(&["TIME"]).ok();
    let now = match &time {
        Some(Value::List(parts)) => match &parts[..] {
            [seconds, micros] => {
                seconds.as_i64().unwrap_or(0) * 1000 + micros.as_i64().unwrap_or(0) / 1000
            }
            _ => 0,
        },
        _ => 0,
    };
    let live = |field: &[Value]| match field {
        [claim, ends] if ends.as_i64().is_some_and(|ends| ends > now) => {
            let claim = claim.as_str().filter(|claim| claim.contains('/'));
            claim.map(str::to_owned)
        }
        _ => None,
    };
    fields.chunks(2).filter_map(live).collect()
}
