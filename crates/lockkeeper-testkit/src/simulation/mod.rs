//! Deterministic simulation: the real engine on paused time, over a store that does everything a network may do.
//!
//! One *history* follows from one seed: some clients with some tasks each, faults, disasters, then fair weather, the end,
//! and what must hold at every step of it. The same seed gives the same history in every process; its trace hash says so.
//!
//! | module | what |
//! |---|---|
//! | `species` | the seam by which a kind joins: its model and its moves |
//! | `plan` | what chance decides beforehand |
//! | `beyond` | histories beyond the conditions of the guarantees: their counter-examples |
//! | `network` | the connections, and the agenda of what arrives when |
//! | `traffic` | what becomes of requests, answers and messages on the way |
//! | `link` | one client's store over it |
//! | `work` | what the tasks of clients do |
//! | `weather` | what befalls clients and the server |
//! | `checks` | what must hold: belief and tokens, the laws of claims, turns in a queue, progress |
//! | `world` | what all of these share |
//! | `trace` | what happened |
//! | `run` | one history |
//! | `several` | histories of several locks at once, over two servers |

mod beyond;
mod checks;
mod crew;
mod link;
mod network;
mod place;
mod plan;
mod run;
mod several;
mod site;
mod species;
pub(crate) mod trace;
mod traffic;
mod weather;
mod work;
mod world;

pub use beyond::Beyond;
pub use checks::Violation;
pub use run::{Outcome, run, run_beyond, run_patched};
pub use several::{SEVERAL, run_several};
pub use species::{
    Asking, Changed, Fairs, Grant, Model, Mutexes, Reentrants, RwGuard, RwLocks, Species, Standing,
    Terms, Trying,
};
