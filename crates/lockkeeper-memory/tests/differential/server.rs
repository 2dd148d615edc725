//! A real server, as the other side, over a few lines of RESP2 that show its replies, errors and messages unchanged. The testkit's
//! own client is not exact about errors and bytes, and opens a connection for every command.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use lockkeeper_core::store::Value;
use lockkeeper_testkit::server::Server as Process;
use lockkeeper_testkit::until::PATIENCE;
use tokio::runtime::Runtime;

use crate::compare::Version;
use crate::words::{CHANNEL, GRANTS};
use crate::{Reply, Side};

/// Marks the end for a subscriber: nothing else publishes it.
const END: &str = "end of messages";

pub(crate) struct Server {
    commands: Connection,
    messages: Connection,
    /// The server, which ends when this is dropped.
    _process: Process,
}

impl Server {
    /// Starts a program; `None` means the one that all tests use.
    pub(crate) fn start(program: Option<&PathBuf>) -> Self {
        // Only for the start: the process lives on without a runtime, and ends without one.
        let runtime = Runtime::new().unwrap();
        let mut options = Process::options();
        if let Some(program) = program {
            options = options.program(program);
        }
        let process = runtime.block_on(options.start()).unwrap();
        let mut messages = Connection::open(&process.socket());
        for channel in [CHANNEL, GRANTS] {
            messages.execute(&["SUBSCRIBE", channel]).unwrap();
        }
        Self {
            commands: Connection::open(&process.socket()),
            messages,
            _process: process,
        }
    }

    pub(crate) fn version(&mut self) -> Version {
        let Value::Bytes(info) = self.commands.execute(&["INFO", "server"]).unwrap() else {
            panic!("INFO is no text");
        };
        let info = String::from_utf8(info).unwrap();
        let says = |what: &str| info.lines().find_map(|line| line.strip_prefix(what));
        match says("valkey_version:") {
            Some(version) => Version(format!("valkey {version}")),
            None => Version(format!("redis {}", says("redis_version:").unwrap())),
        }
    }

    /// Removes every key and every script.
    pub(crate) fn empty(&mut self) {
        self.commands.execute(&["FLUSHALL"]).unwrap();
        self.flush_scripts();
    }
}

impl Side for Server {
    fn execute(&mut self, words: &[String]) -> Reply {
        self.commands.execute(words)
    }

    fn flush_scripts(&mut self) {
        self.commands.execute(&["SCRIPT", "FLUSH"]).unwrap();
    }

    fn messages(&mut self) -> Vec<Vec<u8>> {
        self.commands.execute(&["PUBLISH", CHANNEL, END]).unwrap();
        let mut payloads = Vec::new();
        loop {
            let message = self.messages.read().unwrap();
            let Value::List(mut parts) = message else {
                panic!("not a message: {message:?}");
            };
            match parts.pop() {
                Some(Value::Bytes(payload)) if payload == END.as_bytes() => return payloads,
                Some(Value::Bytes(payload)) => payloads.push(payload),
                other => panic!("not a payload: {other:?}"),
            }
        }
    }
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    fn open(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn execute<W: AsRef<str>>(&mut self, words: &[W]) -> Reply {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            let word = word.as_ref();
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        self.read()
    }

    fn read(&mut self) -> Reply {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let line = line.trim_end_matches(['\r', '\n']);
        let (kind, rest) = line.split_at_checked(1).expect("the server hung up");
        Ok(match kind {
            "+" => Value::Bytes(rest.into()),
            ":" => Value::Integer(rest.parse().unwrap()),
            // A server adds the place of the failure in the script after the error; the embedded engine does not.
            "-" => return Err(rest.split(" script: ").next().unwrap_or(rest).to_owned()),
            "$" | "*" if rest == "-1" => Value::Nil,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Value::Bytes(bytes)
            }
            "*" => {
                let number: usize = rest.parse().unwrap();
                // The store has no errors within an array; both sides put the error's text there.
                let item = |_| self.read().unwrap_or_else(|text| Value::Bytes(text.into()));
                Value::List((0..number).map(item).collect())
            }
            _ => panic!("not RESP2: {line}"),
        })
    }
}
