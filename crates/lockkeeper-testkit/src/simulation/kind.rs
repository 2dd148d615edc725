//! One model for each kind of lock: what its guards can do, which holders fit beside one another, which token may follow which,
//! and what is held on the server.
//!
//! To add a kind, add a variant here and say so of it, and give it a workload. Everything else, from the faults to the checks,
//! is the same for all.

use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{
    Client, Election, FairLock, Mutex, Once, Owner, ReadGuard, ReentrantLock, Result, RwLock,
    Semaphore, Target, Upgrade, WriteGuard,
};
use lockkeeper_core::store::Value;
use lockkeeper_core::{Hold, Name};
use lockkeeper_memory::MemoryStore;
use lockkeeper_once::ByHand;

use super::plan::Plan;

/// How often a waiter in a queue heartbeats in the time for which one heartbeat counts.
const HEARTBEATS_PER_WAITER_TTL: u32 = 3;

/// How many permits of a semaphore there are, as every client says.
pub(super) const LIMIT: u32 = 3;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KindModel {
    /// One holder at a time.
    Mutex,
    /// One owner at a time, with any number of claims, which share a token.
    Reentrant,
    /// The same, and in order of arrival by promise.
    Fair,
    /// Readers together, or one owner that writes; first come, first served.
    RwLock,
    /// So many permits at a time; first come, first served.
    Semaphore,
    /// One leader at a time, whose owner it is known by; first come, first served.
    Election,
    /// Work that is done once: one claim at a time that does it, unless a result is stored.
    Once,
    /// Nobody holds it; what is true of it is in the checks of latches.
    Latch,
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
    /// Of a semaphore: how many it is of.
    pub(super) permits: u32,
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
    /// Of a semaphore: how many permits are held.
    pub(super) permits: u32,
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
    /// How many permits an acquisition is to have, by chance.
    pub(super) fn permits(self, random: &mut Rng) -> u32 {
        match self {
            Self::Semaphore => random.u32(1..=LIMIT),
            _ => 1,
        }
    }

    /// A run of work that is done once, or sometimes again as the command does it; `None` of a lock, for which nothing is drawn.
    pub(super) fn work(
        self,
        client: &Client,
        name: &str,
        plan: &Plan,
        random: &mut Rng,
    ) -> Result<Option<ByHand>> {
        let work = || {
            let work = Once::new(client, name).keep_for(plan.keep_for(random));
            work.by_hand(random.u8(..4) == 0)
        };
        (self == Self::Once).then(work).transpose()
    }

    /// The lock called `name`, for an owner; to read, if it has modes and is to; of so many permits, if it has some.
    pub(super) fn target(
        self,
        client: &Client,
        name: &str,
        owner: Owner,
        reads: bool,
        permits: u32,
    ) -> Target {
        match self {
            Self::Election => Election::new(client, name)
                .value(owner.to_string())
                .target(),
            Self::Semaphore => Semaphore::new(client, name, LIMIT)
                .permits(permits)
                .target(),
            // Of work it is what excludes a run of it.
            Self::Mutex | Self::Once | Self::Latch | Self::RedlockPart => {
                Mutex::new(client, name).target()
            }
            Self::Reentrant => ReentrantLock::new(client, name).target(),
            Self::Fair => FairLock::new(client, name).target(),
            Self::RwLock if reads => RwLock::new(client, name).reader().target(),
            Self::RwLock => RwLock::new(client, name).writer().target(),
        }
    }

    /// Whether its claims wait in a queue on the server.
    pub(super) fn queues(self) -> bool {
        !self.is_polled()
    }

    /// Whether whoever waits asks again when it is told, and nothing of it is on the server.
    const fn is_polled(self) -> bool {
        matches!(self, Self::Once | Self::Latch | Self::RedlockPart)
    }

    /// Whether its guards have modes, between which they change.
    pub(super) fn has_modes(self) -> bool {
        self == Self::RwLock
    }

    /// Takes the lock once more beside a guard, which comes back; `None` if the kind knows no such thing.
    pub(super) async fn again(self, held: Held, random: &mut Rng) -> (Held, Result<Option<Held>>) {
        let Held { hold, reads } = held;
        let (hold, again) = match self {
            Self::Mutex
            | Self::Semaphore
            | Self::Election
            | Self::Once
            | Self::Latch
            | Self::RedlockPart => {
                return (Held { hold, reads }, Ok(None));
            }
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
            Self::Mutex | Self::Election | Self::Once | Self::Latch | Self::RedlockPart => false,
            // All of them together are looked at, by the limit.
            Self::Semaphore => true,
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
            Self::Mutex | Self::Election | Self::Once
                if last.claim == next.claim && next.from < last.until =>
            {
                repeats
            }
            // A claim that is granted again has the token that was written back meanwhile.
            Self::Mutex | Self::Election | Self::Once | Self::Latch | Self::RedlockPart => {
                is_larger || repeats
            }
            Self::Reentrant | Self::Fair => is_larger || joins,
            // That new tokens are the largest, and that each is one claim's, is said of all of them.
            Self::Semaphore => true,
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
            Self::Semaphore => first.claim == next.claim,
            _ => true,
        }
    }

    /// For how long a name whose lease has ended without a word may be free with somebody waiting, with a heartbeat so often: as
    /// if it had been told, unless the kind has a reason.
    pub(super) const fn unheard(self, heartbeat: Duration) -> Duration {
        match self {
            _ if self.is_polled() => Duration::ZERO,
            // Nobody but the next heartbeat notices the end of a lease.
            _ => heartbeat,
        }
    }

    /// For how long a claim may hold whose release has been sent, with waiters that heartbeat so often: as if the release had
    /// arrived, unless the kind has a reason.
    pub(super) fn abandoned(self, heartbeat: Duration) -> Duration {
        match self {
            _ if self.is_polled() => Duration::ZERO,
            // A claim that stops waiting while no release gets through counts as alive for one waiter ttl; granted in that
            // time, it holds for another.
            _ => heartbeat * HEARTBEATS_PER_WAITER_TTL,
        }
    }

    /// The grants that stand on the server; none if nobody holds, or if the kind grants nothing but in answer to the acquire of
    /// the one that is granted.
    pub(super) fn standing(self, server: &MemoryStore, main: &str) -> Vec<Standing> {
        match self {
            _ if self.is_polled() => Vec::new(),
            _ => standing(server, main),
        }
    }

    /// The claims that hold the name whose main key this is.
    pub(super) fn holders(self, server: &MemoryStore, main: &str) -> Vec<String> {
        if self == Self::Latch {
            return Vec::new();
        }
        let standing = standing(server, main).into_iter();
        standing.flat_map(|grant| grant.claims).collect()
    }

    /// Whether a name that `holders` hold is there for the next waiter. A reader in front of the queue is let in unless somebody
    /// writes or the readers are to release, and one for permits if so many are left. Work that has a result is nobody's to do.
    pub(super) fn is_free(self, server: &MemoryStore, main: &str, holders: &[String]) -> bool {
        let first = || waiters(server, main).into_iter().next();
        let first_reads = || first().is_some_and(|member| !member.starts_with('x'));
        let first_fits = || {
            let wanted = first().map_or(0, |member| permits(&member));
            let held: u32 = standing(server, main).iter().map(|it| it.permits).sum();
            let limit = self.limit(server, main);
            wanted > 0 && limit.is_some_and(|limit| held + wanted <= limit)
        };
        if self == Self::Latch || self == Self::Once && self.result(server, main).is_some() {
            return false;
        }
        if self == Self::Semaphore && first_fits() {
            return !text(server, main).contains(" -r");
        }
        let reads_go_on = || {
            let value = text(server, main);
            let words: Vec<&str> = value.split(' ').collect();
            matches!(words[..], [_, "*", "0", _, _, _, flags, _] if !flags.contains('r'))
        };
        holders.is_empty() || self == Self::RwLock && first_reads() && reads_go_on()
    }

    /// The limit of a semaphore that stands on the server.
    pub(super) fn limit(self, server: &MemoryStore, main: &str) -> Option<u32> {
        let value = text(server, main);
        let parts = match value.split(' ').collect::<Vec<_>>()[..] {
            [_, "*", _, _, parts, ..] => parts,
            [_, share, _, _] => share,
            _ => return None,
        };
        parts.split_once('/')?.1.parse().ok()
    }

    /// The latch whose main key this is: how many of how many counts are to come, and the claim that armed it.
    pub(super) fn latch(server: &MemoryStore, main: &str) -> Option<(u32, u32, String)> {
        let value = text(server, main);
        let ["latch", share, claim, _] = value.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (left, n) = share.split_once('/')?;
        Some((left.parse().ok()?, n.parse().ok()?, claim.to_owned()))
    }

    /// Whether the server knows ids that have counted the latch down whose main key this is.
    pub(super) fn has_ids(server: &MemoryStore, main: &str) -> bool {
        let found = server.execute(&["EXISTS", &part(main, "counted")]);
        found.is_ok_and(|found| found == Value::Integer(1))
    }

    /// What has come of the work whose main key this is: its claim, its token and its result.
    pub(super) fn result(self, server: &MemoryStore, main: &str) -> Option<(String, u64, String)> {
        let fields = ["HMGET", &part(main, "record"), "claim", "token", "value"];
        let Ok(Value::List(fields)) = server.execute(&fields) else {
            return None;
        };
        let text = |at: usize| fields.get(at).and_then(Value::as_str).map(str::to_owned);
        Some((text(0)?, text(1)?.parse().ok()?, text(2)?))
    }

    /// Whether a claim waits in the queue of the name whose main key this is.
    pub(super) fn waits(self, server: &MemoryStore, main: &str, claim: &str) -> bool {
        let of_claim = |member: String| member.split_once(':').is_some_and(|(_, it)| it == claim);
        waiters(server, main).into_iter().any(of_claim)
    }
}

/// How many permits a share is of; none if it is no semaphore's.
pub(super) fn permits(share: &str) -> u32 {
    let parts = share.split_once('/').map(|(permits, _)| permits.parse());
    parts.and_then(Result::ok).unwrap_or(0)
}

/// The members of the queue of the name whose main key this is, in order.
fn waiters(server: &MemoryStore, main: &str) -> Vec<String> {
    let members = server.execute(&["ZRANGE", &part(main, "queue"), "0", "-1"]);
    let Ok(Value::List(members)) = members else {
        return Vec::new();
    };
    let text = |member: &Value| member.as_str().map(str::to_owned);
    members.iter().filter_map(text).collect()
}

/// A key that belongs to the name whose main key this is.
fn part(main: &str, part: &str) -> String {
    let name = main.strip_prefix("lockkeeper:").unwrap_or(main);
    Name::new("lockkeeper", name).map_or_else(|_| String::new(), |name| name.part(part))
}

/// The string at this key, empty if there is none.
fn text(server: &MemoryStore, key: &str) -> String {
    let value = server.execute(&["GET", key]).ok();
    let value = value.as_ref().and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

/// The grants by which claims hold the name whose main key this is, by owner and token. The wire format says what lies there.
fn standing(server: &MemoryStore, main: &str) -> Vec<Standing> {
    let value = text(server, main);
    let grant = |claim: &str, share: &str, token: u64| {
        let (owner, _) = claim.split_once('/')?;
        Some(Standing {
            owner: owner.to_owned(),
            token,
            reads: share != "x",
            permits: permits(share),
            claims: vec![claim.to_owned()],
        })
    };
    match value.split(' ').collect::<Vec<_>>()[..] {
        [_, "*", _, _, _, token, _, _] => inflated(server, main, token, grant),
        [_, share, claim, token] if !token.contains('c') => {
            let token = token.trim_end_matches(char::is_alphabetic).parse();
            token
                .ok()
                .and_then(|token| grant(claim, share, token))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The same of an inflated name, whose claims share this token unless they have their own.
fn inflated(
    server: &MemoryStore,
    main: &str,
    token: &str,
    grant: impl Fn(&str, &str, u64) -> Option<Standing>,
) -> Vec<Standing> {
    let members = server.execute(&["ZRANGE", &part(main, "holders"), "0", "-1", "WITHSCORES"]);
    let Ok(Value::List(members)) = members else {
        return Vec::new();
    };
    let now = server_now(server);
    let mut found: Vec<Standing> = Vec::new();
    for pair in members.chunks(2) {
        let [member, ends] = pair else { continue };
        let member = member.as_str().unwrap_or_default();
        let alive = ends.as_i64().is_some_and(|ends| ends > now) && !member.starts_with('c');
        let Some((share, claim)) = member
            .trim_start_matches('r')
            .split_once(':')
            .filter(|_| alive)
        else {
            continue;
        };
        let own = || {
            let owner = claim.split_once('/').map_or(claim, |(owner, _)| owner);
            let counted = if permits(share) > 0 { claim } else { owner };
            let entry = server.execute(&["HGET", &part(main, "state"), &format!("o:{counted}")]);
            let entry = entry.ok()?;
            entry.as_str()?.split_once(' ')?.1.parse().ok()
        };
        let token = match share {
            "x" => token.parse().ok(),
            _ => own(),
        };
        let Some(grant) = grant(claim, share, token.unwrap_or_default()) else {
            continue;
        };
        match found
            .iter_mut()
            .find(|other| other.is_one_with(&grant) && other.reads == grant.reads)
        {
            Some(other) => other.claims.extend(grant.claims),
            None => found.push(grant),
        }
    }
    // Of one run a claim to write is granted before those that read inside it.
    // Those that have tokens of their own are granted in their order.
    let own = |grant: &Standing| (grant.permits > 0).then_some(grant.token);
    found.sort_by_key(|grant| (grant.reads, own(grant)));
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
