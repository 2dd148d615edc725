//! Exhaustive search of locks over several names of one server: every state of three names and up to three rivals, each of
//! which takes a set of them, within bounds.
//!
//! As in [`search`](mod@crate::search), nothing is written down twice: what the server does is the shipped script on the embedded
//! engine, what a rival may send and believe is the engine's own [`Claim`](lockkeeper_core::claim::Claim) for each name. Only what the engine does around them is
//! modelled, in `moves.rs`, and as freely as possible: any request can be given up and executed at any time later, as often as it
//! likes, or never; so is every leave. Answers can be late. Time moves in ticks. A rival may die. A rival of one name is a single
//! lock, by the scripts of its kind.
//!
//! In every state nobody believes in a name beside another, and none for longer than the server keeps it; at every step tokens
//! of a name increase, a repeat gives the same, a set is granted as a whole or not at all, each item of a run is answered by what
//! is true of its own name, what has left is gone and does not come back, and who waits for a name that a leave frees is told.

mod moves;
mod rival;
mod server;

use std::fmt;

use anyhow::Result;
use indexmap::IndexSet;
use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::Moment;
use rustc_hash::FxBuildHasher;

use crate::mutants::Patch;
use rival::Rival;
use server::Server;

/// How many names there are.
pub const NAMES: usize = 3;

/// How many rivals there are at most.
pub const RIVALS: usize = 3;

/// How far a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Bounds {
    /// The names that each rival takes, by number, in order. None at all: there is no such rival.
    pub sets: [&'static [usize]; RIVALS],
    /// Which names are of re-entrant locks; the others are of mutexes.
    pub reentrant: [bool; NAMES],
    /// How often each rival begins anew.
    pub rounds: u8,
    /// How long a lease lasts, in ticks.
    pub ttl: u8,
    /// How often time moves on.
    pub ticks: u8,
    /// How many requests are given up or answered late.
    pub faults: u8,
    /// How many rivals die.
    pub crashes: u8,
    /// Whether leases are renewed.
    pub renews: bool,
    /// Stops after so many states. The search is unfinished then.
    pub states: usize,
}

impl Bounds {
    /// Two who take two names each, of which they share one, and a single lock on that.
    pub const fn small() -> Self {
        Self {
            sets: [&[0, 1], &[1, 2], &[1]],
            reentrant: [false, true, false],
            rounds: 1,
            ttl: 2,
            ticks: 2,
            faults: 1,
            crashes: 0,
            renews: true,
            states: usize::MAX,
        }
    }

    /// The same where what they share is a mutex.
    pub const fn small_of_mutexes() -> Self {
        Self {
            reentrant: [true, false, true],
            ..Self::small()
        }
    }

    /// The same further out.
    pub const fn thorough() -> [Self; 3] {
        [
            Self {
                ticks: 3,
                faults: 2,
                crashes: 1,
                ..Self::small_of_mutexes()
            },
            Self {
                rounds: 2,
                ..Self::small()
            },
            Self {
                sets: [&[0, 1, 2], &[0, 1], &[1, 2]],
                crashes: 1,
                ..Self::small()
            },
        ]
    }
}

/// What must not be; the number is that of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two rivals believe to hold it.
    Overlap(usize),
    /// Somebody believes in it for longer than the server keeps it.
    BelievesTooLong(usize),
    /// Somebody believes in it, and a larger token has been granted to another.
    TokenPassed(usize),
    /// A grant's token is not larger than that of the grant before.
    TokenNotLarger(usize),
    /// A repeat gives another token than the first time.
    TokenChanged(usize),
    /// A set is granted, and the name is not held; or it is not granted, and the name is.
    PartialGrant(usize),
    /// The answer for it is not true of it.
    WrongOutcome(usize),
    /// A request that may not create has made a claim hold that did not, or an acquire one that had left.
    Revived(usize),
    /// A claim has left it, and is there.
    NotLeft(usize),
    /// A leave has made it free, and has told nobody.
    NotWoken(usize),
    /// An answer cannot be read.
    Unreadable,
}

/// What a search has found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// How many states there are.
    pub states: usize,
    /// How many steps between them.
    pub transitions: usize,
    /// In how many states a rival of several names believes in all of them.
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
            "{states} states, a set held in {held} of them, {transitions} steps"
        )?;
        match violation {
            None if *finished => f.write_str("no violation"),
            None => f.write_str("no violation, and more states than the bound"),
            Some((violation, steps)) => write!(f, "{violation:?}:\n{}", steps.join("\n")),
        }
    }
}

/// Everything there is at one moment. The server and rivals are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    server: u32,
    rivals: [u32; RIVALS],
    tick: u8,
    faults: u8,
    crashes: u8,
    /// The last token of each name, and to whom it was granted.
    last: [Option<(FencingToken, usize)>; NAMES],
}

/// The length of a tick, ms.
const TICK: u64 = 10;

fn moment(tick: u8) -> Moment {
    Moment::from_elapsed(std::time::Duration::from_millis(u64::from(tick) * TICK))
}

/// A search under way.
struct Search {
    bounds: Bounds,
    server: Server,
    rivals: IndexSet<Rival, FxBuildHasher>,
    found: IndexSet<World, FxBuildHasher>,
    /// From which state, by which of its steps.
    parents: Vec<(u32, u16)>,
}

/// Visits every state within the bounds, the scripts as shipped or with one of them patched, until a violation.
///
/// # Errors
///
/// If the embedded engine refuses a shipped script.
pub fn search(bounds: Bounds, patch: Option<&Patch>) -> Result<Report> {
    let server = Server::new(bounds, patch)?;
    let mut search = Search {
        server,
        bounds,
        rivals: IndexSet::default(),
        found: IndexSet::default(),
        parents: vec![(0, 0)],
    };
    let rival = search.number(Rival::new());
    search.found.insert(World {
        server: 0,
        rivals: [rival; RIVALS],
        tick: 0,
        faults: 0,
        crashes: 0,
        last: [None; NAMES],
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
            let (holds, violation) = self.judge(&world)?;
            held += usize::from(holds);
            if let Some(violation) = violation {
                let steps = self.steps_to(next)?;
                return Ok(self.report(transitions, held, Some((violation, steps))));
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

    /// Whether a whole set is believed in, and what must not be in this state.
    fn judge(&mut self, world: &World) -> Result<(bool, Option<Violation>)> {
        let now = moment(world.tick);
        let standing = self.server.standing(world.server, world.tick)?;
        let (mut believers, mut whole) = ([None; NAMES], false);
        let mut broken = None;
        for (place, set) in self.bounds.sets.iter().enumerate() {
            let rival = &self.rivals[world.rivals[place] as usize];
            let mut believed = 0;
            for (claim, &name) in rival.claims.iter().zip(*set) {
                let Some((token, deadline)) = rival::belief(claim, now) else {
                    continue;
                };
                believed += 1;
                if believers[name].replace(place).is_some() {
                    return Ok((false, Some(Violation::Overlap(name))));
                }
                let left = standing.left(place, rival.begun, name);
                if left.is_none_or(|left| now.after(left) < deadline) {
                    broken = broken.or(Some(Violation::BelievesTooLong(name)));
                }
                if world.last[name].is_some_and(|(last, whose)| whose != place && last > token) {
                    broken = broken.or(Some(Violation::TokenPassed(name)));
                }
            }
            whole |= set.len() > 1 && believed == set.len();
        }
        Ok((whole, broken))
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
