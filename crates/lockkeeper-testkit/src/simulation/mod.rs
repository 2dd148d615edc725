//! Deterministic simulation: the real engine on paused time, over a store that does everything a network may do.
//!
//! One *history* follows from one seed: some hosts with some tasks each, faults, then a calm in which nothing goes wrong, the end,
//! and what must hold at every step of it. The same seed gives the same history in every process; its trace hash says so.
//!
//! | module | what |
//! |---|---|
//! | `workload` | which locks a history is about: of one kind, a Redlock, or all of them |
//! | `place` | a name on a server |
//! | `kind` | one model for each kind: what its guards can do, and what must be true of it |
//! | `plan` | what chance decides beforehand |
//! | `beyond` | histories beyond the conditions of the guarantees: their counter-examples |
//! | `host` | a process with a client for each server |
//! | `work` | what the tasks of hosts do |
//! | `observers`, `latches` | what those of a kind that is no lock do |
//! | `network` | the connections and servers, and the agenda of what arrives when |
//! | `traffic` | what becomes of requests, answers and messages on the way |
//! | `link` | one client's store over it |
//! | `faults` | what befalls hosts and servers, and when |
//! | `checks` | what must hold: validity and tokens, the laws of claims, turns in a queue, majorities, progress |
//! | `world` | what all of these share |
//! | `trace` | what happened |
//! | `run` | one history |

mod beyond;
mod checks;
mod faults;
mod host;
mod kind;
mod latches;
mod ledger;
mod link;
mod network;
mod observers;
mod place;
mod plan;
mod run;
mod trace;
mod traffic;
mod work;
mod workload;
mod world;

pub use beyond::Beyond;
pub use checks::Violation;
pub use run::{Options, Outcome, run};
pub use workload::Workload;
