//! What a client knows of the tokens of its server.
//!
//! The largest that it has seen, by slot, as the server's counters are: no later grant may go below one of them, not even on a new
//! primary that has lost the counter; and a counter that somebody has spoilt reaches no other.
//!
//! And how far they are ahead of the client's own clock, by which it guesses the next one. A wrong guess costs a round trip.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::words::moment::Moment;
use crate::words::name::Name;
use crate::words::token::FencingToken;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    seen: Mutex<HashMap<u16, u64>>,
    /// In µs, counted from the moment at which the token was asked for; 0 if no token was.
    lead: AtomicU64,
}

impl Floors {
    /// The largest token seen of any name in the slot of this one; 0 if there was none.
    pub(crate) fn of(&self, name: &Name) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&name.slot()).copied().unwrap_or(0)
    }

    /// A token of this name was seen.
    pub(crate) fn saw(&self, name: &Name, token: FencingToken) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let floor = seen.entry(name.slot()).or_insert(0);
        *floor = token.get().max(*floor);
    }

    /// The server has given `token`, having been asked for `proposal` at that moment. One that it has followed tells nothing about
    /// its clock.
    pub(crate) fn gave(&self, token: FencingToken, proposal: u64, asked: Moment) {
        let lead = token.get().saturating_sub(micros(asked));
        if token.get() > proposal {
            // The longer a request has taken, the larger the token: the longest is what the next ones should be above.
            self.lead.fetch_max(lead, Ordering::Relaxed);
        } else if token.get() < proposal {
            // So far ahead that the server has not followed.
            self.lead.store(lead, Ordering::Relaxed);
        }
    }

    /// The token that the server will have for a request sent now; `None` before it has given any.
    pub(crate) fn next(&self, now: Moment) -> Option<u64> {
        let lead = self.lead.load(Ordering::Relaxed);
        (lead > 0).then(|| lead.saturating_add(micros(now)))
    }
}

fn micros(moment: Moment) -> u64 {
    let elapsed = moment.since(Moment::from_elapsed(Duration::ZERO));
    elapsed.as_micros().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Moment {
        Moment::from_elapsed(Duration::from_micros(micros))
    }

    #[test]
    fn the_next_token_is_as_far_ahead_of_the_clock_as_the_last_that_the_server_drew() {
        let floors = Floors::default();
        let gave = |token, proposal, asked| {
            floors.gave(FencingToken::new(token), proposal, at(asked));
        };
        assert_eq!(floors.next(at(5)), None);
        gave(1_050, 1, 10);
        assert_eq!(floors.next(at(20)), Some(1_060));
        // A proposal that was followed says nothing.
        gave(1_500, 1_500, 20);
        assert_eq!(floors.next(at(30)), Some(1_070));
        // A request that took longer, and one that was faster.
        gave(1_130, 1_120, 50);
        gave(1_121, 1_120, 60);
        assert_eq!(floors.next(at(70)), Some(1_150));
        // A proposal that the server did not follow is too far ahead.
        gave(1_100, 1_190, 80);
        assert_eq!(floors.next(at(90)), Some(1_110));
    }
}
