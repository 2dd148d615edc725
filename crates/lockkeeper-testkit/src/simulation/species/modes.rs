//! The read-write lock: many who read or one owner that writes, first come, first served.

use std::ops::Deref;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Client, Lease, Owner, ReadGuard, Released, Result, RwLock, Upgrade, WriteGuard};
use lockkeeper_core::Name;
use lockkeeper_core::store::Value;
use lockkeeper_memory::MemoryStore;

use super::{
    Asking, Changed, Grant, HEARTBEATS_PER_WAITER_TTL, Model, Species, Standing, Terms, Trying,
    holder, server_now,
};

/// Readers together, or one owner that writes.
#[derive(Debug, Default)]
pub struct RwLocks;

/// A guard in either mode.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there are two modes")]
pub enum RwGuard {
    /// One to read.
    Read(ReadGuard),
    /// One to write.
    Write(WriteGuard),
}

impl Deref for RwGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        match self {
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
        }
    }
}

impl Model for RwLocks {
    /// A reader whose upgrade was executed and not answered yet reads on with its old token, beside others of its owner, who
    /// came in by the new one. Among owners nothing is allowed by that.
    fn together(&self, one: &Standing, other: &Standing) -> bool {
        let reads_inside = one.owner == other.owner && (one.reads || other.reads);
        one.reads && other.reads || reads_inside || one.is_one_with(other)
    }

    /// A token never goes back but from reader to reader: who reads inside a write and outlives it has the token of that.
    fn follows(&self, last: &Grant, next: &Grant) -> bool {
        last.reads && next.reads
            || last.token < next.token
            || last.token == next.token && last.owner == next.owner
    }

    /// Readers share a token, an owner that writes has one for itself, and nobody writes with one of readers.
    fn shares(&self, first: &Grant, next: &Grant) -> bool {
        if first.reads {
            next.reads
        } else {
            first.owner == next.owner
        }
    }

    /// Nobody but the next heartbeat notices the end of a lease.
    fn unheard(&self, heartbeat: Duration) -> Duration {
        heartbeat
    }

    /// As for a fair lock.
    fn abandoned(&self, heartbeat: Duration) -> Duration {
        heartbeat * HEARTBEATS_PER_WAITER_TTL
    }

    fn standing(&self, server: &MemoryStore, main: &str) -> Vec<Standing> {
        let writer = holder(server, main);
        writer.into_iter().chain(readers(server, main)).collect()
    }

    /// A reader in front of the queue is let in unless somebody writes or those who read are to leave.
    fn is_free(&self, server: &MemoryStore, main: &str, holders: &[String]) -> bool {
        let first = || {
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
            || holder(server, main).is_none() && first() == Some(true) && !is_revoked()
    }

    fn holders(&self, server: &MemoryStore, main: &str) -> Vec<String> {
        let standing = self.standing(server, main).into_iter();
        standing.flat_map(|grant| grant.claims).collect()
    }
}

impl Species for RwLocks {
    type Lock = RwLock;
    type Guard = RwGuard;

    const NAME: &'static str = "rwlock";
    const MODES: bool = true;

    fn lock(client: &Client, name: &str) -> RwLock {
        RwLock::new(client, name)
    }

    fn acquire(lock: &RwLock, owner: &Owner, terms: Terms, random: &mut Rng) -> Asking<RwGuard> {
        if random.u8(..3) > 0 {
            let asking = terms.of(lock.read().owner(owner));
            Box::pin(async { asking.await.map(RwGuard::Read) })
        } else {
            let asking = terms.of(lock.write().owner(owner));
            Box::pin(async { asking.await.map(RwGuard::Write) })
        }
    }

    fn try_acquire(lock: &RwLock, owner: &Owner, random: &mut Rng) -> Trying<RwGuard> {
        if random.bool() {
            let trying = lock.try_read().owner(owner).into_future();
            Box::pin(async { Ok(trying.await?.map(RwGuard::Read)) })
        } else {
            let trying = lock.try_write().owner(owner).into_future();
            Box::pin(async { Ok(trying.await?.map(RwGuard::Write)) })
        }
    }

    fn reads(guard: &RwGuard) -> bool {
        matches!(guard, RwGuard::Read(_))
    }

    async fn again(guard: &RwGuard, random: &mut Rng) -> Result<Option<RwGuard>> {
        let again = match guard {
            RwGuard::Read(guard) => RwGuard::Read(guard.reenter().await?),
            RwGuard::Write(guard) if random.bool() => RwGuard::Write(guard.reenter().await?),
            RwGuard::Write(guard) => RwGuard::Read(guard.read().await?),
        };
        Ok(Some(again))
    }

    async fn change(guard: RwGuard) -> Result<Changed<RwGuard>> {
        Ok(match guard {
            RwGuard::Write(guard) => Changed::Done(RwGuard::Read(guard.downgrade().await?)),
            RwGuard::Read(guard) => match guard.try_upgrade().await? {
                Upgrade::Write(guard) => Changed::Done(RwGuard::Write(guard)),
                Upgrade::Busy(guard) => Changed::Refused(RwGuard::Read(guard)),
            },
        })
    }

    async fn release(guard: RwGuard) -> Result<Released> {
        match guard {
            RwGuard::Read(guard) => guard.release().await,
            RwGuard::Write(guard) => guard.release().await,
        }
    }
}

/// A key that belongs to the name whose main key this is.
fn part(main: &str, part: &str) -> String {
    let name = main.strip_prefix("lockkeeper:").unwrap_or(main);
    Name::new("lockkeeper", name).map_or_else(|_| String::new(), |name| name.part(part))
}

/// Those who read a name, by owner and token.
fn readers(server: &MemoryStore, main: &str) -> Vec<Standing> {
    let members = server.execute(&["ZRANGE", &part(main, "readers"), "0", "-1", "WITHSCORES"]);
    let Ok(Value::List(members)) = members else {
        return Vec::new();
    };
    let members: Vec<(&str, i64)> = members
        .chunks(2)
        .filter_map(|pair| match pair {
            [member, score] => Some((member.as_str()?, score.as_i64()?)),
            _ => None,
        })
        .collect();
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
            claims: vec![(*claim).to_owned()],
        };
        match found.iter_mut().find(|other| other.is_one_with(&grant)) {
            Some(other) => other.claims.extend(grant.claims),
            None => found.push(grant),
        }
    }
    found
}
