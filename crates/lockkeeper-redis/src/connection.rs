//! One connection: one fred client that lives exactly as long as its socket.
//!
//! fred gets no reconnect policy. Without one its router gives every request under way an error and ends as soon as the
//! socket does, so there is no way on which a request could be sent twice. What fred does not do then is tell anybody:
//! its state stays "connected" and later requests wait for ever. Hence the [`Lifeline`]: its owner waits for the
//! router's end, and dropping it ends the connection, whatever the server does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fred::clients::{Client, Pipeline};
use fred::error::Error as FredError;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface, Resp3Frame as Frame};
use fred::types::config::{Config, Options, ServerConfig, TcpConfig, UnresponsiveConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Message, RespVersion, Value as FredValue};
use lockkeeper_core::store::StoreError;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::events::Line;
use crate::failure;
use crate::options::RedisOptions;
use crate::reply;
use crate::request::Outgoing;
use crate::sharding;
use crate::target::{Address, Target};

/// How much longer than fred's own timeout a pipeline may take before it is given up here.
const GRACE: Duration = Duration::from_millis(100);

/// How long a connection that is being closed may take to finish what is under way.
const QUIT_PATIENCE: Duration = Duration::from_secs(1);

/// Messages that may wait between fred and the event stream before some are dropped (which is noticed and told). fred's
/// own 32 is less than what one read from the socket can bring.
const MESSAGE_BUFFER: usize = 1024;

/// fred counts the writes of a request. The one connection of a client is written to once; a second write would be the
/// one after a redirection in a cluster, which must not be counted out.
const ATTEMPTS: u32 = 2;

/// The callers' half.
pub(crate) struct Connection {
    client: Client,
    target: Target,
    condemned: Notify,
    ended: watch::Receiver<()>,
    nonces: AtomicU64,
    silence_timeout: Duration,
    sharded: bool,
}

/// The owner's half: while it lives, so may the connection.
#[derive(Debug)]
pub(crate) struct Lifeline {
    router: Router,
    // Its end is what `Connection::ended` waits for.
    _ended: watch::Sender<()>,
}

/// What to do about a channel. fred names several in one command with wrong results, so each gets a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Subscribe,
    Unsubscribe,
    /// Unsubscribe because the slot has gone, which ends a sharded subscription by itself.
    Abandon,
}

/// The answer to a `PING`.
#[derive(Debug)]
pub(crate) enum Pong {
    /// Every reply before it has been taken by the request it belongs to.
    InStep,
    /// An error reply. On the messages connection it may belong to the command before.
    Refused(String),
    /// The reply to something else.
    OutOfStep,
}

impl Connection {
    /// Connects, logs in, selects the database and waits for a first `PONG`.
    ///
    /// Dropping the future closes whatever has been opened.
    pub(crate) async fn open(
        target: &Target,
        options: &RedisOptions,
        line: Line,
    ) -> Result<(Arc<Self>, Lifeline), StoreError> {
        let client = build(target, options, line).map_err(failure::of_connecting)?;
        let mut router = Router(client.connect());
        let (sender, ended) = watch::channel(());
        let mut connection = Self {
            client,
            target: target.clone(),
            condemned: Notify::new(),
            ended,
            nonces: AtomicU64::new(0),
            silence_timeout: options.silence_timeout,
            sharded: false,
        };
        // Boxed, or the futures of those who connect become types too deep for the compiler.
        let greeting = Box::pin(async {
            tokio::select! {
                biased;
                end = router.end() => Err(end.map_or_else(
                    || StoreError::not_sent(failure::CLOSED),
                    failure::of_connecting,
                )),
                answers = connection.greet(options.connect_timeout) => answers,
            }
        });
        let answers = timeout(options.connect_timeout, greeting).await;
        let (pong, hello) = answers.map_err(|_| {
            StoreError::not_sent(format!("no answer within {:?}", options.connect_timeout))
        })??;
        if let Some(text) = reply::error_text(&pong) {
            return Err(StoreError::refused(text));
        }
        connection.sharded = sharding::has_sharded(&hello);
        let lifeline = Lifeline {
            router,
            _ended: sender,
        };
        Ok((Arc::new(connection), lifeline))
    }

    /// The first `PING`, and the question what the server is. They wait in fred's queue until the connection is made, and so must
    /// not fail fast.
    async fn greet(&self, timeout: Duration) -> Result<(Frame, Frame), StoreError> {
        let options = Options {
            max_attempts: Some(1),
            timeout: Some(timeout),
            ..Options::default()
        };
        let client = self.client.with_options(&options);
        let ask = |name| client.custom_raw(command(name, 0), Vec::<FredValue>::new());
        let (pong, hello) = tokio::join!(ask("PING"), ask("HELLO"));
        let pong = pong.map_err(failure::of_connecting)?;
        Ok((pong, hello.map_err(failure::of_connecting)?))
    }

    /// Whether the messages of a channel are sharded here, for who publishes and who listens.
    pub(crate) fn shards(&self, channel: &str) -> bool {
        self.sharded && sharding::is_of_a_name(channel)
    }

    /// As [`exchange`](Self::exchange), in the words for this server.
    pub(crate) async fn send(
        &self,
        request: Outgoing,
        patience: Duration,
    ) -> Result<Frame, StoreError> {
        let (command, args) = request.into_words(self.sharded);
        self.exchange(command, args, patience).await
    }

    /// Sends one command and waits for its reply, which may be an error reply.
    ///
    /// The command is queued when the future is first polled: nothing is awaited before.
    pub(crate) async fn exchange(
        &self,
        command: CustomCommand,
        args: Vec<FredValue>,
        patience: Duration,
    ) -> Result<Frame, StoreError> {
        // To fred, zero means "no timeout".
        let patience = patience.max(Duration::from_millis(1));
        let options = Options {
            fail_fast: true,
            max_attempts: Some(ATTEMPTS),
            timeout: Some(patience),
            ..Options::default()
        };
        // `evalsha` on such a client would ignore the options; `custom_raw` keeps them.
        let client = self.client.with_options(&options);
        let answer = client.custom_raw(command, args);
        let mut ended = self.ended.clone();
        tokio::select! {
            biased;
            // fred gives up in time by itself: it queues the command at once and then only waits, within `patience`. A
            // timer of ours around it would never be the first to ring.
            answer = answer => answer.map_err(failure::of_request),
            // A request queued after the router's last look would wait for ever.
            _ = ended.changed() => Err(StoreError::unknown("the connection ended")),
        }
    }

    /// Asks for an echo.
    pub(crate) async fn ping(&self) -> Result<Pong, StoreError> {
        self.ping_after(std::iter::empty()).await
    }

    /// Changes subscriptions and asks for an echo behind them.
    ///
    /// All of it goes to fred as one pipeline, and that is what makes a refusal visible: fred reads nothing between the
    /// writes of a pipeline, so the `PING` stands in its queue of replies before a refusal can arrive. A refusal that
    /// came sooner would find the queue empty and be dropped, and the echo would then look like success.
    pub(crate) async fn ping_after<'a>(
        &self,
        changes: impl Iterator<Item = (Verb, &'a str)>,
    ) -> Result<Pong, StoreError> {
        let nonce = format!("lockkeeper-{}", self.nonces.fetch_add(1, Ordering::Relaxed));
        let options = Options {
            fail_fast: true,
            max_attempts: Some(ATTEMPTS),
            timeout: Some(self.silence_timeout),
            ..Options::default()
        };
        let pipeline = Pipeline::from(self.client.with_options(&options));
        for (verb, channel) in changes {
            let queued = match verb {
                Verb::Subscribe => pipeline.subscribe(channel).await,
                // Its confirmation is taken away too. If the slot has gone, the answer is an error.
                Verb::Unsubscribe | Verb::Abandon if self.shards(channel) => {
                    pipeline.sunsubscribe(channel).await
                }
                Verb::Unsubscribe | Verb::Abandon => pipeline.unsubscribe(channel).await,
            };
            queued.map_err(failure::of_request)?;
        }
        let ping = pipeline.custom(command("PING", 0), vec![nonce.as_str()]);
        let _queued: FredValue = ping.await.map_err(failure::of_request)?;
        let mut ended = self.ended.clone();
        let answer = tokio::select! {
            biased;
            answer = timeout(self.silence_timeout.saturating_add(GRACE), pipeline.last()) => answer,
            _ = ended.changed() => return Err(StoreError::unknown("the connection ended")),
        };
        match answer {
            Ok(Ok(value)) if reply::is_pong(&value, &nonce) => Ok(Pong::InStep),
            Ok(Ok(_)) => Ok(Pong::OutOfStep),
            Ok(Err(error)) if failure::is_error_reply(&error) => {
                Ok(Pong::Refused(error.details().to_owned()))
            }
            Ok(Err(error)) => Err(failure::of_request(error)),
            Err(_) => Err(StoreError::unknown("no answer in time")),
        }
    }

    /// Subscribes to sharded messages. For each channel: to how many this connection is subscribed then, or the server's refusal.
    ///
    /// fred takes the confirmation of `SSUBSCRIBE` for what it is, the reply to a request. It gets one for each channel, and not
    /// by its own name for it, for that is never part of a pipeline.
    pub(crate) async fn subscribe_sharded(
        &self,
        channels: &[&str],
    ) -> Result<Vec<Result<usize, StoreError>>, StoreError> {
        let options = Options {
            fail_fast: true,
            max_attempts: Some(ATTEMPTS),
            timeout: Some(self.silence_timeout),
            ..Options::default()
        };
        let pipeline = Pipeline::from(self.client.with_options(&options));
        for channel in channels {
            let request = pipeline.custom(command("SSUBSCRIBE", 0), vec![*channel]);
            let _queued: FredValue = request.await.map_err(failure::of_request)?;
        }
        let mut ended = self.ended.clone();
        let patience = self.silence_timeout.saturating_add(GRACE);
        let answers = tokio::select! {
            biased;
            answers = timeout(patience, pipeline.try_all::<FredValue>()) => answers,
            _ = ended.changed() => return Err(StoreError::unknown("the connection ended")),
        };
        let answers = answers.map_err(|_| StoreError::unknown("no answer in time"))?;
        let read = |(channel, answer)| match answer {
            Ok(reply) => match reply::subscribed(&reply, channel) {
                Some(count) => Ok(Ok(count)),
                None => Err(out_of_step()),
            },
            Err(error) if failure::is_error_reply(&error) => {
                Ok(Err(StoreError::refused(error.details())))
            }
            Err(error) => Err(failure::of_request(error)),
        };
        let settled = channels.iter().copied().zip(answers).map(read);
        let settled = settled.collect::<Result<Vec<_>, StoreError>>()?;
        match settled.len() == channels.len() {
            true => Ok(settled),
            false => Err(out_of_step()),
        }
    }

    /// Ends with the reason for which an idle connection is no good any more.
    pub(crate) async fn pulse(&self) -> String {
        loop {
            tokio::time::sleep(self.silence_timeout).await;
            match self.ping().await {
                // An error is a sign of life: the server is loading, or busy with a script.
                Ok(Pong::InStep | Pong::Refused(_)) => {}
                Ok(Pong::OutOfStep) => return "its replies are out of step".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }

    /// For how long it may owe an answer.
    pub(crate) const fn silence_timeout(&self) -> Duration {
        self.silence_timeout
    }

    /// Where it leads.
    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// The messages that arrive from now on.
    pub(crate) fn messages(&self) -> broadcast::Receiver<Message> {
        self.client.message_rx()
    }

    /// Asks the owner to replace this connection.
    pub(crate) fn condemn(&self) {
        self.condemned.notify_one();
    }

    /// Resolves once somebody has condemned the connection.
    pub(crate) async fn condemned(&self) {
        self.condemned.notified().await;
    }

    /// Lets what is under way finish, within a bound, and says goodbye to the server.
    pub(crate) async fn quit(&self) {
        // Whatever comes of it, the lifeline is dropped next.
        let _ = timeout(QUIT_PATIENCE, self.client.quit()).await;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Lifeline {
    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.router.0.is_finished()
    }

    /// Waits until the connection has ended and says why. Not to be called again afterwards.
    pub(crate) async fn end(&mut self) -> String {
        match self.router.end().await {
            Some(error) => failure::of_request(error).to_string(),
            None => "it was closed".to_owned(),
        }
    }
}

/// fred's task, which owns the socket. fred itself would leave it running when the client is dropped.
#[derive(Debug)]
struct Router(JoinHandle<Result<(), FredError>>);

impl Router {
    async fn end(&mut self) -> Option<FredError> {
        match (&mut self.0).await {
            Ok(end) => end.err(),
            Err(_) => None,
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A reply that answers something else.
pub(crate) fn out_of_step() -> StoreError {
    StoreError::unknown("the replies of the connection are out of step")
}

/// A command for the node of `slot`, as a cluster will want to know it.
pub(crate) fn command(name: &'static str, slot: u16) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::Custom(slot), false)
}

fn build(target: &Target, options: &RedisOptions, line: Line) -> Result<Client, FredError> {
    let server = match &target.address {
        Address::Tcp { host, port } => ServerConfig::new_centralized(host.as_str(), *port),
        Address::Unix { path } => ServerConfig::new_unix_socket(path),
    };
    let (username, password) = match target.credentials.clone() {
        Some(credentials) => (credentials.user, Some(credentials.password)),
        None => (None, None),
    };
    let config = Config {
        server,
        username,
        password,
        database: Some(target.database).filter(|number| *number > 0),
        version: if options.resp3 {
            RespVersion::RESP3
        } else {
            RespVersion::RESP2
        },
        // An error while connecting is told at once.
        fail_fast: true,
        ..Config::default()
    };
    #[cfg(feature = "tls")]
    let config = Config {
        tls: target.tls.as_ref().map(crate::tls::Tls::config),
        ..config
    };
    // No `set_policy`: see the top of this file.
    Builder::from_config(config)
        .with_connection_config(|connection| {
            connection.connection_timeout = options.connect_timeout;
            connection.internal_command_timeout = options.connect_timeout;
            connection.max_command_attempts = ATTEMPTS;
            connection.tcp = TcpConfig {
                nodelay: Some(options.nodelay),
                ..TcpConfig::default()
            };
            // Finds a silent server sooner than the heartbeat when requests are under way, but not as long as new
            // ones keep being written.
            connection.unresponsive = UnresponsiveConfig {
                max_timeout: Some(options.silence_timeout),
                interval: (options.silence_timeout / 4).max(Duration::from_millis(2)),
            };
        })
        .with_performance_config(|performance| {
            performance.default_command_timeout = options.silence_timeout;
            if matches!(line, Line::Messages | Line::NodeMessages) {
                performance.broadcast_channel_capacity = MESSAGE_BUFFER;
            }
        })
        .build()
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::store::Outcome;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// fred would let this request wait until it times out.
    #[tokio::test]
    async fn a_request_queued_after_the_end_is_answered_when_the_owner_lets_go() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::parse(&format!("redis://{}", listener.local_addr().unwrap())).unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            // fred's PING, CLIENT ID and INFO; the first PING and the HELLO of ours.
            let mut replies = ["+PONG\r\n", ":1\r\n", "$0\r\n\r\n", "+PONG\r\n", "*0\r\n"].iter();
            while replies.len() > 0 {
                let mut read = [0; 1024];
                let length = stream.read(&mut read).await.unwrap();
                let commands = read[..length].iter().filter(|byte| **byte == b'*').count();
                assert_ne!(commands, 0);
                for reply in replies.by_ref().take(commands) {
                    stream.write_all(reply.as_bytes()).await.unwrap();
                }
            }
            stream
        };
        let options = RedisOptions::new();
        let opening = Connection::open(&target, &options, Line::Scripts);
        let (opened, stream) = tokio::join!(opening, server);
        let (connection, mut lifeline) = opened.unwrap();
        drop(stream);
        lifeline.end().await;

        let patience = Duration::from_secs(60);
        let request = connection.exchange(command("GET", 0), vec!["key".into()], patience);
        let mut request = std::pin::pin!(request);
        let early = timeout(Duration::from_millis(50), &mut request).await;
        assert!(early.is_err(), "fred has learnt to answer: {early:?}");
        drop(lifeline);
        let answer = timeout(Duration::from_secs(5), request).await;
        let error = answer.expect("it hangs").unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
}
