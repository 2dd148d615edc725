//! One model for each kind of lock: what its guards can do, which holders fit beside one another, which token may follow which,
//! and what is held on the server.
//!
//! To add a kind, add a variant here and say so of it, and give it a workload. Everything else, from the faults to the checks,
//! is the same for all.

use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{
    Client, FairLock, Mutex, ReadGuard, ReentrantLock, Result, RwLock, Target, Upgrade, WriteGuard,
};
use lockkeeper_core::store::Value;
use lockkeeper_core::{Hold, Name};
use lockkeeper_memory::MemoryStore;

/// How long waiters trust silence.
const SAFETY_POLL: Duration = Duration::from_secs(5);

/// How often a waiter in a queue heartbeats in the time for which one heartbeat counts.
const HEARTBEATS_PER_WAITER_TTL: u32 = 3;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KindModel {
    /// One holder at a time.
    Mutex,
    /// One owner at a time, with any number of claims, which share a token.
    Reentrant,
    /// The same, first come, first served.
    Fair,
    /// Readers together, or one owner that writes; first come, first served.
    RwLock,
    /// What one server has of a Redlock. That a few have a claim proves nothing: a majority decides who is granted, and with
    /// which token.
    RedlockPart,
}

/// One grant, as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) owner: String,
    /// The claim that was granted.
    pub(super) claim: String,
    pub(super) token: u64,
    /// It is one to read.
    pub(super) reads: bool,
    /// When the server answered, since the beginning of the history.
    pub(super) from: Duration,
    /// Before when its lease cannot have run out on the server.
    pub(super) until: Duration,
}

/// What an owner holds, on the server or as its client assumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) owner: String,
    pub(super) token: u64,
    /// It is held to read.
    pub(super) reads: bool,
    /// The claims that hold by it, if that is known.
    pub(super) claims: Vec<String>,
}

impl Standing {
    /// Whether one owner holds by one grant.
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        self.owner == other.owner && self.token == other.token
    }
}

/// What a task holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) hold: Hold,
    /// It is one to read.
    pub(super) reads: bool,
}

/// What came of a guard that was to change its mode.
pub(super) enum Changed {
    /// Another guard has taken its place.
    Done(Held),
    /// It is what it was.
    Refused(Held),
}

impl KindModel {
    /// The lock called `name`; to read, if it has modes and is to.
    pub(super) fn target(self, client: &Client, name: &str, reads: bool) -> Target {
        match self {
            Self::Mutex | Self::RedlockPart => Mutex::new(client, name).target(),
            Self::Reentrant => ReentrantLock::new(client, name).target(),
            Self::Fair => FairLock::new(client, name).target(),
            Self::RwLock if reads => RwLock::new(client, name).reader().target(),
            Self::RwLock => RwLock::new(client, name).writer().target(),
        }
    }

    /// Whether its guards have modes, between which they change.
    pub(super) fn has_modes(self) -> bool {
        self == Self::RwLock
    }

    /// Takes the lock once more beside a guard, which comes back; `None` if the kind knows no such thing.
    pub(super) async fn again(self, held: Held, random: &mut Rng) -> (Held, Result<Option<Held>>) {
        let Held { hold, reads } = held;
        let (hold, again) = match self {
            Self::Mutex | Self::RedlockPart => return (Held { hold, reads }, Ok(None)),
            Self::RwLock if !reads && !random.bool() => {
                let guard = WriteGuard::from(hold);
                let inner = guard.read().await;
                let again = inner.map(|inner| (inner.into(), true));
                (guard.into(), again)
            }
            _ => {
                let again = hold.reenter().await;
                (hold, again.map(|again| (again, reads)))
            }
        };
        let again = again.map(|(hold, reads)| Some(Held { hold, reads }));
        (Held { hold, reads }, again)
    }

    /// Downgrades a guard that writes, and tries to upgrade one that reads.
    pub(super) async fn change(held: Held) -> Result<Changed> {
        let held_as = |hold, reads| Held { hold, reads };
        if !held.reads {
            let guard = WriteGuard::from(held.hold).downgrade().await?;
            return Ok(Changed::Done(held_as(guard.into(), true)));
        }
        Ok(match ReadGuard::from(held.hold).try_upgrade().await? {
            Upgrade::Write(guard) => Changed::Done(held_as(guard.into(), false)),
            Upgrade::Busy(guard) => Changed::Refused(held_as(guard.into(), true)),
        })
    }

    /// Whether both may hold, or assume that they hold, at the same time.
    ///
    /// A reader whose upgrade was executed and not answered yet reads on with its old token, beside others of its owner, which
    /// came in by the new one. Among owners nothing is allowed by that.
    pub(super) fn together(self, one: &Standing, other: &Standing) -> bool {
        match self {
            Self::Mutex | Self::RedlockPart => false,
            Self::Reentrant | Self::Fair => one.is_one_with(other),
            Self::RwLock => {
                let reads_inside = one.owner == other.owner && (one.reads || other.reads);
                one.reads && other.reads || reads_inside || one.is_one_with(other)
            }
        }
    }

    /// Whether the server may answer with `next` when its last answer with a grant of this name, or with one that is not to
    /// read, was `last`.
    pub(super) fn follows(self, last: &Grant, next: &Grant) -> bool {
        let is_larger = last.token < next.token;
        let joins = last.token == next.token && last.owner == next.owner;
        let repeats = last.token == next.token && last.claim == next.claim;
        match self {
            // Repeated while its lease lasts, a request has the same answer.
            Self::Mutex if last.claim == next.claim && next.from < last.until => repeats,
            // A claim that is granted again has the token that was written back meanwhile.
            Self::Mutex | Self::RedlockPart => is_larger || repeats,
            Self::Reentrant | Self::Fair => is_larger || joins,
            // A token never goes back but from reader to reader: one that reads inside a write and outlives it has the token
            // of that.
            Self::RwLock => last.reads && next.reads || is_larger || joins,
        }
    }

    /// Whether `next` may have a token that `first` was the first to have. Readers share one, an owner that writes has one for
    /// itself, and nobody writes with one of readers.
    pub(super) fn shares(self, first: &Grant, next: &Grant) -> bool {
        match self {
            Self::RwLock if first.reads => next.reads,
            Self::RwLock => first.owner == next.owner,
            _ => true,
        }
    }

    /// For how long a name whose lease has ended without a word may be free with somebody waiting, with a heartbeat so often: as
    /// if it had been told, unless the kind has a reason.
    pub(super) const fn unheard(self, heartbeat: Duration) -> Duration {
        match self {
            Self::Mutex | Self::RedlockPart => Duration::ZERO,
            // When the claim with the longest lease goes before others, which then run out, waiters were told the longer time.
            Self::Reentrant => SAFETY_POLL,
            // Nobody but the next heartbeat notices the end of a lease.
            Self::Fair | Self::RwLock => heartbeat,
        }
    }

    /// For how long a claim may hold whose release has been sent, with waiters that heartbeat so often: as if the release had
    /// arrived, unless the kind has a reason.
    pub(super) fn abandoned(self, heartbeat: Duration) -> Duration {
        match self {
            // A claim that stops waiting while no release gets through counts as alive for one waiter ttl; granted in that
            // time, it holds for another.
            Self::Fair | Self::RwLock => heartbeat * HEARTBEATS_PER_WAITER_TTL,
            _ => Duration::ZERO,
        }
    }

    /// The grants that stand on the server; none if nobody holds, or if the kind grants nothing but in answer to the acquire of
    /// the one that is granted.
    pub(super) fn standing(self, server: &MemoryStore, main: &str) -> Vec<Standing> {
        match self {
            Self::Fair => holder(server, main).into_iter().collect(),
            Self::RwLock => {
                let writer = holder(server, main);
                writer.into_iter().chain(readers(server, main)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The claims that hold the name whose main key this is.
    pub(super) fn holders(self, server: &MemoryStore, main: &str) -> Vec<String> {
        match self {
            Self::Mutex | Self::RedlockPart => {
                let holder = server.execute(&["GET", main]).ok();
                let holder = holder.as_ref().and_then(Value::as_str);
                let claim = |it: &str| it.strip_prefix("revoked:").unwrap_or(it).to_owned();
                holder.map(claim).into_iter().collect()
            }
            Self::Reentrant | Self::Fair => live_claims(server, main),
            Self::RwLock => {
                let standing = self.standing(server, main).into_iter();
                standing.flat_map(|grant| grant.claims).collect()
            }
        }
    }

    /// Whether a name that `holders` hold is there for the next waiter. A reader in front of the queue is let in unless somebody
    /// writes or the readers are to release.
    pub(super) fn is_free(self, server: &MemoryStore, main: &str, holders: &[String]) -> bool {
        let first_reads = || {
            let queue = server.execute(&["ZRANGE", &part(main, "queue"), "0", "0"]);
            let Ok(Value::List(first)) = queue else {
                return None;
            };
            let claim = first.first()?.as_str()?;
            let entry = server.execute(&["HGET", &part(main, "waiters"), claim]);
            Some(entry.ok()?.as_str()?.ends_with(":read"))
        };
        let is_revoked = || {
            let revoked = server.execute(&["ZSCORE", &part(main, "readers"), "revoked"]);
            revoked.is_ok_and(|score| score != Value::Nil)
        };
        holders.is_empty()
            || self == Self::RwLock
                && holder(server, main).is_none()
                && first_reads() == Some(true)
                && !is_revoked()
    }
}

/// A key that belongs to the name whose main key this is.
fn part(main: &str, part: &str) -> String {
    let name = main.strip_prefix("lockkeeper:").unwrap_or(main);
    Name::new("lockkeeper", name).map_or_else(|_| String::new(), |name| name.part(part))
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

/// The readers of a name, by owner and token.
fn readers(server: &MemoryStore, main: &str) -> Vec<Standing> {
    let members = server.execute(&["ZRANGE", &part(main, "readers"), "0", "-1", "WITHSCORES"]);
    let Ok(Value::List(members)) = members else {
        return Vec::new();
    };
    let pair = |pair: &'_ [Value]| match pair {
        [member, score] => Some((member.as_str()?.to_owned(), score.as_i64()?)),
        _ => None,
    };
    let members: Vec<(String, i64)> = members.chunks(2).filter_map(pair).collect();
    let token = |fact: &str| {
        let fact = members.iter().find(|(member, _)| *member == fact)?;
        u64::try_from(-fact.1).ok()
    };
    let now = server_now(server);
    let mut found: Vec<Standing> = Vec::new();
    for (claim, _) in members.iter().filter(|(_, ends)| *ends > now) {
        let Some((owner, _)) = claim.split_once('/') else {
            continue;
        };
        let own = token(&format!("token:{claim}"));
        let grant = Standing {
            owner: owner.to_owned(),
            token: own.or_else(|| token("token")).unwrap_or_default(),
            reads: true,
            claims: vec![claim.clone()],
        };
        match found.iter_mut().find(|other| other.is_one_with(&grant)) {
            Some(other) => other.claims.extend(grant.claims),
            None => found.push(grant),
        }
    }
    found
}

/// The server's time, ms.
fn server_now(server: &MemoryStore) -> i64 {
    let part = |part: Option<&Value>| part.and_then(Value::as_i64).unwrap_or(0);
    match server.execute(&["TIME"]) {
        Ok(Value::List(parts)) => part(parts.first()) * 1000 + part(parts.get(1)) / 1000,
        _ => 0,
    }
}
