//! What a test is about: one kind of lock, by the words that all kinds share.

use lockkeeper::{
    Client, FairLock, Lock, Mutex, Reader, ReentrantLock, RwLock, SingleServer, Writer,
};
use lockkeeper_lua::{Script, fair, mutex, reentrant, rwlock};

/// A kind of lock on one server, or one mode of it.
pub trait Subject: Lock<Guard: SingleServer> {
    /// What its holders exclude and are excluded by: of most kinds it itself.
    type Rival: Subject;

    /// The script by which a claim is made a holder.
    const ACQUIRE: &'static Script;
    /// The one that renews.
    const RENEW: &'static Script;
    /// The one that leaves when every acquire was answered.
    const RELEASE: &'static Script;
    /// The one that leaves when an acquire may still be executed.
    const RELEASE_IN_DOUBT: &'static Script;

    /// Whether those who wait stand in a queue on the server.
    const QUEUES: bool = false;

    /// Whether its holders hold together.
    const SHARED: bool = false;

    /// The key that stands on the server while it is held by the name `name`.
    const HELD: &'static str = "lockkeeper:name";

    /// The lock called `name`.
    fn new(client: &Client, name: &str) -> Self;
}

impl Subject for Mutex {
    type Rival = Self;

    const ACQUIRE: &'static Script = &mutex::ACQUIRE;
    const RENEW: &'static Script = &mutex::RENEW;
    const RELEASE: &'static Script = &mutex::RELEASE;
    const RELEASE_IN_DOUBT: &'static Script = &mutex::RELEASE_IN_DOUBT;

    fn new(client: &Client, name: &str) -> Self {
        Self::new(client, name)
    }
}

/// Of owners that never meet themselves: each acquisition is for a new one.
impl Subject for ReentrantLock {
    type Rival = Self;

    const ACQUIRE: &'static Script = &reentrant::ACQUIRE;
    const RENEW: &'static Script = &reentrant::RENEW;
    const RELEASE: &'static Script = &reentrant::RELEASE;
    const RELEASE_IN_DOUBT: &'static Script = &reentrant::RELEASE_IN_DOUBT;

    fn new(client: &Client, name: &str) -> Self {
        Self::new(client, name)
    }
}

impl Subject for FairLock {
    type Rival = Self;

    const ACQUIRE: &'static Script = &fair::ACQUIRE;
    const RENEW: &'static Script = &reentrant::RENEW;
    const RELEASE: &'static Script = &fair::RELEASE;
    const RELEASE_IN_DOUBT: &'static Script = &fair::RELEASE;
    const QUEUES: bool = true;

    fn new(client: &Client, name: &str) -> Self {
        Self::new(client, name)
    }
}

/// A read-write lock, by its writers.
impl Subject for Writer {
    type Rival = Self;

    const ACQUIRE: &'static Script = &rwlock::ACQUIRE;
    const RENEW: &'static Script = &reentrant::RENEW;
    const RELEASE: &'static Script = &rwlock::RELEASE;
    const RELEASE_IN_DOUBT: &'static Script = &rwlock::RELEASE;
    const QUEUES: bool = true;

    fn new(client: &Client, name: &str) -> Self {
        RwLock::new(client, name).writer()
    }
}

/// A read-write lock, by its readers.
impl Subject for Reader {
    type Rival = Writer;

    const ACQUIRE: &'static Script = &rwlock::ACQUIRE;
    const RENEW: &'static Script = &rwlock::RENEW_READ;
    const RELEASE: &'static Script = &rwlock::RELEASE;
    const RELEASE_IN_DOUBT: &'static Script = &rwlock::RELEASE;
    const QUEUES: bool = true;
    const SHARED: bool = true;
    const HELD: &'static str = "lockkeeper.readers:{lockkeeper:name}";

    fn new(client: &Client, name: &str) -> Self {
        RwLock::new(client, name).reader()
    }
}
