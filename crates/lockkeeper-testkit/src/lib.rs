//! Shared tools of Lockkeeper's tests: servers, a fault proxy, the contract suite, exhaustive search, histories.
//!
//! | module | what |
//! |---|---|
//! | [`server`] | a Redis or Valkey server for one test |
//! | [`cluster`] | six servers that share the keys: failover, slot migration |
//! | [`sentinel`] | a primary, its replica and the sentinels that watch them |
//! | [`pool`] | deployments of many servers that tests reuse one after the other |
//! | [`peer`] | a program that uses another lock library |
//! | [`proxy`] | a TCP proxy that delays, cuts and swallows |
//! | [`site`] | real servers as places where tests run |
//! | [`mod@contract`], [`mod@store`] and their helpers | the conformance suite, see `lockkeeper-conformance` |
//! | [`recorded`] | tasks that use locks of all kinds and record when they hold; every site applies the same checks |
//! | [`kinds`] | the properties of each kind that models need: above all which claims may hold together |
//! | [`mod@search`] | exhaustive search within bounds: one name, several names or a majority of servers, the shipped scripts as transition function |
//! | [`mutants`] | deliberate mistakes, each of which the tests must catch |
//! | [`simulation`] | the real engine over a simulated network, reproducible from a seed |
//! | [`faulty`] | a store that loses and delays requests on demand |
//! | [`third`] | long searches and histories by thirds |
//! | [`mod@until`] | waiting for something that nothing reports |

pub mod cluster;
pub mod faulty;
mod kept;
pub mod kinds;
pub mod mutants;
mod patch;
pub mod peer;
pub mod pool;
pub mod proxy;
pub mod recorded;
pub mod search;
pub mod sentinel;
pub mod server;
pub mod simulation;
pub mod site;
pub mod third;
pub mod until;

pub use lockkeeper_conformance::{
    common_contract, contract, everything, gated, history, store, store_contract, subject,
};
