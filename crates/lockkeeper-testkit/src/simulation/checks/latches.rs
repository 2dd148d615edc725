//! Latches: a latch opens when as many ids have counted it down as it was armed with, and not before. It lives for its ttl
//! after it was armed and after each count. A waiter is told a state that was true after it began to wait, and in the calm it
//! is told soon after the latch has opened or ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockkeeper_core::store::{Call, Reply, Value};
use lockkeeper_lua::{Status, latch};
use lockkeeper_memory::MemoryStore;

use super::requests::labelled;
use super::{Checks, PROMPTLY};
use crate::simulation::trace::short;

/// The state of latches.
#[derive(Debug, Default)]
pub(in crate::simulation) struct Latches {
    /// The latch that was armed last, by name.
    last: BTreeMap<usize, Armed>,
    /// The ids that have ever counted a latch down, by name and the claim that armed it.
    counted: BTreeMap<(usize, String), BTreeSet<String>>,
    /// Since when it has not been armed on the server, by name.
    idle: BTreeMap<usize, Duration>,
    /// When a client was last told that a latch is open or not armed, by name, client and which of the two.
    seen: BTreeMap<(usize, usize, bool), Duration>,
    /// The waiters: the name, the client and since when.
    waiting: BTreeMap<u64, (usize, usize, Duration)>,
    number: u64,
}

/// A latch on the server.
#[derive(Debug, Clone)]
struct Armed {
    claim: String,
    n: usize,
    ttl: Duration,
    /// When it was armed, or last counted down by a new id.
    kept: Duration,
}

impl Armed {
    /// How much longer or shorter than its ttl it may live: clocks run and step by less than this.
    fn slack(&self) -> Duration {
        self.ttl / 10
    }
}

impl Latches {
    /// Records a new waiter and returns its number.
    pub(in crate::simulation) fn waits(
        &mut self,
        name: usize,
        client: usize,
        now: Duration,
    ) -> u64 {
        self.number += 1;
        self.waiting.insert(self.number, (name, client, now));
        self.number
    }

    pub(in crate::simulation) fn waits_no_more(&mut self, number: u64) {
        self.waiting.remove(&number);
    }
}

impl Checks {
    /// Checks a latch after a script; `server` is as the script left it.
    pub(super) fn look_at_latch(
        &mut self,
        (client, place): (usize, usize),
        call: &Call,
        reply: &Reply,
        server: &MemoryStore,
        now: Duration,
    ) {
        let main = call.item.keys.first().unwrap_or_default();
        let name = self.name_of(place, main);
        let Some(name) = name.filter(|name| self.places[*name].model.is_a_latch()) else {
            return;
        };
        let script = call.item.script.name;
        let mut violation = None;
        if script == latch::ARM.name {
            violation = self.armed(name, (call, reply), server, now);
        } else if script == latch::COUNT_DOWN.name && reply.status() == Status::Counts {
            self.counted(name, labelled(call, "id")[0], server, now);
        }
        let field = |at: usize| reply.field(at).and_then(Value::as_str);
        let said = match reply.status() {
            Status::Stored => field(1),
            Status::Gone => field(0),
            _ => None,
        };
        let said = said.unwrap_or_default().to_owned();
        let ended = (!said.is_empty()).then_some(said == "open");
        if let Some(opened) = ended.filter(|_| script == latch::LOOK.name) {
            self.latches.seen.insert((name, client, opened), now);
        }
        let violation = violation
            .or_else(|| (ended == Some(false)).then(|| self.has_ended(name, &said, now))?)
            .or_else(|| self.stands_well(name, server));
        if let Some((rule, what)) = violation {
            self.violate(rule, format!("name{name}: {what}"));
        }
    }

    /// Records that an arming was answered.
    fn armed(
        &mut self,
        name: usize,
        (call, reply): (&Call, &Reply),
        server: &MemoryStore,
        now: Duration,
    ) -> Broken {
        let numbers = [0, 1, 2].map(|at| reply.field(at).and_then(Value::as_i64));
        let (Status::Counts, [Some(left), Some(n), Some(1)]) = (reply.status(), numbers) else {
            return None;
        };
        let (claim, ttl) = (labelled(call, "claim")[0], labelled(call, "ttl")[0]);
        let new = Armed {
            claim: claim.to_owned(),
            n: usize::try_from(n).unwrap_or(usize::MAX),
            ttl: Duration::from_millis(ttl.parse().unwrap_or_default()),
            kept: now,
        };
        // Arming again changes nothing, unless the latch has ended in the meantime: then it is armed anew, for a whole ttl.
        let main = &self.places[name].main;
        let lives = server
            .execute(&["PTTL", main])
            .ok()
            .and_then(|it| it.as_i64());
        let is_whole = lives == i64::try_from(new.ttl.as_millis()).ok();
        let stood = self.latches.last.get(&name);
        if left < n || !is_whole || stood.is_some_and(|it| it.claim == claim && it.kept == now) {
            return None;
        }
        let key = (name, claim.to_owned());
        let counted = self.latches.counted.entry(key).or_default();
        counted.clear();
        let over = stood.is_none_or(|it| now + it.slack() >= it.kept + it.ttl);
        self.latches.last.insert(name, new);
        (!over && !self.forgets).then(|| ("a latch that is armed over another", short(claim)))
    }

    /// Records that a count was answered.
    fn counted(&mut self, name: usize, id: &str, server: &MemoryStore, now: Duration) {
        let Some((_, n, claim)) = self.places[name].on(server).latch() else {
            return;
        };
        let key = (name, claim.clone());
        let counted = self.latches.counted.entry(key).or_default();
        let was_open = counted.len() >= usize::try_from(n).unwrap_or(usize::MAX);
        let last = self.latches.last.get_mut(&name);
        if !was_open
            && counted.insert(id.to_owned())
            && let Some(last) = last.filter(|last| last.claim == claim)
        {
            last.kept = now;
        }
    }

    /// Checks the server's reply that the latch of a name has ended or is absent.
    fn has_ended(&self, name: usize, said: &str, now: Duration) -> Broken {
        let last = self.latches.last.get(&name).filter(|_| !self.forgets)?;
        let lives = |ttls: u32| now + last.slack() * ttls < last.kept + last.ttl * ttls;
        let counted = self.latches.counted.get(&(name, last.claim.clone()));
        let opened = counted.is_some_and(|counted| counted.len() >= last.n);
        let rule = match said {
            _ if lives(1) => "a latch that ended early",
            "absent" if !opened && lives(2) => "an end that was forgotten",
            "ended" if opened => "an opening that was forgotten",
            _ => return None,
        };
        Some((rule, short(&last.claim)))
    }

    /// Checks that the server's state matches the ids that have counted.
    fn stands_well(&self, name: usize, server: &MemoryStore) -> Broken {
        let shown = self.places[name].on(server);
        let (left, n, claim) = shown.latch()?;
        let counted = self.latches.counted.get(&(name, claim.clone()));
        let counted = counted.map_or(0, BTreeSet::len);
        let came = usize::try_from(n - left.min(n)).unwrap_or(usize::MAX);
        let rule = match counted {
            _ if came > counted => "a count that nobody made",
            _ if left > 0 && came < counted && !self.forgets => "a count that was lost",
            _ if left == 0 && shown.has_ids() => "ids of a latch that is open",
            _ => return None,
        };
        Some((
            rule,
            format!("{left} of {n} are to come, {counted} have counted"),
        ))
    }

    /// Records that a waiter is done: the latch is open or not armed.
    pub(in crate::simulation) fn let_go(
        &mut self,
        name: usize,
        client: usize,
        passes: bool,
        began: Duration,
    ) {
        let seen = self.latches.seen.get(&(name, client, passes));
        if seen.is_none_or(|seen| *seen < began) {
            let what =
                format!("client {client} since {began:?}, let pass: {passes}, seen {seen:?}");
            self.violate("a wait that an earlier look ends", what);
        }
    }

    /// Finds latches that live too long and, in the calm, waiters for a latch that is open or has ended.
    pub(super) fn look_for_those_left_waiting(
        &mut self,
        name: usize,
        server: &MemoryStore,
        now: Duration,
        calm: Option<Duration>,
    ) {
        let place = &self.places[name];
        if !place.model.is_a_latch() {
            return;
        }
        let stands = place.on(server).latch();
        let last = self.latches.last.get(&name);
        let over = |last: &Armed| now > last.kept + last.ttl + last.slack();
        if self.steady && stands.is_some() && last.is_some_and(over) {
            let what = format!("name{name}: {last:?}");
            return self.violate("a latch without an end", what);
        }
        if stands.as_ref().is_some_and(|(left, ..)| *left > 0) {
            self.latches.idle.remove(&name);
            return;
        }
        let since = *self.latches.idle.entry(name).or_insert(now);
        let Some(calm) = calm else { return };
        if !self.steady && stands.is_none_or(|(left, ..)| left > 0) {
            // By a clock that steps back, it may have ended early: waiters poll every 5 s.
            return;
        }
        let left = self.latches.waiting.values().find(|(waited, _, began)| {
            *waited == name && now > since.max(*began).max(calm) + PROMPTLY
        });
        if let Some((_, client, began)) = left {
            let what =
                format!("client {client} since {began:?} for name{name}, over since {since:?}");
            self.violate("a latch waited for that is not armed", what);
        }
    }
}

/// A broken rule, and how it was broken.
type Broken = Option<(&'static str, String)>;
