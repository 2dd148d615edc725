//! The state of the world: a server, clients, requests on their way; and how states are kept small.

use std::hash::Hash;
use std::rc::Rc;

use indexmap::IndexSet;
use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::Claim;
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::store::Request;
use rustc_hash::FxBuildHasher;

use super::bounds::MOST_CLIENTS;
use super::model::{Mode, Seat};

/// Everything there is at one moment: what a search visits once. Server and clients are numbers of an [`Interned`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct World {
    pub(super) clients: [u32; MOST_CLIENTS],
    pub(super) server: u32,
    /// The last grant that was executed, but to read, and the last one to read since.
    pub(super) last: Option<Grant>,
    pub(super) last_read: Option<Grant>,
    pub(super) tick: u8,
    /// How much of the bounds has been used up.
    pub(super) faults: u8,
    pub(super) endings: u8,
}

impl World {
    /// The server has granted `token`.
    pub(super) fn note_grant(&mut self, seat: Seat, reads: bool, token: FencingToken) {
        let last = if reads {
            &mut self.last_read
        } else {
            &mut self.last
        };
        if last.is_none_or(|last| last.token < token) {
            *last = Some(Grant { token, seat });
        }
        let last = self.last;
        self.last_read = self
            .last_read
            .filter(|read| last.is_none_or(|last| last.token < read.token));
    }
}

/// A grant as the server executed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Grant {
    pub(super) token: FencingToken,
    pub(super) seat: Seat,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Client {
    /// The largest token seen, if that matters: see [`Bounds::forgets`](super::Bounds::forgets).
    pub(super) floor: u64,
    pub(super) attempts: Vec<Attempt>,
}

/// One acquisition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) stage: Stage,
    /// [`Mode::Only`] unless it lives.
    pub(super) mode: Mode,
    /// The attempt of the same client whose place it asks to take.
    pub(super) takes: Option<u8>,
    /// The one request that the claim waits for.
    pub(super) flight: Option<Flight>,
    /// Requests that nobody waits for any more and that may yet be executed, ordered.
    pub(super) strays: Vec<Asked>,
    /// The server has said that somebody holds, and nobody has called since.
    pub(super) sleeps: bool,
    /// The server has confirmed the leave: up to this tick nothing of the claim may be there.
    pub(super) gone: Option<u8>,
    /// Messages that tell of its grant, ordered. Each may come whenever it likes, as often as it likes, or never.
    pub(super) messages: Vec<Message>,
}

/// A message that a claim was granted, with the last request of it that the server had executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    pub(super) token: FencingToken,
    pub(super) request: Request,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Unborn,
    Living(Claim),
    /// It has ended and there is nothing left to do for it, or it will never begin.
    Over,
}

/// A request on its way to the server, or its reply on the way back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    pub(super) asked: Asked,
    /// What came of it, if it was executed, and the tick until which a confirmed leave holds.
    pub(super) reply: Option<(Told, u8)>,
}

/// The number of the first request that a queue notes.
pub(super) const FIRST_NOTED: Request = 3;

/// A request: with the seat, all that the protocol builds an item from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) mode: Mode,
    pub(super) request: Request,
    pub(super) floor: u64,
    pub(super) token: Option<FencingToken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Question {
    Acquire,
    /// To take the place of another attempt of the client; whether an acquire of that one is unanswered.
    Convert {
        old: u8,
        overtakes: bool,
    },
    Heartbeat,
    Renew,
    Leave {
        overtakes: bool,
    },
    Verify,
}

impl Question {
    /// As the claim knows it; a question out of turn is none of its requests.
    pub(super) const fn verb(self) -> Option<Verb> {
        match self {
            Self::Acquire | Self::Convert { .. } => Some(Verb::Acquire),
            Self::Heartbeat => Some(Verb::Heartbeat),
            Self::Renew => Some(Verb::Renew),
            Self::Leave { .. } => Some(Verb::Release),
            Self::Verify => None,
        }
    }

    /// The number of the request sent at `tick`. At most a leave and one other request are on their way for a claim, so two
    /// numbers tell all apart that must be told apart. Only those that a queue notes count up, and of them those of one tick
    /// are alike: what is counted from one send is counted from all.
    pub(super) fn number(self, noted: bool, tick: u8) -> Request {
        match self {
            Self::Leave { .. } => 2,
            Self::Acquire | Self::Heartbeat if noted => FIRST_NOTED + Request::from(tick),
            _ => 1,
        }
    }
}

/// What a script's run was answered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Answer(Answer),
    /// The server answered with an error.
    Refused,
    /// The protocol cannot read it.
    Unreadable,
}

impl Client {
    pub(super) fn new(attempts: u8) -> Self {
        let attempt = Attempt {
            stage: Stage::Unborn,
            mode: Mode::Only,
            takes: None,
            flight: None,
            strays: Vec::new(),
            sleeps: false,
            gone: None,
            messages: Vec::new(),
        };
        Self {
            floor: 0,
            attempts: vec![attempt; attempts.into()],
        }
    }
}

impl Attempt {
    pub(super) const fn claim(&self) -> Option<&Claim> {
        match &self.stage {
            Stage::Living(claim) => Some(claim),
            _ => None,
        }
    }

    /// A message goes out to the claim.
    pub(super) fn publish(&mut self, message: Message, now: u8) {
        if let Err(place) = self.messages.binary_search(&message) {
            self.messages.insert(place, message);
        }
        self.fold_messages(now);
    }

    /// The request on its way becomes one that nobody waits for. Several alike are one: a stray may be executed any number of
    /// times anyhow.
    pub(super) fn stray(&mut self) {
        if let Some(Flight { asked, reply: None }) = self.flight.take()
            && let Err(place) = self.strays.binary_search(&asked)
        {
            self.strays.insert(place, asked);
        }
    }
}

/// Values by number: equal values have one number, in the order in which they came.
#[derive(Debug)]
pub(super) struct Interned<T>(IndexSet<Rc<T>, FxBuildHasher>);

impl<T: Eq + Hash> Interned<T> {
    pub(super) fn new() -> Self {
        Self(IndexSet::default())
    }

    pub(super) fn number(&mut self, value: T) -> u32 {
        let index = match self.0.get_index_of(&value) {
            Some(index) => index,
            None => self.0.insert_full(Rc::new(value)).0,
        };
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    pub(super) fn value(&self, number: u32) -> Rc<T> {
        Rc::clone(&self.0[number as usize])
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
