//! What the tests of Lockkeeper share: servers, a fault proxy, the contract suite, exhaustive search, histories.
//!
//! | module | what |
//! |---|---|
//! | [`server`] | a Redis or Valkey server of a test's own |
//! | [`cluster`] | six servers that share the keys: failover, migration of slots |
//! | [`sentinel`] | a primary, its replica and the sentinels that watch them |
//! | [`pool`] | deployments of many servers, used by one test after the other |
//! | [`peer`] | a program of another lock library |
//! | [`proxy`] | a TCP proxy that delays, cuts and swallows |
//! | [`site`] | real servers as places where tests run |
//! | [`mod@contract`], [`mod@store`] and what belongs to them | the conformance suite, see `lockkeeper-conformance` |
//! | [`recorded`] | work under locks of all kinds, written down and checked by the same rules on every site |
//! | [`kinds`] | which claims of a kind may hold together, and what else models must know of it |
//! | [`mod@search`] | every state within bounds of one name, of several, or of a majority of servers, the shipped scripts as the transition function |
//! | [`mutants`] | mistakes made on purpose, each of which must be caught |
//! | [`simulation`] | the real engine over a simulated network, from a seed |
//! | [`faulty`] | a store that loses and keeps back requests on demand |

pub mod cluster;
pub mod faulty;
mod kept;
pub mod kinds;
pub mod mutants;
pub mod peer;
pub mod pool;
pub mod proxy;
pub mod recorded;
pub mod search;
pub mod sentinel;
pub mod server;
pub mod simulation;
pub mod site;

pub use lockkeeper_conformance::{
    common_contract, contract, everything, gated, history, store, store_contract, subject,
};
