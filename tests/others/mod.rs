//! Our locks on the same names and at the same time as locks of other libraries, and other clients of our own format. The
//! programs are in `peers/`; `cargo xtask prove` builds them.

mod live;
mod python;
mod wakes;
