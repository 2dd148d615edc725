//! What a run tells: to a person what he has to know, to a program everything, one JSON object a line.

use std::fs::File;
use std::io::{IsTerminal as _, Write};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::args::Run;
use crate::exit::{Failure, say};

/// Something that happened in a run. Times are milliseconds.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event<'a> {
    /// The server has answered, the lock is asked for.
    Asking { name: &'a str },
    /// Somebody else holds, and the wait is over.
    Conflict { name: &'a str, holders: Vec<String> },
    /// The lock is held.
    Granted {
        name: &'a str,
        kind: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<&'a str>,
        owner: &'a str,
        fence: u64,
        ttl_ms: u64,
    },
    /// The program runs.
    Started { pid: u32 },
    /// A signal was passed on.
    Signalled { signal: i32 },
    /// The program goes on after it was stopped.
    Continued,
    /// The program was asked to stop.
    Terminating { reason: &'a str, left_ms: u64 },
    /// The program was killed.
    Killing { reason: &'a str, left_ms: u64 },
    /// The lock is lost; the program runs on, as asked.
    Ignoring { reason: &'a str },
    /// The program has ended.
    Exited { code: u8 },
    /// Nobody is left of its group; so much was left of the lease.
    Over { left_ms: u64 },
    /// The lock is free, or kept for so much longer.
    Released { kept_ms: u64 },
}

#[derive(Serialize)]
struct Line<'a> {
    /// RFC 3339, UTC.
    at: String,
    /// Since the command was started.
    ms: u64,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

/// Where a run tells what happens.
pub(crate) struct Journal {
    begun: Instant,
    /// JSON goes here.
    lines: Option<Box<dyn Write>>,
    /// Whether plain sentences may go to stderr.
    plain: bool,
}

impl Journal {
    pub(crate) fn open(options: &Run, json: bool) -> Result<Self, Failure> {
        let lines: Option<Box<dyn Write>> = match &options.events {
            Some(path) => {
                let file = File::options().append(true).create(true).open(path);
                Some(Box::new(file.map_err(|error| {
                    Failure::usage(format!("cannot write to {}: {error}", path.display()))
                })?))
            }
            None if json => Some(Box::new(std::io::stderr())),
            None => None,
        };
        Ok(Self {
            begun: Instant::now(),
            lines,
            plain: !json || options.events.is_some(),
        })
    }

    /// Writes the event down. A reader that is gone is no reason to stop.
    pub(crate) fn tell(&mut self, event: &Event<'_>) {
        let Some(lines) = &mut self.lines else { return };
        let line = Line {
            at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            ms: millis(self.begun.elapsed()),
            event,
        };
        if let Ok(mut text) = serde_json::to_vec(&line) {
            text.push(b'\n');
            let _ = lines.write_all(&text);
        }
    }

    /// Says something to the person who started this.
    pub(crate) fn say(&self, message: &str) {
        if self.plain {
            say(message);
        }
    }

    /// Says it only to somebody who sits there and wonders.
    pub(crate) fn remark(&self, message: &str) {
        if self.plain && std::io::stderr().is_terminal() {
            say(message);
        }
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}
