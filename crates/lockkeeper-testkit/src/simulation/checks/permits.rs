//! Permits of a semaphore: the valid ones never exceed the limit in force when the last of them was granted, nor do those on
//! the server at a grant. While a claim holds, only a request to set the limit changes it.

use std::time::Duration;

use lockkeeper_core::store::Call;
use lockkeeper_memory::MemoryStore;

use super::Checks;
use super::requests::labelled;
use crate::kinds::Standing;

impl Checks {
    /// Checks the limit after a script on a semaphore: the holders before and after it, and whether it granted a claim.
    pub(super) fn look_at_limit(
        &mut self,
        name: usize,
        call: &Call,
        server: &MemoryStore,
        (before, after): (&[Standing], &[Standing]),
        granted: bool,
        now: Duration,
    ) {
        let shown = self.places[name].on(server);
        let limit = shown.limit();
        let set = labelled(call, "limit")
            .first()
            .and_then(|it| it.parse().ok());
        let set = set.filter(|limit| *limit > 0);
        // Claims that ask for more permits than there are lose their places.
        if let Some(most) = set.or(self.limits[name]) {
            let waited = self.queues[name].len();
            self.queues[name].retain(|waiter| waiter.permits <= most || shown.waits(&waiter.claim));
            if self.queues[name].len() < waited {
                self.dropped[name] = Some(now);
            }
        }
        let stays = |one: &Standing| after.iter().any(|other| one.is_one_with(other));
        let old = self.limits[name].filter(|_| before.iter().any(stays));
        if old.is_some() && limit != old && limit != set {
            let what = format!("from {old:?} to {limit:?} in name{name}");
            self.violate("a limit that nobody set", what);
        }
        self.limits[name] = limit;
        if granted {
            self.granted_in[name] = limit;
            let held = Standing::permits_of(after);
            if limit.is_none_or(|limit| held > limit) {
                let what = format!("{held} of {limit:?} of name{name}");
                self.violate("too many permits on the server", what);
            }
        }
    }

    /// Checks the permits that are valid.
    pub(super) fn look_for_permits(&mut self, now: Duration) {
        for name in 0..self.places.len() {
            if !self.places[name].model.has_permits() {
                continue;
            }
            let (era, lost) = self.losses(name);
            let excused = now <= lost + self.longest_ttl;
            let counts = |era_of: u64| !excused || era_of == era;
            let mine = self
                .held
                .iter()
                .filter(|it| it.name == name && counts(it.era));
            let held = Standing::permits_of(mine.map(|it| &it.grant));
            let limit = self.granted_in[name];
            if held > limit.unwrap_or(0) {
                let what = format!("{held} of {limit:?} of name{name}");
                self.violate("too many permits", what);
            }
        }
    }
}
