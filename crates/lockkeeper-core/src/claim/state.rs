//! The states of a claim, and the outcomes of its requests.

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
    /// It held until its holder released it.
    Released,
    /// It held, and was lost.
    Lost(LossReason),
}

/// What the holder may assume about a claim at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Validity {
    /// It does not hold yet.
    NotYet,
    /// It holds.
    Valid,
    /// It holds, but the last renewal was not answered.
    Uncertain,
    /// It does not hold, and never will again.
    Ended(Ending),
}

impl Validity {
    /// Returns whether the holder may assume that the claim holds.
    pub const fn holds(self) -> bool {
        matches!(self, Self::Valid | Self::Uncertain)
    }
}

/// Why a request may not be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotNow {
    /// Another request of the claim is unanswered.
    Unanswered,
    /// The claim is not in the state for it.
    OutOfOrder,
}

/// What an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The claim holds now.
    Granted(FencingToken),
    /// The claim was granted too long ago to be valid, or had already been released. It has ended, and a new claim is
    /// needed.
    Stale,
    /// Another claim holds, for this long unless it is renewed.
    Busy(Option<Duration>),
    /// The server is quarantined for this long.
    Quarantined(Duration),
    /// The name itself is free. Only the claims that must be granted together with this one keep it out.
    Free,
    /// The claim waits in the queue, at this place counted from 1.
    Waiting(u64),
    /// The server has more to do before it can answer. Send the same request again at once.
    More,
    /// The queue is full, at this length.
    QueueFull(u64),
    /// The claim would wait for another claim of its own owner, which must be released first.
    WouldDeadlock,
    /// It asks for more permits than this limit.
    OverLimit(u32),
    /// There is nothing to hold: the work of the name is done, or has failed.
    Stored,
    /// A message says that the claim was granted, but it is too old to be relied on. Send a heartbeat now.
    Recheck,
    /// The lease was renewed.
    Renewed,
    /// The lease has been lost.
    Lost(LossReason),
    /// The claim is no longer on the server. It was there until now, or until an earlier release of its own.
    Released {
        /// Whether the server published the wake.
        told: bool,
        /// How many claims its owner still holds, as far as an answer has shown.
        holds: u64,
    },
    /// The claim is no longer on the server. It held alone, and nobody was told.
    Dropped,
    /// The claim is no longer on the server, and the name is in its cooldown.
    Cooldown {
        /// Whether the server published the message about the cooldown.
        told: bool,
        /// The rest of the cooldown.
        left: Duration,
    },
    /// The claim was no longer on the server when it was released.
    WasGone,
    /// The name holds data of another kind.
    WrongKind,
    /// A request of this sort cannot have such an answer.
    Unexpected,
    /// The answer to a request that had been abandoned. It changes nothing.
    Ignored,
}

impl Verdict {
    /// The verdict of an answer that refuses an acquire, and after which nothing of the claim is on the server.
    pub(super) const fn of_refusal(answer: Answer) -> Option<Self> {
        Some(match answer {
            Answer::Busy(left) => Self::Busy(left),
            Answer::Quarantined(left) => Self::Quarantined(left),
            // The claim's own name is free, but it is not granted alone.
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

/// The release that a claim needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseNeeded {
    /// None: the server holds nothing for it and never will.
    None,
    /// A plain one: every acquire has been answered.
    Plain,
    /// One with a tombstone: an acquire may be executed after the release, and must then create nothing.
    WithTombstone,
}
