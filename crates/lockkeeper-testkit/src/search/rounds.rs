//! One name on a majority of three servers: two contenders, and a server that loses its data or a contender that dies.
//!
//! The engine's own [`Round`](lockkeeper_core::quorum::Round) decides for a majority. Any request or release can be given up
//! and then executed at any later time, or never. Answers can be late. Time moves in ticks of a second, and the servers'
//! clocks differ.
//!
//! In every state at most one contender is valid. Every grant has a larger token than the grant before, and a majority has
//! answered that the token is the claim's.

mod contender;
mod moves;
mod runs;

use std::fmt;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use lockkeeper_core::FencingToken;
use lockkeeper_core::quorum::Quorum;

use super::explore::{Judgement, Model, Moves};
use super::rule::Rule;
use super::state::{Interned, Ticks};
use crate::kinds::letter;
use crate::patch::Patch;
use contender::Contender;
use runs::Runs;

/// How many servers there are.
const SERVERS: usize = 3;

/// How many contenders there are.
const CONTENDERS: usize = 2;

const TICKS: Ticks = Ticks(1000);

/// How far a search of rounds goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Rounds {
    /// How many rounds each contender begins.
    pub rounds: [u8; CONTENDERS],
    /// How long a lease lasts, in ticks.
    pub ttl: u8,
    /// How often time advances.
    pub ticks: u8,
    /// How many requests are given up or answered late.
    pub faults: u8,
    /// How many servers lose their data or contenders die.
    pub endings: u8,
    /// Whether leases are renewed.
    pub renews: bool,
    /// The token that each contender proposes to all servers: this many milliseconds after the first server's clock at the
    /// beginning.
    pub proposals: [Option<i64>; CONTENDERS],
}

impl Rounds {
    /// One round of each contender within one lease, without faults.
    pub const SMALL: Self = Self {
        rounds: [1, 1],
        ttl: 1,
        ticks: 1,
        faults: 0,
        endings: 0,
        renews: false,
        // The second server's clock is ahead of that; the other two, a majority, follow the proposal.
        proposals: [Some(90), Some(90)],
    };

    /// A contender that dies, or a server that loses its data.
    pub const AN_ENDING: Self = Self {
        endings: 1,
        ..Self::SMALL
    };

    /// A second round of one contender, before time advances.
    pub const A_SECOND_ROUND: Self = Self {
        rounds: [2, 1],
        ticks: 0,
        ..Self::SMALL
    };

    /// Leases that are renewed. A lease of a single tick ends before it can be renewed.
    pub const RENEWALS: Self = Self {
        renews: true,
        ttl: 2,
        ..Self::SMALL
    };

    /// Two rounds of each contender, with almost equal proposals, before time advances.
    pub const TWO_ROUNDS: Self = Self {
        rounds: [2, 2],
        ticks: 0,
        proposals: [Some(90), Some(91)],
        ..Self::SMALL
    };

    /// A server that loses its data and has been up for long enough to take part again.
    pub const A_RETURN: Self = Self {
        ticks: 2,
        proposals: [Some(90), Some(50)],
        ..Self::AN_ENDING
    };

    /// A contender that proposes a token from a clock that is far ahead of all servers.
    pub const A_FAR_PROPOSAL: Self = Self {
        proposals: [Some(90), Some(100_000)],
        ..Self::SMALL
    };

    /// The searches that every change must pass.
    pub const fn quick() -> [Self; 7] {
        let a_fault = Self {
            faults: 1,
            ..Self::SMALL
        };
        [
            Self::AN_ENDING,
            a_fault,
            Self::RENEWALS,
            Self::A_SECOND_ROUND,
            Self::TWO_ROUNDS,
            Self::A_RETURN,
            Self::A_FAR_PROPOSAL,
        ]
    }

    /// Several of these at once.
    pub const fn thorough() -> [Self; 4] {
        [
            Self {
                faults: 1,
                ..Self::AN_ENDING
            },
            // A renewed lease ends.
            Self {
                ticks: 2,
                ..Self::RENEWALS
            },
            Self {
                endings: 1,
                ..Self::A_SECOND_ROUND
            },
            Self {
                ticks: 1,
                proposals: [Some(90), None],
                ..Self::A_SECOND_ROUND
            },
        ]
    }
}

impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renews = if self.renews {
            "renewed"
        } else {
            "not renewed"
        };
        write!(
            f,
            "{:?} rounds, leases of {} ticks, {renews}, ",
            self.rounds, self.ttl
        )?;
        write!(
            f,
            "{} ticks, {} faults, {} endings, proposals {:?}",
            self.ticks, self.faults, self.endings, self.proposals
        )
    }
}

/// The whole state at one moment. Contenders and the servers' keys are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    servers: [Keys; SERVERS],
    contenders: [u32; CONTENDERS],
    tick: u8,
    faults: u8,
    endings: u8,
    /// The token of the last grant.
    last: FencingToken,
}

/// A server's keys, by number, and when it lost its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Keys {
    number: u32,
    lost: Option<u8>,
}

pub(super) struct Majority {
    bounds: Rounds,
    quorum: Quorum,
    runs: Runs,
    contenders: Interned<Contender>,
}

impl Majority {
    pub(super) fn new(bounds: Rounds, patch: Option<&Patch>) -> Result<Self> {
        let mut contenders = Interned::default();
        contenders.number(Contender::new());
        Ok(Self {
            bounds,
            quorum: Quorum::of(SERVERS).context("no quorum")?,
            runs: Runs::new(bounds, patch)?,
            contenders,
        })
    }

    fn contender(&self, state: State, client: u8) -> Rc<Contender> {
        self.contenders.value(state.contenders[usize::from(client)])
    }
}

impl Model for Majority {
    type State = State;

    fn beginning(&self) -> State {
        let (number, lost) = (0, None);
        State {
            servers: [Keys { number, lost }; SERVERS],
            contenders: [0; CONTENDERS],
            tick: 0,
            faults: 0,
            endings: 0,
            last: FencingToken::new(0),
        }
    }

    fn moves(&mut self, from: State, moves: &mut Moves<State>) -> Result<()> {
        if from.tick < self.bounds.ticks {
            let (next, broken) = self.tick(from)?;
            moves.add(|| format!("time passes: tick {}", next.tick), next, broken);
        }
        for client in 0..CONTENDERS as u8 {
            self.moves_of(from, client, moves)?;
        }
        if from.endings < self.bounds.endings {
            self.endings(from, moves)?;
        }
        Ok(())
    }

    fn judge(&mut self, state: State) -> Result<Judgement> {
        let now = TICKS.moment(state.tick);
        let is_valid = |client: &u8| self.contender(state, *client).is_valid(self.quorum, now);
        let valid: Vec<_> = (0..CONTENDERS as u8).filter(is_valid).map(letter).collect();
        let what = || format!("{valid:?} are valid at once");
        Ok(Judgement {
            held: !valid.is_empty(),
            broken: (valid.len() > 1).then(|| Rule::Overlap.broken(what())),
        })
    }
}
