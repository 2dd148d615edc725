//! The engine of Lockkeeper: acquisition, leases, renewal, notification.
//!
//! Users of locks depend on `lockkeeper`; this crate is for authors of lock kinds and of stores. It knows time and tasks,
//! and no Redis client: a store ([`store::Store`]) runs scripts and carries messages, a kind ([`protocol::Protocol`])
//! says which scripts and what their answers mean, and the engine does the rest for every kind alike.
//!
//! | module | what |
//! |---|---|
//! | [`claim`] | the client's half of the protocol, pure |
//! | [`quorum`] | what a majority of servers decides, pure |
//! | [`store`] | the seam to a Redis client |
//! | [`protocol`] | the seam to a kind of lock |
//! | [`clock`] | local time |

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

/// Whether a defect on purpose is on: never, unless this is built for the tests that must find it.
#[cfg(feature = "mutants")]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is_active($crate::mutants::Mutant::$name)
    };
}
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}

mod acquire;
mod acquire_all;
mod acquisition;
mod advice;
mod builder;
mod bundle;
pub mod claim;
mod client;
pub mod clock;
mod engine;
mod error;
mod exchange;
mod gathering;
#[doc(hidden)]
pub mod glob;
mod hold;
mod inspection;
mod lease;
mod leave;
mod listing;
mod lock;
mod majority;
mod member;
#[cfg(feature = "mutants")]
pub mod mutants;
mod name;
mod notify;
mod observer;
mod owner;
mod pass;
mod pause;
pub mod protocol;
pub mod quorum;
mod reaper;
mod renewal;
mod rights;
mod settings;
pub mod store;
mod swap;
mod switch;
#[doc(hidden)]
pub mod tally;
mod tenure;
mod whole;

pub use acquire::{Acquire, TryAcquire};
pub use acquire_all::{AcquireAll, TryAcquireAll};
pub use advice::Advice;
pub use builder::ClientBuilder;
pub use bundle::{Bundle, BundleEnd, LostMember};
pub use client::{Client, CloseReport};
pub use error::{Error, Result};
pub use hold::{Hold, Released};
pub use inspection::{Holder, HolderState, Inspection, Waiter};
pub use lease::{End, Ended, Lease, LeaseState, LossReason, Lost};
pub use listing::{Names, ServerFacts};
pub use lock::Lock;
pub use majority::{QuorumAcquire, QuorumHold, QuorumLease, QuorumLock, QuorumTryAcquire};
pub use member::Member;
pub use name::Name;
pub use observer::{LeaseEvent, Observation, Observer};
pub use owner::{ClaimId, Owner};
pub use protocol::{FencingToken, Kind};
pub use swap::Swapped;
