//! One model for each kind of lock: what its guards can do, which holders may hold together, which token may follow which, and
//! what the server holds.
//!
//! To add a kind, add a variant here, answer its questions below, and give it a workload. Everything else, from the faults to
//! the checks, is the same for all kinds.

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

/// How many heartbeats a waiter in a queue sends per waiter ttl.
const HEARTBEATS_PER_WAITER_TTL: u32 = 3;

/// The limit of every semaphore, as all clients state it.
pub(super) const LIMIT: u32 = 3;

/// The model of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KindModel {
    /// One holder at a time.
    Mutex,
    /// One owner at a time, with any number of claims, which share a token.
    Reentrant,
    /// The same, with promised arrival order.
    Fair,
    /// Many readers, or one owner that writes; in arrival order.
    RwLock,
    /// A limited number of permits at a time; in arrival order.
    Semaphore,
    /// One leader at a time, which proclaims its owner; in arrival order.
    Election,
    /// Work that is done once: one claim at a time does it, unless a result is stored.
    Once,
    /// Has no holders; the checks of latches say what must be true.
    Latch,
    /// The part of a Redlock on one server. A claim on a few servers proves nothing: a majority decides which claim is
    /// granted, and with which token.
    RedlockPart,
}

/// One grant, as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) owner: String,
    /// The claim that was granted.
    pub(super) claim: String,
    pub(super) token: u64,
    /// Whether it is a reader's.
    pub(super) reads: bool,
    /// The number of permits, for a semaphore.
    pub(super) permits: u32,
    /// When the server answered, counted from the beginning of the history.
    pub(super) from: Duration,
    /// The time before which its lease cannot have expired on the server.
    pub(super) until: Duration,
}

/// What an owner holds, on the server or as its client assumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) owner: String,
    pub(super) token: u64,
    /// Whether it is a reader's.
    pub(super) reads: bool,
    /// The number of permits held, for a semaphore.
    pub(super) permits: u32,
    /// The claims that hold by this grant, if known.
    pub(super) claims: Vec<String>,
}

impl Standing {
    /// Whether both are the same grant of the same owner.
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        self.owner == other.owner && self.token == other.token
    }
}

/// What a task holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) hold: Hold,
    /// Whether it reads.
    pub(super) reads: bool,
}

/// The outcome of converting a guard.
pub(super) enum Changed {
    /// Another guard has replaced it.
    Done(Held),
    /// It is unchanged.
    Refused(Held),
}

impl KindModel {
    /// How many permits an acquisition asks for, at random.
    pub(super) fn permits(self, random: &mut Rng) -> u32 {
        match self {
            Self::Semaphore => random.u32(1..=LIMIT),
            _ => 1,
        }
    }

    /// A run of work that is done once, sometimes one that repeats it as the command does. `None` for a lock, and then no
    /// random number is drawn.
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

    /// The lock called `name`, for an owner; for reading if the kind has modes and `reads` is set; for this many permits if it
    /// has permits.
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
            // For work that is done once: what excludes another run.
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

    /// Whether waiters ask again when they are notified, and the server keeps no queue.
    const fn is_polled(self) -> bool {
        matches!(self, Self::Once | Self::Latch | Self::RedlockPart)
    }

    /// Whether its guards have modes and can be converted.
    pub(super) fn has_modes(self) -> bool {
        self == Self::RwLock
    }

    /// Takes the lock once more beside a guard, and returns that guard too. `None` if the kind cannot do that.
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
    /// A reader whose upgrade was executed but not yet answered keeps reading with its old token, beside others of its owner
    /// that joined with the new one. That never allows two owners at once.
    pub(super) fn together(self, one: &Standing, other: &Standing) -> bool {
        match self {
            Self::Mutex | Self::Election | Self::Once | Self::Latch | Self::RedlockPart => false,
            // The limit is checked for all of them together.
            Self::Semaphore => true,
            Self::Reentrant | Self::Fair => one.is_one_with(other),
            Self::RwLock => {
                let reads_inside = one.owner == other.owner && (one.reads || other.reads);
                one.reads && other.reads || reads_inside || one.is_one_with(other)
            }
        }
    }

    /// Whether the server may answer with `next` after `last`, which is its last grant of this name, or its last grant that is
    /// not a reader's.
    pub(super) fn follows(self, last: &Grant, next: &Grant) -> bool {
        let is_larger = last.token < next.token;
        let joins = last.token == next.token && last.owner == next.owner;
        let repeats = last.token == next.token && last.claim == next.claim;
        match self {
            // Repeated while its lease lasts, a request gets the same answer.
            Self::Mutex | Self::Election | Self::Once
                if last.claim == next.claim && next.from < last.until =>
            {
                repeats
            }
            // A claim that is granted again has the token that was written back in between.
            Self::Mutex | Self::Election | Self::Once | Self::Latch | Self::RedlockPart => {
                is_larger || repeats
            }
            Self::Reentrant | Self::Fair => is_larger || joins,
            // Other checks ensure that new tokens are the largest and that each belongs to one claim.
            Self::Semaphore => true,
            // A token goes back only from reader to reader: a read inside a write that outlives the write keeps the write's
            // token.
            Self::RwLock => last.reads && next.reads || is_larger || joins,
        }
    }

    /// Whether `next` may have a token that `first` was the first to have. Readers share a token, an owner that writes has one
    /// for itself, and no writer has a token of readers.
    pub(super) fn shares(self, first: &Grant, next: &Grant) -> bool {
        match self {
            Self::RwLock if first.reads => next.reads,
            Self::RwLock => first.owner == next.owner,
            Self::Semaphore => first.claim == next.claim,
            _ => true,
        }
    }

    /// How long a name may be free while a task waits, after a lease expired without a message, with this time between
    /// heartbeats. The same as after a message, unless the kind has a reason.
    pub(super) const fn unheard(self, heartbeat: Duration) -> Duration {
        match self {
            _ if self.is_polled() => Duration::ZERO,
            // Only the next heartbeat notices that a lease has expired.
            _ => heartbeat,
        }
    }

    /// How long a claim may hold after its release was sent, with this time between waiters' heartbeats. The same as if the
    /// release had arrived, unless the kind has a reason.
    pub(super) fn abandoned(self, heartbeat: Duration) -> Duration {
        match self {
            _ if self.is_polled() => Duration::ZERO,
            // A claim that stops waiting while no release gets through counts as alive for one waiter ttl; if it is granted in
            // that time, it holds for another.
            _ => heartbeat * HEARTBEATS_PER_WAITER_TTL,
        }
    }

    /// The grants on the server. Empty if no claim holds, or if the kind grants only in reply to the acquiring claim itself.
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

    /// Whether a name held by `holders` is available to the next waiter. A reader at the front of the queue may enter unless a
    /// writer holds or the readers are asked to release; a claim for permits may enter if that many are left. Work that has a
    /// result is never available.
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

    /// The limit of a semaphore on the server.
    pub(super) fn limit(self, server: &MemoryStore, main: &str) -> Option<u32> {
        let value = text(server, main);
        let parts = match value.split(' ').collect::<Vec<_>>()[..] {
            [_, "*", _, _, parts, ..] => parts,
            [_, share, _, _] => share,
            _ => return None,
        };
        parts.split_once('/')?.1.parse().ok()
    }

    /// The latch with this main key: how many of how many counts are missing, and the claim that armed it.
    pub(super) fn latch(server: &MemoryStore, main: &str) -> Option<(u32, u32, String)> {
        let value = text(server, main);
        let ["latch", share, claim, _] = value.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (left, n) = share.split_once('/')?;
        Some((left.parse().ok()?, n.parse().ok()?, claim.to_owned()))
    }

    /// Whether the server stores ids that have counted down the latch with this main key.
    pub(super) fn has_ids(server: &MemoryStore, main: &str) -> bool {
        let found = server.execute(&["EXISTS", &part(main, "counted")]);
        found.is_ok_and(|found| found == Value::Integer(1))
    }

    /// The result of the work with this main key: its claim, its token and its value.
    pub(super) fn result(self, server: &MemoryStore, main: &str) -> Option<(String, u64, String)> {
        let fields = ["HMGET", &part(main, "record"), "claim", "token", "value"];
        let Ok(Value::List(fields)) = server.execute(&fields) else {
            return None;
        };
        let text = |at: usize| fields.get(at).and_then(Value::as_str).map(str::to_owned);
        Some((text(0)?, text(1)?.parse().ok()?, text(2)?))
    }

    /// Whether a claim waits in the queue of the name with this main key.
    pub(super) fn waits(self, server: &MemoryStore, main: &str, claim: &str) -> bool {
        let of_claim = |member: String| member.split_once(':').is_some_and(|(_, it)| it == claim);
        waiters(server, main).into_iter().any(of_claim)
    }
}

/// The number of permits in a share; 0 if it is not a semaphore's.
pub(super) fn permits(share: &str) -> u32 {
    let parts = share.split_once('/').map(|(permits, _)| permits.parse());
    parts.and_then(Result::ok).unwrap_or(0)
}

/// The members of the queue of the name with this main key, in order.
fn waiters(server: &MemoryStore, main: &str) -> Vec<String> {
    let members = server.execute(&["ZRANGE", &part(main, "queue"), "0", "-1"]);
    let Ok(Value::List(members)) = members else {
        return Vec::new();
    };
    let text = |member: &Value| member.as_str().map(str::to_owned);
    members.iter().filter_map(text).collect()
}

/// A key that belongs to the name with this main key.
fn part(main: &str, part: &str) -> String {
    let name = main.strip_prefix("lockkeeper:").unwrap_or(main);
    Name::new("lockkeeper", name).map_or_else(|_| String::new(), |name| name.part(part))
}

/// The string at this key, or an empty one.
fn text(server: &MemoryStore, key: &str) -> String {
    let value = server.execute(&["GET", key]).ok();
    let value = value.as_ref().and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

/// The grants by which claims hold the name with this main key, by owner and token. The wire format defines the value there.
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

/// The same for an inflated name, whose claims share this token unless they have their own.
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
    // Within one run, a claim to write is granted before the claims that read inside it.
    // Claims with tokens of their own are granted in the order of their tokens.
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
