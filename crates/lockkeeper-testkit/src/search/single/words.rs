//! Descriptions of steps.

use std::fmt;

use lockkeeper_core::protocol::Answer;

use super::send::Sending;
use super::state::{Asked, FIRST_NOTED, Question, Told};
use crate::kinds::Mode;

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First(_) | Self::Takes(_) => "begins: it ",
            Self::Again => "asks again: it ",
            Self::Heartbeat => "says that it is alive: it ",
            Self::Renewal => "renews its lease: it ",
            Self::Release => "",
            Self::LetsGo => "lets go, is not valid any more, and ",
        })
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.question {
            Question::Acquire => "acquire",
            Question::Convert {
                overtakes: true, ..
            } => "conversion with a tombstone",
            Question::Convert { .. } => "conversion",
            Question::Heartbeat => "heartbeat",
            Question::Renew => "renew",
            Question::Release { .. } if self.token.is_some() => "store",
            Question::Release { overtakes: true } => "release with a tombstone",
            Question::Release { overtakes: false } => "release",
        })?;
        if self.mode == Mode::Read {
            f.write_str(" to read")?;
        }
        if let Mode::Permits { permits, limit } = self.mode {
            write!(f, " of {permits}/{limit}")?;
        }
        match (self.question, self.token) {
            (Question::Acquire, Some(token)) => write!(f, " (repeats grant {token})"),
            (Question::Acquire | Question::Heartbeat, None) if self.request >= FIRST_NOTED => {
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
            Self::Answer(Answer::Waiting { .. }) => f.write_str("WAITING"),
            Self::Answer(Answer::Released { holds, .. }) => write!(f, "RELEASED, {holds} held"),
            Self::Answer(Answer::Dropped) => f.write_str("DROPPED"),
            Self::Answer(Answer::Inflated) => f.write_str("INFLATED"),
            Self::Answer(Answer::NotHeld { .. }) => f.write_str("NOT_HELD"),
            Self::Answer(Answer::Gone) => f.write_str("GONE"),
            Self::Answer(answer) => write!(f, "{answer:?}"),
            Self::Refused => f.write_str("an error"),
            Self::Unreadable => f.write_str("a reply that cannot be read"),
        }
    }
}
