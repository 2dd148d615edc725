//! The promises of each kind of lock, through the public API.

mod cancellation;
mod contract;
mod conversions;
mod cut_off;
mod election;
mod fair;
mod latch;
mod min_hold;
mod multi;
mod multi_ends;
mod once;
mod redlock;
mod redlock_leases;
mod redlock_tokens;
mod redlock_waiting;
mod reentrant;
mod rwlock;
mod semaphore;

// Their helpers unwrap, which the lints allow only in code that is compiled for tests.
#[cfg(test)]
mod closing;
#[cfg(test)]
mod cohorts;
#[cfg(test)]
mod given_up;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod waiting;
