//! Locks when connections, servers or processes fail.

mod connection_cuts;
mod connections;
mod credentials;
mod elections;
mod loss_detection;
mod multi;
mod processes;
mod renewals;

// Their helpers unwrap, which the lints allow only in code that is compiled for tests.
#[cfg(test)]
mod garbage;
#[cfg(test)]
mod interleavings;
