//! The effect of scripts on keys, their replies, and their cost.

mod commands;
mod connection;
mod election;
mod latch;
mod lock;
mod multi;
mod once;
mod redlock;
mod single;
mod texts;
mod worked_example;
