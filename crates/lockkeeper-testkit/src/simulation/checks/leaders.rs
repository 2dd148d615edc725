//! Leaders as observers see them: never an earlier term than before, and no value but the leader's own. In the calm, an
//! observer knows the server's state within a heartbeat.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper::Leader;
use lockkeeper_memory::MemoryStore;

use super::{Checks, PROMPTLY};

/// How long a request that was lost before the calm stays pending: the clients' setting.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The leaders and their observers.
#[derive(Debug, Default)]
pub(in crate::simulation) struct Leaders {
    /// By name and client.
    observers: BTreeMap<(usize, usize), Observer>,
    /// The leader on the server, by name.
    leads: BTreeMap<usize, Led>,
}

/// What one observer has been told.
#[derive(Debug)]
struct Observer {
    began: Duration,
    /// The largest term so far.
    latest: u64,
    /// The term of the present leader.
    term: Option<u64>,
    /// Whether the leader has proclaimed a value.
    is_known: bool,
}

#[derive(Debug)]
struct Led {
    term: Option<u64>,
    since: Duration,
    /// Since when the leader's client has held its lease, if it does.
    taken: Option<Duration>,
}

impl Leaders {
    /// Records a new observer of a name.
    pub(in crate::simulation) fn observes(&mut self, name: usize, client: usize, now: Duration) {
        let observer = Observer {
            began: now,
            latest: 0,
            term: None,
            is_known: false,
        };
        self.observers.insert((name, client), observer);
    }

    pub(in crate::simulation) fn observes_no_more(&mut self, name: usize, client: usize) {
        self.observers.remove(&(name, client));
    }
}

impl Checks {
    /// Checks what an observer was told.
    pub(in crate::simulation) fn observed(
        &mut self,
        name: usize,
        client: usize,
        leader: Option<&Leader>,
    ) {
        let Some(observer) = self.leaders.observers.get_mut(&(name, client)) else {
            return;
        };
        let term = leader.map(|leader| leader.term.get());
        observer.term = term;
        observer.is_known = leader.is_some_and(|leader| !leader.value.is_empty());
        let (Some(leader), Some(term)) = (leader, term) else {
            return;
        };
        let before = std::mem::replace(&mut observer.latest, term);
        let owner = leader.owner.map(|owner| owner.to_string());
        let rule = if term < before {
            "an observer that goes back"
        } else if !self.eras.contains_key(&(name, term)) {
            "a leader that was never granted"
        } else if !leader.value.is_empty() && Some(&leader.value) != owner.as_ref() {
            "a value of another leader"
        } else {
            return;
        };
        let what =
            format!("client {client} sees name{name} with {term} after {before}: {leader:?}");
        self.violate(rule, what);
    }

    /// Finds observers that do not know the leader, in the calm.
    pub(super) fn look_for_the_uninformed(
        &mut self,
        name: usize,
        server: &MemoryStore,
        now: Duration,
        calm: Option<Duration>,
    ) {
        let place = &self.places[name];
        if !place.model.proclaims() {
            return;
        }
        let term = place.on(server).standing().first().map(|it| it.token);
        let new = || Led {
            term,
            since: now,
            taken: None,
        };
        let led = self.leaders.leads.entry(name).or_insert_with(new);
        if led.term != term {
            *led = new();
        }
        let mut held = self.held.iter();
        let is_taken = held.any(|it| it.name == name && Some(it.grant.token) == term);
        led.taken = is_taken.then(|| led.taken.unwrap_or(now));
        let Some(calm) = calm else { return };
        let (since, taken) = (led.since, led.taken);
        let calm = calm + REQUEST_TIMEOUT;
        let late = |from: Duration| now.saturating_sub(from.max(calm)) > self.heartbeat + PROMPTLY;
        let uninformed = self.leaders.observers.iter().find(|((of, _), observer)| {
            let is_other = observer.term != term && term.is_none_or(|term| term > observer.latest);
            let is_unknown = observer.term == term && !observer.is_known;
            *of == name
                && (is_other && late(since.max(observer.began))
                    || is_unknown && taken.is_some_and(|taken| late(taken.max(observer.began))))
        });
        if let Some(((_, client), observer)) = uninformed {
            let what = format!(
                "client {client}, {observer:?}: name{name} is led by {term:?} since {since:?}, taken {taken:?}"
            );
            self.violate("an observer that does not know", what);
        }
    }
}
