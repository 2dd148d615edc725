//! The largest tokens that a client has seen on its server, by slot, as the server's counters are: no later grant may go below
//! one of them, not even on a new primary that has lost the counter; and a counter that somebody has spoilt reaches no other.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::words::name::Name;
use crate::words::token::FencingToken;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Floors(Mutex<HashMap<usize, u64>>);

impl Floors {
    /// The largest token seen of any name in the slot of this one; 0 if there was none.
    pub(crate) fn of(&self, name: &Name) -> u64 {
        let floors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        floors.get(&name.slot()).copied().unwrap_or(0)
    }

    /// A token of this name was seen.
    pub(crate) fn saw(&self, name: &Name, token: FencingToken) {
        let mut floors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let floor = floors.entry(name.slot()).or_insert(0);
        *floor = token.get().max(*floor);
    }
}
