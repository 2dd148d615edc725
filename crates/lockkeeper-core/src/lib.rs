//! The engine of Lockkeeper: acquisition, grants, renewal, subscriptions.
//!
//! To use locks, depend on `lockkeeper`; this crate is for authors of lock kinds and of stores. It has timers and
//! tasks, but no Redis client:
//!
//! - a store ([`store::Store`]) runs scripts and carries messages;
//! - a kind ([`protocol::Protocol`]) says which scripts to run and what their replies mean;
//! - the engine does the rest, in the same way for every kind.
//!
//! | module | what |
//! |---|---|
//! | [`claim`] | the client's half of the protocol; pure |
//! | [`quorum`] | what a majority of servers decides; pure |
//! | [`store`] | what a Redis client has to provide |
//! | [`protocol`] | what a kind of lock has to provide |
//! | [`clock`] | local time |

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

/// Whether an intentional defect is active. Always false, except in builds for the tests that must find the defect.
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
mod admin;
pub mod claim;
mod client;
mod engine;
mod grant;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod quorum;
mod registry;
mod schedule;
mod seam;
mod words;

pub use acquire::majority::Majority;
pub use acquire::plan::{Plan, Target};
#[cfg(feature = "mutants")]
pub use acquire::waiting::size_of_request;
pub use acquire::{Acquire, Tries, TryAcquire, Waits};
pub use admin::advice::Advice;
#[doc(hidden)]
pub use admin::glob;
pub use admin::inspection::Inspection;
pub use admin::listing::{Names, ServerFacts};
pub use admin::permits::Permits;
pub use client::Client;
pub use client::builder::ClientBuilder;
pub use client::lock::Lock;
pub use client::watch::Watch;
#[cfg(feature = "mutants")]
pub use engine::sync::passes;
#[cfg(feature = "shuttle")]
pub use engine::threads;
pub use grant::convert::Converted;
pub use grant::guard::{CoolsDown, Guard, Queued, SingleServer};
pub use grant::hold::Hold;
pub use grant::lease::{Lease, Until};
#[doc(hidden)]
pub use schedule::tally;
pub use seam::observer::{
    AcquisitionEvent, AcquisitionOutcome, ClientEvent, LeaseEvent, Observed, Observer, Work,
};
pub use seam::{clock, protocol, store};
pub use words::ending::{CloseReport, End, LeaseState, LossReason, Lost, Released};
pub use words::error::{Error, Result};
pub use words::holder::{Holder, HolderState, Waiter};
pub use words::kind::Kind;
pub use words::name::Name;
pub use words::owner::{ClaimId, Owner};
pub use words::record::Record;
pub use words::token::FencingToken;
