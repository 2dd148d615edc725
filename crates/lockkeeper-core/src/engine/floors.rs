//! What a client knows about its server's tokens.
//!
//! It keeps the largest token that it has seen in each slot, because the server has a counter for each slot. No later
//! grant may have a smaller token, even on a new primary that has lost the counter. A corrupted counter affects only
//! its own slot.
//!
//! It also measures how far tokens are ahead of the client's own clock, and guesses the next token from that. A wrong
//! guess costs a round trip.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::sync::Mutex;
use crate::words::moment::Moment;
use crate::words::name::Name;
use crate::words::token::FencingToken;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    seen: Mutex<HashMap<u16, u64>>,
    /// How far tokens were ahead of this client's clock at the moment of asking, in µs; 0 before the first token.
    lead: AtomicU64,
}

impl Floors {
    /// The largest token seen for any name in this name's slot; 0 if there was none.
    pub(crate) fn of(&self, name: &Name) -> u64 {
        let seen = self.seen.lock();
        seen.get(&name.slot()).copied().unwrap_or(0)
    }

    /// Notes a token of this name.
    pub(crate) fn saw(&self, name: &Name, token: FencingToken) {
        let mut seen = self.seen.lock();
        let floor = seen.entry(name.slot()).or_insert(0);
        *floor = token.get().max(*floor);
    }

    /// Notes that the server gave `token` when it was asked for `proposal` at that moment. If it followed the proposal,
    /// the token says nothing about the server's clock.
    pub(crate) fn gave(&self, token: FencingToken, proposal: u64, asked: Moment) {
        let lead = token.get().saturating_sub(micros(asked));
        if token.get() > proposal {
            // The longer a request takes, the larger its token. So the next proposals should be above the token of the
            // longest.
            self.lead.fetch_max(lead, Ordering::Relaxed);
        } else if token.get() < proposal {
            // The proposal was so far ahead that the server did not follow it.
            self.lead.store(lead, Ordering::Relaxed);
        }
    }

    /// The token that the server is expected to give to a request sent now; `None` before it has given any.
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
        // A proposal that was followed says nothing about the clock.
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
