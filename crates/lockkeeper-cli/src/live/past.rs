//! What was seen of one name before: its holders, its waiters and what became of them. Sends no requests.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::sample::Totals;
use crate::look::{Lock, Part};

/// The longest time between two looks at a queue. After a longer time, nobody knows when a new claim entered the queue.
const CLOSE: Duration = Duration::from_secs(5);

/// What was seen of one name before.
#[derive(Debug, Default)]
pub(super) struct Past {
    holders: HashMap<String, Held>,
    queue: HashMap<String, Waiting>,
    /// When the last look at the queue saw all of it; `None` if it did not.
    whole: Option<Instant>,
}

/// A claim that was seen to hold.
#[derive(Debug)]
struct Held {
    first: Instant,
    /// When its lease ends unless it is renewed, according to the last look; `None`: never.
    end: Option<Instant>,
    /// Whether less than half of its longest observed lease was left: a claim that is renewed in time has two thirds left.
    late: bool,
    longest: Duration,
    revoked: bool,
}

/// A claim that was seen in the queue.
#[derive(Debug)]
struct Waiting {
    /// `None`: it was there at the first look.
    came: Option<Instant>,
    /// Whether it is no longer in the queue. The next look shows whether it holds instead.
    gone: bool,
}

impl Past {
    /// Whether any holder was ever seen.
    pub(super) fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Since when this claim is known to hold.
    pub(super) fn first_seen(&self, claim: &str) -> Option<Instant> {
        self.holders.get(claim).map(|held| held.first)
    }

    /// Notes a look. Returns what has happened since the previous look, and the waits that ended. `new` says that a claim that was
    /// not seen before was granted since the previous look, and not before the first one.
    pub(super) fn looked(
        &mut self,
        lock: &Lock,
        new: bool,
        now: Instant,
    ) -> (Totals, Vec<Duration>) {
        let mut totals = Totals::default();
        let mut waits = Vec::new();
        // The claim of a latch does not hold, and a claim in cooldown has released.
        let latch = lock.kind.as_deref() == Some("latch");
        let holding = |part: &&Part| !latch && part.state != "cooldown";
        let mut holders = HashMap::with_capacity(lock.holders.len());
        for part in lock.holders.iter().filter(holding) {
            let before = self.holders.remove(&part.claim);
            if before.is_none() {
                totals.grants += u64::from(new);
                let waited = self.queue.remove(&part.claim).and_then(|it| it.came);
                waits.extend(waited.map(|came| now.saturating_duration_since(came)));
            }
            let held = Held::seen(part, before.as_ref(), now);
            totals.revoked += u64::from(held.revoked && !before.is_some_and(|it| it.revoked));
            holders.insert(part.claim.clone(), held);
        }
        for held in std::mem::replace(&mut self.holders, holders).into_values() {
            totals.ended += 1;
            totals.ran_out += u64::from(held.has_run_out(now));
        }
        self.queue.retain(|_, waiting| !waiting.gone);
        if lock.waiters == Some(0) {
            self.queue.clear();
            self.whole = Some(now);
        }
        (totals, waits)
    }

    /// Notes a look at the queue: these claims are in front. With `whole`, there are no others.
    pub(super) fn queued(&mut self, parts: &[Part], whole: bool, now: Instant) {
        let known = |whole: Instant| now.saturating_duration_since(whole) <= CLOSE;
        let came = self.whole.is_some_and(known).then_some(now);
        let mut queue = HashMap::with_capacity(parts.len());
        for part in parts {
            let before = self.queue.remove(&part.claim);
            let came = before.map_or(came, |before| before.came);
            queue.insert(part.claim.clone(), Waiting { came, gone: false });
        }
        for (claim, before) in self.queue.drain().filter(|(_, before)| !before.gone) {
            let Waiting { came, .. } = before;
            queue.insert(claim, Waiting { came, gone: true });
        }
        self.queue = queue;
        self.whole = whole.then_some(now);
    }
}

impl Held {
    fn seen(part: &Part, before: Option<&Self>, now: Instant) -> Self {
        let left = part.left_ms.map(Duration::from_millis);
        let longest = before.map_or(Duration::ZERO, |before| before.longest);
        let longest = longest.max(left.unwrap_or_default());
        Self {
            first: before.map_or(now, |before| before.first),
            end: left.and_then(|left| now.checked_add(left)),
            late: left.is_some_and(|left| left < longest / 2),
            longest,
            revoked: part.state == "revoked",
        }
    }

    fn has_run_out(&self, now: Instant) -> bool {
        self.late && self.end.is_some_and(|end| end <= now)
    }
}
