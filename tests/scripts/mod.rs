//! What the scripts do to the keys, what they answer, and what they cost.

mod commands;
mod election;
mod latch;
mod lock;
mod multi;
mod once;
mod redlock;
mod single;
mod texts;
