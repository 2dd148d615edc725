//! Where kinds of locks are chosen: another kind is another arm here, and an option in `args.rs`.

use std::env;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::time::Duration;

use lockkeeper::{
    Acquire, Client, FairLock, Lease, Mutex, Owner, ReentrantLock, Released, Result, RwLock,
};

use crate::args::Run;
use crate::exit::Failure;

/// What a held lock is to the rest of the command: leases to look at, and one way to let them all go. Dropping it lets
/// go too, in the background.
pub(crate) struct Held {
    pub(crate) leases: Vec<Lease>,
    release: Box<dyn FnOnce() -> Releasing>,
}

type Releasing = Pin<Box<dyn Future<Output = Result<Released>>>>;

impl Held {
    pub(crate) async fn release(self) -> Result<Released> {
        (self.release)().await
    }
}

/// Which lock, for how long, and how long to wait for it.
#[derive(Debug)]
pub(crate) struct Wanted {
    name: String,
    kind: Kind,
    /// Zero: ask once. `None`: as long as it takes.
    wait: Option<Duration>,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mutex,
    /// For the owner of the run around this one, if it holds the same lock.
    Reentrant(Option<Owner>),
    Fair,
    ReadWrite(Mode),
}

/// What a run may do with a lock that others share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Hold it together with others, to read.
    Shared,
    /// Hold it alone, to write.
    Exclusive,
}

impl Mode {
    /// As the options and the program's environment have it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }
}

impl Wanted {
    /// What the command line asks for.
    pub(crate) fn new(options: &Run) -> Result<Self, Failure> {
        let [name] = &options.locks[..] else {
            return Err(Failure::usage(
                "several locks at once are not part of this version: give --lock once",
            ));
        };
        Ok(Self {
            name: name.clone(),
            kind: match options {
                Run { fair: true, .. } => Kind::Fair,
                Run { shared: true, .. } => Kind::ReadWrite(Mode::Shared),
                Run {
                    exclusive: true, ..
                } => Kind::ReadWrite(Mode::Exclusive),
                Run { reenter: true, .. } => Kind::Reentrant(outer_owner(name)?),
                _ => Kind::Mutex,
            },
            wait: options.no_wait.then_some(Duration::ZERO).or(options.wait),
            max_hold: options.max_hold,
            min_hold: options.min_hold,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `None` of a lock that has one mode only.
    pub(crate) fn mode(&self) -> Option<Mode> {
        match self.kind {
            Kind::ReadWrite(mode) => Some(mode),
            _ => None,
        }
    }

    /// Waits for the lock as long as it may.
    pub(crate) async fn acquire(&self, client: &Client) -> Result<Held> {
        let name = &*self.name;
        match self.kind {
            Kind::Mutex => {
                let lock = Mutex::new(client, name);
                self.take(lock.acquire(), |guard| Box::pin(guard.release()))
                    .await
            }
            Kind::Reentrant(owner) => {
                let owner = owner.unwrap_or_else(|| client.new_owner());
                let lock = ReentrantLock::new(client, name);
                self.take(lock.acquire(&owner), |guard| Box::pin(guard.release()))
                    .await
            }
            Kind::Fair => {
                let lock = FairLock::new(client, name);
                self.take(lock.acquire(), |guard| Box::pin(guard.release()))
                    .await
            }
            Kind::ReadWrite(Mode::Shared) => {
                let lock = RwLock::new(client, name);
                self.take(lock.read(), |guard| Box::pin(guard.release()))
                    .await
            }
            Kind::ReadWrite(Mode::Exclusive) => {
                let lock = RwLock::new(client, name);
                self.take(lock.write(), |guard| Box::pin(guard.release()))
                    .await
            }
        }
    }

    async fn take<G>(&self, mut acquire: Acquire<G>, release: fn(G) -> Releasing) -> Result<Held>
    where
        G: Deref<Target = Lease> + 'static,
    {
        if let Some(wait) = self.wait {
            acquire = acquire.wait_for(wait);
        }
        if let Some(longest) = self.max_hold {
            acquire = acquire.max_hold(longest);
        }
        if let Some(shortest) = self.min_hold {
            acquire = acquire.min_hold(shortest);
        }
        let guard = acquire.await?;
        Ok(Held {
            leases: vec![guard.deref().clone()],
            release: Box::new(move || release(guard)),
        })
    }
}

/// The owner of the run around this one, if that holds a re-entrant lock of this name.
fn outer_owner(name: &str) -> Result<Option<Owner>, Failure> {
    let is = |variable, value: &str| env::var(variable).is_ok_and(|text| text == value);
    if !is("LOCKKEEPER_NAME", name) || !is("LOCKKEEPER_KIND", "reentrant") {
        return Ok(None);
    }
    match env::var("LOCKKEEPER_OWNER") {
        Err(_) => Ok(None),
        Ok(text) => text.parse().map(Some).map_err(Failure::from),
    }
}
