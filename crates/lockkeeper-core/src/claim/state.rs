//! What can be said of a claim.

use std::time::Duration;

use crate::words::answer::Answer;
use crate::words::ending::LossReason;
use crate::words::token::FencingToken;

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// It never held.
    Withdrawn,
    /// It held until its holder let it go.
    Released,
    /// It held, and was lost.
    Lost(LossReason),
}

/// What may be believed of a claim at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Validity {
    /// It does not hold, and may yet.
    NotYet,
    /// It holds.
    Valid,
    /// It holds, and the last renewal was not answered.
    Uncertain,
    /// It does not hold and never will.
    Ended(Ending),
}

impl Validity {
    /// Whether the holder may assume that it holds.
    pub const fn holds(self) -> bool {
        matches!(self, Self::Valid | Self::Uncertain)
    }
}

/// Why a request may not be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotNow {
    /// Another request of the claim is on its way.
    Unanswered,
    /// The claim has not come so far, or is past it.
    OutOfOrder,
}

/// What an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The claim holds now.
    Granted(FencingToken),
    /// The claim was granted too long ago to be believed, or had already left: it has ended, a new one is needed.
    Stale,
    /// Another claim holds, for as long as this unless it renews.
    Busy(Option<Duration>),
    /// The server takes no part for so long.
    Quarantined(Duration),
    /// Nothing keeps the claim out but that it is to hold together with others.
    Free,
    /// The claim waits in the queue, at this place counted from one.
    Waiting(u64),
    /// The server has more to do before it can tell: the same is to be asked again at once.
    More,
    /// The queue is full, at this length.
    QueueFull(u64),
    /// The claim would wait for another one of its own owner, which has to be released first.
    WouldDeadlock,
    /// It asks for more than there is at all: so much.
    OverLimit(u32),
    /// There is nothing to hold: the work of the name is done, or has failed.
    Stored,
    /// A message says that the claim was granted, so long ago that only an answer can be believed: a heartbeat is to be sent now.
    Recheck,
    /// The lease was renewed.
    Renewed,
    /// The lease has been lost.
    Lost(LossReason),
    /// The claim is off the server, and was there until now or until an earlier leave of its own.
    Released {
        /// Whether the server let the wake out.
        told: bool,
        /// How many claims its owner still holds, as far as an answer has said.
        holds: u64,
    },
    /// The claim is off the server, and the name kept from others.
    Cooldown {
        /// Whether the server let the word of it out.
        told: bool,
        /// The rest of the cooldown.
        left: Duration,
    },
    /// The claim was no longer on the server when it left.
    WasGone,
    /// The name holds data of another kind.
    WrongKind,
    /// No answer that this request can have.
    Unexpected,
    /// The answer to a request that had been given up: it changes nothing.
    Ignored,
}

impl Verdict {
    /// What an answer to an acquire says that leaves nothing of it on the server.
    pub(super) const fn of_refusal(answer: Answer) -> Option<Self> {
        Some(match answer {
            Answer::Busy(left) => Self::Busy(left),
            Answer::Quarantined(left) => Self::Quarantined(left),
            // Not kept out itself, and not let in alone.
            Answer::Free => Self::Free,
            Answer::QueueFull(length) => Self::QueueFull(length),
            Answer::WouldDeadlock => Self::WouldDeadlock,
            Answer::OverLimit(limit) => Self::OverLimit(limit),
            Answer::Stored => Self::Stored,
            Answer::WrongKind => Self::WrongKind,
            _ => return None,
        })
    }
}

/// The leave that a claim needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseNeeded {
    /// The server holds nothing for it and never will.
    None,
    /// Every acquire has been answered.
    Plain,
    /// An acquire may be executed after the leave, and must then create nothing.
    WithTombstone,
}
