//! Tests of Lockkeeper's behaviour, on the embedded engine and on real servers that each test starts for itself. The README in
//! this folder says where a test goes.

mod faults;
mod kinds;
mod others;
mod proofs;
mod regressions;
mod scripts;
mod support;
mod surface;
mod topologies;
