//! The state of one name: a server, clients, and their requests.

use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::Claim;
use lockkeeper_core::clock::Moment;
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::store::Request;

use super::bounds::MOST_CLIENTS;
use crate::kinds::{Claimant, Mode};
use crate::search::state::{Requests, Sorted};

/// The whole state at one moment. Server and clients are numbers of an [`Interned`](crate::search::state::Interned).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State {
    pub(super) clients: [u32; MOST_CLIENTS],
    pub(super) server: u32,
    /// The limit of a semaphore, which is in force while a claim holds or waits, and the limit at the last grant.
    pub(super) limit: Option<u8>,
    pub(super) granted_in: Option<u8>,
    /// The last grant that is not a reader's, and the last reader's grant since.
    pub(super) last: Option<Grant>,
    pub(super) last_read: Option<Grant>,
    /// Until when the name is in cooldown.
    pub(super) cools_until: Option<Moment>,
    pub(super) tick: u8,
    /// How much of the bounds has been used up.
    pub(super) faults: u8,
    pub(super) endings: u8,
}

impl State {
    /// Records that the server has granted `token`.
    pub(super) fn note_grant(&mut self, claimant: Claimant, mode: Mode, token: FencingToken) {
        let last = match mode {
            Mode::Read => &mut self.last_read,
            Mode::Write | Mode::Permits { .. } | Mode::Stores => &mut self.last,
        };
        if last.is_none_or(|last| last.token < token) {
            *last = Some(Grant { token, claimant });
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
    pub(super) claimant: Claimant,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Client {
    /// The largest token seen, if that matters: see [`CounterLost`](super::Incident::CounterLost).
    pub(super) floor: u64,
    pub(super) attempts: Vec<Attempt>,
}

impl Client {
    pub(super) fn new(attempts: u8) -> Self {
        let attempt = Attempt {
            stage: Stage::Unborn,
            mode: Mode::Write,
            takes: None,
            works_with: None,
            requests: Requests::new(),
            over_limit: false,
            sleeps: false,
            released: None,
            revoked: None,
            messages: Sorted::new(),
        };
        Self {
            floor: 0,
            attempts: vec![attempt; attempts.into()],
        }
    }
}

/// One acquisition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) stage: Stage,
    /// [`Mode::Write`] unless the attempt is living.
    pub(super) mode: Mode,
    /// The attempt of the same client that it asks to replace.
    pub(super) takes: Option<u8>,
    /// The token of its work, if it stores a result.
    pub(super) works_with: Option<FencingToken>,
    /// Those in doubt may be executed any number of times.
    pub(super) requests: Requests<Asked, Reply>,
    /// It asked for more permits than there are and has lost its place until it gets another.
    pub(super) over_limit: bool,
    /// The server has said that the name is held, and has sent no notification since.
    pub(super) sleeps: bool,
    /// The server has confirmed the release: until this tick it must have nothing of the claim.
    pub(super) released: Option<u8>,
    /// It holds on the server and was revoked: then its lease ends, at the latest.
    pub(super) revoked: Option<Moment>,
    /// Messages about its grant. Each may arrive at any time, any number of times, or never.
    pub(super) messages: Sorted<Message>,
}

impl Attempt {
    pub(super) const fn claim(&self) -> Option<&Claim> {
        match &self.stage {
            Stage::Living(claim) => Some(claim),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Unborn,
    Living(Claim),
    /// It has ended with nothing left to do, or will never begin.
    Over,
}

/// A message about a grant, with the claim's last request that the server had executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    pub(super) token: FencingToken,
    pub(super) request: Request,
}

/// The outcome of a request, and the tick until which a confirmed release holds.
pub(super) type Reply = (Told, u8);

/// The answer of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Answer(Answer),
    /// The server answered with an error.
    Refused,
    /// The protocol cannot read the answer.
    Unreadable,
}

/// The number of the first request that a queue records.
pub(super) const FIRST_NOTED: Request = 3;

/// A request: together with the claimant, all that the protocol builds a script call from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) mode: Mode,
    pub(super) request: Request,
    pub(super) floor: u64,
    pub(super) token: Option<FencingToken>,
    /// Whether the name may be inflated, as far as the claim knows.
    pub(super) inflated: bool,
    /// The token with which it was granted.
    pub(super) drawn: Option<FencingToken>,
    /// For how many ms a release keeps the name from others.
    pub(super) cooldown: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Question {
    Acquire,
    /// Replaces another attempt of the client; `overtakes` if an acquire of that one is unanswered.
    Convert {
        old: u8,
        overtakes: bool,
    },
    Heartbeat,
    Renew,
    Release {
        overtakes: bool,
    },
}

impl Question {
    /// The request as its claim knows it.
    pub(super) const fn verb(self) -> Verb {
        match self {
            Self::Acquire | Self::Convert { .. } => Verb::Acquire,
            Self::Heartbeat => Verb::Heartbeat,
            Self::Renew => Verb::Renew,
            Self::Release { .. } => Verb::Release,
        }
    }

    /// The number of a request sent at `tick`. At most a release and one other request of a claim are in flight, so two
    /// numbers are enough to distinguish them. Only requests that a queue records count up; those of one tick share a number,
    /// because only the time of sending matters.
    pub(super) fn number(self, noted: bool, tick: u8) -> Request {
        match self {
            Self::Release { .. } => 2,
            Self::Acquire | Self::Heartbeat if noted => FIRST_NOTED + Request::from(tick),
            _ => 1,
        }
    }
}
