//! Keeps the connection that receives messages, and the set of channels on it.
//!
//! One task owns the connection, because of what fred does with replies here. It answers `SUBSCRIBE` before anything is
//! written, and takes the confirmation away. A refusal, which it does not expect, is given to whichever request is next,
//! or dropped if there is none. So every `SUBSCRIBE` names one channel, and a `PING` with a nonce goes out with it:
//!
//! - the nonce comes back: the server has executed all that was sent before, and refused none of it;
//! - an error comes back: it is the refusal, and one reply too many is on its way. Further `PING`s follow until one of
//!   them gets its own nonce, which proves the replies to be in step again; else the connection is replaced.
//!
//! Requests that wait together share one `PING`. Sharded subscriptions need none, see [`sharded`].
//!
//! What callers believe to be subscribed to and this connection is not is tried again at each heartbeat.

mod heartbeat;
mod sharded;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockkeeper_core::store::StoreError;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::connection::{Connection, Lifeline, Pong, Verb, out_of_step};
use crate::current::{closed, not_connected};
use crate::dialer::Dialer;
use crate::events::Events;
use crate::script_line::rest_after_short_life;

/// How many commands share one `PING`.
const BATCH: usize = 256;

/// The first pause for a reply that is one too many: longer than its way on one machine.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Where such pauses end: longer than its way around the world. They add up to twice as much.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a caller wants, and where it waits for the answer.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) channel: String,
    /// A subscription that is not given up: what this connection fails to do, the next one does.
    pub(crate) lasting: bool,
    pub(crate) answer: oneshot::Sender<Result<(), StoreError>>,
}

/// The connection cannot be used any more, for this reason.
struct Broken(StoreError);

/// What became of one command, as far as it can be told.
type Settled = Result<Result<(), StoreError>, Broken>;

/// The task's state.
#[derive(Debug)]
pub(crate) struct Subscriber {
    dialer: Dialer,
    events: Arc<Events>,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Every channel that callers believe to be subscribed to, and whether this connection is.
    channels: BTreeMap<String, bool>,
    /// How many heartbeats there have been.
    beats: usize,
}

impl Subscriber {
    pub(crate) fn new(
        dialer: Dialer,
        events: Arc<Events>,
        requests: mpsc::UnboundedReceiver<Request>,
    ) -> Self {
        Self {
            dialer,
            events,
            requests,
            channels: BTreeMap::new(),
            beats: 0,
        }
    }

    /// Runs until `closing` says so, or until the store is dropped. Without a connection yet it makes one first.
    pub(crate) async fn keep(
        mut self,
        opened: Option<(Arc<Connection>, Lifeline)>,
        mut closing: watch::Receiver<bool>,
    ) {
        let (mut connection, mut lifeline, mut pump) = match opened {
            Some((connection, lifeline)) => {
                let pump = Pump::start(&connection, &self);
                (connection, lifeline, pump)
            }
            None => {
                let made = tokio::select! {
                    biased;
                    () = closed(&mut closing) => return,
                    made = self.restore() => made,
                };
                self.events.restored(self.dialer.line);
                made
            }
        };
        let dialer = self.dialer.clone();
        loop {
            let why = tokio::select! {
                biased;
                () = closed(&mut closing) => {
                    connection.quit().await;
                    return;
                }
                why = lifeline.end() => why,
                why = dialer.moved(&connection) => why,
                why = self.serve(&connection) => why,
            };
            self.events.lost(self.dialer.line);
            self.dialer.report_lost(&why);
            drop((connection, lifeline, pump));
            (connection, lifeline, pump) = tokio::select! {
                biased;
                () = closed(&mut closing) => return,
                restored = self.restore() => restored,
            };
            self.events.restored(self.dialer.line);
        }
    }

    /// Serves callers until the connection is no good any more, and says why.
    async fn serve(&mut self, connection: &Connection) -> String {
        let mut batch = Vec::with_capacity(BATCH);
        let mut beat_at = Instant::now() + connection.silence_timeout();
        loop {
            let served = tokio::select! {
                biased;
                _ = self.requests.recv_many(&mut batch, BATCH) => {
                    if batch.is_empty() {
                        // The store is gone, and this task is about to be.
                        std::future::pending::<()>().await;
                    }
                    self.settle_batch(connection, std::mem::take(&mut batch)).await
                }
                () = sleep_until(beat_at) => {
                    let beaten = self.beat(connection).await;
                    beat_at = Instant::now() + connection.silence_timeout();
                    beaten
                }
            };
            if let Err(Broken(error)) = served {
                return error.to_string();
            }
        }
    }

    /// Connects again and subscribes to everything again.
    async fn restore(&mut self) -> (Arc<Connection>, Lifeline, Pump) {
        loop {
            let (connection, mut lifeline) = self.redial_and_turn_callers_away().await;
            let since = Instant::now();
            let pump = Pump::start(&connection, self);
            let why = tokio::select! {
                biased;
                why = lifeline.end() => why,
                result = self.resubscribe(&connection) => match result {
                    Ok(()) => return (connection, lifeline, pump),
                    Err(Broken(error)) => error.to_string(),
                },
            };
            self.dialer.report_lost(&why);
            rest_after_short_life(self.dialer.line, since.into_std()).await;
        }
    }

    async fn redial_and_turn_callers_away(&mut self) -> (Arc<Connection>, Lifeline) {
        let dialer = self.dialer.clone();
        let reason = Mutex::new(String::new());
        let tell = |why| *reason.lock().unwrap_or_else(PoisonError::into_inner) = why;
        let mut redial = std::pin::pin!(dialer.redial(tell));
        loop {
            tokio::select! {
                biased;
                opened = &mut redial => return opened,
                Some(request) = self.requests.recv() => {
                    let result = match request.verb {
                        Verb::Subscribe
                            if !request.lasting && !self.channels.contains_key(&request.channel) =>
                        {
                            let why = reason.lock().unwrap_or_else(PoisonError::into_inner);
                            Err(not_connected(&why))
                        }
                        // It will be subscribed to before `Reconnected` is told.
                        Verb::Subscribe => {
                            self.channels.insert(request.channel, false);
                            Ok(())
                        }
                        Verb::Unsubscribe | Verb::Abandon => {
                            self.channels.remove(&request.channel);
                            Ok(())
                        }
                    };
                    // An error means that the caller has given up.
                    let _ = request.answer.send(result);
                }
            }
        }
    }

    /// Subscribes to everything on a new connection.
    async fn resubscribe(&mut self, connection: &Connection) -> Result<(), Broken> {
        for there in self.channels.values_mut() {
            *there = false;
        }
        let (sharded, classic) = self.split(connection, false);
        self.subscribe_classic_again(connection, &classic).await?;
        // Behind the others, for a node that has no such slot may end the connection by its answer.
        self.subscribe_sharded_again(connection, &sharded).await?;
        Ok(())
    }

    async fn settle_batch(
        &mut self,
        connection: &Connection,
        batch: Vec<Request>,
    ) -> Result<(), Broken> {
        // Before anything is sent: whatever happens now, a new connection shall not bring these back.
        for request in &batch {
            if request.verb != Verb::Subscribe {
                self.channels.remove(&request.channel);
            }
        }
        let mut rest = batch;
        // What is answered in another way goes out apart, and all in the order of the requests.
        while let Some(first) = rest.first() {
            let sharded = Self::is_for_shard(connection, first);
            let ends = |request: &Request| Self::is_for_shard(connection, request) != sharded;
            let end = rest.iter().position(ends).unwrap_or(rest.len());
            let later = rest.split_off(end);
            let run = std::mem::replace(&mut rest, later);
            let settled = match sharded {
                true => self.settle_sharded(connection, run).await,
                false => self.settle_classic(connection, run).await,
            };
            if let Err(broken) = settled {
                return Err(self.give_up(rest, broken));
            }
        }
        Ok(())
    }

    async fn settle_classic(
        &mut self,
        connection: &Connection,
        mut batch: Vec<Request>,
    ) -> Result<(), Broken> {
        let over = |request: &mut Request| {
            request.verb == Verb::Abandon && connection.shards(&request.channel)
        };
        for request in batch.extract_if(.., over).collect::<Vec<_>>() {
            self.finish(request, Ok(()));
        }
        if batch.is_empty() {
            return Ok(());
        }
        let commands = batch
            .iter()
            .map(|request| (request.verb, request.channel.as_str()));
        match settle(connection, commands).await {
            Ok(Ok(())) => {
                for request in batch {
                    self.finish(request, Ok(()));
                }
                return Ok(());
            }
            Ok(Err(refused)) if batch.len() == 1 => {
                for request in batch {
                    self.finish(request, Err(refused.clone()));
                }
                return Ok(());
            }
            // Which of them was refused? Once more, one by one; doing it twice changes nothing.
            Ok(Err(_)) => {}
            Err(broken) => return Err(self.give_up(batch, broken)),
        }
        let mut rest = batch.into_iter();
        while let Some(request) = rest.next() {
            let command = [(request.verb, request.channel.as_str())].into_iter();
            match settle(connection, command).await {
                Ok(result) => self.finish(request, result),
                Err(broken) => {
                    let left = std::iter::once(request).chain(rest).collect();
                    return Err(self.give_up(left, broken));
                }
            }
        }
        Ok(())
    }

    /// Writes down what a caller is told, and tells it.
    fn finish(&mut self, request: Request, result: Result<(), StoreError>) {
        let gone = |error: &StoreError| error.code() == Some("MOVED");
        let result = match (request.verb, result) {
            (Verb::Subscribe, result) if result.is_ok() || request.lasting => {
                self.channels.insert(request.channel, result.is_ok());
                result
            }
            (verb, result) => {
                self.channels.remove(&request.channel);
                // Its slot has gone, and the subscription with it.
                let over = verb != Verb::Subscribe && result.as_ref().is_err_and(gone);
                if over { Ok(()) } else { result }
            }
        };
        // An error means that the caller has given up.
        let _ = request.answer.send(result);
    }

    fn give_up(&mut self, batch: Vec<Request>, broken: Broken) -> Broken {
        for request in batch {
            self.finish(request, Err(broken.0.clone()));
        }
        broken
    }
}

/// Sends changes and waits for the `PING` behind them. `Ok(Err(_))`: at least one was refused, the others executed.
async fn settle<'a>(
    connection: &Connection,
    changes: impl Iterator<Item = (Verb, &'a str)>,
) -> Settled {
    match connection.ping_after(changes).await.map_err(Broken)? {
        Pong::InStep => Ok(Ok(())),
        Pong::Refused(text) => {
            get_in_step(connection).await?;
            Ok(Err(StoreError::refused(text)))
        }
        Pong::OutOfStep => Err(Broken(out_of_step())),
    }
}

/// Gets rid of the replies that come on top of a refusal. fred drops one that arrives while nothing is under way; one that
/// meets a `PING` is given to that, and then the `PING`'s own reply is the one too many. So each pause is longer than the
/// one before, until it is longer than the way of a reply.
async fn get_in_step(connection: &Connection) -> Result<(), Broken> {
    let mut pause = FIRST_PAUSE;
    while pause < LONGEST_PAUSE {
        if let Pong::InStep = connection.ping().await.map_err(Broken)? {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Err(Broken(out_of_step()))
}

/// Carries messages from fred to the event stream, while it lives.
#[derive(Debug)]
struct Pump(JoinHandle<()>);

impl Pump {
    fn start(connection: &Connection, subscriber: &Subscriber) -> Self {
        // Before the first SUBSCRIBE, or messages could slip by.
        let mut messages = connection.messages();
        let (events, dialer) = (Arc::clone(&subscriber.events), subscriber.dialer.clone());
        Self(tokio::spawn(async move {
            loop {
                match messages.recv().await {
                    Ok(message) => {
                        let payload = message.value.as_bytes().unwrap_or_default();
                        events.message(&message.channel, payload);
                    }
                    Err(broadcast::error::RecvError::Lagged(missed)) => {
                        let reason = format!("{missed} more than it can keep");
                        dialer.warn("messages were dropped, so every waiter looks", &reason);
                        events.missed();
                    }
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        }))
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}
