//! Connections with [fred](https://docs.rs/fred): one client for each.
//!
//! fred gets no reconnect policy. Without one, its router fails every request under way and ends when the socket does, so fred
//! cannot send a request twice. But fred then reports that to nobody: its state stays "connected" and later requests wait forever.
//! Therefore every request also waits for the end of the [`Lifeline`].
//!
//! fred answers `SUBSCRIBE` before anything is written, and swallows the confirmation. It does not expect a refusal: it gives one
//! to the next request, or drops it if there is none. So every `SUBSCRIBE` names one channel, and a `PING` with a nonce follows it:
//!
//! - The nonce comes back: the server has executed everything that was sent before, and refused none of it.
//! - An error comes back: it is the refusal, and there is one reply too many on the way. More `PING`s follow until one of them gets
//!   its own nonce, which proves that the replies are in step again. If none does, the connection is replaced.
//!
//! `SSUBSCRIBE` needs no such echo: to fred it is a command with one reply. fred drops a `sunsubscribe` that the server sends
//! unasked.

mod client;
mod failure;
pub(crate) mod given;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fred::bytes::Bytes;
use fred::clients::{Client, Pipeline};
use fred::error::Error as FredError;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface, Resp3Frame as Frame};
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Message, Value as FredValue};
use lockkeeper_core::store::{StoreError, Value};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::exchange::{
    Answer, Change, Changed, Heard, Lifeline, Listener, Opened, no_answer, nonce, out_of_step,
};
use crate::credentials::Credentials;
use crate::failure::{CLOSED, late};
use crate::options::RedisOptions;
use crate::reply;
use crate::request::Outgoing;
use crate::target::Target;

/// How much longer than fred's own timeout a pipeline may take before it is abandoned here.
const GRACE: Duration = Duration::from_millis(100);

/// fred counts the writes of a request. A client has one connection and writes to it once; a second write follows a redirection in
/// a cluster, which the count must allow.
const ATTEMPTS: u32 = 2;

/// After this many refused changes in one call, the search for further ones ends, and the changes beside them are reported as
/// unknown: searching for each of hundreds would keep all callers waiting.
const MOST_FOUND: usize = 16;

/// The first pause for a surplus reply: longer than its way on one machine.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Where these pauses end: longer than a reply's way around the world. Their sum is at most twice this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One connection.
pub(crate) struct Wire {
    client: Client,
    ended: watch::Receiver<()>,
}

/// The answer to a `PING`.
enum Pong {
    /// Every reply before it has been taken by the request it belongs to.
    InStep,
    /// An error reply, which may belong to the command before.
    Refused(StoreError),
    /// The reply to something else.
    OutOfStep,
}

/// See [`super::Wire::open`].
pub(super) async fn open(
    target: &Target,
    credentials: Option<&Credentials>,
    options: &RedisOptions,
    listener: Option<Listener>,
) -> Result<Opened<Wire>, StoreError> {
    let client = client::build(target, credentials, options, listener.is_some());
    let client = client.map_err(failure::of_connecting)?;
    // Before the first SUBSCRIBE, or messages could be missed.
    let messages = client.message_rx();
    let mut router = Router(client.connect());
    let (sender, ended) = watch::channel(());
    let wire = Wire { client, ended };
    // Boxed, or the futures of the callers become types too deep for the compiler.
    let greeting = Box::pin(async {
        tokio::select! {
            biased;
            end = router.end() => Err(end.map_or_else(
                || StoreError::not_sent(CLOSED),
                failure::of_connecting,
            )),
            answers = wire.greet(options) => answers,
        }
    });
    let answers = timeout(options.connect_timeout, greeting).await;
    let (pong, hello) = answers.map_err(|_| late(options.connect_timeout))??;
    pong?;
    let life = async move {
        // Requests wait for its end.
        let _ended = sender;
        let pump = async {
            match listener {
                Some(listener) => pump(messages, listener).await,
                None => std::future::pending().await,
            }
        };
        let end = tokio::select! {
            biased;
            end = router.end() => end,
            () = pump => None,
        };
        match end {
            Some(error) => failure::of_request(error).to_string(),
            None => CLOSED.to_owned(),
        }
    };
    Ok(Opened {
        wire,
        lifeline: Lifeline::spawn(life),
        hello,
    })
}

/// Passes messages from fred to the listener.
async fn pump(mut messages: broadcast::Receiver<Message>, listener: Listener) {
    loop {
        match messages.recv().await {
            Ok(message) => listener(Heard::Message {
                channel: &message.channel,
                payload: message.value.as_bytes().unwrap_or_default(),
            }),
            Err(broadcast::error::RecvError::Lagged(missed)) => listener(Heard::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

impl Wire {
    /// The first `PING`, the connection's name, which the server may refuse, and a `HELLO` that asks what the server is. They wait
    /// in fred's queue until the connection is made, so they must not fail fast.
    async fn greet(&self, options: &RedisOptions) -> Result<(Answer, Answer), StoreError> {
        let name = options.client_name.as_deref();
        let options = Options {
            max_attempts: Some(1),
            timeout: Some(options.connect_timeout),
            ..Options::default()
        };
        let client = self.client.with_options(&options);
        let ask = |name| client.custom_raw(command(name), Vec::<FredValue>::new());
        let introduce = async {
            match name {
                Some(name) => client
                    .custom_raw(command("CLIENT"), vec!["SETNAME", name])
                    .await
                    .map(drop),
                None => Ok(()),
            }
        };
        let (pong, _, hello) = tokio::join!(ask("PING"), introduce, ask("HELLO"));
        let pong = pong.map_err(failure::of_connecting)?;
        Ok((answer(pong), answer(hello.map_err(failure::of_connecting)?)))
    }

    /// See [`super::Wire::request`].
    pub(super) async fn request(
        &self,
        request: &Outgoing,
        sharded: bool,
        patience: Duration,
    ) -> Answer {
        // `evalsha` on such a client would ignore the options; `custom_raw` keeps them.
        let client = self.client.with_options(&options(patience));
        let frame = client.custom_raw(command(request.name), arguments(request, sharded));
        // fred ends the wait in time by itself: it queues the command at once and then only waits, within `patience`. A timer of
        // ours around it would never fire first.
        answer(
            self.unless_ended(frame)
                .await?
                .map_err(failure::of_request)?,
        )
    }

    /// See [`super::Wire::request_asking`].
    pub(super) async fn request_asking(
        &self,
        request: &Outgoing,
        sharded: bool,
        patience: Duration,
    ) -> Answer {
        let asking = Outgoing::plain("ASKING", []);
        // They are queued in this order when they are first polled, and only this caller uses the connection.
        let (asked, answer) = tokio::join!(
            self.request(&asking, false, patience),
            self.request(request, sharded, patience),
        );
        asked.and(answer)
    }

    /// See [`super::Wire::change`].
    pub(super) async fn change(
        &self,
        changes: &[Change<'_>],
        patience: Duration,
    ) -> Result<Vec<Changed>, StoreError> {
        if changes.is_empty() {
            return match self.ping_after(&[], patience).await? {
                Pong::OutOfStep => Err(out_of_step()),
                // An error is a sign of life: the server is loading, or busy with a script.
                Pong::InStep | Pong::Refused(_) => Ok(Vec::new()),
            };
        }
        let is_sharded = |change: &Change<'_>| matches!(change, Change::SubscribeSharded(_));
        let mut changed = Vec::with_capacity(changes.len());
        // Sharded and classic changes are answered differently, so they are sent separately, in the order of the changes.
        for run in changes.chunk_by(|one, next| is_sharded(one) == is_sharded(next)) {
            match run.first().is_some_and(is_sharded) {
                true => changed.extend(self.subscribe_sharded(run, patience).await?),
                false => changed.extend(self.change_echoed(run, patience).await?),
            }
        }
        Ok(changed)
    }

    /// Makes the changes that fred answers before it writes them. Finds refused ones by bisection; repeating a change does no harm.
    async fn change_echoed(
        &self,
        changes: &[Change<'_>],
        patience: Duration,
    ) -> Result<Vec<Changed>, StoreError> {
        let mut changed: Vec<Changed> = vec![Ok(None); changes.len()];
        let (mut open, mut found) = (vec![(0, changes.len())], 0);
        while let Some((start, end)) = open.pop() {
            let Err(refused) = self.settle(&changes[start..end], patience).await? else {
                continue;
            };
            if end - start == 1 {
                found += 1;
                changed[start] = Err(refused);
            } else if found >= MOST_FOUND {
                let unknown = format!("not known: another one beside it was refused ({refused})");
                changed[start..end].fill(Err(StoreError::unknown(unknown)));
            } else {
                let middle = usize::midpoint(start, end);
                let mut halves = [(start, middle), (middle, end)];
                // In random order, so that callers that retry get an answer sooner or later.
                fastrand::shuffle(&mut halves);
                open.extend(halves);
            }
        }
        Ok(changed)
    }

    /// Sends changes and waits for the `PING` after them. `Ok(Err(_))`: at least one was refused, the others were executed.
    async fn settle(
        &self,
        changes: &[Change<'_>],
        patience: Duration,
    ) -> Result<Result<(), StoreError>, StoreError> {
        match self.ping_after(changes, patience).await? {
            Pong::InStep => Ok(Ok(())),
            // The sentinels of Redis 6.2 do not echo. This is the first error, so no change before it was refused.
            Pong::Refused(refused) if refused.message().ends_with("for 'ping' command") => {
                Ok(Ok(()))
            }
            Pong::Refused(refused) => {
                self.get_in_step(patience).await?;
                Ok(Err(refused))
            }
            Pong::OutOfStep => Err(out_of_step()),
        }
    }

    /// Drains the surplus replies that follow a refusal. fred drops one that arrives while nothing is under way. One that meets a
    /// `PING` becomes its answer, and then the `PING`'s own reply is the surplus one. So each pause is longer than the one before,
    /// until it is longer than a reply's way.
    async fn get_in_step(&self, patience: Duration) -> Result<(), StoreError> {
        let mut pause = FIRST_PAUSE;
        while pause < LONGEST_PAUSE {
            if let Pong::InStep = self.ping_after(&[], patience).await? {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Err(out_of_step())
    }

    /// Changes subscriptions and asks for an echo after them.
    ///
    /// Everything goes to fred as one pipeline, which makes a refusal visible: fred reads nothing between the writes of a pipeline,
    /// so the `PING` is in its queue of replies before a refusal can arrive. A refusal that arrived earlier would find the queue
    /// empty and be dropped, and the echo would look like success.
    async fn ping_after(
        &self,
        changes: &[Change<'_>],
        patience: Duration,
    ) -> Result<Pong, StoreError> {
        let nonce = nonce();
        let pipeline = Pipeline::from(self.client.with_options(&options(patience)));
        for change in changes {
            let queued = match *change {
                Change::Subscribe(channel) => pipeline.subscribe(channel).await,
                // With fred's own method, because only then does fred swallow its confirmation too. If the slot has moved, the
                // answer is an error.
                Change::UnsubscribeSharded(channel) => pipeline.sunsubscribe(channel).await,
                Change::Unsubscribe(channel) => pipeline.unsubscribe(channel).await,
                Change::SubscribeSharded(_) => return Err(out_of_step()),
            };
            queued.map_err(failure::of_request)?;
        }
        let ping = pipeline.custom(command("PING"), vec![nonce.as_str()]);
        let _queued: FredValue = ping.await.map_err(failure::of_request)?;
        let answer = timeout(patience.saturating_add(GRACE), pipeline.last());
        match self.unless_ended(answer).await?.map_err(|_| no_answer())? {
            Ok(echo) => Ok(match reply::is_pong(&seen(echo), &nonce) {
                true => Pong::InStep,
                false => Pong::OutOfStep,
            }),
            Err(error) if failure::is_error_reply(&error) => {
                Ok(Pong::Refused(StoreError::refused(error.details())))
            }
            Err(error) => Err(failure::of_request(error)),
        }
    }

    /// Makes sharded subscriptions. fred treats the confirmation of `SSUBSCRIBE` correctly, as the reply to a request. Each request
    /// names one channel, and is a custom command because fred never pipelines its own.
    async fn subscribe_sharded(
        &self,
        changes: &[Change<'_>],
        patience: Duration,
    ) -> Result<Vec<Changed>, StoreError> {
        let pipeline = Pipeline::from(self.client.with_options(&options(patience)));
        for (name, channel) in changes.iter().map(|change| change.words()) {
            let request = pipeline.custom(command(name), vec![channel]);
            let _queued: FredValue = request.await.map_err(failure::of_request)?;
        }
        let answers = timeout(
            patience.saturating_add(GRACE),
            pipeline.try_all::<FredValue>(),
        );
        let answers = self.unless_ended(answers).await?.map_err(|_| no_answer())?;
        let read = |(change, answer): (&Change<'_>, _)| match answer {
            Ok(reply) => match subscribed(&seen(reply), change.words().1) {
                Some(count) => Ok(Ok(Some(count))),
                None => Err(out_of_step()),
            },
            Err(error) if failure::is_error_reply(&error) => {
                Ok(Err(StoreError::refused(error.details())))
            }
            Err(error) => Err(failure::of_request(error)),
        };
        let settled = changes.iter().zip(answers).map(read);
        let settled = settled.collect::<Result<Vec<_>, StoreError>>()?;
        match settled.len() == changes.len() {
            true => Ok(settled),
            false => Err(out_of_step()),
        }
    }

    /// A request that is queued after the router has ended would wait forever.
    async fn unless_ended<T>(&self, answer: impl Future<Output = T>) -> Result<T, StoreError> {
        let mut ended = self.ended.clone();
        tokio::select! {
            biased;
            answer = answer => Ok(answer),
            _ = ended.changed() => Err(StoreError::unknown("the connection ended")),
        }
    }

    /// See [`super::Wire::end`].
    pub(super) async fn end(&self) {
        // Whatever the result, the lifeline is dropped next.
        let _ = self.client.quit().await;
    }
}

/// fred's task, which owns the socket. fred would leave it running when the client is dropped.
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

fn options(patience: Duration) -> Options {
    Options {
        fail_fast: true,
        max_attempts: Some(ATTEMPTS),
        // To fred, zero means "no timeout".
        timeout: Some(patience.max(Duration::from_millis(1))),
        ..Options::default()
    }
}

/// fred sees every server as a single one, so the slot does not matter.
fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::Custom(0), false)
}

/// The arguments after the command. All texts are slices of one buffer: fred clones each of them on its way to the socket, which
/// allocates for a separate text but only counts for a slice; a batch of renewals has three hundred.
fn arguments(request: &Outgoing, sharded: bool) -> Vec<FredValue> {
    let script = request.script(sharded).map(FredValue::from_static_str);
    let mut all = Vec::with_capacity(request.args().map(str::len).sum());
    request.args().for_each(|text| all.extend(text.as_bytes()));
    let mut rest = Bytes::from(all);
    let args = request.args();
    let args = args.map(|text| FredValue::Bytes(rest.split_to(text.len())));
    script.into_iter().chain(args).collect()
}

/// A reply as the store passes it on.
fn answer(frame: Frame) -> Answer {
    match frame {
        Frame::SimpleError { data, .. } => Err(reply::refused(&data)),
        Frame::BlobError { data, .. } => Err(reply::refused(&String::from_utf8_lossy(&data))),
        frame => Ok(value(frame)),
    }
}

/// In the types of RESP2: a map is the list of its keys and values. Types that no server sends for our requests become `Nil`, which
/// every reader rejects.
fn value(frame: Frame) -> Value {
    match frame {
        Frame::Number { data, .. } => Value::Integer(data),
        Frame::BlobString { data, .. }
        | Frame::SimpleString { data, .. }
        | Frame::VerbatimString { data, .. } => Value::Bytes(data.into()),
        Frame::Array { data, .. } => Value::List(data.into_iter().map(value).collect()),
        Frame::Map { data, .. } => {
            let fields = data.into_iter().flat_map(|(key, value)| [key, value]);
            Value::List(fields.map(value).collect())
        }
        _ => Value::Nil,
    }
}

/// Converts what fred makes of a reply in a pipeline.
fn seen(reply: FredValue) -> Value {
    match reply {
        FredValue::Integer(number) => Value::Integer(number),
        FredValue::Array(fields) => Value::List(fields.into_iter().map(seen).collect()),
        text => match text.as_bytes() {
            Some(bytes) => Value::Bytes(bytes.to_vec()),
            None => Value::Nil,
        },
    }
}

/// How many sharded subscriptions a connection has, if this confirms the one to `channel`.
fn subscribed(reply: &Value, channel: &str) -> Option<usize> {
    let Value::List(fields) = reply else {
        return None;
    };
    match fields.as_slice() {
        [word, name, Value::Integer(count)] => {
            let it_is = word.as_str() == Some("ssubscribe") && name.as_str() == Some(channel);
            it_is.then_some(*count)?.try_into().ok()
        }
        _ => None,
    }
}
