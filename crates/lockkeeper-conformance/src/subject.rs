//! The subject of a test: one kind of lock, with the methods that all kinds share.

use std::sync::Arc;

use anyhow::Result;
use lockkeeper::{
    Client, ClientBuilder, Election, FairLock, Lock, Mutex, Reader, Redlock, ReentrantLock, RwLock,
    Semaphore, SingleServer, Writer,
};
use lockkeeper_core::store::Store;

use crate::site::Site;

/// A [`Subject`], or a Redlock on all servers of a site.
///
/// What does not apply to the Redlock: `min_hold`, which it does not have; inspecting, revoking and forcing, which concern one
/// server; the report of closing, which each client makes for its own part; and bad names, which it refuses before there is
/// anything to acquire. Nor does a real server that has just been started apply: it is quarantined for one longest ttl, longer than
/// the suite waits.
pub trait Common: Lock {
    /// As [`Subject::Contender`].
    type Contender: Common;

    /// As [`Subject::SHARED`].
    const SHARED: bool;

    /// As [`Subject::HELD`].
    const HELD: &'static str;

    /// The lock called `name`, which must be valid, on the servers of these clients.
    fn over(clients: &[Client], name: &str) -> Self;
}

impl<S: Subject> Common for S {
    type Contender = S::Contender;

    const SHARED: bool = S::SHARED;
    const HELD: &'static str = S::HELD;

    fn over(clients: &[Client], name: &str) -> Self {
        Self::new(&clients[0], name)
    }
}

impl Common for Redlock {
    type Contender = Self;

    const SHARED: bool = false;
    const HELD: &'static str = "lockkeeper:name";

    #[expect(clippy::expect_used, reason = "a test names its locks well")]
    fn over(clients: &[Client], name: &str) -> Self {
        Self::new(clients, name).expect("a good name and enough clients")
    }
}

/// The clients of one process, one for each server of a site. Each has its own connection, wrapped by `through`.
///
/// # Errors
///
/// If one of them cannot connect.
pub async fn connect(
    site: &dyn Site,
    settings: ClientBuilder,
    through: fn(Arc<dyn Store>) -> Arc<dyn Store>,
) -> Result<Vec<Client>> {
    let stores = site.stores().await?.into_iter();
    let clients = stores.map(|store| Ok(settings.clone().build(through(store))?));
    clients.collect()
}

/// A kind of lock on one server, or one mode of it.
pub trait Subject: Lock<Guard: SingleServer> {
    /// The kind that its holders exclude and are excluded by: for most kinds, the kind itself.
    type Contender: Subject;

    /// Whether several holders can hold at the same time.
    const SHARED: bool = false;

    /// The key that exists on the server while the name `name` is held.
    const HELD: &'static str = "lockkeeper:name";

    /// The lock called `name`.
    fn new(client: &Client, name: &str) -> Self;
}

/// Makes subjects of locks that contend with themselves.
macro_rules! subjects {
    ($($lock:ident: $new:expr;)*) => {$(
        impl Subject for $lock {
            type Contender = Self;

            fn new(client: &Client, name: &str) -> Self {
                let new: fn(&Client, &str) -> Self = $new;
                new(client, name)
            }
        }
    )*};
}

// A re-entrant lock's owners never meet themselves: each acquisition has a new one. A semaphore has one permit.
subjects! {
    Mutex: Self::new;
    ReentrantLock: Self::new;
    FairLock: Self::new;
    Election: |client, name| Self::new(client, name).value("10.0.0.5:8080");
    Writer: |client, name| RwLock::new(client, name).writer();
    Semaphore: |client, name| Self::new(client, name, 1);
}

/// Readers share a name, and exclude writers.
impl Subject for Reader {
    type Contender = Writer;

    const SHARED: bool = true;

    fn new(client: &Client, name: &str) -> Self {
        RwLock::new(client, name).reader()
    }
}
