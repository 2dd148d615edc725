//! Exhaustive search: visits every state that a lock can reach within bounds, not a sample of them.
//!
//! The search runs the shipped code instead of a second description of it. A server runs the shipped script on the embedded
//! engine. A request is what the kind's [`Protocol`](lockkeeper_core::protocol::Protocol) builds. The engine's own
//! [`Claim`](lockkeeper_core::claim::Claim) decides what a client may send and when it is valid. Only what the engine does
//! *around* a claim is modelled, with as few restrictions as possible. Time moves in ticks, for servers and clients alike. A
//! lease ends for its holder a millisecond before it ends on the server, between the same two ticks, so a deadline that is
//! wrong by one tick shows.
//!
//! Each of the four [scopes](Scope) has a model: its states, the steps from each, and the rules ([`Rule`]) for states and
//! steps. One breadth-first walk serves all models, so the first violation found is one with the fewest steps. States are
//! small because their parts are interned, and every run of a script is remembered. A new kind needs a [`KindModel`];
//! `docs/proving-ground.md` says what else it may need.

mod explore;
mod latch;
mod rounds;
mod rule;
mod server;
mod sets;
mod single;
mod state;

use std::fmt;

use anyhow::Result;

use explore::explore;
pub use explore::{Progress, Report, Trace};
pub use latch::Latches;
pub use rounds::Rounds;
pub use rule::{Rule, Violation};
pub use sets::Sets;
pub use single::{Bounds, Incident, MOST_CLIENTS, rename};
pub use state::owner;

use crate::kinds::KindModel;
use crate::patch::Patch;

/// What to search, and how far.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "there are no others")]
pub enum Scope {
    /// One name of a kind on one server: several clients with several attempts each, queues, modes.
    Single(KindModel, Bounds),
    /// Several names on one server; contenders take sets of them.
    Sets(Sets),
    /// One name on a majority of three servers.
    Rounds(Rounds),
    /// A latch on one server.
    Latch(Latches),
}

/// The command-line word for locks over several names.
const SEVERAL: &str = "multi";

/// No search that a machine with 16 GB of memory can finish has more states.
pub const MOST_STATES: usize = 50_000_000;

impl Scope {
    /// The kinds that can be searched.
    pub const KINDS: [&str; 10] = [
        "mutex",
        "reentrant",
        "fair",
        "rwlock",
        "semaphore",
        "once",
        "latch",
        "election",
        "redlock",
        SEVERAL,
    ];

    /// The searches that every change to this kind must pass, or the `thorough` ones. Empty if no kind has this name.
    pub fn of(kind: &str, thorough: bool) -> Vec<Self> {
        let bounds = match thorough {
            true => Bounds::thorough,
            false => Bounds::quick,
        };
        match kind {
            "latch" if thorough => Latches::thorough().map(Self::Latch).into(),
            "latch" => Latches::quick().map(Self::Latch).into(),
            "redlock" if thorough => Rounds::thorough().map(Self::Rounds).into(),
            "redlock" => Rounds::quick().map(Self::Rounds).into(),
            SEVERAL if thorough => Sets::thorough().map(Self::Sets).into(),
            SEVERAL => Sets::quick().map(Self::Sets).into(),
            word => {
                let kinds = KindModel::ON_ONE_SERVER.into_iter();
                let kind = kinds.filter(|kind| kind.name == word);
                let all = |kind| {
                    bounds(&kind)
                        .into_iter()
                        .map(move |it| Self::Single(kind, it))
                };
                kind.flat_map(all).collect()
            }
        }
    }

    /// Visits every state of the scripts as shipped.
    ///
    /// # Errors
    ///
    /// As for [`explore`](Self::explore).
    pub fn search(&self) -> Result<Report> {
        self.explore(None, MOST_STATES, &mut |_| {})
    }

    // Not generic, so that it is compiled with optimisations here rather than with a test.
    /// Visits every state, with one script patched if there is a patch, until a rule is broken or `limit` states are found.
    ///
    /// # Errors
    ///
    /// If the embedded engine fails or refuses a shipped script. A broken rule is not an error.
    pub fn explore(
        &self,
        patch: Option<&Patch>,
        states: usize,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Report> {
        match self {
            Self::Single(kind, bounds) => explore(
                single::OneName::new(*kind, bounds, patch)?,
                states,
                progress,
            ),
            Self::Latch(bounds) => explore(latch::OneLatch::new(*bounds, patch)?, states, progress),
            Self::Sets(sets) => explore(sets::SeveralNames::new(*sets, patch)?, states, progress),
            Self::Rounds(rounds) => {
                explore(rounds::Majority::new(*rounds, patch)?, states, progress)
            }
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(kind, bounds) => write!(f, "{}: {bounds}", kind.name),
            Self::Sets(sets) => write!(f, "{SEVERAL}: {sets}"),
            Self::Latch(bounds) => write!(f, "latch: {bounds}"),
            Self::Rounds(rounds) => write!(f, "redlock: {rounds}"),
        }
    }
}
