//! What people and tools see: inspection, revocation, listings, events, rights, bad input.

mod admin;
mod generic;
mod input;
mod listing;
mod metrics;
mod notes;
mod observer;
mod revocation;
mod rights;
mod times;
mod tracing;
mod upgrades;
