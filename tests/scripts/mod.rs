//! What the scripts do to the keys, what they answer, and what they cost.

mod commands;
mod latch;
mod election;
mod lock;
mod multi;
mod once;
mod redlock;
mod single;
