//! Exhaustive search: not a sample of the states that a lock can get into but all of them, within bounds.
//!
//! Nothing is written down twice for it: what a server does is the shipped script on the embedded engine, a request is what the
//! kind's [`Protocol`](lockkeeper_core::protocol::Protocol) builds, and what a client may send and when it is valid is what
//! the engine's own [`Claim`](lockkeeper_core::claim::Claim) says. Only what the engine does *around* a claim is modelled, and as freely as
//! possible. Time moves in ticks, for servers and clients alike; a lease ends for its holder a millisecond before it ends
//! on the server, between the same two ticks, so a deadline that is wrong by one tick shows.
//!
//! Three [scopes](Scope) are searched:
//!
//! | scope | what |
//! |---|---|
//! | [`Single`](single::Single) | one name of any kind on one server: several clients with several attempts each, queues, modes |
//! | [`Sets`](sets::Sets) | several names of one server, of which contenders take sets |
//! | [`Rounds`](rounds::Rounds) | one name by a majority of three servers |
//!
//! Each of them is a model: its states, the steps from each, and what must hold in a state or at a step ([`Rule`]). One walk
//! goes through all of them, breadth first, so that the first violation is at the end of one of the shortest ways to one.
//! States are small because what they are made of is kept by number, and each run of a script is remembered.
//!
//! # How a kind joins
//!
//! By a [`KindModel`](crate::kinds::KindModel). That is all for a kind whose messages say "look" or grant, whose claims ask, heartbeat, renew and
//! release, and whose `verify` and `queue` tell which claims hold and which wait; the rules ask nothing else of it. What else a kind has goes here:
//!
//! | a kind with | needs |
//! |---|---|
//! | other modes than to read or write | a [`Mode`](crate::kinds::Mode), its protocol, and `KindModel::fits` to say which hold together |
//! | room for several owners | a number for `KindModel::fits` |
//! | requests of another sort, such as conversions | a `Question` in `single/state.rs`, its call in `runs.rs`, and when it may be sent in `send.rs` |
//! | scripts that remember request numbers of another sort | numbers that count up, in `Question::number` |

mod explore;
pub mod rounds;
mod rule;
mod server;
pub mod sets;
pub mod single;
mod state;

use std::fmt;

use anyhow::Result;

use explore::explore;
pub use explore::{Progress, Report, Trace};
pub use rule::{Rule, Violation};

use crate::kinds::KindModel;
use crate::mutants::Patch;

/// What is searched, and how far.
pub trait Scope: fmt::Debug + fmt::Display + Sync {
    /// Visits every state, the scripts as shipped or with one of them patched, until a rule is broken or so many states are found.
    ///
    /// # Errors
    ///
    /// If the embedded engine fails or refuses a shipped script; a rule that is broken is no error.
    fn explore(
        &self,
        patch: Option<&Patch>,
        states: usize,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Report>;
}

/// Some scopes.
pub type Scopes = Vec<Box<dyn Scope>>;

/// More states than any search has that a machine with 16 GB of memory can finish.
pub const MOST_STATES: usize = 50_000_000;

/// Visits every state of a scope.
///
/// # Errors
///
/// As for [`Scope::explore`].
pub fn search(scope: &dyn Scope) -> Result<Report> {
    scope.explore(None, MOST_STATES, &mut |_| {})
}

/// The words for locks over several names.
pub const SEVERAL: &str = "multi";

/// The scopes of a kind, or of [`SEVERAL`], that every change must pass; or far-out ones, `thorough`.
pub fn scopes(kind: &str, thorough: bool) -> Scopes {
    fn boxed<S: Scope + 'static>(scopes: impl IntoIterator<Item = S>) -> Scopes {
        let boxed = scopes.into_iter().map(|scope| Box::new(scope) as _);
        boxed.collect()
    }
    let of = |kind: &KindModel| {
        let bounds = if thorough {
            single::Bounds::thorough(kind)
        } else {
            single::Bounds::quick(kind)
        };
        let kind = *kind;
        let bounds = bounds.into_iter();
        boxed(bounds.map(|bounds| single::Single { kind, bounds }))
    };
    match kind {
        "redlock" if thorough => boxed(rounds::Rounds::thorough()),
        "redlock" => boxed(rounds::Rounds::quick()),
        SEVERAL if thorough => boxed(sets::Sets::thorough()),
        SEVERAL => boxed(sets::Sets::quick()),
        kind => {
            let mut kinds = KindModel::ON_ONE_SERVER.iter();
            kinds.find(|it| it.name == kind).map_or_else(Vec::new, of)
        }
    }
}
