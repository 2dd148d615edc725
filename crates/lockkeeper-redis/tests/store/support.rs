//! What the tests share: a server with false answers, calls, and bounded waiting.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Event, Form, Store};
use lockkeeper_lua::{Script, lock};
use lockkeeper_redis::{RedisOptions, RedisStore};
use lockkeeper_testkit::server::Server;
pub(crate) use lockkeeper_testkit::site::transport;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;

/// No test takes longer than this; most take milliseconds.
const LIMIT: Duration = PATIENCE.saturating_mul(5);

/// Much longer than a server is silent on a slow machine, and yet a test waits for it.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// Fails the test if `future` takes longer than [`LIMIT`].
pub(crate) async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("the test hangs")
}

/// Calls `attempt` with a time in which no answer comes that waits for a timeout.
pub(crate) async fn promptly(attempt: impl AsyncFnMut(Duration) -> Result<()>) {
    let witness = Server::start().await.unwrap();
    let prompt = Duration::from_secs(1);
    bounded(beyond_stalls(&witness, prompt, attempt))
        .await
        .unwrap();
}

/// Checks every 5 ms until `condition` holds: for facts on a server, which reports no changes.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let look = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let looked = tokio::time::timeout(PATIENCE, look).await;
    assert!(looked.is_ok(), "never came true: {what}");
}

/// Options with which no stall of the machine ends a connection, for the library that the tests are set to use.
pub(crate) fn options() -> RedisOptions {
    lockkeeper_testkit::site::options()
        .connect_timeout(PATIENCE)
        .silence_timeout(PATIENCE)
}

/// Subscribes even if the machine stalls for longer than the store waits for an answer.
pub(crate) async fn subscribe(store: &RedisStore, channel: &str) {
    let subscribed = async || store.subscribe(channel).await.is_ok();
    eventually("it is subscribed", subscribed).await;
}

/// Connects with the library that the tests are set to use.
pub(crate) async fn connect(url: &str) -> lockkeeper_core::Result<RedisStore> {
    options().connect(url).await
}

/// How many TCP connections there are. The question uses the unix socket, so it does not count itself.
pub(crate) async fn connections(server: &Server) -> usize {
    let list = server.command(&["CLIENT", "LIST"]).await.unwrap();
    let list = list.into_text().unwrap();
    let by_tcp = |line: &&str| line.contains(" laddr=127.0.0.1:");
    list.lines().filter(by_tcp).count()
}

/// A connection of another client, which sends inline commands and reads one-line replies.
pub(crate) struct Peer(BufReader<TcpStream>);

impl Peer {
    pub(crate) async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        Self(BufReader::new(stream))
    }

    /// Publishes; returns how many subscribers received it.
    pub(crate) async fn publish(&mut self, channel: &str, payload: &str) -> u64 {
        let reply = self.say(&format!("PUBLISH {channel} {payload}")).await;
        let count = reply.strip_prefix(':').expect(&reply);
        count.parse().unwrap()
    }

    /// Sends a command and returns the line that answers it.
    pub(crate) async fn say(&mut self, command: &str) -> String {
        let line = format!("{command}\r\n");
        self.0.write_all(line.as_bytes()).await.unwrap();
        let mut reply = String::new();
        self.0.read_line(&mut reply).await.unwrap();
        reply.trim().to_owned()
    }
}

fn call(script: &'static Script, keys: &[String], args: &[&str], form: Form) -> Call {
    static REQUEST: AtomicU64 = AtomicU64::new(1);
    let args = args.iter().map(ToString::to_string);
    let item = ScriptCall::new(script, keys.to_vec(), args);
    let request = REQUEST.fetch_add(1, Ordering::Relaxed);
    Call::new(item, request, form, PATIENCE)
}

pub(crate) fn acquire(name: &str, claim: &str, form: Form) -> Call {
    let parts = ["", ":counter", ":tombstone", ":holders", ":queue", ":state"];
    let keys = parts.map(|part| format!("{name}{part}"));
    // Other waiters poll the name, and get a message when it is free.
    let args = [
        claim, "60000", "0", "0", "mutex", "x", "1", "0", "wake", "0", "0",
    ];
    call(&lock::ACQUIRE, &keys, &args, form)
}

/// Asks for the name if it is free.
pub(crate) fn acquire_alone(name: &str, claim: &str, form: Form) -> Call {
    let keys = ["", ":counter", ":tombstone"].map(|part| format!("{name}{part}"));
    let value = format!("mutex x {claim} ");
    call(&lock::TAKE, &keys, &[&value, "60000", "0", "0"], form)
}

/// Releases the claim with this value, if it is alone under the name.
pub(crate) fn drop_alone(name: &str, value: &str, form: Form) -> Call {
    call(&lock::DROP, &[name.to_owned()], &[value], form)
}

pub(crate) fn verify(name: &str, claim: &str, form: Form) -> Call {
    call(&lock::VERIFY, &[name.to_owned()], &[claim], form)
}

pub(crate) fn leave(name: &str, claim: &str, form: Form) -> Call {
    let parts = ["", ":counter", ":tombstone", ":holders", ":queue", ":state"];
    let keys = parts.map(|part| format!("{name}{part}"));
    let args = [claim, "mutex", "x", "wake", "0", "0", "0", "0", "0"];
    call(&lock::RELEASE, &keys, &args, form)
}

pub(crate) fn within(mut call: Call, timeout: Duration) -> Call {
    call.timeout = timeout;
    call
}

/// Loads every script that the tests use.
pub(crate) async fn teach(store: &RedisStore) {
    for call in [
        acquire("taught", "c", Form::Source),
        verify("taught", "c", Form::Source),
        leave("taught", "c", Form::Source),
    ] {
        store.call(call).await.unwrap();
    }
}

/// Skips events until `wanted` comes.
pub(crate) async fn until(events: &mut UnboundedReceiver<Event>, wanted: &Event) {
    while events.recv().await.expect("the event stream has ended") != *wanted {}
}

/// A server with programmed answers.
pub(crate) struct Liar {
    pub(crate) addr: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Liar {
    /// `answer` gets the connection's number, from zero, and a command. It returns the raw reply, or `None` for the honest one.
    pub(crate) async fn start<F>(answer: F) -> Self
    where
        F: Fn(usize, &[String]) -> Option<String> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, answer) = (Arc::clone(&connections), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(command) = read_command(&mut stream).await {
                        let reply = answer(number, &command).unwrap_or_else(|| honest(&command));
                        if stream.write_all(reply.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { addr, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }
}

pub(crate) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// The reply of a script that verifies.
pub(crate) fn held(request: &str) -> String {
    format!("*3\r\n{}{}:1000\r\n", bulk(request), bulk("HELD"))
}

fn honest(command: &[String]) -> String {
    match command[0].to_ascii_uppercase().as_str() {
        "PING" => command
            .get(1)
            .map_or("+PONG\r\n".to_owned(), |text| bulk(text)),
        "CLIENT" => ":1\r\n".to_owned(),
        "INFO" => bulk("redis_version:7.0.15\r\n"),
        "SUBSCRIBE" => format!("*3\r\n{}{}:1\r\n", bulk("subscribe"), bulk(&command[1])),
        // EVALSHA sha 1 key request claim
        "EVALSHA" => held(&command[4]),
        _ => "+OK\r\n".to_owned(),
    }
}

async fn read_command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let count = read_number(stream, '*').await?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = read_number(stream, '$').await?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await.ok()?;
        word.truncate(length);
        words.push(String::from_utf8(word).unwrap());
    }
    Some(words)
}

async fn read_number(stream: &mut BufReader<TcpStream>, prefix: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim().strip_prefix(prefix)?.parse().ok()
}
