//! The requests of a claim, and the answers to them.

use std::time::Duration;

use crate::words::token::FencingToken;

/// The requests that a claim can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Make the claim a holder.
    Acquire,
    /// Keep its place in a queue while it waits.
    Heartbeat,
    /// Extend its lease.
    Renew,
    /// Replace it by another claim of its owner, in another mode.
    Convert,
    /// Release it, or withdraw it from a queue.
    Release,
}

/// A server's reply, as the engine reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// The claim holds.
    Granted(FencingToken),
    /// Another claim holds, for this long unless it is renewed; `None` means without end.
    Busy(Option<Duration>),
    /// Another library's claim holds, for this long; no message reports its end.
    Foreign(Option<Duration>),
    /// The server may have lost claims, and grants nothing for this long.
    Quarantined(Duration),
    /// This claim's own name is free, but it was requested together with other names, and another of them is not free.
    Free,
    /// The claim waits in the queue.
    Waiting {
        /// Its place in the queue, counted from 1.
        place: u64,
        /// For the first waiter: how long until the first of the holders' leases ends, unless it is renewed. `None` if
        /// no lease ends.
        left: Option<Duration>,
    },
    /// The queue is full, at this length.
    QueueFull(u64),
    /// The claim would wait for another claim of its own owner.
    WouldDeadlock,
    /// The claim asks for more permits than this limit.
    OverLimit(u32),
    /// There is nothing to hold: the work of the name is done, or has failed.
    Stored,
    /// The server has more to do: send the same request again at once.
    More,
    /// The server did nothing, because the script is for the simplest case only: run the full one at once.
    Inflated,
    /// The claim holds, and its lease has been extended.
    Renewed,
    /// The claim holds, and the next token on this server will be larger than the token that was written back.
    Raised,
    /// The claim holds, for this long.
    Held(Duration),
    /// The claim held, and has been released.
    Released {
        /// False if the server refused to publish: waiters then find out by their timers.
        told: bool,
        /// How many claims its owner still holds.
        holds: u64,
    },
    /// The claim held and has been released; the name stays unavailable for a while.
    Cooldown {
        /// False if the server refused to publish: waiters then find out by their timers.
        told: bool,
        /// The rest of the cooldown.
        left: Duration,
    },
    /// The claim held alone and has been released. Nobody was told.
    Dropped,
    /// There was nothing to release.
    NotHeld {
        /// How many claims its owner still holds.
        holds: u64,
    },
    /// The claim holds, but has been asked to release, and its lease was not extended.
    Revoked,
    /// The claim is not there.
    Gone,
    /// The name holds data of another kind.
    WrongKind,
}

impl Answer {
    /// The same answer for a client that polls another library's hold at this interval.
    pub(crate) fn polling_every(self, interval: Duration) -> Self {
        match self {
            Self::Foreign(left) => {
                Self::Busy(Some(left.map_or(interval, |left| left.min(interval))))
            }
            answer => answer,
        }
    }
}
