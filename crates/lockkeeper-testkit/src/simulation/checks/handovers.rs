//! Handovers within a cohort: a client hands a name over among its own claims for a limited time and a limited number of times
//! in a row, because claims of other clients may wait.

use std::time::Duration;

use lockkeeper_core::store::Call;

use super::Checks;
use super::requests::{Verb, claims, replaced, verb};
use crate::simulation::trace::short;

/// How many times in a row at most, as the client promises.
const MOST: u32 = 32;

/// The longest time from the first to the last: 50 ms by the client's own clock, which may be slow.
const LONGEST: Duration = Duration::from_millis(60);

/// The handovers of a name, each by the claim that the one before was for.
#[derive(Debug)]
pub(super) struct Handovers {
    last: String,
    times: u32,
    since: Duration,
}

impl Checks {
    /// Counts a handover, if a client sends one.
    pub(super) fn look_at_handovers(&mut self, server: usize, call: &Call, now: Duration) {
        let (Verb::Convert, Some(old), Some(new)) =
            (verb(call), replaced(call), claims(call).first().copied())
        else {
            return;
        };
        let name = call
            .item
            .keys
            .iter()
            .find_map(|key| self.name_of(server, key));
        let Some(name) = name.filter(|name| self.places[*name].model.hands_over) else {
            return;
        };
        let first = || Handovers {
            last: String::new(),
            times: 0,
            since: now,
        };
        let handovers = self.handovers.entry(name).or_insert_with(first);
        if handovers.last == new {
            // The same request again.
            return;
        }
        if handovers.last != old {
            *handovers = first();
        }
        new.clone_into(&mut handovers.last);
        handovers.times += 1;
        let lasts = now.saturating_sub(handovers.since);
        if handovers.times > MOST || lasts > LONGEST {
            let times = handovers.times;
            let what = format!(
                "{} gets name{name} by handover no. {times} in a row, {lasts:?} after the first",
                short(new)
            );
            self.violate("a name kept by one client", what);
        }
    }
}
