//! Several names of one server: three names and up to three contenders, each of which takes a set of them.
//!
//! Any request can be given up and executed at any time later, as often as it likes, or never; so can every release. Answers can
//! be late. A contender may die. A contender of one name is a single lock, by the scripts of its kind.
//!
//! In every state no claim is valid beside another of its name, and none for longer than the server keeps it; at every step
//! tokens of a name increase, a repeat gives the same, a set is granted as a whole or not at all, each item of a run is answered
//! by what is true of its own name, what was released is gone and does not come back, and the waiters of a name that a
//! release frees are told.

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
use crate::mutants::Patch;
use contender::Contender;
use runs::Runs;

/// How many names there are.
const NAMES: usize = 3;

/// How many contenders there are at most.
const CONTENDERS: usize = 3;

const TICKS: Ticks = Ticks(10);

/// Which sets are taken, and how far a search of them goes.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Sets {
    /// The names that each contender takes, by number, in order. None at all: there is no such contender.
    pub sets: [&'static [usize]; CONTENDERS],
    /// Of which kind each name is.
    pub kinds: [KindModel; NAMES],
    /// How often each contender begins, with new claims each time.
    pub attempts: u8,
    /// How long a lease lasts, in ticks.
    pub ttl: u8,
    /// How often time moves on.
    pub ticks: u8,
    /// How many requests are given up or answered late.
    pub faults: u8,
    /// How many contenders die.
    pub endings: u8,
}

impl Sets {
    /// Two contenders take two names each, of which they share one, and a third that one alone: a re-entrant lock.
    pub const SMALL: Self = Self {
        sets: [&[0, 1], &[1, 2], &[1]],
        kinds: [KindModel::MUTEX, KindModel::REENTRANT, KindModel::MUTEX],
        attempts: 1,
        ttl: 2,
        ticks: 2,
        faults: 1,
        endings: 0,
    };

    /// The same where what they share is a mutex.
    pub const SMALL_OF_MUTEXES: Self = Self {
        kinds: [KindModel::REENTRANT, KindModel::MUTEX, KindModel::REENTRANT],
        ..Self::SMALL
    };

    /// The same where the single lock waits in a queue, which inflates the name for those who hold it.
    pub const SMALL_OF_A_QUEUE: Self = Self {
        kinds: [KindModel::MUTEX, KindModel::FAIR, KindModel::MUTEX],
        ..Self::SMALL
    };

    /// What every change must pass.
    pub const fn quick() -> [Self; 7] {
        [
            Self::SMALL,
            Self::SMALL_OF_MUTEXES,
            Self::SMALL_OF_A_QUEUE,
            Self {
                faults: 2,
                ..Self::SMALL
            },
            // Each begins again with new claims.
            Self {
                attempts: 2,
                ticks: 1,
                ..Self::SMALL
            },
            Self {
                endings: 1,
                ..Self::SMALL
            },
            // One takes all names.
            Self {
                sets: [&[0, 1, 2], &[0, 2], &[]],
                ..Self::SMALL
            },
        ]
    }

    /// The same further out.
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

/// Everything there is at one moment. The server and contenders are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    server: u32,
    contenders: [u32; CONTENDERS],
    tick: u8,
    faults: u8,
    endings: u8,
    /// The last token of each name, and to which client it was granted.
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
