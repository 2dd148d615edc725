//! One command, one connection: an independent witness that shares no code with the client under test.

use std::path::Path;

use anyhow::{Context, Result, bail};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::until::PATIENCE;

/// A reply from the server. Bytes that are not UTF-8 are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The null reply.
    Nil,
    /// A number.
    Integer(i64),
    /// A status or a string.
    Text(String),
    /// Several replies; hashes as field, value, field, value.
    List(Vec<Self>),
}

impl Reply {
    /// Returns the text; a number in decimal.
    ///
    /// # Errors
    ///
    /// If the reply is neither.
    pub fn into_text(self) -> Result<String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Integer(number) => Ok(number.to_string()),
            other => bail!("expected a text, got {other:?}"),
        }
    }

    /// Returns the number, also of a text that parses as one.
    ///
    /// # Errors
    ///
    /// If the reply is neither.
    pub fn into_integer(self) -> Result<i64> {
        match self {
            Self::Integer(number) => Ok(number),
            Self::Text(text) => text
                .parse()
                .with_context(|| format!("not a number: {text}")),
            other => bail!("expected a number, got {other:?}"),
        }
    }

    /// Returns the texts of a list.
    ///
    /// # Errors
    ///
    /// If the reply is not a list of texts.
    pub fn into_texts(self) -> Result<Vec<String>> {
        match self {
            Self::List(list) => list.into_iter().map(Self::into_text).collect(),
            other => bail!("expected a list, got {other:?}"),
        }
    }

    fn from_frame(frame: OwnedFrame) -> Result<Self> {
        let text = |bytes: Vec<u8>| Self::Text(String::from_utf8_lossy(&bytes).into_owned());
        Ok(match frame {
            OwnedFrame::Null => Self::Nil,
            OwnedFrame::Integer(number) => Self::Integer(number),
            OwnedFrame::SimpleString(bytes) | OwnedFrame::BulkString(bytes) => text(bytes),
            OwnedFrame::Error(message) => bail!("the server refused: {message}"),
            OwnedFrame::Array(frames) => {
                let replies = frames.into_iter().map(Self::from_frame);
                Self::List(replies.collect::<Result<_>>()?)
            }
        })
    }
}

/// Connects, authenticates, selects the database, sends the command and returns its reply.
pub(super) async fn send(
    socket: &Path,
    password: Option<&str>,
    database: u8,
    words: &[&str],
) -> Result<Reply> {
    let conversation = async {
        let mut stream = UnixStream::connect(socket).await?;
        if let Some(password) = password {
            exchange(&mut stream, &["AUTH", password]).await?;
        }
        if database != 0 {
            exchange(&mut stream, &["SELECT", &database.to_string()]).await?;
        }
        exchange(&mut stream, words).await
    };
    timeout(PATIENCE, conversation)
        .await
        .context("no answer in time")?
}

async fn exchange(stream: &mut UnixStream, words: &[&str]) -> Result<Reply> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(request.as_bytes()).await?;
    let mut received = Vec::new();
    loop {
        if let Some((frame, _)) = decode(&received)? {
            return Reply::from_frame(frame);
        }
        if stream.read_buf(&mut received).await? == 0 {
            bail!("the server closed the connection");
        }
    }
}

/// The number of calls from a line like `cmdstat_evalsha:calls=21,usec=175,…`; a command that was never called has no line.
pub(super) fn calls(statistics: &str, command: &str) -> Result<u64> {
    let start = format!("cmdstat_{}:calls=", command.to_lowercase());
    let Some(rest) = statistics
        .lines()
        .find_map(|line| line.strip_prefix(start.as_str()))
    else {
        return Ok(0);
    };
    let number = rest.split(',').next().unwrap_or_default();
    number
        .parse()
        .with_context(|| format!("not a number of calls: {rest}"))
}
