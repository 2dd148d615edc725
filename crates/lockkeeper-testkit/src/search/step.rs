//! The steps from one state to the next, in words.

use std::fmt;

use lockkeeper_core::protocol::{Answer, Verb};

use super::model::{Mode, Seat, letter};
use super::state::{Asked, FIRST_NOTED, Message, Question, Told};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A client sends a request for a claim.
    Sends(Seat, Asked, Sending),
    /// A request goes well: it is sent, executed and answered.
    Exchanges(Seat, Asked, Sending, Told),
    /// The holder lets go, or whoever asked stops asking. The leave is another step.
    Ends(Seat),
    /// The server executes a request.
    Executes(Seat, Asked, Told),
    /// The server executes a request that nobody waits for any more.
    ExecutesLate(Seat, Asked, Told),
    /// The reply arrives.
    Hears(Seat, Told),
    /// A message tells of the claim's grant.
    HearsGrant(Seat, Message),
    /// The client waits no longer; whether the request had been executed.
    GivesUp(Seat, bool),
    /// The request never left, and the client knows.
    NotSent(Seat),
    /// The server refuses the request, and the engine does not send it again.
    Refuses(Seat),
    /// A client is closed.
    Closes(u8),
    /// A client's process dies.
    Crashes(u8),
    /// The server loses the key with the last token.
    Forgets,
    /// Time passes until this tick.
    Tick(u8),
}

/// Why a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    First(Mode),
    /// It asks to take the place of another attempt.
    Takes(u8),
    Again,
    Heartbeat,
    Renewal,
    Leave,
    /// A leave, with which belief ends.
    LetsGo,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Sends(seat, asked, sending) => {
                write!(f, "{seat} {sending}sends {asked}, which is on its way")
            }
            Self::Exchanges(seat, asked, sending, told) => {
                write!(f, "{seat} {sending}sends {asked}, and hears {told}")
            }
            Self::Ends(seat) => write!(f, "{seat} lets go: it believes no longer"),
            Self::Executes(seat, asked, told) => {
                write!(f, "the server executes {asked} of {seat}: {told}")
            }
            Self::ExecutesLate(seat, asked, told) => write!(
                f,
                "the server executes {asked} of {seat} late, which nobody waits for: {told}"
            ),
            Self::Hears(seat, told) => write!(f, "{seat} hears {told}"),
            Self::HearsGrant(seat, Message { token, request }) => write!(
                f,
                "{seat} is told by a message that it was granted {token} as of its request no. {request}"
            ),
            Self::GivesUp(seat, true) => {
                write!(
                    f,
                    "the reply to {seat} is lost, and {seat} gives up waiting for it"
                )
            }
            Self::GivesUp(seat, false) => write!(
                f,
                "{seat} gives up waiting; its request may be executed later"
            ),
            Self::NotSent(seat) => write!(f, "{seat} learns that its request was not sent"),
            Self::Refuses(seat) => write!(f, "the server refuses the request of {seat}"),
            Self::Closes(client) => write!(f, "client {} is closed", letter(client)),
            Self::Crashes(client) => write!(f, "client {} crashes", letter(client)),
            Self::Forgets => f.write_str("the server loses the key of the last token"),
            Self::Tick(tick) => write!(f, "time passes: tick {tick}"),
        }
    }
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First(_) | Self::Takes(_) => "begins: it ",
            Self::Again => "asks again: it ",
            Self::Heartbeat => "says that it is alive: it ",
            Self::Renewal => "renews its lease: it ",
            Self::Leave => "",
            Self::LetsGo => "lets go, believes no longer, and ",
        })
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.question {
            Question::Acquire => "acquire",
            Question::Convert {
                overtakes: true, ..
            } => "conversion with a mark",
            Question::Convert { .. } => "conversion",
            Question::Heartbeat => "heartbeat",
            Question::Renew => "renew",
            Question::Leave { overtakes: true } => "leave with a mark",
            Question::Leave { overtakes: false } => "leave",
            Question::Verify => "verify",
        })?;
        match self.mode {
            Mode::Only => {}
            Mode::Read => f.write_str(" to read")?,
            Mode::Write => f.write_str(" to write")?,
        }
        match (self.question.verb(), self.token) {
            (Some(Verb::Acquire), Some(token)) => write!(f, " (repeats grant {token})"),
            (Some(Verb::Acquire | Verb::Heartbeat), None) if self.request >= FIRST_NOTED => {
                write!(f, " no. {}", self.request)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Answer(Answer::Granted(token)) => write!(f, "GRANTED {token}"),
            Self::Answer(Answer::Busy(_)) => f.write_str("BUSY"),
            Self::Answer(Answer::Waiting(_)) => f.write_str("WAITING"),
            Self::Answer(Answer::More) => f.write_str("MORE"),
            Self::Answer(Answer::Renewed) => f.write_str("RENEWED"),
            Self::Answer(Answer::Held(_)) => f.write_str("HELD"),
            Self::Answer(Answer::Released { holds, .. }) => write!(f, "RELEASED, {holds} held"),
            Self::Answer(Answer::NotHeld { .. }) => f.write_str("NOT_HELD"),
            Self::Answer(Answer::Gone) => f.write_str("GONE"),
            Self::Answer(Answer::WrongKind) => f.write_str("WRONG_KIND"),
            Self::Answer(answer) => write!(f, "{answer:?}"),
            Self::Refused => f.write_str("an error"),
            Self::Unreadable => f.write_str("a reply that cannot be read"),
        }
    }
}
