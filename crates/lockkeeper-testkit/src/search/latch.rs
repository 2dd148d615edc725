//! A latch on one server: two clients that arm it, a few ids that count it down, and waiters.
//!
//! Any request can be executed at any moment and any number of times, which covers late, lost and repeated requests. The
//! server may lose either key of the latch, or both. Beside the scripts, a few lines of Rust define a latch: every answer must
//! match that definition, waiters must be notified when the latch opens, and nothing may remain when it is forgotten.

use std::fmt;

use anyhow::{Result, bail};
use lockkeeper_core::protocol::{RequestContext, ScriptCall};
use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{ClaimId, Name};
use lockkeeper_lua::Status;
use rustc_hash::FxHashMap;

use super::explore::{Judgement, Model, Moves};
use super::rule::{Rule, Violation};
use super::server::Server;
use super::state::{Ticks, owner};
use crate::patch::Patch;

const TICKS: Ticks = Ticks(1000);

/// How far a search of a latch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Latches {
    /// The number of counts with which each of the two clients arms it.
    pub counts: [u8; 2],
    /// How many ids count it down.
    pub ids: u8,
    /// How many ticks it lives.
    pub ttl: u8,
    /// How often time advances.
    pub ticks: u8,
    /// How often the server loses keys.
    pub losses: u8,
}

impl Latches {
    /// One round, and what follows it.
    pub const SMALL: Self = Self {
        counts: [2, 2],
        ids: 3,
        ttl: 2,
        ticks: 6,
        losses: 1,
    };

    /// The searches that every change must pass.
    pub const fn quick() -> [Self; 3] {
        [
            Self::SMALL,
            // The two clients disagree on the counts; armed with none, the latch is open.
            Self {
                counts: [1, 3],
                ..Self::SMALL
            },
            Self {
                counts: [0, 2],
                ticks: 8,
                losses: 2,
                ..Self::SMALL
            },
        ]
    }

    /// More of everything.
    pub const fn thorough() -> [Self; 1] {
        [Self {
            counts: [3, 4],
            ids: 5,
            ttl: 3,
            ticks: 12,
            losses: 3,
        }]
    }
}

impl fmt::Display for Latches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "armed with {:?}, {} ids, a ttl of {} ticks, ",
            self.counts, self.ids, self.ttl
        )?;
        write!(f, "{} ticks, {} losses", self.ticks, self.losses)
    }
}

/// A request to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Asked {
    /// By one of the two clients.
    Arm(u8),
    Count(u8),
    Look,
}

/// Which of the latch's two keys (main key, counted ids) the server loses.
const LOSSES: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

/// The definition of a latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Latch {
    n: u8,
    armed_by: u8,
    /// One bit per id.
    counted: u8,
    /// The tick at which the latch ends or its opening is forgotten. 0 if there is none, or the server has lost it.
    ends: u8,
    /// The tick at which the server forgets the ids that have counted, and the latch. 0 for an open latch, and if that is
    /// lost.
    forgotten: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Absent,
    Armed,
    Open,
    Ended,
}

impl Latch {
    fn left(self) -> u8 {
        self.n
            .saturating_sub(u8::try_from(self.counted.count_ones()).unwrap_or(u8::MAX))
    }

    fn stands(self, tick: u8) -> Stands {
        match (self.ends > tick, self.forgotten > tick) {
            (true, _) if self.left() == 0 => Stands::Open,
            (true, true) => Stands::Armed,
            (false, false) => Stands::Absent,
            _ => Stands::Ended,
        }
    }

    /// Starts the latch's lifetime anew at this tick.
    fn kept(mut self, tick: u8, ttl: u8) -> Self {
        self.ends = tick + ttl;
        self.forgotten = match self.left() {
            0 => 0,
            _ => tick + 2 * ttl,
        };
        self
    }

    /// The latch after a request, and the expected answer.
    fn asked(self, asked: Asked, tick: u8, bounds: Latches) -> (Self, String) {
        let (mut after, stands) = (self, self.stands(tick));
        let lives = matches!(stands, Stands::Armed | Stands::Open);
        match asked {
            Asked::Arm(who) if !lives => {
                let n = bounds.counts[usize::from(who)];
                let fresh = Self {
                    n,
                    armed_by: who,
                    ..Self::default()
                };
                (fresh.kept(tick, bounds.ttl), format!("COUNTS {n} {n} 1"))
            }
            Asked::Arm(who) => {
                let own = u8::from(who == self.armed_by);
                (self, format!("COUNTS {} {} {own}", self.left(), self.n))
            }
            Asked::Count(_) if !lives => (self, format!("GONE {}", word(stands))),
            Asked::Count(id) => {
                if stands == Stands::Armed && self.counted & 1 << id == 0 {
                    after.counted |= 1 << id;
                    after = after.kept(tick, bounds.ttl);
                }
                (after, format!("COUNTS {} {}", after.left(), after.n))
            }
            Asked::Look if stands == Stands::Armed => {
                let left = TICKS.lease(self.ends - tick).as_millis();
                (self, format!("BUSY {left} 0 {}", self.left()))
            }
            Asked::Look => (self, format!("STORED text {}", word(stands))),
        }
    }
}

/// The state as scripts name it.
const fn word(stands: Stands) -> &'static str {
    match stands {
        Stands::Absent => "absent",
        Stands::Armed => "armed",
        Stands::Open => "open",
        Stands::Ended => "ended",
    }
}

/// The whole state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The server's state, by number.
    server: u32,
    latch: Latch,
    tick: u8,
    losses: u8,
}

/// The server's state after a script, the answer, and whether waiters were notified.
type Run = (u32, String, bool);

pub(super) struct OneLatch {
    bounds: Latches,
    name: Name,
    server: Server,
    runs: FxHashMap<(u32, u8, Asked), Run>,
}

impl OneLatch {
    pub(super) fn new(bounds: Latches, patch: Option<&Patch>) -> Result<Self> {
        let name = Name::new("", "n")?;
        let mut server = Server::new(TICKS, 0, patch)?;
        server.subscribe(&name.wakes())?;
        server.number();
        Ok(Self {
            bounds,
            name,
            server,
            runs: FxHashMap::default(),
        })
    }

    fn call(&self, asked: Asked) -> Result<ScriptCall> {
        let ttl = TICKS.lease(self.bounds.ttl);
        Ok(match asked {
            Asked::Arm(who) => {
                let (claim, n) = (
                    ClaimId::new(owner(who)?, 0),
                    self.bounds.counts[usize::from(who)],
                );
                lockkeeper_latch::arming(&self.name, &claim, n.into(), ttl)
            }
            Asked::Count(id) => lockkeeper_latch::count(&self.name, &format!("id {id}")),
            Asked::Look => {
                let claim = ClaimId::new(owner(0)?, 1);
                let protocol = lockkeeper_latch::protocol(self.name.clone());
                protocol.acquire(RequestContext::new(&claim, ttl, 0, None))
            }
        })
    }

    fn run(&mut self, state: State, asked: Asked) -> Result<Run> {
        let key = (state.server, state.tick, asked);
        if let Some(run) = self.runs.get(&key) {
            return Ok(run.clone());
        }
        self.server.restore(state.server, state.tick);
        let call = self.call(asked)?;
        let reply = Reply::read(1, self.server.eval(&call, 1)?)?;
        let told = self
            .server
            .messages()
            .any(|(_, message)| message == b"free");
        let run = (self.server.number(), said(&reply)?, told);
        self.runs.insert(key, run.clone());
        Ok(run)
    }

    fn ask(&mut self, from: State, asked: Asked, moves: &mut Moves<State>) -> Result<()> {
        let (server, answer, told) = self.run(from, asked)?;
        let (latch, expected) = from.latch.asked(asked, from.tick, self.bounds);
        let opens = from.latch.stands(from.tick) == Stands::Armed
            && latch.stands(from.tick) == Stands::Open;
        let broken = wrong(&answer, &expected).or_else(|| {
            let what = || format!("{asked:?}");
            (opens && !told).then(|| Rule::NotWoken.broken(what()))
        });
        let to = State {
            server,
            latch,
            ..from
        };
        moves.add(|| format!("{asked:?} is answered {answer}"), to, broken);
        Ok(())
    }

    /// Makes the server lose keys.
    fn lose(&mut self, from: State, (main, counted): (bool, bool)) -> Result<State> {
        self.server.restore(from.server, from.tick);
        let keys = [self.name.main().to_owned(), self.name.part("counted")];
        let mut latch = from.latch;
        if main {
            self.server.execute(&["DEL", &keys[0]])?;
            latch.ends = 0;
        }
        if counted {
            self.server.execute(&["DEL", &keys[1]])?;
            latch.forgotten = 0;
        }
        Ok(State {
            server: self.server.number(),
            latch,
            losses: from.losses + 1,
            ..from
        })
    }
}

/// The rule that this answer breaks, given the expected one.
fn wrong(answer: &str, expected: &str) -> Option<Violation> {
    let opens = |answer: &str| answer.starts_with("COUNTS 0") || answer.ends_with(" open");
    let rule = match opens(answer) && !opens(expected) {
        true => Rule::OpenedEarly,
        false => Rule::WrongAnswer,
    };
    (answer != expected).then(|| rule.broken(format!("{answer:?}, not {expected:?}")))
}

/// The part of an answer that clients read, as text.
fn said(reply: &Reply) -> Result<String> {
    let fields = match reply.status() {
        Status::Stored => &reply.fields()[..2],
        _ => reply.fields(),
    };
    let mut words = vec![reply.status().as_str().to_owned()];
    for field in fields {
        match (field, field.as_str()) {
            (Value::Integer(number), _) => words.push(number.to_string()),
            (_, Some(text)) => words.push(text.to_owned()),
            _ => bail!("a field that nobody reads: {reply:?}"),
        }
    }
    Ok(words.join(" "))
}

impl Model for OneLatch {
    type State = State;

    fn beginning(&self) -> State {
        State {
            server: 0,
            latch: Latch::default(),
            tick: 0,
            losses: 0,
        }
    }

    fn moves(&mut self, from: State, moves: &mut Moves<State>) -> Result<()> {
        if from.tick < self.bounds.ticks {
            let tick = from.tick + 1;
            let to = State {
                tick,
                server: self.server.later(from.server, tick),
                ..from
            };
            moves.add(|| format!("time passes: tick {tick}"), to, None);
        }
        let counts = (0..self.bounds.ids).map(Asked::Count);
        for asked in [Asked::Arm(0), Asked::Arm(1), Asked::Look]
            .into_iter()
            .chain(counts)
        {
            self.ask(from, asked, moves)?;
        }
        if from.losses < self.bounds.losses {
            for lost in LOSSES {
                let to = self.lose(from, lost)?;
                moves.add(|| format!("the server loses its keys: {lost:?}"), to, None);
            }
        }
        Ok(())
    }

    fn judge(&mut self, state: State) -> Result<Judgement> {
        let stands = state.latch.stands(state.tick);
        self.server.restore(state.server, state.tick);
        let remains = stands == Stands::Absent && !self.server.keys().is_empty();
        let what = || format!("{:?}", self.server.keys());
        Ok(Judgement {
            held: stands == Stands::Open,
            broken: remains.then(|| Rule::Remains.broken(what())),
        })
    }

    /// Forgets what has ended, because it makes no difference any more.
    fn canonical(&mut self, mut state: State) -> State {
        let latch = &mut state.latch;
        for end in [&mut latch.ends, &mut latch.forgotten] {
            if *end <= state.tick {
                *end = 0;
            }
        }
        if latch.ends == 0 {
            *latch = Latch {
                forgotten: latch.forgotten,
                ..Latch::default()
            };
        }
        state
    }
}
