//! How Lockkeeper behaves, on the embedded engine and on real servers that each test starts for itself.

mod cluster_load;
mod commands;
mod contract;
mod cuts;
mod failover;
mod fair;
mod fair_scripts;
mod faults;
mod input;
mod keeping;
mod listing;
mod multi;
mod multi_ends;
mod multi_faults;
mod multi_scripts;
mod notice;
mod observer;
mod orders;
mod outside;
mod processes;
mod recorded;
mod redlock;
mod redlock_leases;
mod redlock_mutants;
mod redlock_scripts;
mod redlock_servers;
mod redlock_waiting;
mod reentrant;
mod renewals;
mod replicas;
mod revocation;
mod rights;
mod rwlock;
mod rwlock_conversions;
mod rwlock_scripts;
mod scripts;
mod sentinel;
mod sharded;
mod support;
mod tracing;

// Their helpers unwrap, which the lints allow in what is compiled for tests alone.
#[cfg(test)]
mod closing;
#[cfg(test)]
mod garbage;
#[cfg(test)]
mod given_up;
#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod known_defects;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod regressions;
#[cfg(test)]
mod rounds;
#[cfg(test)]
mod search;
#[cfg(test)]
mod sets;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod waiting;
