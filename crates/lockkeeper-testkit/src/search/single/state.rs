//! The state of one name: a server, clients, and their requests.

use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::Claim;
use lockkeeper_core::protocol::{Answer, Verb};
use lockkeeper_core::store::Request;

use super::MOST_CLIENTS;
use crate::kinds::{Claimant, Mode};
use crate::search::state::{Requests, Sorted};

/// Everything there is at one moment. Server and clients are numbers of an
/// [`Interned`](crate::search::state::Interned).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State {
    pub(super) clients: [u32; MOST_CLIENTS],
    pub(super) server: u32,
    /// The limit of a semaphore that stands as long as somebody holds or waits, and the one that stood at the last grant.
    pub(super) limit: Option<u8>,
    pub(super) granted_in: Option<u8>,
    /// The last grant that was executed, but to read, and the last one to read since.
    pub(super) last: Option<Grant>,
    pub(super) last_read: Option<Grant>,
    pub(super) tick: u8,
    /// How much of the bounds has been used up.
    pub(super) faults: u8,
    pub(super) endings: u8,
}

impl State {
    /// The server has granted `token`.
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
    /// The largest token seen, if that matters: see [`Bounds::forgets`](super::Bounds::forgets).
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
    /// [`Mode::Write`] unless it lives.
    pub(super) mode: Mode,
    /// The attempt of the same client whose place it asks to take.
    pub(super) takes: Option<u8>,
    /// The token that its work is done with, of one that stores what came of it.
    pub(super) works_with: Option<FencingToken>,
    /// Those in doubt may be executed any number of times.
    pub(super) requests: Requests<Asked, Reply>,
    /// It asked for more permits than there are, and has lost its place until it is given another.
    pub(super) over_limit: bool,
    /// The server has said that somebody holds, and nobody has called since.
    pub(super) sleeps: bool,
    /// The server has confirmed the release: up to this tick nothing of the claim may be there.
    pub(super) released: Option<u8>,
    /// Messages that tell of its grant. Each may come whenever it likes, as often as it likes, or never.
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
    /// It has ended and there is nothing left to do for it, or it will never begin.
    Over,
}

/// A message that a claim was granted, with the last request of it that the server had executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    pub(super) token: FencingToken,
    pub(super) request: Request,
}

/// What came of a request, and the tick until which a confirmed release holds.
pub(super) type Reply = (Told, u8);

/// What a script's run was answered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Answer(Answer),
    /// The server answered with an error.
    Refused,
    /// The protocol cannot read it.
    Unreadable,
}

/// The number of the first request that a queue notes.
pub(super) const FIRST_NOTED: Request = 3;

/// A request: with the claimant, all that the protocol builds a script call from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) mode: Mode,
    pub(super) request: Request,
    pub(super) floor: u64,
    pub(super) token: Option<FencingToken>,
    /// Whether the name may be inflated, as far as the claim knows.
    pub(super) inflated: bool,
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
    Release {
        overtakes: bool,
    },
}

impl Question {
    /// As the claim that sends it knows it.
    pub(super) const fn verb(self) -> Verb {
        match self {
            Self::Acquire | Self::Convert { .. } => Verb::Acquire,
            Self::Heartbeat => Verb::Heartbeat,
            Self::Renew => Verb::Renew,
            Self::Release { .. } => Verb::Release,
        }
    }

    /// The number of the request sent at `tick`. At most a release and one other request are on their way for a claim, so two
    /// numbers tell all apart that must be told apart. Only those that a queue notes count up, and of them those of one tick
    /// are alike: what is counted from one send is counted from all.
    pub(super) fn number(self, noted: bool, tick: u8) -> Request {
        match self {
            Self::Release { .. } => 2,
            Self::Acquire | Self::Heartbeat if noted => FIRST_NOTED + Request::from(tick),
            _ => 1,
        }
    }
}
