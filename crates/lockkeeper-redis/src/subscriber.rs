//! Keeps the connection that receives messages, and the set of channels on it.
//!
//! One task owns the connection. It sends requests that are waiting together in one batch, and confirms or refuses each change
//! separately. At each heartbeat it retries every channel that callers want and this connection is not subscribed to. The server
//! ends a sharded subscription when its slot moves; if the transport sees that, it says so, and the heartbeat runs at once.
//!
//! New credentials go to the open connection if its protocol can log in beside subscriptions, as RESP3 can. Otherwise a second
//! connection is made and subscribed to everything before the first one ends.

mod heartbeat;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_core::store::StoreError;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::command_connection::rest_after_short_life;
use crate::connection::{Connection, Verb};
use crate::connection_slot::{closed, not_connected};
use crate::credentials::Credentials;
use crate::dialer::Dialer;
use crate::events::Events;
use crate::wire::{Changed, Heard, Lifeline, Listener};

/// How many changes are sent together.
const BATCH: usize = 256;

/// A caller's change, and where the caller waits for the answer.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) channel: String,
    /// A subscription that is retried: what this connection fails to do, the next one does.
    pub(crate) lasting: bool,
    pub(crate) answer: oneshot::Sender<Result<(), StoreError>>,
}

/// The connection is no longer usable, for this reason.
struct Broken(StoreError);

/// Why a connection is no longer served.
enum Served {
    /// It is no longer usable, for this reason.
    Broken(String),
    /// Another connection is subscribed to everything.
    Succeeded(Box<(Arc<Connection>, Lifeline)>),
}

/// The result of new credentials.
enum Renewed {
    Credentials(Credentials),
    Connection(Box<(Arc<Connection>, Lifeline)>),
}

/// The task's state.
pub(crate) struct Subscriber {
    dialer: Dialer,
    events: Arc<Events>,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Every channel that callers want, and whether this connection is subscribed to it.
    channels: BTreeMap<String, bool>,
    /// The server has ended a subscription.
    taken: Arc<Notify>,
}

impl Subscriber {
    /// Sets the listener of `dialer`.
    pub(crate) fn new(
        mut dialer: Dialer,
        events: Arc<Events>,
        requests: mpsc::UnboundedReceiver<Request>,
    ) -> Self {
        let taken = Arc::default();
        dialer.listener = Some(listener(&dialer, &events, &taken));
        Self {
            dialer,
            events,
            requests,
            channels: BTreeMap::new(),
            taken,
        }
    }

    /// Connects for the first time.
    pub(crate) async fn dial(&self) -> Result<(Arc<Connection>, Lifeline), StoreError> {
        self.dialer.dial().await
    }

    /// Runs until `closing` says so, or until the store is dropped. If there is no connection yet, makes one first.
    pub(crate) async fn keep(
        mut self,
        opened: Option<(Arc<Connection>, Lifeline)>,
        mut closing: watch::Receiver<bool>,
    ) {
        let (mut connection, mut lifeline) = match opened {
            Some(opened) => opened,
            None => {
                let made = tokio::select! {
                    biased;
                    () = closed(&mut closing) => return,
                    made = self.restore() => made,
                };
                self.events.restored(self.dialer.purpose);
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
                served = self.serve(&connection) => match served {
                    Served::Broken(why) => why,
                    Served::Succeeded(successor) => {
                        (connection, lifeline) = *successor;
                        // The old connection may have received messages that nobody read.
                        self.events.missed();
                        continue;
                    }
                },
            };
            self.events.lost(self.dialer.purpose);
            self.dialer.report_lost(&why);
            drop((connection, lifeline));
            (connection, lifeline) = tokio::select! {
                biased;
                () = closed(&mut closing) => return,
                restored = self.restore() => restored,
            };
            self.events.restored(self.dialer.purpose);
        }
    }

    /// Serves callers until the connection is no longer usable, or another one has replaced it.
    async fn serve(&mut self, connection: &Connection) -> Served {
        let dialer = self.dialer.clone();
        // Boxed: it is large, and most logins never change.
        let renew = || Box::pin(renew(&dialer, connection));
        let mut renewal = renew();
        let mut batch = Vec::with_capacity(BATCH);
        let mut beat_at = Instant::now() + connection.silence_timeout();
        loop {
            let served = tokio::select! {
                biased;
                // First, or callers that subscribe and unsubscribe all the time would let credentials expire.
                renewed = &mut renewal => {
                    match renewed {
                        // Between changes of subscriptions, or a refusal could be taken for the refusal of a change.
                        Renewed::Credentials(credentials) => {
                            dialer.authenticate(connection, credentials).await;
                        }
                        Renewed::Connection(opened) => match self.succeed(opened).await {
                            Ok(successor) => return Served::Succeeded(successor),
                            Err(error) => {
                                connection.not_renewed();
                                dialer.report_not_renewed(&error);
                            }
                        },
                    }
                    renewal = renew();
                    Ok(())
                }
                _ = self.requests.recv_many(&mut batch, BATCH) => {
                    if batch.is_empty() {
                        // The store is gone, and this task ends soon.
                        std::future::pending::<()>().await;
                    }
                    self.settle_batch(connection, std::mem::take(&mut batch)).await
                }
                taken = async {
                    tokio::select! {
                        () = self.taken.notified() => true,
                        () = sleep_until(beat_at) => false,
                    }
                } => {
                    let beaten = self.beat(connection).await;
                    if taken {
                        // Sent even if the heartbeat has just restored the subscription and finds nothing missing.
                        self.events.missed();
                    }
                    beat_at = Instant::now() + connection.silence_timeout();
                    beaten
                }
            };
            if let Err(Broken(error)) = served {
                return Served::Broken(error.to_string());
            }
        }
    }

    /// Subscribes to everything on another connection too, and returns it when it can replace this one.
    async fn succeed(
        &mut self,
        opened: Box<(Arc<Connection>, Lifeline)>,
    ) -> Result<Box<(Arc<Connection>, Lifeline)>, StoreError> {
        let (connection, mut lifeline) = *opened;
        let before = self.channels.clone();
        let failed = tokio::select! {
            biased;
            why = lifeline.end() => StoreError::unknown(why),
            result = self.resubscribe(&connection) => match result {
                Ok(()) => return Ok(Box::new((connection, lifeline))),
                Err(Broken(error)) => error,
            },
        };
        self.channels = before;
        Err(failed)
    }

    /// Connects again and subscribes to everything again.
    async fn restore(&mut self) -> (Arc<Connection>, Lifeline) {
        loop {
            let (connection, mut lifeline) = self.redial_and_turn_callers_away().await;
            let since = Instant::now();
            let why = tokio::select! {
                biased;
                why = lifeline.end() => why,
                result = self.resubscribe(&connection) => match result {
                    Ok(()) => return (connection, lifeline),
                    Err(Broken(error)) => error.to_string(),
                },
            };
            self.dialer.report_lost(&why);
            rest_after_short_life(self.dialer.purpose, since.into_std()).await;
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
                        // It will be subscribed to before `Reconnected` is sent.
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
        let missing = self.split(connection, false);
        self.subscribe_again(connection, &missing).await?;
        Ok(())
    }

    async fn settle_batch(
        &mut self,
        connection: &Connection,
        batch: Vec<Request>,
    ) -> Result<(), Broken> {
        // Before anything is sent: if the connection ends now, a new one restores the lasting subscriptions of this batch and
        // nothing else of it.
        for request in &batch {
            match request.verb {
                Verb::Subscribe if request.lasting => {
                    let channel = request.channel.clone();
                    self.channels.entry(channel).or_insert(false);
                }
                Verb::Subscribe => {}
                Verb::Unsubscribe | Verb::Abandon => {
                    self.channels.remove(&request.channel);
                }
            }
        }
        let is_over = |it: &Request| it.verb == Verb::Abandon && connection.shards(&it.channel);
        let changes = batch.iter().filter(|it| !is_over(it));
        let changes: Vec<(Verb, &str)> = changes.map(|it| (it.verb, it.channel.as_str())).collect();
        let changed = match changes.is_empty() {
            true => Ok(Vec::new()),
            false => connection.change(&changes).await,
        };
        let (changed, broken) = match changed {
            Ok(changed) => (changed, None),
            Err(error) => (vec![Err(error.clone()); changes.len()], Some(error)),
        };
        // In the order of the requests: of two for one channel the last one counts.
        let mut changed = changed.into_iter();
        for request in batch {
            let sent = (!is_over(&request)).then(|| changed.next()).flatten();
            self.finish(request, sent.unwrap_or(Ok(None)));
        }
        broken.map_or(Ok(()), |error| Err(Broken(error)))
    }

    /// Records the result of a request and sends it to the caller.
    fn finish(&mut self, request: Request, result: Changed) {
        let result = result.map(drop);
        let gone = |error: &StoreError| error.code() == Some("MOVED");
        let result = match (request.verb, result) {
            (Verb::Subscribe, result) if result.is_ok() || request.lasting => {
                self.channels.insert(request.channel, result.is_ok());
                result
            }
            (verb, result) => {
                self.channels.remove(&request.channel);
                // Its slot has moved, and the subscription has ended with it.
                let over = verb != Verb::Subscribe && result.as_ref().is_err_and(gone);
                if over { Ok(()) } else { result }
            }
        };
        // An error means that the caller has given up.
        let _ = request.answer.send(result);
    }
}

/// Waits for new credentials. Returns them if the connection can log in with them; otherwise returns a new connection that has.
async fn renew(dialer: &Dialer, connection: &Connection) -> Renewed {
    loop {
        let credentials = dialer.renewed_credentials(connection).await;
        if connection.can_authenticate() {
            return Renewed::Credentials(credentials);
        }
        match dialer.dial().await {
            Ok(opened) => return Renewed::Connection(Box::new(opened)),
            Err(error) => {
                connection.not_renewed();
                dialer.report_not_renewed(&error);
            }
        }
    }
}

/// Sends messages to the event stream. The task that reads the socket calls it.
fn listener(dialer: &Dialer, events: &Arc<Events>, taken: &Arc<Notify>) -> Listener {
    let (events, taken, dialer) = (Arc::clone(events), Arc::clone(taken), dialer.clone());
    Arc::new(move |heard| match heard {
        Heard::Message { channel, payload } => events.message(channel, payload),
        Heard::Missed(missed) => {
            let reason = format!("{missed} more than it can keep");
            dialer.warn("messages were dropped, so every waiter looks", &reason);
            events.missed();
        }
        Heard::Taken => taken.notify_one(),
    })
}
