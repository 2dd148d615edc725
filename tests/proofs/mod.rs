//! Searches, simulated histories and recorded ones, and the mistakes that they must find.

mod random_operations;
mod recorded;
mod redlock_mutants;

// Their helpers unwrap, which the lints allow in what is compiled for tests alone.
#[cfg(test)]
mod rounds;
#[cfg(test)]
mod search;
#[cfg(test)]
mod sets;
#[cfg(test)]
mod simulation;
