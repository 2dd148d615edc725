//! Where kinds of locks are chosen: another kind is another arm here, and an option in `args.rs`.

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

/// What is held is to the rest of the command: a lease for each lock, in the order in which they were named, and one way to
/// release them all. Dropping it releases too, in the background.
pub(crate) struct Held {
    pub(crate) leases: Vec<Lease>,
    guard: MultiGuard,
    /// Of a job that runs once per slot.
    job: Option<ByHand>,
}

impl Held {
    /// The lease of a job that runs once per slot.
    pub(crate) fn job(&self) -> Option<Lease> {
        self.job.as_ref().and(self.leases.first()).cloned()
    }

    /// The release is to store this as the result of the job.
    pub(crate) fn store(&self, result: &[u8]) -> Result<()> {
        match (&self.job, self.leases.first()) {
            (Some(job), Some(lease)) => job.store(lease.fencing_token(), result),
            _ => Ok(()),
        }
    }

    /// For how long it is still kept from others.
    pub(crate) async fn release(self) -> Result<Duration> {
        Ok(match self.guard.release().await? {
            Released::Kept(left) => left,
            _ => Duration::ZERO,
        })
    }
}

/// Which locks, for how long, and how long to wait for them.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// At least one, each once; that of the semaphore last.
    names: Vec<String>,
    /// Of the locks that are no semaphore.
    kind: Kind,
    semaphore: Option<Permits>,
    /// What the leader of an election is known by.
    value: String,
    /// Of the only name, if the program is to run once in each.
    slots: Option<Slots>,
    /// What the run around this one holds of them.
    outer: Option<Outer>,
    /// Zero: ask once. `None`: as long as it takes.
    pub(crate) wait: Option<Duration>,
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
    Election,
}

/// What a run takes of a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) taken: u32,
    limit: u32,
}

/// A run around this one, as this process' environment has it. Whoever outlives that run still has its environment.
#[derive(Debug)]
struct Outer {
    owner: Owner,
    /// Those of its locks that are wanted here, and the fencing tokens it got.
    locks: Vec<(String, u64)>,
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
        for name in options.locks.iter().chain(&options.elect) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let semaphore = Permits::of(options)?;
        if let Some(name) = &options.semaphore {
            if names.contains(name) {
                return Err(Failure::usage(format!(
                    "{name:?} cannot be a --lock and a --semaphore: a name has one kind"
                )));
            }
            names.push(name.clone());
        }
        if let [_, _, ..] = &names[..]
            && let Some(name) = names.iter().find(|name| name.contains('\n'))
        {
            return Err(Failure::usage(format!(
                "the name {name:?} has a line break, and the program is to find one name in each line of LOCKKEEPER_NAME"
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

    /// `None` of locks that have one mode only.
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

    /// A lock that the run around this one is known to hold no more: then it is not even asked for.
    pub(crate) async fn outlived_by_now(&self, client: &Client) -> Option<Failure> {
        let outer = self.outer.as_ref()?;
        for (name, token) in &outer.locks {
            // Who may not look, or gets no answer, learns it from the token of the grant.
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

    /// Whether these leases are of other holds than that of the run around this one, which has ended meanwhile.
    pub(crate) fn outlived(&self, leases: &[Lease]) -> Option<Failure> {
        let locks = self.outer.iter().flat_map(|outer| &outer.locks);
        let mut differ = locks.filter(|(name, token)| {
            leases
                .iter()
                .any(|it| it.name() == name && it.fencing_token().get() != *token)
        });
        differ.next().map(|(name, token)| outlived(name, *token))
    }

    /// Waits for the locks for so long; `None`: as long as it takes.
    pub(crate) async fn acquire(&self, client: &Client, wait: Option<Duration>) -> Result<Held> {
        let job = |slots: &Slots| {
            let job = Once::new(client, &self.names[0]).keep_for(slots.keep);
            // The history of all slots is one result, which each of them replaces.
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
                "{taken} --permits are more than the --limit of {limit}: no run could ever have so many"
            ))),
            limit => Ok(limit.map(|limit| Self { taken, limit })),
        }
    }
}

impl Outer {
    /// The run around this one, if that holds a re-entrant lock of one of these names.
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
        // Of several locks a line for each; the name of a single one may have line breaks.
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
                 run cannot tell whether the one around it still holds: pass all three on, or start this one without \
                 LOCKKEEPER_OWNER",
            ));
        };
        let locks = held.into_iter().map(str::to_owned).zip(tokens).zip(kinds);
        // What an outer run has of a semaphore lets nobody in.
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
            "{name:?}: the run that this environment comes from, with token {token}, holds it no more, so there is nothing \
             to get into again; to take it anew, start this without LOCKKEEPER_OWNER"
        ),
    )
}
