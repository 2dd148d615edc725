//! Turns in a queue: a claim that was told to wait earlier is granted earlier, unless it was silent for too long. Also the
//! grants that the server makes without a request for them.

use std::time::Duration;

use lockkeeper_core::store::{Call, Reply};
use lockkeeper_lua::Status;
use lockkeeper_memory::MemoryStore;

use super::Checks;
use super::requests::{Item, Verb, Waiter, claims, items, verb};
use crate::kinds::{Grant, Standing};
use crate::simulation::beyond::Beyond;
use crate::simulation::trace::short;

impl Checks {
    /// Checks, after a script, which claims wait, which have gone, and whose turn it was.
    pub(super) fn look_at_turns(
        &mut self,
        call: &Call,
        reply: &Reply,
        (place, server): (usize, &MemoryStore),
        now: Duration,
    ) {
        for name in 0..self.queues.len() {
            let place_of_name = &self.places[name];
            let model = place_of_name.model;
            // A mutex is handed over within its cohort, past the queue.
            let handed_over = model.hands_over && verb(call) == Verb::Convert;
            if place_of_name.server != place
                || !call.item.keys.iter().any(|key| key == place_of_name.main)
            {
                continue;
            }
            // Granting comes first in a script, before it enqueues or removes the claims that asked.
            let standing = place_of_name.on(server).standing();
            let before = std::mem::replace(&mut self.stood[name], standing.clone());
            let mut new = standing.clone();
            // A grant that is back because the clock stepped back is not new.
            for grant in &mut new {
                let token = grant.token;
                let new = |claim: &String| self.ever.insert((claim.clone(), token));
                grant.claims.retain(new);
            }
            new.retain(|grant| !grant.claims.is_empty());
            if model.has_permits() {
                self.look_at_limit(
                    name,
                    call,
                    server,
                    (&before, &standing),
                    !new.is_empty(),
                    now,
                );
            }
            for grant in new.iter().filter(|_| !handed_over) {
                // An owner that holds is admitted again past the queue, in either mode.
                if model.has_permits() || !before.iter().any(|other| other.owner == grant.owner) {
                    let owners = new.iter().filter(|other| other.owner == grant.owner);
                    let claims: Vec<&String> = owners.flat_map(|it| &it.claims).collect();
                    self.took_its_turn(name, &claims, &standing, call, now);
                }
            }
            for grant in new {
                self.was_granted(name, grant, now);
            }
            let stands =
                |waiter: &Waiter| standing.iter().any(|it| it.claims.contains(&waiter.claim));
            self.queues[name].retain(|waiter| !stands(waiter));
        }
        self.hear(call, reply, place, now);
    }

    /// Records that these claims now hold and did not before.
    fn was_granted(&mut self, name: usize, grant: Standing, now: Duration) {
        let Standing { claims, .. } = &grant;
        if let Some(claim) = claims.first() {
            let next = Grant {
                owner: grant.owner.clone(),
                claim: claim.clone(),
                token: grant.token,
                mode: grant.mode,
                from: now,
                until: now,
            };
            self.follow(name, next);
        }
        for claim in claims {
            self.armed.insert(self.id(name, claim), now);
        }
        // A server that forgets may give a place back to a claim that was released.
        if !self.forgets && claims.iter().any(|claim| self.is_alive(claim)) {
            for claim in claims {
                self.granted.insert(self.id(name, claim), now);
            }
            if !self.gathering.contains(&(name, grant.owner.clone())) {
                self.unheard[name].push((grant, now));
            }
        }
    }

    /// Whether the client that has asked for a claim is neither closed nor gone.
    pub(super) fn is_alive(&self, claim: &str) -> bool {
        let asked = self.asked.iter().find(|(_, asked)| asked == claim);
        asked.is_some_and(|(client, _)| !self.dead.contains(client))
    }

    /// Checks that a claim in `granted` had its turn: every live claim before it must hold too.
    fn took_its_turn(
        &mut self,
        name: usize,
        granted: &[&String],
        standing: &[Standing],
        call: &Call,
        now: Duration,
    ) {
        if self.forgets {
            // It is unknown whose places were lost.
            return;
        }
        // A release takes effect before the next claim is granted.
        let releases = verb(call) == Verb::Release;
        let gone = |claim: &String| releases && claims(call).contains(&claim.as_str());
        let lost = |waiter: &Waiter| waiter.lost && granted.contains(&&waiter.claim);
        if self.queues[name].iter().any(lost) {
            return;
        }
        let mut before = self.queues[name]
            .iter()
            .take_while(|waiter| !granted.contains(&&waiter.claim));
        let holds = |claim| standing.iter().any(|grant| grant.claims.contains(claim));
        let first = before.find(|waiter| {
            let alive = !waiter.lost && now - waiter.heard < waiter.alive;
            alive && !gone(&waiter.claim) && !holds(&waiter.claim)
        });
        if let Some(first) = first {
            let granted = granted.first().map(|claim| short(claim));
            let what = format!(
                "{} waits for name{name} before {}",
                short(&first.claim),
                granted.unwrap_or_default()
            );
            self.violate("out of turn", what);
        }
    }

    /// Records the replies to the claims that asked.
    fn hear(&mut self, call: &Call, reply: &Reply, server: usize, now: Duration) {
        let verb = verb(call);
        if !matches!(
            verb,
            Verb::Acquire | Verb::Heartbeat | Verb::Release | Verb::Convert
        ) {
            return;
        }
        let keeps_its_place = self.beyond == Some(Beyond::Silence);
        for item in items(call, reply) {
            let permits = item.mode().permits().into();
            // The server's clock runs or steps ahead by less than a twentieth of the waiter ttl.
            let alive = match keeps_its_place {
                true => Duration::MAX,
                false => item.waiter_ttl.mul_f64(0.95),
            };
            let Item {
                claim,
                main,
                status,
                ..
            } = item;
            let Some(name) = self.name_of(server, main) else {
                continue;
            };
            let queue = &mut self.queues[name];
            let known = queue.iter_mut().find(|waiter| waiter.claim == claim);
            match (status, known) {
                (Some(Status::Waiting | Status::More), Some(waiter)) if verb != Verb::Release => {
                    waiter.lost |= verb == Verb::Acquire && now - waiter.heard >= waiter.alive;
                    waiter.heard = now;
                }
                (Some(Status::Waiting), None) => queue.push(Waiter {
                    claim: claim.to_owned(),
                    heard: now,
                    alive,
                    permits,
                    lost: false,
                }),
                // The reply to a late copy of an acquire, after the owner has begun to read, or of a take: the place stays.
                (Some(Status::WouldDeadlock | Status::Inflated), _) => {}
                _ => queue.retain(|waiter| waiter.claim != claim),
            }
        }
    }
}
