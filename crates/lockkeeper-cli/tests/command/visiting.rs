//! A running `serve`, and a client for it that sends plain HTTP, so that a test sees each header.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::server::Server;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::{LIMIT, Run, clean, command};

/// The token that allows revoking in these tests.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// A running `serve`.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    pub(crate) run: Run,
}

impl Serving {
    /// Starts `lockkeeper serve` on a free port, with these further arguments.
    pub(crate) async fn start(server: &Server, words: &[&str]) -> Result<Self> {
        Self::start_by(command(&server.url(), &[]), server, words).await
    }

    /// The same with a command line that ends with this command.
    pub(crate) async fn start_by(
        mut command: Command,
        server: &Server,
        words: &[&str],
    ) -> Result<Self> {
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.args(words).kill_on_drop(true);
        clean(&mut command, &server.url());
        command.env("LOCKKEEPER_SERVE_TOKEN", TOKEN);
        let mut run = Run::spawn(command)?;
        let line = run.line().await.context("it does not listen")?;
        let said: Value = serde_json::from_str(&line)?;
        let address = said["listening"].as_str().context(line)?.parse()?;
        Ok(Self { address, run })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        let what = format!("GET {path}");
        request(self.address, &what, "Host: localhost\r\n", "").await
    }

    /// Sends a POST with these headers.
    pub(crate) async fn post(&self, path: &str, headers: &str) -> Result<Answer> {
        let headers = format!("Host: localhost\r\n{headers}");
        request(self.address, &format!("POST {path}"), &headers, "").await
    }

    pub(crate) async fn events(&self, question: &str) -> Result<Events> {
        let mut stream = TcpStream::connect(self.address).await?;
        let head = format!("GET /events{question} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        Ok(Events(BufReader::new(stream)))
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("{self:?}"))
    }
}

/// Sends the request `METHOD PATH` with these headers and this body, and reads the whole answer.
pub(crate) async fn request(
    address: SocketAddr,
    what: &str,
    headers: &str,
    body: &str,
) -> Result<Answer> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let length = body.len();
        let head = format!(
            "{what} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).await?;
        let mut answer = Vec::new();
        // Not every server closes the connection when asked to.
        while stream.read_buf(&mut answer).await? > 0 && !is_whole(&answer) {}
        Ok::<_, anyhow::Error>(String::from_utf8(answer)?)
    };
    let answer = timeout(LIMIT, asking).await.context("no answer")??;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .with_context(|| answer.clone())?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.filter_map(|line| line.split_once(": "));
    Ok(Answer {
        status: status.context("no status")?.parse()?,
        headers: headers
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect(),
        body: body.to_owned(),
    })
}

/// Whether the body has as many bytes as the head of the answer announces.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, _)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let head_length = head.len() + 4;
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= head_length + length)
}

/// The stream of events that a page follows.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    /// Waits for the next line with data, and returns its text; `None` if the stream has ended.
    pub(crate) async fn text(&mut self) -> Result<Option<String>> {
        loop {
            let mut line = String::new();
            let read = timeout(LIMIT, self.0.read_line(&mut line));
            if read.await.context("no event")?? == 0 {
                return Ok(None);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Ok(Some(data.to_owned()));
            }
        }
    }

    /// Waits for the next event for which `so` is true.
    pub(crate) async fn wait_for(
        &mut self,
        what: &str,
        so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let begun = Instant::now();
        loop {
            let text = self.text().await?.context("the events have ended")?;
            let event: Value = serde_json::from_str(&text)?;
            if so(&event) {
                return Ok(event);
            }
            ensure!(begun.elapsed() < LIMIT, "not so in time: {what}: {event}");
        }
    }
}

/// Encodes all bytes of a text for a URL.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

pub(crate) fn names(sample: &Value) -> BTreeSet<&str> {
    let locks = sample["locks"].as_array().into_iter().flatten();
    locks.filter_map(|lock| lock["name"].as_str()).collect()
}
