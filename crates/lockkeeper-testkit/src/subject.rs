//! What a test is about: one kind of lock, by the words that all kinds share.

use std::fmt;
use std::ops::Deref;

use lockkeeper::{
    Acquire, Client, FairGuard, FairLock, Lease, Mutex, MutexGuard, Owner, ReadGuard,
    ReentrantGuard, ReentrantLock, Released, Result, RwLock, TryAcquire, WriteGuard,
};
use lockkeeper_lua::{Script, fair, mutex, reentrant, rwlock};

/// A kind of lock, or one mode of it.
pub trait Subject: Clone + fmt::Debug + Send + Sync + 'static {
    /// What its holders exclude and are excluded by: of most kinds it itself.
    type Rival: Subject;

    /// Its guard.
    type Guard: Deref<Target = Lease> + fmt::Debug + Send + Sync + 'static;

    /// The script by which a claim is made a holder.
    const ACQUIRE: &'static Script;
    /// The one that renews.
    const RENEW: &'static Script;
    /// The one that leaves when every acquire was answered.
    const LEAVE: &'static Script;
    /// The one that leaves when an acquire may still be executed.
    const LEAVE_MARKED: &'static Script;

    /// Whether those who wait stand in a queue on the server.
    const QUEUES: bool = false;

    /// Whether its holders hold together.
    const SHARED: bool = false;

    /// The key that stands on the server while it is held by the name `name`.
    const HELD: &'static str = "lockkeeper:name";

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
    type Rival = Self;
    type Guard = MutexGuard;

    const ACQUIRE: &'static Script = &mutex::ACQUIRE;
    const RENEW: &'static Script = &mutex::RENEW;
    const LEAVE: &'static Script = &mutex::LEAVE;
    const LEAVE_MARKED: &'static Script = &mutex::LEAVE_MARKED;

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
    type Rival = Self;
    type Guard = ReentrantGuard;

    const ACQUIRE: &'static Script = &reentrant::ACQUIRE;
    const RENEW: &'static Script = &reentrant::RENEW;
    const LEAVE: &'static Script = &reentrant::LEAVE;
    const LEAVE_MARKED: &'static Script = &reentrant::LEAVE_MARKED;

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

impl Subject for FairLock {
    type Rival = Self;
    type Guard = FairGuard;

    const ACQUIRE: &'static Script = &fair::ACQUIRE;
    const RENEW: &'static Script = &reentrant::RENEW;
    const LEAVE: &'static Script = &fair::LEAVE;
    const LEAVE_MARKED: &'static Script = &fair::LEAVE;
    const QUEUES: bool = true;

    fn new(client: &Client, name: &str) -> Self {
        Self::new(client, name)
    }

    fn acquire(&self) -> Acquire<FairGuard> {
        self.acquire()
    }

    fn try_acquire(&self) -> TryAcquire<FairGuard> {
        self.try_acquire()
    }

    fn release(guard: FairGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }

    fn hold<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> impl Future<Output = Result<T>> {
        self.hold(work)
    }
}

/// A read-write lock, by its writers.
impl Subject for RwLock {
    type Rival = Self;
    type Guard = WriteGuard;

    const ACQUIRE: &'static Script = &rwlock::ACQUIRE;
    const RENEW: &'static Script = &reentrant::RENEW;
    const LEAVE: &'static Script = &rwlock::LEAVE;
    const LEAVE_MARKED: &'static Script = &rwlock::LEAVE;
    const QUEUES: bool = true;

    fn new(client: &Client, name: &str) -> Self {
        Self::new(client, name)
    }

    fn acquire(&self) -> Acquire<WriteGuard> {
        self.write()
    }

    fn try_acquire(&self) -> TryAcquire<WriteGuard> {
        self.try_write()
    }

    fn release(guard: WriteGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }

    fn hold<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> impl Future<Output = Result<T>> {
        self.hold_to_write(work)
    }
}

/// A read-write lock, by its readers.
#[derive(Debug, Clone)]
pub struct Readers(RwLock);

impl Subject for Readers {
    type Rival = RwLock;
    type Guard = ReadGuard;

    const ACQUIRE: &'static Script = &rwlock::ACQUIRE;
    const RENEW: &'static Script = &rwlock::RENEW_READ;
    const LEAVE: &'static Script = &rwlock::LEAVE;
    const LEAVE_MARKED: &'static Script = &rwlock::LEAVE;
    const QUEUES: bool = true;
    const SHARED: bool = true;
    const HELD: &'static str = "lockkeeper.readers:{lockkeeper:name}";

    fn new(client: &Client, name: &str) -> Self {
        Self(RwLock::new(client, name))
    }

    fn acquire(&self) -> Acquire<ReadGuard> {
        self.0.read()
    }

    fn try_acquire(&self) -> TryAcquire<ReadGuard> {
        self.0.try_read()
    }

    fn release(guard: ReadGuard) -> impl Future<Output = Result<Released>> + Send {
        guard.release()
    }

    fn hold<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> impl Future<Output = Result<T>> {
        self.0.hold_to_read(work)
    }
}
