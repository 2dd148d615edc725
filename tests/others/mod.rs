//! Locks of other libraries and ours, on the same names at the same time, and other clients of ours. The programs are those in `peers/`;
//! `cargo xtask prove` builds them.

mod live;
mod python;
mod wakes;
