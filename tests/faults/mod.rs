//! What becomes of locks when connections, servers or processes fail.

mod connection_cuts;
mod connections;
mod credentials;
mod elections;
mod loss_detection;
mod multi;
pub(crate) mod processes;
mod renewals;

// Their helpers unwrap, which the lints allow in what is compiled for tests alone.
#[cfg(test)]
mod garbage;
#[cfg(test)]
mod interleavings;
