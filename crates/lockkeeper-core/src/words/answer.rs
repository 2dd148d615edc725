//! What a claim asks of the server, and what it is answered.

use std::time::Duration;

use crate::words::token::FencingToken;

/// What a claim can ask of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// To be made a holder.
    Acquire,
    /// To be known as alive while it waits in a queue.
    Heartbeat,
    /// To have its lease armed again.
    Renew,
    /// To go on as another claim of its owner, in another mode.
    Convert,
    /// To be released, or withdrawn from a queue.
    Release,
}

/// A reply in the engine's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// The claim holds.
    Granted(FencingToken),
    /// Another claim holds, for as long as this unless it renews; `None` means without end.
    Busy(Option<Duration>),
    /// Another library's claim holds, for as long as this; nobody will be told of its end.
    Foreign(Option<Duration>),
    /// The server may have lost claims: it grants nothing for as long as this.
    Quarantined(Duration),
    /// Nothing keeps the claim from its name, but it is to hold together with others, and one of them is kept out.
    Free,
    /// The claim waits in the queue.
    Waiting {
        /// At this place, counted from one.
        place: u64,
        /// Of the first: for how long no holder's lease ends unless it is renewed, if it ends at all.
        left: Option<Duration>,
    },
    /// The queue holds as many as it may.
    QueueFull(u64),
    /// The claim would wait for another one of its own owner.
    WouldDeadlock,
    /// The claim asks for more than there is at all: so much.
    OverLimit(u32),
    /// There is nothing to hold: the work of the name is done, or has failed.
    Stored,
    /// The server has more to do: the same is to be asked again at once.
    More,
    /// The name is inflated: another script is to be run at once.
    Inflated,
    /// The claim holds and its lease has been armed.
    Renewed,
    /// The claim holds, and the next token on this server is larger than the one that was written back.
    Raised,
    /// The claim holds, for as long as this.
    Held(Duration),
    /// The claim held and is gone.
    Released {
        /// False if the server refused to publish: waiters find out by their timers.
        told: bool,
        /// How many claims its owner still holds.
        holds: u64,
    },
    /// The claim held and is gone; nobody else may hold for a while.
    Cooldown {
        /// False if the server refused to publish: waiters find out by their timers.
        told: bool,
        /// For how long.
        left: Duration,
    },
    /// There was nothing to leave.
    NotHeld {
        /// How many claims its owner holds.
        holds: u64,
    },
    /// The claim holds, is to leave, and is not armed again.
    Revoked,
    /// The claim is not there.
    Gone,
    /// The name holds another kind's data.
    WrongKind,
}

impl Answer {
    /// What it means for a client that asks for the end of another library's hold so often.
    pub(crate) fn polling_every(self, interval: Duration) -> Self {
        match self {
            Self::Foreign(left) => {
                Self::Busy(Some(left.map_or(interval, |left| left.min(interval))))
            }
            answer => answer,
        }
    }
}
