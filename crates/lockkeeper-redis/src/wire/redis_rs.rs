//! Connections with [redis-rs](https://docs.rs/redis). Scripts use its `MultiplexedConnection`, over a socket that is opened and
//! greeted here. A connection for messages is parsed by redis-rs and served in [`messages`].
//!
//! Dropping the future of a request does not shift answers: the library receives the answer and discards it. When the socket ends,
//! so does the library's task, and every request under way fails at once.

mod crowd;
pub(crate) mod given;
mod messages;
mod socket;
#[cfg(test)]
mod tests;

use std::time::Duration;

use lockkeeper_core::store::{StoreError, Value};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, ProtocolVersion, RedisConnectionInfo,
    RedisError,
};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::exchange::{
    Answer, Change, Changed, Lifeline, Listener, Opened, no_answer, out_of_step,
};
use crate::credentials::Credentials;
use crate::failure::{self, CLOSED, GIBBERISH};
use crate::options::RedisOptions;
use crate::reply;
use crate::request::Outgoing;
use crate::target::Target;
use crowd::Unanswered;
use messages::Messages;

/// How many requests may wait for the task that writes them; further ones wait for a place. Enough for all that arrive between two
/// writes.
const QUEUE: usize = 256;

/// One connection.
pub(crate) enum Wire {
    Scripts(Scripts),
    Messages(Messages),
}

pub(crate) struct Scripts {
    connection: MultiplexedConnection,
    /// The task that writes and reads.
    task: AbortHandle,
    unanswered: Unanswered,
}

impl Scripts {
    /// The library's handle. Once its task has ended, nothing more is sent, and the library would not report that.
    fn connection(&self) -> Result<MultiplexedConnection, StoreError> {
        match self.task.is_finished() {
            true => Err(StoreError::not_sent(CLOSED)),
            false => Ok(self.connection.clone()),
        }
    }
}

/// See [`super::Wire::open`].
pub(crate) async fn open(
    target: &Target,
    credentials: Option<&Credentials>,
    options: &RedisOptions,
    listener: Option<Listener>,
) -> Result<Opened<Wire>, StoreError> {
    let opening = Box::pin(socket::open(target, credentials, options));
    let late = |_| failure::late(options.connect_timeout);
    let (socket, hello) = timeout(options.connect_timeout, opening)
        .await
        .map_err(late)??;
    let (wire, lifeline) = match listener {
        Some(listener) => {
            let (messages, life) = messages::start(socket, listener);
            (Wire::Messages(messages), Lifeline::spawn(life))
        }
        None => {
            // The server has been greeted, so this sends nothing.
            let info = RedisConnectionInfo::default()
                .set_protocol(ProtocolVersion::RESP2)
                .set_skip_set_lib_name();
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_pipeline_buffer_size(QUEUE);
            let made = MultiplexedConnection::new_with_config(&info, socket, config).await;
            let (connection, driver) =
                made.map_err(|error| StoreError::not_sent(words(&error)).with_source(error))?;
            let unanswered = Unanswered::default();
            let written = crowd::write(driver, unanswered.clone());
            let life = async {
                written.await;
                CLOSED.to_owned()
            };
            let lifeline = Lifeline::spawn(life);
            let scripts = Scripts {
                connection,
                task: lifeline.0.abort_handle(),
                unanswered,
            };
            (Wire::Scripts(scripts), lifeline)
        }
    };
    Ok(Opened {
        wire,
        lifeline,
        hello,
    })
}

impl Wire {
    /// See [`super::Wire::request`].
    pub(super) async fn request(
        &self,
        request: &Outgoing,
        sharded: bool,
        patience: Duration,
    ) -> Answer {
        let command = command(request, sharded);
        match self {
            Self::Scripts(scripts) => {
                let mut connection = scripts.connection()?;
                let _unanswered = scripts.unanswered.one();
                let value = at_once(connection.send_packed_command(&command));
                let value = timeout(patience, value).await;
                answer(value.map_err(|_| no_answer())?.map_err(unknown)?)
            }
            Self::Messages(messages) => {
                let answer = messages.request(command.get_packed_command());
                timeout(patience, answer).await.map_err(|_| no_answer())?
            }
        }
    }

    /// See [`super::Wire::request_asking`].
    pub(super) async fn request_asking(
        &self,
        request: &Outgoing,
        sharded: bool,
        patience: Duration,
    ) -> Answer {
        let Self::Scripts(scripts) = self else {
            return Err(StoreError::not_sent("this connection is for messages"));
        };
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING");
        pipeline.add_command(command(request, sharded));
        let mut connection = scripts.connection()?;
        let values = at_once(connection.send_packed_commands(&pipeline, 0, 2));
        let values = timeout(patience, values).await;
        let values = values.map_err(|_| no_answer())?.map_err(unknown)?;
        let mut answers = values.into_iter().map(answer);
        match (answers.next(), answers.next()) {
            (Some(asked), Some(answer)) => asked.and(answer),
            _ => Err(out_of_step()),
        }
    }

    /// See [`super::Wire::change`].
    pub(super) async fn change(
        &self,
        changes: &[Change<'_>],
        patience: Duration,
    ) -> Result<Vec<Changed>, StoreError> {
        let Self::Messages(messages) = self else {
            return Err(StoreError::unknown("this connection is for scripts"));
        };
        let changed = messages.change(changes);
        timeout(patience, changed).await.map_err(|_| no_answer())?
    }

    /// See [`super::Wire::end`].
    pub(super) async fn end(&self) {
        // Whatever the result, the connection is dropped next.
        let quit = Outgoing::plain("QUIT", []);
        let _ = self.request(&quit, false, Duration::MAX).await;
    }
}

/// Queues a request when it is first polled. Otherwise tokio's queue would make a task wait that has polled a lot without a pause,
/// and requests would leave in an order other than that of their first polls.
fn at_once<T>(request: impl Future<Output = T>) -> impl Future<Output = T> {
    tokio::task::unconstrained(request)
}

fn command(request: &Outgoing, sharded: bool) -> Cmd {
    let script = request.script(sharded);
    let words = || {
        std::iter::once(request.name)
            .chain(script)
            .chain(request.args())
    };
    let mut command = Cmd::with_capacity(words().count(), words().map(str::len).sum());
    for word in words() {
        command.arg(word);
    }
    command
}

/// What is known about a request that the library failed with an error of its own: it may have been sent.
fn unknown(error: RedisError) -> StoreError {
    StoreError::unknown(words(&error)).with_source(error)
}

fn words(error: &RedisError) -> String {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref()) {
        Some(error) => failure::words_of_io(error),
        None if error.kind() == ErrorKind::Parse => GIBBERISH.to_owned(),
        None => error.to_string(),
    }
}

/// A reply as the store passes it on.
fn answer(value: redis::Value) -> Answer {
    match value {
        redis::Value::ServerError(error) => {
            let text = match error.details() {
                Some(details) => format!("{} {details}", error.code()),
                None => error.code().to_owned(),
            };
            Err(reply::refused(&text))
        }
        value => Ok(plain(value)),
    }
}

/// In the types of RESP2: a map is the list of its keys and values. Types that no server sends for our requests become `Nil`, which
/// every reader rejects.
fn plain(value: redis::Value) -> Value {
    use redis::Value as Reply;

    match value {
        Reply::Int(number) => Value::Integer(number),
        Reply::BulkString(bytes) => Value::Bytes(bytes),
        Reply::SimpleString(text) | Reply::VerbatimString { text, .. } => {
            Value::Bytes(text.into_bytes())
        }
        Reply::Okay => Value::Bytes(b"OK".to_vec()),
        Reply::Array(values) => Value::List(values.into_iter().map(plain).collect()),
        Reply::Map(pairs) => {
            let pairs = pairs.into_iter().flat_map(|(key, value)| [key, value]);
            Value::List(pairs.map(plain).collect())
        }
        _ => Value::Nil,
    }
}
