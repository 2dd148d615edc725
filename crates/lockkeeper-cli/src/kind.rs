//! Chooses the kind of lock. To add a kind, add an arm here and an option in `args.rs`.

use std::env;
use std::time::{Duration, SystemTime};

use lockkeeper::{
    Client, Election, FairLock, Holder, Lease, MultiGuard, MultiLock, Mutex, Once, Owner,
    ReentrantLock, Released, Result, RwLock, Semaphore, Target,
};
use lockkeeper_once::ByHand;

use crate::args::Run;
use crate::exit::{Failure, LOST};
use crate::slots::Slots;

/// What the run holds: a lease for each lock, in the order of the options, and one call that releases them all. Dropping it
/// releases them too, in the background.
pub(crate) struct Held {
    pub(crate) leases: Vec<Lease>,
    guard: MultiGuard,
    /// Set if this is a job that runs once per slot.
    job: Option<ByHand>,
}

impl Held {
    /// The lease of a job that runs once per slot.
    pub(crate) fn job(&self) -> Option<Lease> {
        self.job.as_ref().and(self.leases.first()).cloned()
    }

    /// Makes the release store `result` as the result of the job, if there is a job.
    pub(crate) fn store(&self, result: &[u8]) -> Result<()> {
        match (&self.job, self.leases.first()) {
            (Some(job), Some(lease)) => job.store(lease.fencing_token(), result),
            _ => Ok(()),
        }
    }

    /// Releases the locks, and returns how much longer they stay unavailable to others.
    pub(crate) async fn release(self) -> Result<Duration> {
        Ok(match self.guard.release().await? {
            Released::Kept(left) => left,
            _ => Duration::ZERO,
        })
    }
}

/// Which locks to hold, for how long, and how long to wait for them.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// At least one, without duplicates; the semaphore is last.
    names: Vec<String>,
    /// The kind of the locks that are not a semaphore.
    kind: Kind,
    semaphore: Option<Permits>,
    /// The value that the leader of an election proclaims.
    value: String,
    /// The slots of the only name, if the program runs once per slot.
    slots: Option<Slots>,
    /// Which of these locks the outer run holds.
    outer: Option<Outer>,
    /// Zero: ask once. `None`: wait without limit.
    pub(crate) wait: Option<Duration>,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mutex,
    /// Re-entrant, for the owner of the outer run if that holds one of the same locks.
    Reentrant(Option<Owner>),
    Fair,
    ReadWrite(Mode),
    Election,
}

/// What a run takes of a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) taken: u32,
    limit: u32,
}

/// The run around this one, as described by this process's environment. A process that outlives that run still has its environment.
#[derive(Debug)]
struct Outer {
    owner: Owner,
    /// The locks of the outer run that this run wants too, with their fencing tokens.
    locks: Vec<(String, u64)>,
}

/// How a run holds a read-write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Together with others, to read.
    Shared,
    /// Alone, to write.
    Exclusive,
}

impl Mode {
    /// The word used in the options and in the program's environment.
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
        for name in options.locks.iter().chain(&options.elect) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let semaphore = Permits::of(options)?;
        if let Some(name) = &options.semaphore {
            if names.contains(name) {
                return Err(Failure::usage(format!(
                    "{name:?} cannot be both a --lock and a --semaphore: a name has one kind"
                )));
            }
            names.push(name.clone());
        }
        if let [_, _, ..] = &names[..]
            && let Some(name) = names.iter().find(|name| name.contains('\n'))
        {
            return Err(Failure::usage(format!(
                "the name {name:?} has a line break, but with several locks LOCKKEEPER_NAME contains one name per line"
            )));
        }
        let outer = match options.reenter {
            true => Outer::of(&names)?,
            false => None,
        };
        Ok(Self {
            kind: match options {
                Run { elect: Some(_), .. } => Kind::Election,
                Run { fair: true, .. } => Kind::Fair,
                Run { shared: true, .. } => Kind::ReadWrite(Mode::Shared),
                Run {
                    exclusive: true, ..
                } => Kind::ReadWrite(Mode::Exclusive),
                Run { reenter: true, .. } => Kind::Reentrant(outer.as_ref().map(|it| it.owner)),
                _ => Kind::Mutex,
            },
            slots: Slots::new(options, SystemTime::now())?,
            names,
            semaphore,
            value: options.value.clone().unwrap_or_default(),
            outer,
            wait: options.no_wait.then_some(Duration::ZERO).or(options.wait),
            max_hold: options.max_hold,
            min_hold: options.min_hold,
        })
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// `None` if the program may run at any time.
    pub(crate) const fn slots(&self) -> Option<&Slots> {
        self.slots.as_ref()
    }

    /// `None` for locks that have one mode only.
    pub(crate) fn mode(&self) -> Option<Mode> {
        match self.kind {
            Kind::ReadWrite(mode) => Some(mode),
            _ => None,
        }
    }

    /// What is taken of the semaphore; `None` if there is none.
    pub(crate) fn permits(&self) -> Option<Permits> {
        self.semaphore
    }

    /// Returns a failure if the outer run is known to have lost a lock. Then this run does not even ask for it.
    pub(crate) async fn outlived_by_now(&self, client: &Client) -> Option<Failure> {
        let outer = self.outer.as_ref()?;
        for (name, token) in &outer.locks {
            // Without the right to look, or without an answer, `outlived` compares the tokens after the grant.
            let Ok(seen) = client.inspect(name).await else {
                continue;
            };
            let is_its_own = |holder: &Holder| holder.owner == Some(outer.owner);
            if !seen.holders.iter().any(is_its_own)
                || seen.token.is_some_and(|now| now.get() != *token)
            {
                return Some(outlived(name, *token));
            }
        }
        None
    }

    /// Returns a failure if these leases do not belong to the outer run's hold, because that hold has ended meanwhile.
    pub(crate) fn outlived(&self, leases: &[Lease]) -> Option<Failure> {
        let locks = self.outer.iter().flat_map(|outer| &outer.locks);
        let mut differ = locks.filter(|(name, token)| {
            leases
                .iter()
                .any(|it| it.name() == name && it.fencing_token().get() != *token)
        });
        differ.next().map(|(name, token)| outlived(name, *token))
    }

    /// Acquires the locks, and waits for them for at most this long; `None`: without limit.
    pub(crate) async fn acquire(&self, client: &Client, wait: Option<Duration>) -> Result<Held> {
        let job = |slots: &Slots| {
            let job = Once::new(client, &self.names[0]).keep_for(slots.keep);
            // The history of all slots is one result, which each slot replaces.
            job.by_hand(true)
        };
        let job = self.slots.as_ref().map(job).transpose()?;
        let targets = match &job {
            Some(job) => vec![job.target()],
            None => self.targets(client),
        };
        let mut acquire = MultiLock::new(targets)?.acquire();
        if let Kind::Reentrant(Some(owner)) = self.kind {
            acquire = acquire.owner(&owner);
        }
        if let Some(wait) = wait {
            acquire = acquire.wait_for(wait);
        }
        if let Some(longest) = self.max_hold {
            acquire = acquire.max_hold(longest);
        }
        if let Some(shortest) = self.min_hold {
            acquire = acquire.min_hold(shortest);
        }
        let guard = acquire.await?;
        let leases = self.names.iter().filter_map(|name| guard.part(name));
        Ok(Held {
            leases: leases.collect(),
            guard,
            job,
        })
    }

    fn targets(&self, client: &Client) -> Vec<Target> {
        let (semaphore, locks) = match (self.semaphore, self.names.split_last()) {
            (Some(permits), Some((name, locks))) => {
                let semaphore = Semaphore::new(client, name, permits.limit);
                (Some(semaphore.permits(permits.taken).target()), locks)
            }
            _ => (None, &self.names[..]),
        };
        let locks = locks.iter().map(|name| self.target(client, name));
        locks.chain(semaphore).collect()
    }

    fn target(&self, client: &Client, name: &str) -> Target {
        match self.kind {
            Kind::Mutex => Mutex::new(client, name).target(),
            Kind::Reentrant(_) => ReentrantLock::new(client, name).target(),
            Kind::Fair => FairLock::new(client, name).target(),
            Kind::ReadWrite(Mode::Shared) => RwLock::new(client, name).reader().target(),
            Kind::ReadWrite(Mode::Exclusive) => RwLock::new(client, name).writer().target(),
            Kind::Election => Election::new(client, name).value(&self.value).target(),
        }
    }
}

impl Permits {
    fn of(options: &Run) -> Result<Option<Self>, Failure> {
        let taken = options.permits.unwrap_or(1);
        match options.limit {
            Some(limit) if taken > limit => Err(Failure::usage(format!(
                "--permits {taken} is more than --limit {limit}: no run could ever get that many"
            ))),
            limit => Ok(limit.map(|limit| Self { taken, limit })),
        }
    }
}

impl Outer {
    /// The outer run, if it holds a re-entrant lock of one of these names.
    fn of(names: &[String]) -> Result<Option<Self>, Failure> {
        const REENTRANT: &str = "reentrant";
        let variable = |name| env::var(name).unwrap_or_default();
        let kinds = variable("LOCKKEEPER_KIND");
        let kinds: Vec<&str> = kinds.lines().collect();
        if !kinds.contains(&REENTRANT) {
            return Ok(None);
        }
        let (held, owner) = (variable("LOCKKEEPER_NAME"), variable("LOCKKEEPER_OWNER"));
        let fence = variable("LOCKKEEPER_FENCE");
        let tokens: Vec<&str> = fence.lines().collect();
        // If there are several locks, each has one line. The name of a single lock may contain line breaks.
        let held: Vec<&str> = match &tokens[..] {
            [] | [_] => vec![&*held],
            _ => held.lines().collect(),
        };
        if owner.is_empty() || !held.iter().any(|held| names.iter().any(|it| it == held)) {
            return Ok(None);
        }
        let tokens = tokens.iter().map(|token| token.parse().ok());
        let tokens: Option<Vec<u64>> = tokens.collect();
        let complete = |number: usize| number == held.len();
        let Some(tokens) = tokens.filter(|tokens| complete(tokens.len()) && complete(kinds.len()))
        else {
            return Err(Failure::usage(
                "LOCKKEEPER_KIND and LOCKKEEPER_FENCE do not have the kind and the token of each lock in LOCKKEEPER_NAME, so this \
                 run cannot tell whether the outer run still holds: pass on all three variables, or start this run without \
                 LOCKKEEPER_OWNER",
            ));
        };
        let locks = held.into_iter().map(str::to_owned).zip(tokens).zip(kinds);
        // A semaphore held by the outer run does not admit this run.
        let locks = locks.filter(|((name, _), kind)| *kind == REENTRANT && names.contains(name));
        let locks = locks.map(|(lock, _)| lock).collect();
        let owner = owner.parse().map_err(Failure::from)?;
        Ok(Some(Self { owner, locks }))
    }
}

fn outlived(name: &str, token: u64) -> Failure {
    Failure::new(
        LOST,
        format!(
            "{name:?}: the outer run, from which this environment comes, no longer holds it with token {token}; to acquire it \
             independently, start this run without LOCKKEEPER_OWNER"
        ),
    )
}
