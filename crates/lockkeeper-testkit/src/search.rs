//! Exhaustive search over the states of a lock: no sample of them, all of them, within bounds.

mod bounds;
mod explore;
mod heal;
mod model;
mod moves;
mod property;
mod report;
mod server;
mod state;
mod step;

pub use bounds::{Bounds, MOST_CLIENTS};
pub use explore::search;
pub use model::{Model, Seat};
pub use property::Violation;
pub use report::{Found, Progress, Report};
