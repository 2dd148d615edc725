//! Exhaustive search of locks by a majority: every state of three servers, two rivals and one crash, within bounds.
//!
//! As in [`search`](mod@crate::search), nothing is written down twice: what a server does is the shipped script on the embedded
//! engine, what a rival may send and believe is the engine's own [`Claim`] for each server, and what a majority decides is the
//! engine's own [`Round`]. Only what the engine does around them is modelled, in `moves.rs`, and as freely as possible: any
//! request can be given up and executed at any time later, or never; so is every leave. Answers can be late. Time moves in
//! ticks of a second, and the servers' clocks are apart. One server loses its data, or one rival dies.
//!
//! In every state at most one rival believes to hold. Every grant's token is larger than that of the grant before, and a majority
//! has answered that it is the claim's.

mod moves;
mod servers;

use std::fmt;
use std::hash::Hash;

use anyhow::Result;
use indexmap::IndexSet;
use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::{Claim, Validity};
use lockkeeper_core::clock::Moment;
use lockkeeper_core::protocol::Answer;
use lockkeeper_core::quorum::{Quorum, Round};
use rustc_hash::FxBuildHasher;

use servers::Servers;

/// How many servers there are.
pub(crate) const SERVERS: usize = 3;

/// How many rivals there are.
pub(crate) const RIVALS: usize = 2;

/// How far a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How many rounds each rival begins.
    pub rounds: [u8; RIVALS],
    /// How long a lease lasts, in ticks.
    pub ttl: u8,
    /// How often time moves on.
    pub ticks: u8,
    /// How many requests are given up or answered late.
    pub faults: u8,
    /// How many servers lose their data, or rivals die.
    pub crashes: u8,
    /// Whether leases are renewed.
    pub renews: bool,
    /// Every round is of the same claim, which is a mistake.
    pub one_claim: bool,
    /// Stops after so many states. The search is unfinished then.
    pub states: usize,
}

impl Bounds {
    /// One round of each rival within one lease, nothing in trouble.
    pub const SMALL: Self = Self {
        rounds: [1, 1],
        ttl: 1,
        ticks: 1,
        faults: 0,
        crashes: 0,
        renews: false,
        one_claim: false,
        states: 8_000_000,
    };

    /// What every change must pass: a crash of a server or a rival, a request in trouble, leases that are renewed, and a second
    /// round.
    pub const fn quick() -> [Self; 4] {
        [
            Self {
                crashes: 1,
                ..Self::SMALL
            },
            Self {
                faults: 1,
                ..Self::SMALL
            },
            // A lease of a single tick is over before it can be renewed. That it ends is searched by the thorough ones.
            Self {
                renews: true,
                ttl: 2,
                ..Self::SMALL
            },
            Self {
                rounds: [2, 1],
                ticks: 0,
                ..Self::SMALL
            },
        ]
    }

    /// Several of that together.
    pub const fn thorough() -> [Self; 4] {
        [
            Self {
                crashes: 1,
                faults: 1,
                ..Self::SMALL
            },
            Self {
                renews: true,
                ttl: 2,
                ticks: 2,
                ..Self::SMALL
            },
            Self {
                rounds: [2, 1],
                ticks: 0,
                crashes: 1,
                ..Self::SMALL
            },
            Self {
                rounds: [2, 1],
                ..Self::SMALL
            },
        ]
    }
}

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Both rivals believe to hold.
    Overlap,
    /// A grant's token is not larger than that of the grant before.
    TokenNotLarger(FencingToken, FencingToken),
    /// A grant's token is not the last on a majority of servers by what they answered.
    NoMajority(FencingToken),
}

/// What a search has found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// How many states there are.
    pub states: usize,
    /// How many steps between them.
    pub transitions: usize,
    /// In how many states a rival believes to hold.
    pub held: usize,
    /// Whether that is all.
    pub finished: bool,
    /// What must not be, and the steps to it.
    pub violation: Option<(Violation, Vec<String>)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            transitions,
            held,
            finished,
            violation,
        } = self;
        writeln!(
            f,
            "{states} states, {held} of them held, {transitions} steps"
        )?;
        match violation {
            None if *finished => f.write_str("no violation"),
            None => f.write_str("no violation, and more states than the bound"),
            Some((violation, steps)) => write!(f, "{violation:?}:\n{}", steps.join("\n")),
        }
    }
}

/// Everything there is at one moment. Servers and rivals are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    servers: [Server; SERVERS],
    rivals: [u32; RIVALS],
    tick: u8,
    faults: u8,
    crashes: u8,
    /// Of the last grant.
    last: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Server {
    keys: u32,
    /// When it lost its data.
    restarted: Option<u8>,
}

/// One rival.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rival {
    begun: u8,
    stage: Stage,
    /// Of the present round, by server.
    claims: Vec<Claim>,
    /// The largest token that each server has answered to be the claim's, in the present round.
    tokens: [Option<FencingToken>; SERVERS],
    /// What each server was asked and has not answered.
    flights: [Option<Flight>; SERVERS],
    /// Nobody waits for these, and they may be executed at any time: server, round, what. Ordered.
    strays: Vec<(usize, u8, Asked)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    Asking(Round),
    Held,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Flight {
    asked: Asked,
    /// The answer, if it was executed and is late.
    answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Asked {
    Acquire,
    WriteBack(FencingToken),
    Renew,
    Leave { overtakes: bool },
}

/// The length of a tick, ms.
const TICK: u64 = 1000;

fn moment(tick: u8) -> Moment {
    Moment::from_elapsed(std::time::Duration::from_millis(u64::from(tick) * TICK))
}

impl Rival {
    const fn new() -> Self {
        Self {
            begun: 0,
            stage: Stage::Idle,
            claims: Vec::new(),
            tokens: [None; SERVERS],
            flights: [None; SERVERS],
            strays: Vec::new(),
        }
    }

    fn believes(&self, quorum: Quorum, now: Moment) -> bool {
        let believed =
            |claim: &&Claim| matches!(claim.validity(now), Validity::Valid | Validity::Uncertain);
        self.stage == Stage::Held && quorum.is_reached(self.claims.iter().filter(believed).count())
    }
}

/// A search under way.
struct Search {
    bounds: Bounds,
    quorum: Quorum,
    servers: Servers,
    rivals: IndexSet<Rival, FxBuildHasher>,
    found: IndexSet<World, FxBuildHasher>,
    /// From which state, by which of its steps.
    parents: Vec<(u32, u16)>,
}

/// Visits every state within the bounds, until a violation.
///
/// # Errors
///
/// If the embedded engine refuses a script.
pub fn search(bounds: Bounds) -> Result<Report> {
    let quorum = Quorum::of(SERVERS).ok_or_else(|| anyhow::anyhow!("no quorum"))?;
    let mut search = Search {
        servers: Servers::new(&bounds)?,
        bounds,
        quorum,
        rivals: IndexSet::default(),
        found: IndexSet::default(),
        parents: vec![(0, 0)],
    };
    let rival = search.number(Rival::new());
    let empty = search.servers.empty();
    search.found.insert(World {
        servers: [Server {
            keys: empty,
            restarted: None,
        }; SERVERS],
        rivals: [rival; RIVALS],
        tick: 0,
        faults: 0,
        crashes: 0,
        last: 0,
    });
    search.run()
}

impl Search {
    fn number(&mut self, rival: Rival) -> u32 {
        let (number, _) = self.rivals.insert_full(rival);
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    fn rival(&self, world: &World, place: usize) -> Rival {
        self.rivals[world.rivals[place] as usize].clone()
    }

    fn run(mut self) -> Result<Report> {
        let (mut next, mut transitions, mut held) = (0, 0, 0);
        while next < self.found.len() && self.found.len() < self.bounds.states {
            let world = self.found[next];
            let now = moment(world.tick);
            let believes = |place: &usize| {
                let rival = &self.rivals[world.rivals[*place] as usize];
                rival.believes(self.quorum, now)
            };
            let believing = (0..RIVALS).filter(believes).count();
            held += usize::from(believing == 1);
            if believing > 1 {
                let steps = self.steps_to(next)?;
                return Ok(self.report(transitions, held, Some((Violation::Overlap, steps))));
            }
            for (number, (step, world, violation)) in (0..).zip(self.moves(world)?) {
                transitions += 1;
                if let Some(violation) = violation {
                    let mut steps = self.steps_to(next)?;
                    steps.push(step);
                    return Ok(self.report(transitions, held, Some((violation, steps))));
                }
                if self.found.insert_full(world).1 {
                    self.parents.push((u32::try_from(next)?, number));
                }
            }
            next += 1;
        }
        let mut report = self.report(transitions, held, None);
        report.finished = next == self.found.len();
        Ok(report)
    }

    fn report(
        &self,
        transitions: usize,
        held: usize,
        violation: Option<(Violation, Vec<String>)>,
    ) -> Report {
        Report {
            states: self.found.len(),
            transitions,
            held,
            finished: true,
            violation,
        }
    }

    fn steps_to(&mut self, mut state: usize) -> Result<Vec<String>> {
        let mut steps = Vec::new();
        while state != 0 {
            let (parent, number) = self.parents[state];
            state = parent as usize;
            let mut moves = self.moves(self.found[state])?;
            steps.push(moves.swap_remove(number.into()).0);
        }
        steps.reverse();
        Ok(steps)
    }
}
