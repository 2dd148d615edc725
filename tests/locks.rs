//! What a user of a lock sees: the promises of each kind, admin and observers, what once went wrong. The README in this folder
//! says where a test goes.

mod kinds;
mod regressions;
mod surface;

const HOLDER: &str = env!("CARGO_BIN_EXE_holder");
