//! Searches, simulated histories and recorded histories, and the mistakes that they must find.

mod random_operations;
pub(crate) mod recorded;
mod redlock_mutants;

// Their helpers unwrap, which the lints allow only in code that is compiled for tests.
#[cfg(test)]
mod nets;
#[cfg(test)]
mod rounds;
#[cfg(test)]
mod search;
#[cfg(test)]
mod sets;
#[cfg(test)]
mod simulation;
