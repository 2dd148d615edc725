//! What a test is about: one kind of lock, by the words that all kinds share.

use std::fmt;
use std::ops::Deref;

use lockkeeper::{
    Acquire, Client, Lease, Mutex, MutexGuard, Owner, ReentrantGuard, ReentrantLock, Released,
    Result, TryAcquire,
};

/// A kind of lock whose holders exclude one another.
pub trait Subject: Clone + fmt::Debug + Send + Sync + 'static {
    /// Its guard.
    type Guard: Deref<Target = Lease> + fmt::Debug + Send + Sync + 'static;

    /// The lock called `name`.
    fn new(client: &Client, name: &str) -> Self;

    /// Acquires for a new owner, waiting.
    fn acquire(&self) -> Acquire<Self::Guard>;

    /// Acquires for a new owner if the lock is free.
    fn try_acquire(&self) -> TryAcquire<Self::Guard>;

    /// Releases and waits for the server's word.
    fn release(guard: Self::Guard) -> impl Future<Output = Result<Released>> + Send;

    /// Acquires, runs `work`, releases.
    fn hold<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> impl Future<Output = Result<T>>;
}

impl Subject for Mutex {
    type Guard = MutexGuard;

    fn new(client: &Client, name: &str) -> Self {
        Self::new(client, name)
    }

    fn acquire(&self) -> Acquire<MutexGuard> {
        self.acquire()
    }

    fn try_acquire(&self) -> TryAcquire<MutexGuard> {
        self.try_acquire()
    }

    fn release(guard: MutexGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }

    fn hold<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> impl Future<Output = Result<T>> {
        self.hold(work)
    }
}

/// A re-entrant lock of owners that never meet themselves: each acquisition is for a new one.
#[derive(Debug, Clone)]
pub struct Reentrant {
    client: Client,
    lock: ReentrantLock,
}

impl Reentrant {
    fn owner(&self) -> Owner {
        self.client.new_owner()
    }
}

impl Subject for Reentrant {
    type Guard = ReentrantGuard;

    fn new(client: &Client, name: &str) -> Self {
        Self {
            client: client.clone(),
            lock: ReentrantLock::new(client, name),
        }
    }

    fn acquire(&self) -> Acquire<ReentrantGuard> {
        self.lock.acquire(&self.owner())
    }

    fn try_acquire(&self) -> TryAcquire<ReentrantGuard> {
        self.lock.try_acquire(&self.owner())
    }

    fn release(guard: ReentrantGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }

    async fn hold<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> Result<T> {
        self.lock.hold(&self.owner(), work).await
    }
}
