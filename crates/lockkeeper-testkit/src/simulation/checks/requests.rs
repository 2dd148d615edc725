//! What requests and their replies say about claims.

use std::time::Duration;

use lockkeeper_core::store::{Call, Reply, Value};
use lockkeeper_lua::{Script, Status};

use crate::kinds::Mode;

/// A claim on one server: a Redlock uses the same claim on each of its servers.
pub(in crate::simulation) type Id = (usize, String);

/// A claim that was told to wait.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    pub(super) claim: String,
    /// When the server last executed a request of it.
    pub(super) heard: Duration,
    /// How long it surely counts as alive after that, whatever the clocks do.
    pub(super) alive: Duration,
    /// How many permits of a semaphore it waits for.
    pub(super) permits: u32,
    /// It was silent and then acquired again: it may have kept its place or have a new one.
    pub(super) lost: bool,
}

/// The effect of a request on claims, as far as the laws distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::simulation) enum Verb {
    Acquire,
    /// One claim replaces another.
    Convert,
    Heartbeat,
    Renew,
    Release,
    /// It changes nothing, or does not concern claims.
    Other,
}

pub(in crate::simulation) fn verb(call: &Call) -> Verb {
    verb_of(call.item.script)
}

/// Whether the checks take requests of this script for ones that change claims.
pub fn changes_a_claim(script: &Script) -> bool {
    verb_of(script) != Verb::Other
}

fn verb_of(script: &Script) -> Verb {
    let file = script.name.rsplit('/').next().unwrap_or_default();
    // If another library has several sorts of a lock, the script's name begins with the sort.
    let sorts = ["permits_", "latch_"].into_iter();
    let verb = sorts.fold(file, |verb, sort| verb.strip_prefix(sort).unwrap_or(verb));
    match Some(verb) {
        // A waiter for a latch asks by a look.
        Some("take" | "acquire" | "look") => Verb::Acquire,
        Some("convert") => Verb::Convert,
        Some("heartbeat") => Verb::Heartbeat,
        Some(renew) if renew.starts_with("renew") => Verb::Renew,
        Some("drop" | "store") => Verb::Release,
        Some(release) if release.starts_with("release") => Verb::Release,
        _ => Verb::Other,
    }
}

/// The claims in a request; the script's own description says where they are.
pub(in crate::simulation) fn claims(call: &Call) -> Vec<&str> {
    match value(call) {
        Some(value) => value.split(' ').nth(2).into_iter().collect(),
        None => labelled(call, "claim"),
    }
}

/// The value of a claim that is alone under its name, or the part of it before the token, in a request that has it in place of the
/// claim.
fn value(call: &Call) -> Option<&str> {
    let has = ["lock/take", "lock/drop"].contains(&call.item.script.name);
    let values = labelled(call, "value");
    values.first().copied().filter(|_| has)
}

/// The outcome of one claim of a request.
#[derive(Debug)]
pub(in crate::simulation) struct Item<'a> {
    pub(super) claim: &'a str,
    /// The main key of its name.
    pub(super) main: &'a str,
    /// The share that it asks for; empty if the request does not say.
    pub(super) share: &'a str,
    /// How long it counts as alive if it waits; zero if the request does not say.
    pub(super) waiter_ttl: Duration,
    /// How long the tombstone of its release stands; zero if it leaves none.
    pub(super) tombstone_ttl: Duration,
    pub(in crate::simulation) status: Option<Status>,
    /// The first number behind the status: for a grant, its token.
    pub(super) token: u64,
}

impl Item<'_> {
    /// How it asks to hold.
    pub(super) fn mode(&self) -> Mode {
        Mode::of_share(self.share)
    }
}

/// The outcome of each claim of a request.
pub(in crate::simulation) fn items<'a>(call: &'a Call, reply: &Reply) -> Vec<Item<'a>> {
    let script = call.item.script;
    let each = claims(call).into_iter().enumerate();
    let shares = match value(call) {
        Some(value) => value.split(' ').skip(1).take(1).collect(),
        None => labelled(call, "share"),
    };
    let times = ["waiter_ttl", "tombstone_ttl"].map(|label| labelled(call, label));
    let names = names(call);
    let item = |(index, claim)| {
        let share = shares.get(index).copied().unwrap_or_default();
        let main = call.item.keys.get(names.get(index)? * script.keys.len())?;
        let [waiter_ttl, tombstone_ttl] = times.each_ref().map(|its| {
            let millis = its.get(index).and_then(|text: &&str| text.parse().ok());
            Duration::from_millis(millis.unwrap_or_default())
        });
        let (status, number) = match reply.field(index).filter(|_| script.batch) {
            Some(Value::List(outcome)) => (outcome.first().and_then(word), outcome.get(1)),
            Some(outcome) => (word(outcome), None),
            None => (Some(reply.status()), reply.field(0)),
        };
        let token = number.and_then(Value::as_i64).unwrap_or_default();
        Some(Item {
            claim,
            main,
            share,
            waiter_ttl,
            tombstone_ttl,
            status,
            token: token.try_into().unwrap_or_default(),
        })
    };
    each.filter_map(item).collect()
}

/// Which keys each item of a request is about, counted from 0: its own, or those of the item before.
fn names(call: &Call) -> Vec<usize> {
    let script = call.item.script;
    match script.once.first() {
        Some(once) => {
            let mut brought = 0;
            let number = |arg: &str| {
                brought += usize::from(!arg.is_empty());
                brought.saturating_sub(1)
            };
            labelled(call, once).into_iter().map(number).collect()
        }
        None => (0..claims(call).len()).collect(),
    }
}

fn word(value: &Value) -> Option<Status> {
    Status::parse(value.as_str()?)
}

/// The claim that a request replaces.
pub(in crate::simulation) fn replaced(call: &Call) -> Option<&str> {
    labelled(call, "old").first().copied()
}

/// The arguments that the script's own description labels `label`.
pub(in crate::simulation) fn labelled<'a>(call: &'a Call, label: &str) -> Vec<&'a str> {
    let texts = labels(call).zip(call.item.args.iter());
    let meant = texts.filter(|(other, _)| *other == label);
    meant.map(|(_, text)| text).collect()
}

/// The labels of a request's arguments, by the script's own description.
pub(in crate::simulation) fn labels(call: &Call) -> impl Iterator<Item = &'static str> {
    let labels = call.item.script.args.get(1..).unwrap_or_default();
    labels.iter().copied().cycle()
}
