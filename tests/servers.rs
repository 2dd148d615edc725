//! What a lock stands on: scripts and their costs, faults, topologies, other libraries beside it, and the proofs. The README in
//! this folder says where a test goes.

mod faults;
mod others;
mod proofs;
mod scripts;
mod topologies;

const HOLDER: &str = env!("CARGO_BIN_EXE_holder");
