//! Operations on a name that the caller need not hold: inspect it, ask its holders to release it, take it by force.
//! They work for names of every kind.

use std::time::Duration;

use lockkeeper_lua::{Status, name};

use crate::admin::question::{Question, unexpected};
use crate::admin::said::Said;
use crate::engine::Engine;
use crate::seam::protocol::{Foreign, Protocol, ScriptCall};
use crate::seam::store::{Reply, Value};
use crate::words::error::{Error, Result};
use crate::words::holder::{Holder, HolderState, Waiter};
use crate::words::name::Name;
use crate::words::owner::{ClaimId, Owner};
use crate::words::record::Record;
use crate::words::token::FencingToken;

/// Who holds and waits for a name, at the moment when the server was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The name.
    pub name: String,
    /// The kind of the lock. `None` if nobody holds it and it is not in its cooldown, because a free name has no kind.
    /// If another library holds it: `redisson` for a hash of Redisson's, `foreign` for any other value.
    pub kind: Option<String>,
    /// The fencing token of the holders. `None` if nobody holds, if it is a latch, if another library holds, or if the
    /// holders do not all have the same token: a read that began inside a write and outlived it keeps the token of the
    /// write.
    pub token: Option<FencingToken>,
    /// The claims that hold or are in their cooldown; the one with most time left comes first.
    pub holders: Vec<Holder>,
    /// For a semaphore that is held: how many permits there are. For a latch: how many counts open it.
    pub limit: Option<u32>,
    /// How many claims wait; `None` if the server does not say.
    ///
    /// For kinds without a queue, this is how many clients listen for a wake, however many waiters each has. A client
    /// counts for up to 5 s after its last waiter has stopped waiting. Valkey 9.1 reports a wrong number when exactly
    /// eight clients listen.
    pub waiters: Option<u64>,
}

impl Inspection {
    /// The inspection of a name that nobody holds or waits for, for tests of your own code. Set the fields as the test
    /// needs.
    ///
    /// # Examples
    ///
    /// ```
    /// use lockkeeper_core::{FencingToken, Holder, Inspection};
    ///
    /// let free = Inspection::new("report");
    /// assert_eq!((free.kind.as_deref(), free.waiters), (None, Some(0)));
    ///
    /// let mut held = Inspection::new("report");
    /// held.kind = Some("mutex".to_owned());
    /// held.token = Some(FencingToken::new(7));
    /// held.holders.push(Holder::new("67e55044-10b1-426f-9247-bb680e5fe0c8:7/9c1f4d03a2b75e68"));
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: None,
            token: None,
            holders: Vec::new(),
            limit: None,
            waiters: Some(0),
        }
    }
}

/// Inspects a name, and asks for the labels and notes of its holders. A kind whose names another library can hold too has scripts of
/// its own.
pub(crate) async fn inspect(
    engine: &Engine,
    name: &Name,
    foreign: Option<&dyn Foreign>,
) -> Result<Inspection> {
    let mut seen = look(engine, name, foreign).await?;
    let claims = seen.holders.iter().map(|it| (it.owner, it.claim.as_str()));
    let said = Said::by(engine, name, claims).await?;
    for holder in &mut seen.holders {
        (holder.label, holder.note) = said.of(holder.owner, &holder.claim);
    }
    Ok(seen)
}

/// Inspects a name without labels and notes.
async fn look(engine: &Engine, name: &Name, foreign: Option<&dyn Foreign>) -> Result<Inspection> {
    let item = || match foreign {
        Some(foreign) => foreign.inspect(),
        None => ScriptCall::new(&name::INSPECT, keys_of(name), [name.part("wake")]),
    };
    let (reply, _) = Question::INSPECT.ask(engine, name, item).await?;
    let seen = match reply.status() {
        Status::Free => free(name, &reply),
        Status::Found => found(name, &reply),
        _ => None,
    };
    seen.ok_or_else(|| unexpected(name, &reply))
}

/// The keys of everything that is stored under a name, and of its waiters.
fn keys_of(name: &Name) -> [String; 4] {
    let [holders, queue, state] = ["holders", "queue", "state"].map(|part| name.part(part));
    [name.main().to_owned(), holders, queue, state]
}

/// The first `most` waiters for a name, in queue order.
pub(crate) async fn waiters(engine: &Engine, name: &Name, most: u32) -> Result<Vec<Waiter>> {
    let claims = waiting_claims(engine, name, most).await?;
    let owned = claims.iter().map(|it| (Owner::of_claim(it), it.as_str()));
    let said = Said::by(engine, name, owned).await?;
    let waiter = |claim: &str| {
        let mut waiter = Waiter::new(claim);
        (waiter.label, waiter.note) = said.of(waiter.owner, claim);
        waiter
    };
    Ok(claims.iter().map(|it| waiter(it)).collect())
}

/// The claims that wait, in queue order.
async fn waiting_claims(engine: &Engine, name: &Name, most: u32) -> Result<Vec<String>> {
    let Some(last) = most.checked_sub(1) else {
        return Ok(Vec::new());
    };
    let item = || {
        let page = ["0".to_owned(), last.to_string()];
        ScriptCall::new(
            &name::WAITERS,
            [name.main().to_owned(), name.part("queue")],
            page,
        )
    };
    let (reply, _) = Question::QUEUE.ask(engine, name, item).await?;
    let (Status::Waiters, Some(Value::List(claims))) = (reply.status(), reply.field(0)) else {
        return Err(unexpected(name, &reply));
    };
    let claims = claims.iter().filter_map(Value::as_str);
    Ok(claims.map(str::to_owned).collect())
}

/// Who holds a name, apart from the claims in `own`, if the server answers within this time; half of it is reserved for
/// the holder's label and note.
pub(crate) async fn in_the_way(
    engine: &Engine,
    protocol: &dyn Protocol,
    own: &[ClaimId],
    longest: Duration,
) -> Option<Holder> {
    let name = protocol.name();
    let seen = tokio::time::timeout(longest / 2, look(engine, name, protocol.foreign())).await;
    let mut holders = seen.ok()?.ok()?.holders.into_iter();
    let is_own = |holder: &Holder| own.iter().any(|it| it.as_str() == holder.claim);
    let mut holder = holders.find(|it| !is_own(it))?;
    let claims = [(holder.owner, holder.claim.as_str())].into_iter();
    let said = tokio::time::timeout(longest / 2, Said::by(engine, name, claims)).await;
    if let Ok(Ok(said)) = said {
        (holder.label, holder.note) = said.of(holder.owner, &holder.claim);
    }
    Some(holder)
}

/// The owners of the first `most` waiters for a name, in queue order.
pub(crate) async fn waiting_owners(engine: &Engine, name: &Name, most: u32) -> Result<Vec<Owner>> {
    let claims = waiting_claims(engine, name, most).await?;
    Ok(claims.iter().filter_map(|it| Owner::of_claim(it)).collect())
}

fn free(name: &Name, reply: &Reply) -> Option<Inspection> {
    Some(Inspection {
        waiters: reply.field(0)?.as_i64()?.try_into().ok(),
        ..Inspection::new(name.as_str())
    })
}

fn found(name: &Name, reply: &Reply) -> Option<Inspection> {
    let Value::List(claims) = reply.field(3)? else {
        return None;
    };
    let mut holders: Vec<Holder> = claims.iter().map(holder).collect::<Option<_>>()?;
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.left.unwrap_or(Duration::MAX)));
    let token = reply.field(1)?.as_str()?.parse().ok();
    let token = token.filter(|token| *token > 0).map(FencingToken::new);
    for holder in &mut holders {
        holder.since = token.and_then(FencingToken::time);
    }
    Some(Inspection {
        name: name.to_string(),
        kind: Some(kind_of(reply.field(0)?.as_str()?)),
        token,
        holders,
        limit: reply
            .field(4)?
            .as_i64()?
            .try_into()
            .ok()
            .filter(|limit| *limit > 0),
        waiters: reply.field(2)?.as_i64()?.try_into().ok(),
    })
}

/// The kind shown for another library's lock: an unknown value, or a hash of Redisson's.
const FOREIGN: &str = "foreign";
const REDISSON: &str = "redisson";

/// The kind of what a name holds, as the server reports it.
fn kind_of(told: &str) -> String {
    let kind = Some(told).filter(|told| !told.is_empty());
    kind.unwrap_or(FOREIGN).to_owned()
}

/// The text that stands for a claim in inspections and for [`force_release`]: the claim itself, or its bytes in hex if
/// it is not printable text, as other libraries' claims may be.
fn name_of(claim: &[u8]) -> String {
    match std::str::from_utf8(claim) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => {
            let digits = claim.iter().map(|byte| format!("{byte:02x}"));
            format!("hex:{}", digits.collect::<String>())
        }
    }
}

fn holder(fields: &Value) -> Option<Holder> {
    let Value::List(fields) = fields else {
        return None;
    };
    let [claim, left, state, share, holds @ ..] = &fields[..] else {
        return None;
    };
    let Value::Bytes(claim) = claim else {
        return None;
    };
    Some(Holder {
        left: u64::try_from(left.as_i64()?)
            .ok()
            .map(Duration::from_millis),
        state: match state.as_str()? {
            "held" => HolderState::Held,
            "revoked" => HolderState::Revoked,
            "cooldown" => HolderState::Cooldown,
            _ => return None,
        },
        shared: share.as_str()? != "x",
        permits: share
            .as_str()?
            .split_once('/')
            .and_then(|(permits, _)| permits.parse().ok()),
        holds: holds
            .first()
            .and_then(Value::as_i64)
            .and_then(|holds| holds.try_into().ok()),
        ..Holder::new(name_of(claim))
    })
}

/// Asks the holders of a name to release it; returns how many claims were told.
pub(crate) async fn revoke(
    engine: &Engine,
    name: &Name,
    foreign: Option<&dyn Foreign>,
) -> Result<u64> {
    let item = || match foreign {
        Some(foreign) => foreign.revoke(),
        None => ScriptCall::new(&name::REVOKE, keys_of(name), ScriptCall::NONE),
    };
    let (reply, _) = match Question::REVOKE.ask(engine, name, item).await {
        Err(error @ Error::WrongKind { .. }) => {
            return Err(held_by_others(engine, name).await?.unwrap_or(error));
        }
        asked => asked?,
    };
    let told = match reply.status() {
        Status::Free => Some(0),
        Status::Told => reply.field(0).and_then(Value::as_i64),
        _ => None,
    };
    told.and_then(|told| u64::try_from(told).ok())
        .ok_or_else(|| unexpected(name, &reply))
}

/// The error that another library holds a name, if one does.
async fn held_by_others(engine: &Engine, name: &Name) -> Result<Option<Error>> {
    let seen = match look(engine, name, None).await {
        Err(Error::WrongKind { .. }) => return Ok(None),
        seen => seen?,
    };
    let is_foreign = matches!(seen.kind.as_deref(), Some(FOREIGN | REDISSON));
    let holder = seen.holders.into_iter().next().filter(|_| is_foreign);
    Ok(holder.map(|holder| Error::foreign(seen.name, holder)))
}

/// Takes a name from all claims that hold it together with `claim`; returns whether that claim was one of them.
pub(crate) async fn force_release(
    engine: &Engine,
    name: &Name,
    claim: &str,
    foreign: Option<&dyn Foreign>,
) -> Result<bool> {
    let channel = foreign.map_or_else(|| name.part("wake"), Foreign::channel);
    let item = || match foreign {
        Some(foreign) => foreign.free(claim),
        None => ScriptCall::new(&name::FREE, keys_of(name), [claim, &channel]),
    };
    let (reply, doubt) = Question::FORCE.ask(engine, name, item).await?;
    match (reply.status(), doubt) {
        (Status::Released, _) => {
            tracing::warn!(name = name.as_str(), claim, "released by force");
            let told = reply.field(0).and_then(Value::as_i64) == Some(1);
            engine.subscriptions.left(&channel, told);
            Ok(true)
        }
        (Status::NotHeld, None) => Ok(false),
        // It ended by itself, or the unanswered request removed it.
        (Status::NotHeld, Some(doubt)) => Err(Question::FORCE.failed(name, doubt)),
        _ => Err(unexpected(name, &reply)),
    }
}

/// How many claims wait in the queue of a name, and the place, counted from 1, of the first waiting acquisition of
/// `owner` by this client.
pub(crate) async fn queue(
    engine: &Engine,
    protocol: &dyn Protocol,
    owner: Option<&Owner>,
) -> Result<(u64, Option<u64>)> {
    let name = protocol.name();
    let claims = match owner {
        Some(owner) => engine.requester.claims.waiting(name, owner),
        None => vec![String::new()],
    };
    let (mut length, mut first) = (0, None);
    for claim in claims {
        let Some(item) = protocol.queue().map(|queue| queue.position(&claim)) else {
            break;
        };
        let (reply, _) = Question::QUEUE.ask(engine, name, || item.clone()).await?;
        let number = |index: usize| reply.field(index).and_then(Value::as_i64);
        let (Status::Queued, Some(waiting), Some(place)) = (reply.status(), number(0), number(1))
        else {
            return Err(unexpected(name, &reply));
        };
        length = u64::try_from(waiting).unwrap_or(0);
        let place = u64::try_from(place).ok().filter(|place| *place > 0);
        first = first.into_iter().chain(place).min();
    }
    Ok((length, first))
}

/// The stored outcome of work that is done once. With `forget`, deletes it first if it has that token.
pub(crate) async fn record(
    engine: &Engine,
    protocol: &dyn Protocol,
    forget: Option<FencingToken>,
) -> Result<Option<Record>> {
    let name = protocol.name();
    let Some(recorded) = protocol.recorded() else {
        return Err(Error::config(format!(
            "a {} lock stores no result",
            protocol.kind()
        )));
    };
    let question = Question::of(protocol.kind(), "read the result of");
    let item = || recorded.record(forget);
    let (reply, _) = question.ask(engine, name, item).await?;
    match (reply.status(), Record::read(&reply)) {
        (Status::Gone, _) => Ok(None),
        (_, Some(record)) => Ok(Some(record)),
        _ => Err(unexpected(name, &reply)),
    }
}
