//! Results of work that is done once: only a claim that holds and was granted last stores one. Work that is done is not
//! granted again. The results that callers receive were stored.

use std::time::Duration;

use lockkeeper::Record;
use lockkeeper_core::store::Call;
use lockkeeper_lua::{Status, once};
use lockkeeper_memory::MemoryStore;

use super::Checks;
use super::requests::{Item, labelled};
use crate::simulation::trace::short;

impl Checks {
    /// Checks the result after a script on work; `server` is as the script left it.
    pub(super) fn look_at_result(
        &mut self,
        name: usize,
        item: &Item<'_>,
        server: &MemoryStore,
        call: &Call,
        now: Duration,
    ) {
        let place = &self.places[name];
        if !place.model.stores() {
            return;
        }
        let (script, claim) = (call.item.script.name, item.claim);
        let stands = place.on(server).result();
        let token = labelled(call, "token")
            .first()
            .and_then(|it| it.parse().ok());
        let violation = match (stands, item.status, token) {
            (Some(_), Some(Status::Granted), Some(0)) if script == once::ACQUIRE.name => {
                Some("a run of work that is done")
            }
            (Some((by, token, value)), Some(Status::Released), _) if by == claim => {
                self.stored(name, claim, (token, value), now)
            }
            (Some((by, ..)), Some(Status::Gone), _)
                if script == once::STORE.name && by == claim =>
            {
                Some("a result that is disowned")
            }
            (_, Some(Status::Released), _) if script == once::STORE.name => {
                Some("a result that is not there")
            }
            _ => None,
        };
        if let Some(rule) = violation {
            self.violate(rule, format!("{} in name{name}", short(claim)));
        }
    }

    /// Checks that this claim has stored a result, or was told again that it has.
    fn stored(
        &mut self,
        name: usize,
        claim: &str,
        (token, value): (u64, String),
        now: Duration,
    ) -> Option<&'static str> {
        if self.results.insert((name, token), value).is_some() {
            return None;
        }
        let armed = self.armed.get(&self.id(name, claim));
        let granted = self.firsts.get(&(name, token));
        let last = self.last.get(&name);
        if granted.is_none_or(|grant| grant.claim != claim) {
            Some("a result of one that was not granted")
        } else if !self.forgets && last.is_some_and(|last| last.token != token) {
            Some("a result that comes too late")
        } else if self.steady && armed.is_some_and(|armed| self.is_over(*armed, now)) {
            Some("a result of a claim that had ended")
        } else {
            None
        }
    }

    /// Checks the result that a caller was given.
    pub(in crate::simulation) fn receives(&mut self, name: usize, record: &Record) {
        let token = record.token.get();
        let stored = self.results.get(&(name, token));
        if stored.is_none() || record.value.as_deref() != stored.map(|value| value.as_bytes()) {
            let what = format!("that of token {token} in name{name}");
            self.violate("a result that nobody stored", what);
        }
    }
}
