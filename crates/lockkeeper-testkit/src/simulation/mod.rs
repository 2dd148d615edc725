//! Deterministic simulation: the real engine on paused time, over a store that does everything a network may do.
//!
//! One *history* follows from one seed: some clients with some tasks each, faults, disasters, then fair weather, the end,
//! and what must hold at every step of it. The same seed gives the same history in every process; its trace hash says so.
//!
//! | module | what |
//! |---|---|
//! | `crew` | who works in a world, and with which names |
//! | `place` | a name on a server |
//! | `site` | a process with a client for each server |
//! | `species` | the seam by which a kind joins: its model and its moves |
//! | `plan` | what chance decides beforehand |
//! | `beyond` | histories beyond the conditions of the guarantees: their counter-examples |
//! | `network` | the connections, and the agenda of what arrives when |
//! | `traffic` | what becomes of requests, answers and messages on the way |
//! | `link` | one client's store over it |
//! | `work` | what the tasks of clients do |
//! | `weather` | what befalls processes and servers |
//! | `checks` | what must hold: belief and tokens, the laws of claims, turns in a queue, progress |
//! | `world` | what all of these share |
//! | `trace` | what happened |
//! | `quorums` | what must hold of a lock by a majority |
//! | `run` | one history |
//! | `family` | histories of locks of all kinds together, on five servers |

mod beyond;
mod checks;
mod crew;
mod family;
mod link;
mod network;
mod place;
pub(crate) mod plan;
pub(crate) mod quorums;
mod run;
mod site;
mod species;
pub(crate) mod trace;
mod traffic;
mod weather;
mod work;
mod world;

pub use beyond::Beyond;
pub use checks::Violation;
pub use family::{FAMILY, run_family};
pub use run::{Outcome, run, run_beyond, run_patched};
pub use species::{
    Asking, Changed, Fairs, Grant, Model, Mutexes, Reentrants, RwGuard, RwLocks, Species, Standing,
    Terms, Trying,
};
