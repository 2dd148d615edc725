//! Sequences that once broke something. Each test is named after what must hold.

// Their helpers unwrap, which the lints allow only in code that is compiled for tests.
#[cfg(test)]
mod claims;
#[cfg(test)]
mod dead;
#[cfg(test)]
mod queue;
