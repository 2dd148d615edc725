//! A real server, as the other side, over the few lines of RESP2 that show its replies unchanged.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use lockkeeper_core::store::Value;
use tempfile::TempDir;

use crate::step::CHANNEL;
use crate::{Reply, Side};

/// Ends what a subscriber reads: nothing else publishes it.
const END: &str = "end of messages";

pub(crate) struct Server {
    commands: Connection,
    messages: Connection,
    /// Ends with this.
    _process: Process,
}

impl Server {
    pub(crate) fn start() -> Self {
        let process = Process::start();
        let mut messages = Connection::open(&process.socket());
        messages.execute(&["SUBSCRIBE", CHANNEL]).unwrap();
        Self {
            commands: Connection::open(&process.socket()),
            messages,
            _process: process,
        }
    }

    pub(crate) fn version(&mut self) -> String {
        let Value::Bytes(info) = self.commands.execute(&["INFO", "server"]).unwrap() else {
            panic!("INFO is no text");
        };
        let info = String::from_utf8(info).unwrap();
        let version = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"));
        version.unwrap().to_owned()
    }

    /// No key and no script is left.
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

/// A `redis-server` of this test alone, on a socket in a directory of its own: no port to share with anybody.
struct Process {
    child: Child,
    directory: TempDir,
    /// Kept open: the server writes its log here.
    _log: BufReader<ChildStdout>,
}

impl Process {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "server.sock"])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "this test needs redis-server 7.0 or later on the PATH (Debian: apt install redis-server): {error}"
                )
            });
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.to_lowercase().contains("ready to accept connections") {
            let read = log.read_line(&mut said).unwrap();
            assert!(read > 0, "redis-server did not start:\n{said}");
        }
        Self {
            child,
            directory,
            _log: log,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("server.sock")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing is to be kept, so nothing is to be waited for but the end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    fn open(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
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
            // Where a script failed is told behind its error; the embedded engine does not say.
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
                // The seam has no error within an array; both sides put its text there.
                let item = |_| self.read().unwrap_or_else(|text| Value::Bytes(text.into()));
                Value::List((0..number).map(item).collect())
            }
            _ => panic!("not RESP2: {line}"),
        })
    }
}
