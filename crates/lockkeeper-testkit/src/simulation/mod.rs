//! Deterministic simulation: the real engine on paused time, over a store that can do everything a network can.
//!
//! One seed determines one *history*: some hosts with some tasks each, faults, then a calm in which nothing goes wrong, the
//! end, and the rules that every step must keep. The same seed gives the same history in every process; the trace hash proves
//! it.
//!
//! | module | what |
//! |---|---|
//! | `workload` | which locks a history uses: those of one kind, a Redlock, or all of them |
//! | `place` | a name on a server |
//! | `locks` | what tasks do with locks of each kind |
//! | `shown` | what a server stores for a name |
//! | `plan` | everything that is drawn at random beforehand |
//! | `beyond` | histories beyond the conditions of the guarantees: their counter-examples |
//! | `host` | a process with a client for each server |
//! | `work` | the tasks of hosts |
//! | `observers`, `latches` | the tasks for the kinds that are not locks |
//! | `network` | the connections and servers, and the agenda of arrivals |
//! | `traffic` | the fate of requests, replies and messages in transit |
//! | `fate` | the random numbers of each request and message |
//! | `link` | one client's store over the network |
//! | `faults` | the faults of hosts and servers, and their times |
//! | `checks` | the rules: validity and tokens, the laws of claims, turns in a queue, majorities, progress |
//! | `world` | the state that these modules share |
//! | `trace` | what happened |
//! | `record` | what clients sent and heard |
//! | `slip` | planted mistakes that the nets must show |
//! | [`net`] | shows whether a change changes what clients send |
//! | `options` | how a history runs, besides its seed |
//! | `run` | one history |

mod beyond;
mod checks;
mod fate;
mod faults;
mod host;
mod latches;
mod ledger;
mod link;
mod locks;
pub mod net;
mod network;
mod observers;
mod options;
mod place;
mod plan;
mod record;
mod run;
mod shown;
mod slip;
mod trace;
mod traffic;
mod work;
mod workload;
mod world;

pub use beyond::Beyond;
pub use checks::changes_a_claim;
pub use fate::{Fate, Fates};
pub use options::Options;
pub use run::{Outcome, run};
pub use slip::Slip;
pub use trace::Violation;
pub use workload::Workload;
