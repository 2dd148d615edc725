//! The laws of claims that can be checked in transit: a claim lives once, and has one request at a time.

use std::time::Duration;

use lockkeeper_core::store::Call;

use super::Checks;
use super::requests::{Id, Verb, claims, replaced, verb};
use crate::simulation::trace::short;

impl Checks {
    /// Checks the second law of claims when a client sends a request. Returns the claims, which are open from now on.
    pub(in crate::simulation) fn sent(
        &mut self,
        client: usize,
        server: usize,
        call: &Call,
        ticket: u64,
        now: Duration,
    ) -> Vec<Id> {
        let verb = verb(call);
        if verb == Verb::Other {
            return Vec::new();
        }
        self.look_at_handovers(server, call, now);
        let involved = claims(call).into_iter().chain(replaced(call));
        let ids: Vec<Id> = involved.map(|claim| (server, claim.to_owned())).collect();
        if matches!(verb, Verb::Acquire | Verb::Heartbeat) {
            let places = &self.places;
            let asks = |name: usize| {
                let main = &places[name].main;
                places[name].server == server && call.item.keys.iter().any(|key| key == main)
            };
            self.looks
                .retain(|&(name, waiting), _| waiting != client || !asks(name));
        }
        for id in &ids {
            let (_, claim) = id;
            let releases = verb == Verb::Release;
            self.asked.insert((client, claim.clone()));
            if !releases && self.releasing.contains(id) {
                let what = format!("{} is sent for {}", call.item.script.name, short(claim));
                self.violate("a claim lives once", format!("{what}, which was released"));
            }
            let open = self.open.entry(id.clone()).or_default();
            let crowded = open.iter().any(|(_, release)| !releases || *release);
            open.push((ticket, releases));
            if crowded {
                let what = format!("{} is sent for {}", call.item.script.name, short(claim));
                self.violate("one request at a time", format!("{what} behind another"));
            }
            if releases {
                self.releasing.insert(id.clone());
            }
        }
        ids
    }

    /// Records that the caller has an answer, or waits no more.
    pub(in crate::simulation) fn settled(&mut self, claims: &[Id], ticket: u64) {
        for claim in claims {
            if let Some(open) = self.open.get_mut(claim) {
                open.retain(|(other, _)| *other != ticket);
                if open.is_empty() {
                    self.open.remove(claim);
                }
            }
        }
    }

    /// For how many claims a client has sent a request.
    pub(in crate::simulation) fn asked(&self, client: usize) -> usize {
        self.asked
            .iter()
            .filter(|(other, _)| *other == client)
            .count()
    }
}
