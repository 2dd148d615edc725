//! Sequences that once broke something, each by the name of what must hold.

// Their helpers unwrap, which the lints allow in what is compiled for tests alone.
#[cfg(test)]
mod claims;
#[cfg(test)]
mod known_defects;
#[cfg(test)]
mod queue;
