//! The engine of Lockkeeper (work in progress).

pub mod clock;
mod error;
mod lease;
mod name;
mod owner;
pub mod protocol;
pub mod store;

pub use error::{Error, Result};
pub use lease::LossReason;
pub use name::Name;
pub use owner::{ClaimId, Owner};
