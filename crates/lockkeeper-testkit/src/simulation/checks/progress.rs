//! Progress: which clients wait, which must ask, and that in the calm no client waits in vain.

use std::time::Duration;

use lockkeeper::Owner;
use lockkeeper_memory::MemoryStore;

use super::{Checks, PROMPTLY};
use crate::kinds::Standing;
use crate::simulation::trace::short;

/// How many heartbeats a waiter in a queue sends per waiter ttl.
const HEARTBEATS_PER_WAITER_TTL: u32 = 3;

impl Checks {
    /// Records that a task acquires, and whether it may wait.
    pub(in crate::simulation) fn wants(
        &mut self,
        client: usize,
        name: usize,
        owner: Owner,
        waits: bool,
    ) {
        *self.interest.entry((name, owner.to_string())).or_default() += 1;
        if waits {
            *self.waiting.entry((name, client)).or_default() += 1;
        }
    }

    /// Records that a task acquires this name together with others, all of them or none.
    pub(in crate::simulation) fn gathers(&mut self, name: usize, owner: Owner) {
        self.gathering.insert((name, owner.to_string()));
    }

    /// Records that a task has what it waited for, or does not want it any more.
    pub(in crate::simulation) fn waited(&mut self, client: usize, name: usize) {
        if let Some(count) = self.waiting.get_mut(&(name, client)) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&(name, client));
                self.looks.remove(&(name, client));
            }
        }
    }

    /// Records that a client was told that it may have missed messages. If it waits, it must ask before `until`, unless it
    /// waits behind a claim of its own that has the name.
    pub(in crate::simulation) fn told_of_gap(&mut self, client: usize, until: Duration) {
        for &(name, waiting) in self.waiting.keys() {
            if waiting == client && !self.leads(client, name) {
                self.looks.entry((name, client)).or_insert(until);
            }
        }
    }

    /// Whether a client holds a name that its claims hand over among themselves, by its own account or on the server.
    fn leads(&self, client: usize, name: usize) -> bool {
        let mut stood = self.stood[name].iter().flat_map(|it| &it.claims);
        self.has_valid_lead(client, name)
            || self.places[name].model.hands_over
                && stood.any(|claim| self.asked.contains(&(client, claim.clone())))
    }

    /// Whether a client holds such a name by its own account: its other claims then wait in its local queue.
    pub(super) fn has_valid_lead(&self, client: usize, name: usize) -> bool {
        let mut held = self.held.iter();
        self.places[name].model.hands_over && held.any(|it| it.client == client && it.name == name)
    }

    /// Records that a task neither acquires nor holds any more.
    pub(in crate::simulation) fn wants_no_more(&mut self, name: usize, owner: Owner) {
        let key = (name, owner.to_string());
        if let Some(count) = self.interest.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.interest.remove(&key);
                self.gathering.remove(&key);
            }
        }
    }

    /// How many tasks acquire or hold.
    pub(in crate::simulation) fn interested(&self) -> usize {
        self.interest.values().sum()
    }

    /// Checks the servers for which `looks` is true; `calm` is the beginning of the calm.
    pub(in crate::simulation) fn look_at_servers(
        &mut self,
        servers: &[MemoryStore],
        looks: impl Fn(usize) -> bool,
        now: Duration,
        calm: Option<Duration>,
    ) {
        for name in 0..self.idle.len() {
            if !looks(self.places[name].server) {
                continue;
            }
            let holders = self.holders(servers, name);
            if !self.forgets
                && !self.late
                && let Some(back) = holders
                    .iter()
                    .find(|claim| self.released.contains(&self.id(name, claim)))
            {
                let what = format!("{} was released and holds name{name} again", short(back));
                self.violate("back after its release", what);
            }
            let place = &self.places[name];
            let server = &servers[place.server];
            let free = place.on(server).is_free(&holders);
            self.look_for_conflict(name, server);
            self.look_for_the_uninformed(name, server, now, calm);
            self.look_for_those_left_waiting(name, server, now, calm);
            self.look_for_the_undying(name, &holders, now);
            self.look_for_progress(name, free, &holders, now, calm);
            self.look_for_the_unheard(name, &holders, now, calm);
        }
    }

    /// Checks the holders on the server, whatever their clients assume.
    fn look_for_conflict(&mut self, name: usize, server: &MemoryStore) {
        let place = &self.places[name];
        let (model, standing) = (&place.model, place.on(server).standing());
        for (index, one) in standing.iter().enumerate() {
            let others = &standing[index + 1..];
            if let Some(other) = others.iter().find(|other| !model.together(one, other)) {
                let claim = |grant: &Standing| grant.claims.first().map(|claim| short(claim));
                let (one, other) = (claim(one), claim(other));
                let what = format!(
                    "{} and {} hold name{name}",
                    one.unwrap_or_default(),
                    other.unwrap_or_default()
                );
                return self.violate("two on the server", what);
            }
        }
    }

    /// Finds claims that hold although no request has armed their leases for longer than a lease lasts.
    fn look_for_the_undying(&mut self, name: usize, holders: &[String], now: Duration) {
        let old = |claim: &&String| {
            let armed = self.armed.get(&self.id(name, claim));
            armed.is_some_and(|armed| self.is_over(*armed, now))
        };
        if self.steady
            && let Some(claim) = holders.iter().find(old)
        {
            let what = format!("{} holds name{name}", short(claim));
            self.violate("a lease without end", what);
        }
    }

    /// Whether a client waits that has to ask the server.
    fn is_waited_for(&self, name: usize) -> bool {
        let mut waiting = self.waiting.keys();
        waiting.any(|&(waited, client)| waited == name && !self.has_valid_lead(client, name))
    }

    /// Finds clients that were told of a gap and have not asked.
    pub(in crate::simulation) fn look_for_the_deaf(&mut self, now: Duration) {
        let late = self.looks.iter().find(|(_, until)| now > **until);
        if let Some((&(name, client), until)) = late {
            let what = format!("client {client} has not asked for name{name} until {until:?}");
            self.violate("deaf to a gap", what);
        }
    }

    /// Checks grants that no request asked for: what is granted in the calm is soon held, or released.
    fn look_for_the_unheard(
        &mut self,
        name: usize,
        holders: &[String],
        now: Duration,
        calm: Option<Duration>,
    ) {
        let standing = |(grant, since): &(Standing, Duration)| {
            calm.is_some_and(|calm| *since >= calm)
                && holders.iter().any(|claim| grant.claims.contains(claim))
        };
        self.unheard[name].retain(standing);
        let late = self.unheard[name]
            .iter()
            .find(|(grant, since)| now - *since > self.abandoned(name, &grant.claims) + PROMPTLY);
        if let Some((grant, since)) = late {
            let what = format!("name{name} with {} since {since:?}", grant.token);
            self.violate("a grant nobody heard of", what);
        }
    }

    /// How long claims may hold because their release has not arrived.
    fn abandoned<'a>(&self, name: usize, claims: impl IntoIterator<Item = &'a String>) -> Duration {
        if claims
            .into_iter()
            .all(|claim| self.releasing.contains(&self.id(name, claim)))
        {
            // A claim that stops waiting while no release gets through counts as alive for one waiter ttl; if it is granted in
            // that time, it holds for another.
            self.until_noticed(name) * HEARTBEATS_PER_WAITER_TTL
        } else {
            Duration::ZERO
        }
    }

    /// How long a name may be free while a task waits, after a lease expired without a message: in a queue only the next heartbeat
    /// notices that, a poller asks at the end of the lease.
    fn until_noticed(&self, name: usize) -> Duration {
        match self.places[name].model.waits_in_a_queue {
            true => self.heartbeat,
            false => Duration::ZERO,
        }
    }

    fn look_for_progress(
        &mut self,
        name: usize,
        free: bool,
        holders: &[String],
        now: Duration,
        calm: Option<Duration>,
    ) {
        let Some(calm) = calm.filter(|calm| now >= *calm) else {
            self.idle[name] = None;
            self.ghost[name] = None;
            return;
        };
        if free && self.is_waited_for(name) {
            let since = *self.idle[name].get_or_insert(now);
            let unheard = self.until_noticed(name);
            // A claim that asks for more permits than there are has lost its place, and learns that from its next heartbeat.
            let dropped = self.dropped[name].is_some_and(|dropped| dropped + unheard >= since);
            let told = self.freed[name] == Some(since) && !dropped;
            let unheard = if told { Duration::ZERO } else { unheard };
            if now - since > unheard + PROMPTLY {
                self.violate(
                    "a free name waited for",
                    format!("name{name} since {since:?}"),
                );
            }
        } else {
            self.idle[name] = None;
        }
        let settles = self.settles[self.places[name].server];
        let unwanted = holders.iter().find(|claim| {
            let owner = claim.split('/').next().unwrap_or_default().to_owned();
            let id = self.id(name, claim);
            let granted = self.granted.get(&id);
            let young =
                granted.is_some_and(|granted| *granted >= calm || settles && self.is_alive(claim));
            // Its acquire has outlived the tombstone of its release, which no guarantee excludes.
            let tombstone = self.tombstones.get(&id).filter(|_| self.late);
            let came_back = tombstone
                .zip(granted)
                .is_some_and(|(until, granted)| granted >= until);
            young && !came_back && !self.interest.contains_key(&(name, owner))
        });
        let Some(claim) = unwanted else {
            self.ghost[name] = None;
            return;
        };
        let ghost = self.ghost[name].take().filter(|(ghost, _)| ghost == claim);
        let (ghost, since) = ghost.unwrap_or_else(|| (claim.clone(), now));
        if now - since > self.abandoned(name, [&ghost]) + PROMPTLY {
            let what = format!("{} holds name{name} since {since:?}", short(&ghost));
            self.violate("a claim nobody wants", what);
        }
        self.ghost[name] = Some((ghost, since));
    }
}
