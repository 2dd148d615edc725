//! The order of tokens: which token a grant may have, given the grants before it.

use super::Checks;
use crate::kinds::Grant;
use crate::simulation::beyond::Beyond;
use crate::simulation::trace::short;

impl Checks {
    /// Checks a grant of a name by the server.
    pub(super) fn follow(&mut self, name: usize, next: Grant) {
        if let Some(before) = self.does_not_follow(name, &next) {
            let told =
                |grant: &Grant| format!("{} with token {}", short(&grant.claim), grant.token);
            let what = format!("{} follows {}", told(&next), told(before));
            self.violate("token order", what);
        }
        let key = (name, next.token);
        let (era, _) = self.losses(name);
        self.eras.insert(key, era);
        self.firsts.entry(key).or_insert_with(|| next.clone());
        if !next.mode.reads() {
            self.last_write.insert(name, next.clone());
        }
        self.last.insert(name, next);
    }

    /// Returns the earlier grant after which `next` may not have its token.
    fn does_not_follow(&self, name: usize, next: &Grant) -> Option<&Grant> {
        let last = self.last.get(&name)?;
        let first = self.firsts.get(&(name, next.token));
        let known = self.eras.contains_key(&(name, next.token));
        let model = &self.places[name].model;
        let largest = self.firsts.range((name, 0)..=(name, u64::MAX)).next_back();
        let largest = largest.map(|(_, grant)| grant);
        if self.losses(name).0 > 0 && self.beyond != Some(Beyond::ReturnedHold) {
            // A server that has gone back to an earlier state repeats old grants and lets others join them; new grants must
            // still have larger tokens.
            return largest.filter(|grant| !known && grant.token >= next.token);
        }
        let above = largest.filter(|grant| !known && grant.token > next.token);
        let befores = [Some(last), self.last_write.get(&name)];
        above
            .or_else(|| first.filter(|first| !model.shares(first, next)))
            .or_else(|| {
                let mut befores = befores.into_iter().flatten();
                befores.find(|before| !model.follows(before, next))
            })
    }
}
