//! The real command against real servers: what it runs, what it says, and how it ends.

#![cfg(unix)]

mod ending;
mod input;
mod look;
mod losing;
mod several;
mod sharing;
mod signals;
mod strangers;
mod support;
mod terminal;
mod watching;
