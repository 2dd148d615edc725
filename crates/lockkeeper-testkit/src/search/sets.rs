//! Several names on one server: three names and up to three contenders, each of which takes a set of them.
//!
//! Any request or release can be given up and then executed at any later time, any number of times, or never. Answers can be
//! late. A contender may die. A contender with one name is a single lock and uses its kind's scripts.
//!
//! The rules: in every state no claim is valid beside another of its name, and none for longer than the server keeps it. At
//! every step the tokens of a name increase; a repeated request gets the same token; a set is granted entirely or not at all;
//! each item of a run gets a true answer about its own name; a released claim is gone and does not come back; and the waiters
//! of a name that a release frees are notified.

mod contender;
mod judge;
mod moves;
mod runs;

use std::fmt;
use std::rc::Rc;

use anyhow::Result;
use lockkeeper_core::FencingToken;

use super::explore::{Judgement, Model, Moves};
use super::state::{Interned, Ticks};
use crate::kinds::KindModel;
use crate::patch::Patch;
use contender::Contender;
use runs::Runs;

/// How many names there are.
const NAMES: usize = 3;

/// How many contenders there are at most.
const CONTENDERS: usize = 3;

const TICKS: Ticks = Ticks(10);

/// The sets to take, and how far to search.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Sets {
    /// The names that each contender takes, by number, in order. If empty, there is no such contender.
    pub sets: [&'static [usize]; CONTENDERS],
    /// The kind of each name.
    pub kinds: [KindModel; NAMES],
    /// How many attempts each contender begins, each with new claims.
    pub attempts: u8,
    /// How long a lease lasts, in ticks.
    pub ttl: u8,
    /// How often time advances.
    pub ticks: u8,
    /// How many requests are given up or answered late.
    pub faults: u8,
    /// How many contenders die.
    pub endings: u8,
}

impl Sets {
    /// Two contenders take two names each and share one; a third takes that one alone. The shared name is a re-entrant lock.
    pub const SMALL: Self = Self {
        sets: [&[0, 1], &[1, 2], &[1]],
        kinds: [KindModel::MUTEX, KindModel::REENTRANT, KindModel::MUTEX],
        attempts: 1,
        ttl: 2,
        ticks: 2,
        faults: 1,
        endings: 0,
    };

    /// The same with a mutex as the shared name.
    pub const SMALL_OF_MUTEXES: Self = Self {
        kinds: [KindModel::REENTRANT, KindModel::MUTEX, KindModel::REENTRANT],
        ..Self::SMALL
    };

    /// The same with a single lock that waits in a queue, which inflates the name for its holders.
    pub const SMALL_OF_A_QUEUE: Self = Self {
        kinds: [KindModel::MUTEX, KindModel::FAIR, KindModel::MUTEX],
        ..Self::SMALL
    };

    /// The searches that every change must pass.
    pub const fn quick() -> [Self; 7] {
        [
            Self::SMALL,
            Self::SMALL_OF_MUTEXES,
            Self::SMALL_OF_A_QUEUE,
            Self {
                faults: 2,
                ..Self::SMALL
            },
            // Each contender begins again with new claims.
            Self {
                attempts: 2,
                ticks: 1,
                ..Self::SMALL
            },
            Self {
                endings: 1,
                ..Self::SMALL
            },
            // One contender takes all names.
            Self {
                sets: [&[0, 1, 2], &[0, 2], &[]],
                ..Self::SMALL
            },
        ]
    }

    /// The same with wider bounds.
    pub const fn thorough() -> [Self; 3] {
        [
            Self {
                ticks: 3,
                faults: 2,
                endings: 1,
                ..Self::SMALL_OF_MUTEXES
            },
            Self {
                attempts: 2,
                ..Self::SMALL
            },
            Self {
                sets: [&[0, 1, 2], &[0, 1], &[1, 2]],
                endings: 1,
                ..Self::SMALL
            },
        ]
    }
}

impl fmt::Display for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.map(|kind| kind.name);
        write!(
            f,
            "sets {:?} of {kinds:?}, {} attempts each, ",
            self.sets, self.attempts
        )?;
        write!(f, "leases of {} ticks, {} ticks, ", self.ttl, self.ticks)?;
        write!(f, "{} faults, {} endings", self.faults, self.endings)
    }
}

/// The whole state at one moment. The server and contenders are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    server: u32,
    contenders: [u32; CONTENDERS],
    tick: u8,
    faults: u8,
    endings: u8,
    /// The last token of each name, and the client that was granted it.
    last: [Option<(FencingToken, u8)>; NAMES],
}

pub(super) struct SeveralNames {
    bounds: Sets,
    runs: Runs,
    contenders: Interned<Contender>,
}

impl SeveralNames {
    pub(super) fn new(bounds: Sets, patch: Option<&Patch>) -> Result<Self> {
        let mut contenders = Interned::default();
        contenders.number(Contender::new());
        let runs = Runs::new(bounds, patch)?;
        Ok(Self {
            bounds,
            runs,
            contenders,
        })
    }

    fn contender(&self, state: State, client: u8) -> Rc<Contender> {
        self.contenders.value(state.contenders[usize::from(client)])
    }

    /// The set of a contender.
    fn set(&self, client: u8) -> &'static [usize] {
        self.bounds.sets[usize::from(client)]
    }
}

impl Model for SeveralNames {
    type State = State;

    fn beginning(&self) -> State {
        State {
            server: 0,
            contenders: [0; CONTENDERS],
            tick: 0,
            faults: 0,
            endings: 0,
            last: [None; NAMES],
        }
    }

    fn moves(&mut self, from: State, moves: &mut Moves<State>) -> Result<()> {
        if from.tick < self.bounds.ticks {
            let next = self.tick(from)?;
            moves.add(|| format!("time passes: tick {}", next.tick), next, None);
        }
        for (client, set) in (0..).zip(self.bounds.sets) {
            if !set.is_empty() {
                self.moves_of(from, client, moves)?;
            }
        }
        Ok(())
    }

    fn judge(&mut self, state: State) -> Result<Judgement> {
        self.judge_claims(state)
    }
}
