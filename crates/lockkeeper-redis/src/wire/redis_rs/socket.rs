//! The socket of a connection: opened, wrapped in TLS, and greeted here, so that the server's own message comes back if it refuses.

use std::io::{self, Read};

use lockkeeper_core::store::StoreError;
use redis::{Parser, RedisError, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use super::answer;
use crate::credentials::Credentials;
use crate::failure::{self, CLOSED, GIBBERISH};
use crate::options::RedisOptions;
use crate::target::{Address, Target};
use crate::wire::exchange::Answer;

/// A stream of bytes to and from the server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Either kind of socket, with TLS or without.
pub(super) type Socket = Box<dyn Stream>;

/// How much is read at once: several messages. A reply may be longer.
pub(super) const CHUNK: usize = 1024;

/// Connects, logs in, selects the database, and waits for a `PONG` and for what the server says about itself.
pub(super) async fn open(
    target: &Target,
    credentials: Option<&Credentials>,
    options: &RedisOptions,
) -> Result<(Socket, Answer), StoreError> {
    let mut socket = connect(target, options).await.map_err(out_of_reach)?;
    let hello = greet(&mut socket, target, credentials, options).await?;
    Ok((socket, hello))
}

async fn connect(target: &Target, options: &RedisOptions) -> io::Result<Socket> {
    let (host, port) = match &target.address {
        Address::Unix { path } => return Ok(Box::new(UnixStream::connect(path).await?)),
        Address::Tcp { host, port } => (host.trim_matches(['[', ']']), *port),
    };
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(options.nodelay)?;
    #[cfg(feature = "tls")]
    if let Some(tls) = &target.tls {
        let name = rustls::pki_types::ServerName::try_from(host.to_owned());
        let name = name.map_err(io::Error::other)?;
        let connector = tokio_rustls::TlsConnector::from(tls.config());
        return Ok(Box::new(connector.connect(name, stream).await?));
    }
    Ok(Box::new(stream))
}

/// Sends the whole greeting at once. The first refusal up to the `PONG` is an error; the server need not say what it is, nor accept
/// the connection's name.
async fn greet(
    socket: &mut Socket,
    target: &Target,
    credentials: Option<&Credentials>,
    options: &RedisOptions,
) -> Result<Answer, StoreError> {
    let mut greeting = redis::pipe();
    let login = credentials.map(|login| (login.user.as_deref(), login.password.as_str()));
    if options.resp3 {
        let hello = greeting.cmd("HELLO").arg(3);
        if let Some((user, password)) = login {
            hello
                .arg("AUTH")
                .arg(user.unwrap_or("default"))
                .arg(password);
        }
    } else if let Some((user, password)) = login {
        greeting.cmd("AUTH").arg(user).arg(password);
    }
    if target.database > 0 {
        greeting.cmd("SELECT").arg(target.database);
    }
    greeting.cmd("PING");
    let needed = greeting.len();
    if let Some(name) = &options.client_name {
        greeting.cmd("CLIENT").arg("SETNAME").arg(name);
    }
    greeting.cmd("HELLO");
    let written = socket.write_all(&greeting.get_packed_pipeline()).await;
    // A server that hangs up may have sent the reason before.
    let written = match written {
        Ok(()) => socket.flush().await,
        failed => failed,
    };
    let mut replies = Replies::default();
    let mut answers = Vec::with_capacity(greeting.len());
    let mut chunk = vec![0; CHUNK];
    while answers.len() < greeting.len() {
        let length = socket.read(&mut chunk).await.map_err(out_of_reach)?;
        if length == 0 {
            let error = written.err().unwrap_or(io::ErrorKind::UnexpectedEof.into());
            return Err(out_of_reach(error));
        }
        for value in replies.read(&chunk[..length]).map_err(gibberish)? {
            let answer = answer(value);
            if let (Err(refused), true) = (&answer, answers.len() < needed) {
                return Err(failure::of_greeting(refused.clone()));
            }
            answers.push(answer);
        }
    }
    match answers.pop() {
        Some(hello) if answers.len() + 1 == greeting.len() => Ok(hello),
        _ => Err(StoreError::not_sent(GIBBERISH)),
    }
}

/// Assembles replies from the pieces that are read.
#[derive(Default)]
pub(super) struct Replies(Parser);

impl Replies {
    /// Returns the replies that are complete with these bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Vec<Value>, RedisError> {
        let (mut input, mut values) = (Piece(bytes), Vec::new());
        loop {
            match self.0.parse_value(&mut input) {
                Ok(value) => values.push(value),
                // The parser keeps the beginning of a reply and continues there.
                Err(error) if error.is_timeout() => return Ok(values),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Bytes after which more may come: their end is not the end of the input.
struct Piece<'a>(&'a [u8]);

impl Read for Piece<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.is_empty() {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Read::read(&mut self.0, buffer),
        }
    }
}

/// An error of a connection that could not be made. It carried no request of a caller.
fn out_of_reach(error: io::Error) -> StoreError {
    StoreError::not_sent(failure::words_of_io(&error)).with_source(error)
}

fn gibberish(error: RedisError) -> StoreError {
    StoreError::not_sent(GIBBERISH).with_source(error)
}

/// Why a connection has ended.
pub(super) fn why(read: &io::Result<usize>) -> String {
    match read {
        Ok(_) => CLOSED.to_owned(),
        Err(error) => failure::words_of_io(error),
    }
}
