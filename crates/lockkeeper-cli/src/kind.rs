//! Where kinds of locks are chosen: another kind is another arm here, and an option in `args.rs`.

use std::env;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::time::Duration;

use lockkeeper::{
    Acquire, Client, FairLock, Lease, Member, MultiLock, Mutex, Owner, ReentrantLock, Released,
    Result, RwLock,
};

use crate::args::Run;
use crate::exit::Failure;

/// What is held is to the rest of the command: a lease for each lock, in the order in which they were named, and one way to
/// let them all go. Dropping it lets go too, in the background.
pub(crate) struct Held {
    pub(crate) leases: Vec<Lease>,
    release: Box<dyn FnOnce() -> Releasing>,
}

type Releasing = Pin<Box<dyn Future<Output = Result<Duration>>>>;

impl Held {
    /// For how long it is still kept from others.
    pub(crate) async fn release(self) -> Result<Duration> {
        (self.release)().await
    }
}

/// Which locks, for how long, and how long to wait for them.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// At least one, each once.
    names: Vec<String>,
    kind: Kind,
    /// Zero: ask once. `None`: as long as it takes.
    wait: Option<Duration>,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mutex,
    /// For the owner of the run around this one, if it holds one of the same locks.
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
        let mut names: Vec<String> = Vec::new();
        for name in &options.locks {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if let [_, _, ..] = &names[..]
            && let Some(name) = names.iter().find(|name| name.contains('\n'))
        {
            return Err(Failure::usage(format!(
                "the name {name:?} has a line break, and the program is to find one name in each line of LOCKKEEPER_NAME"
            )));
        }
        Ok(Self {
            kind: match options {
                Run { fair: true, .. } => Kind::Fair,
                Run { shared: true, .. } => Kind::ReadWrite(Mode::Shared),
                Run {
                    exclusive: true, ..
                } => Kind::ReadWrite(Mode::Exclusive),
                Run { reenter: true, .. } => Kind::Reentrant(outer_owner(&names)?),
                _ => Kind::Mutex,
            },
            names,
            wait: options.no_wait.then_some(Duration::ZERO).or(options.wait),
            max_hold: options.max_hold,
            min_hold: options.min_hold,
        })
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// `None` of locks that have one mode only.
    pub(crate) fn mode(&self) -> Option<Mode> {
        match self.kind {
            Kind::ReadWrite(mode) => Some(mode),
            _ => None,
        }
    }

    /// Waits for the locks as long as it may.
    pub(crate) async fn acquire(&self, client: &Client) -> Result<Held> {
        match &self.names[..] {
            [name] => self.acquire_one(client, name).await,
            _ => self.acquire_all(client).await,
        }
    }

    async fn acquire_one(&self, client: &Client, name: &str) -> Result<Held> {
        match self.kind {
            Kind::Mutex => {
                let lock = Mutex::new(client, name);
                self.take(lock.acquire(), |guard| Box::pin(kept(guard.release())))
                    .await
            }
            Kind::Reentrant(owner) => {
                let owner = owner.unwrap_or_else(|| client.new_owner());
                let lock = ReentrantLock::new(client, name);
                self.take(lock.acquire(&owner), |guard| {
                    Box::pin(kept(guard.release()))
                })
                .await
            }
            Kind::Fair => {
                let lock = FairLock::new(client, name);
                self.take(lock.acquire(), |guard| Box::pin(kept(guard.release())))
                    .await
            }
            Kind::ReadWrite(Mode::Shared) => {
                let lock = RwLock::new(client, name);
                self.take(lock.read(), |guard| Box::pin(kept(guard.release())))
                    .await
            }
            Kind::ReadWrite(Mode::Exclusive) => {
                let lock = RwLock::new(client, name);
                self.take(lock.write(), |guard| Box::pin(kept(guard.release())))
                    .await
            }
        }
    }

    async fn acquire_all(&self, client: &Client) -> Result<Held> {
        let members = self.names.iter().map(|name| self.member(client, name));
        let mut acquire = MultiLock::new(members)?.acquire();
        if let Kind::Reentrant(Some(owner)) = self.kind {
            acquire = acquire.owner(&owner);
        }
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
        let leases = self.names.iter().filter_map(|name| guard.lease(name));
        Ok(Held {
            leases: leases.cloned().collect(),
            release: Box::new(move || {
                Box::pin(async move {
                    let released = guard.release().await?;
                    Ok(released.into_iter().map(left).max().unwrap_or_default())
                })
            }),
        })
    }

    fn member(&self, client: &Client, name: &str) -> Member {
        match self.kind {
            Kind::Mutex => Mutex::new(client, name).member(),
            Kind::Reentrant(_) => ReentrantLock::new(client, name).member(),
            Kind::Fair => FairLock::new(client, name).member(),
            Kind::ReadWrite(Mode::Shared) => RwLock::new(client, name).read_member(),
            Kind::ReadWrite(Mode::Exclusive) => RwLock::new(client, name).write_member(),
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

async fn kept(release: impl Future<Output = Result<Released>>) -> Result<Duration> {
    release.await.map(left)
}

/// For how long nobody else can hold what was let go.
const fn left(released: Released) -> Duration {
    match released {
        Released::Kept(left) => left,
        _ => Duration::ZERO,
    }
}

/// The owner of the run around this one, if that holds a re-entrant lock of one of these names.
fn outer_owner(names: &[String]) -> Result<Option<Owner>, Failure> {
    let outer = |variable| env::var(variable).unwrap_or_default();
    let held = outer("LOCKKEEPER_NAME");
    let shares =
        names.contains(&held) || held.lines().any(|name| names.iter().any(|it| it == name));
    if outer("LOCKKEEPER_KIND") != "reentrant" || !shares {
        return Ok(None);
    }
    match env::var("LOCKKEEPER_OWNER") {
        Err(_) => Ok(None),
        Ok(text) => text.parse().map(Some).map_err(Failure::from),
    }
}
