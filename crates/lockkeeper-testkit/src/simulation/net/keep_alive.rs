//! When keep-alives must be sent: a rule in place of stored times, because the moment of a heartbeat may move a little without
//! harm.
//!
//! A request that keeps a claim alive, a heartbeat or a renewal, is due one interval after the send of the one before, a third of
//! the claim's ttl, or half an interval after one that failed. It may be sent a twentieth of the interval early to join a batch,
//! and [`LATE`] late. The rule compares two keep-alives of the same sort in a row. What it leaves out, because the requests and
//! replies do not show when the next one is due:
//!
//! - the first one of a claim, and the first after another request about the claim, such as a conversion;
//! - too early: after a failure, and when the client learned something that makes it ask at once: a holder, of a new
//!   connection; a waiter, of anything that it hears, and that another claim of its client has left the name;
//! - too late: while the host did not run.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_core::store::{Form, StoreError, Value};
use lockkeeper_lua::Status;

use crate::simulation::checks::{Verb, claims, items, labelled, replaced, verb};
use crate::simulation::record::{Heard, Record, Sent};
use crate::simulation::trace::short;

/// How late a keep-alive may be: a tick of the timer, and one more.
const LATE: Duration = Duration::from_millis(2);

/// How many keep-alives a client sends per ttl.
const PER_TTL: u32 = 3;

/// The fraction of the interval by which one may be early.
const EARLY: u32 = 20;

/// The last keep-alive of a claim.
#[derive(Debug)]
struct Last {
    index: usize,
    at: Duration,
    verb: Verb,
    interval: Duration,
    /// How long the holder's lease lasts that the first waiter in a queue waits for.
    left: Option<Duration>,
    is_answered: bool,
}

/// What breaks the rule.
pub(super) fn breaches(record: &Record) -> Vec<String> {
    let mut last: BTreeMap<(usize, usize, &str), Last> = BTreeMap::new();
    let mut breaches = Vec::new();
    for (index, sent) in record.sent.iter().enumerate() {
        let verb = verb(&sent.call);
        let involved = claims(&sent.call).into_iter().chain(replaced(&sent.call));
        for (place, claim) in involved.enumerate() {
            let key = (sent.link, sent.server, claim);
            match verb {
                Verb::Heartbeat | Verb::Renew => {
                    let mut next = Last::of(index, sent, place, verb);
                    let before = last.get(&key).filter(|it| it.verb == verb);
                    if let Some(before) = before.filter(|it| it.is_resent_by(record, sent)) {
                        // The next one counts from the first attempt.
                        next.at = before.at;
                    } else if let Some(breach) = before.and_then(|it| it.breach(record, sent)) {
                        let claim = short(claim);
                        breaches.push(format!("c{} {verb:?} of {claim} {breach}", sent.link));
                    }
                    last.insert(key, next);
                }
                Verb::Acquire | Verb::Convert | Verb::Release => drop(last.remove(&key)),
                Verb::Other => {}
            }
        }
    }
    breaches
}

impl Last {
    fn of(index: usize, sent: &Sent, place: usize, verb: Verb) -> Self {
        let call = &sent.call;
        let ttl = match verb {
            Verb::Heartbeat => "waiter_ttl",
            _ => "ttl",
        };
        let millis = labelled(call, ttl)
            .get(place)
            .and_then(|it| it.parse().ok());
        let reply = sent
            .settled
            .as_ref()
            .and_then(|(_, reply)| reply.as_ref().ok());
        let status = reply.and_then(|reply| items(call, reply).get(place)?.status);
        let left = reply.and_then(|reply| match reply.field(place)? {
            Value::List(outcome) => u64::try_from(outcome.get(2)?.as_i64()?).ok(),
            _ => None,
        });
        Self {
            index,
            at: sent.at,
            verb,
            interval: Duration::from_millis(millis.unwrap_or_default()) / PER_TTL,
            left: left.map(Duration::from_millis),
            is_answered: matches!(status, Some(Status::Renewed | Status::Waiting)),
        }
    }

    /// Whether a call sends it again by the text of its script, because the server did not know the script.
    fn is_resent_by(&self, record: &Record, next: &Sent) -> bool {
        let settled = record.sent[self.index].settled.as_ref();
        let is_unknown =
            settled.is_some_and(|(_, it)| it.as_ref().is_err_and(StoreError::is_noscript));
        is_unknown && next.call.form == Form::Source
    }

    /// What is wrong with the time of the next one.
    fn breach(&self, record: &Record, next: &Sent) -> Option<String> {
        let settled = record.sent[self.index].settled.as_ref();
        let free = settled.map_or(next.at, |(at, _)| *at);
        let steady = self.at + self.interval;
        let due = match (self.is_answered, self.left) {
            (false, _) => self.at + self.interval / 2,
            (true, Some(left)) => steady.min(free + left),
            (true, None) => steady,
        };
        let earliest = due.saturating_sub(self.interval / EARLY);
        if self.is_answered && next.at < earliest && !self.is_hurried(record, next) {
            return Some(format!("at {:?} is {:?} early", next.at, due - next.at));
        }
        let latest = due.max(free) + LATE;
        if next.at > latest && !self.is_paused(record, next) {
            return Some(format!("at {:?} is {:?} late", next.at, next.at - due));
        }
        None
    }

    /// Whether the client learned something in between that makes it send the next one at once: a waiter, that messages may be
    /// missing, or that a claim of its client left the name without one.
    fn is_hurried(&self, record: &Record, next: &Sent) -> bool {
        let is_between = |at: Duration| self.at <= at && at <= next.at;
        let waits = self.verb == Verb::Heartbeat;
        let heard = record.heard.iter().any(|(link, at, heard)| {
            *link == next.link && is_between(*at) && (waits || *heard == Heard::NewConnection)
        });
        let about_the_name = |sent: &Sent| {
            let mut keys = next.call.item.keys.iter();
            sent.call
                .item
                .keys
                .iter()
                .next()
                .is_some_and(|main| keys.any(|key| key == main))
        };
        let releases = record.sent.iter().filter(|sent| {
            sent.link == next.link && verb(&sent.call) == Verb::Release && about_the_name(sent)
        });
        let mut settled = releases.filter_map(|sent| sent.settled.as_ref());
        heard || waits && settled.any(|(at, _)| is_between(*at))
    }

    /// Whether the host did not run in between.
    fn is_paused(&self, record: &Record, next: &Sent) -> bool {
        let mut paused = record.paused.iter();
        paused
            .any(|(link, from, until)| *link == next.link && *from <= next.at && *until >= self.at)
    }
}
