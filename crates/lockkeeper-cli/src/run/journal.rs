//! The output of a run: messages for a person, and all events for a program, one JSON object per line.

use std::fs::{self, File};
use std::io::{IsTerminal as _, Write, sink, stderr};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde::Serialize;

use super::scribe::{Scribe, Word};
use crate::args::Run;
use crate::exit::Failure;
use crate::out;

/// Something that happened in a run. Times are in milliseconds.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event<'a> {
    /// The server has answered, and the run asks for the lock.
    Asking { name: &'a str },
    /// The server cannot be reached, and the run waits for it.
    Unreachable { reason: &'a str, left_ms: u64 },
    /// Others use the semaphore with this limit, which differs from the requested one.
    OtherLimit { name: &'a str, limit: u32 },
    /// Another holds the lock, and the run waits.
    Waiting {
        name: &'a str,
        holders: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        left_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        place: Option<usize>,
    },
    /// Another holds the lock, and the wait is over.
    Conflict { name: &'a str, holders: Vec<String> },
    /// The slot was done before.
    Done { name: &'a str, slot: &'a str },
    /// The program failed for the slot, and cannot be retried for this long.
    Later {
        name: &'a str,
        slot: &'a str,
        left_ms: u64,
    },
    /// The lock is held.
    Granted {
        name: &'a str,
        kind: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        permits: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        slot: Option<&'a str>,
        owner: &'a str,
        fence: u64,
        ttl_ms: u64,
    },
    /// The program runs.
    Started { pid: u32 },
    /// A signal was passed on.
    Signalled { signal: i32 },
    /// The program continues after it was stopped.
    Continued,
    /// The program was asked to stop.
    Terminating { reason: &'a str, left_ms: u64 },
    /// The program was killed.
    Killing { reason: &'a str, left_ms: u64 },
    /// The lock was lost, and the program ended by itself before it was stopped.
    Lost { reason: &'a str },
    /// The lock is lost; the program continues, as requested.
    Ignoring { reason: &'a str },
    /// The program has ended.
    Exited { code: u8 },
    /// No process of its group is left; this much of the lease was left.
    Over { left_ms: u64 },
    /// The lock is free, or stays unavailable for this long.
    Released { kept_ms: u64 },
    /// The lock is not released and ends with its lease.
    Expiring { reason: &'a str },
}

#[derive(Serialize)]
struct Line<'a> {
    /// RFC 3339, UTC.
    at: String,
    /// Time since the start of the command.
    ms: u64,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

/// Where a run writes its events and messages.
pub(crate) struct Journal {
    begun: Instant,
    scribe: Scribe,
    /// Whether JSON was requested.
    lines: bool,
    /// Whether plain messages may go to stderr.
    plain: bool,
}

impl Journal {
    pub(crate) fn open(options: &Run, json: bool) -> Result<Self, Failure> {
        let lines: Box<dyn Write + Send> = match &options.events {
            Some(path) => {
                let file = open_now(path);
                Box::new(file.map_err(|reason| {
                    Failure::usage(format!("cannot write to {}: {reason}", path.display()))
                })?)
            }
            None if json => Box::new(stderr()),
            None => Box::new(sink()),
        };
        let scribe = Scribe::start(lines);
        Ok(Self {
            begun: Instant::now(),
            scribe: scribe.map_err(|error| Failure::system("start a thread", &error))?,
            lines: json || options.events.is_some(),
            plain: !json || options.events.is_some(),
        })
    }

    /// Writes the event.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if !self.lines {
            return;
        }
        let line = Line {
            at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            ms: millis(self.begun.elapsed()),
            event,
        };
        if let Ok(text) = serde_json::to_string(&line) {
            let text = out::harmless(&text) + "\n";
            self.scribe.write(Word::Line(text.into_bytes()));
        }
    }

    /// Prints a message for the person that started the run.
    pub(crate) fn say(&self, message: &str) {
        if self.plain {
            self.scribe.write(Word::Sentence(message.to_owned()));
        }
    }

    /// Prints a message only if stderr is a terminal.
    pub(crate) fn remark(&self, message: &str) {
        if stderr().is_terminal() {
            self.say(message);
        }
    }

    /// Closes the output. A slow reader gets at most this long to read the rest.
    pub(crate) fn close(self, limit: Duration) {
        self.scribe.close(limit);
    }
}

/// Opens a file to write to, and does not wait for the reader of a named pipe, who may never come. Returns why it cannot be opened.
fn open_now(path: &Path) -> Result<File, String> {
    let mut options = File::options();
    let options = options.append(true).create(true);
    let opened = options
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let file = opened.map_err(|error| {
        let is_pipe = fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo());
        match is_pipe && error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) {
            true => "no process reads this pipe: start the reader first".to_owned(),
            false => error.to_string(),
        }
    })?;
    // From now on, a reader that is slow is waited for.
    let flags = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK));
    flags.map_err(|error| error.to_string())?;
    Ok(file)
}

pub(crate) fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}
