//! One node, with its own connections, so that its failures do not affect the other nodes: two that are kept open, one for requests
//! after an `ASKING`, and some that wait for replicas.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_core::store::StoreError;
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::command_connection;
use crate::connection::{Connection, Verb};
use crate::connection_slot::{ConnectionSlot, closed, closed_error};
use crate::dialer::Dialer;
use crate::events::{Events, Purpose};
use crate::locator::Locator;
use crate::options::RedisOptions;
use crate::replica_wait_pool::{ReplicaWaitConnection, ReplicaWaitPool};
use crate::request::Outgoing;
use crate::seeds::Endpoint;
use crate::subscriber::{Request, Subscriber};
use crate::target::Target;
use crate::wire::{self, Answer, Lifeline};

/// See the module. Dropping it closes its connections; requests under way may finish first, within a second.
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) current: Arc<ConnectionSlot>,
    requests: mpsc::UnboundedSender<Request>,
    /// For requests after an `ASKING`, one at a time: no other request may come between the two.
    asking: Mutex<Option<Asking>>,
    asking_dialer: Dialer,
    /// For calls that wait for replicas.
    replica_wait_pool: ReplicaWaitPool,
    /// It was asked lately for a slot that is migrating to it.
    asked: AtomicBool,
    closing: watch::Sender<bool>,
    keepers: Mutex<JoinSet<()>>,
}

struct Asking {
    connection: Arc<Connection>,
    lifeline: Lifeline,
    used: Instant,
}

impl Node {
    /// Starts to connect to the node at `endpoint`, with the credentials of `template`.
    pub(crate) fn start(
        endpoint: Endpoint,
        template: &Target,
        options: &RedisOptions,
        events: &Arc<Events>,
        alarm: &Arc<Notify>,
    ) -> Self {
        let dialer = |purpose| Dialer {
            locator: Locator::Fixed(endpoint.target(template)),
            options: options.clone(),
            purpose,
            listener: None,
            alarm: Arc::clone(alarm),
            troubles: Arc::default(),
        };
        let current = Arc::new(ConnectionSlot::opening());
        let (closing, closed) = watch::channel(false);
        let (requests, received) = mpsc::unbounded_channel();
        // Not aborted when the node is dropped: each task ends by itself, after a `QUIT`.
        let mut keepers = JoinSet::new();
        let scripts = keep_scripts(
            dialer(Purpose::NodeScripts),
            Arc::clone(&current),
            Arc::clone(events),
            closed.clone(),
        );
        keepers.spawn(scripts);
        let messages = dialer(Purpose::NodeMessages);
        let subscriber = Subscriber::new(messages, Arc::clone(events), received);
        keepers.spawn(keep_messages(subscriber, closed));
        Self {
            asking_dialer: dialer(Purpose::NodeScripts),
            replica_wait_pool: ReplicaWaitPool::new(dialer(Purpose::NodeScripts)),
            endpoint,
            current,
            requests,
            asking: Mutex::new(None),
            asked: AtomicBool::new(false),
            closing,
            keepers: Mutex::new(keepers),
        }
    }

    /// Sends one request and waits for its answer. If the server answers, even with a refusal, returns the connection too. Nothing
    /// is awaited before the request is queued, unless the first connection is still being made.
    pub(crate) async fn exchange(
        &self,
        request: &Outgoing,
        deadline: Instant,
    ) -> Result<(Arc<Connection>, Answer), StoreError> {
        let connection = match self.current.connection() {
            Ok(connection) => connection,
            Err(_) => {
                // At once, unless the first attempt to connect is under way.
                let decided = timeout_at(deadline, self.current.decided()).await;
                decided.map_err(|_| StoreError::not_sent("not connected yet"))?;
                self.current.connection()?
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        match connection.send(request, left).await {
            Err(error) if !wire::is_refusal(&error) => Err(error),
            answer => Ok((connection, answer)),
        }
    }

    /// The same for a key of a slot that is migrating to this node.
    pub(crate) async fn ask(
        &self,
        request: &Outgoing,
        deadline: Instant,
    ) -> Result<(Arc<Connection>, Answer), StoreError> {
        self.asked.store(true, Ordering::Relaxed);
        let late = |_| StoreError::not_sent("no time left to ask the slot's next owner");
        let mut place = timeout_at(deadline, self.asking.lock())
            .await
            .map_err(late)?;
        let fresh = |asking: &Asking| {
            let patience = self.asking_dialer.options.silence_timeout;
            !asking.lifeline.has_ended()
                && asking.used.elapsed() < patience
                && !asking.connection.is_outdated()
        };
        let asking = match place.take().filter(fresh) {
            Some(asking) => place.insert(asking),
            None => {
                let dialled = timeout_at(deadline, self.asking_dialer.dial()).await;
                let (connection, lifeline) = dialled.map_err(late)??;
                place.insert(Asking {
                    connection,
                    lifeline,
                    used: Instant::now(),
                })
            }
        };
        asking.used = Instant::now();
        let connection = Arc::clone(&asking.connection);
        let left = deadline.saturating_duration_since(Instant::now());
        match connection.send_asking(request, left).await {
            Err(error) if !wire::is_refusal(&error) => {
                *place = None;
                Err(error)
            }
            answer => Ok((connection, answer)),
        }
    }

    /// Sends one request on a connection that only this caller uses meanwhile; `asking` if its slot is migrating to this node.
    pub(crate) async fn exchange_aside(
        &self,
        request: &Outgoing,
        asking: bool,
        deadline: Instant,
    ) -> Result<(ReplicaWaitConnection, Answer), StoreError> {
        if asking {
            self.asked.store(true, Ordering::Relaxed);
        }
        self.replica_wait_pool.send(request, asking, deadline).await
    }

    /// Returns whether it was asked lately, and resets that.
    pub(crate) fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    /// Changes a subscription. If this connection cannot make a lasting one, a later connection does.
    pub(crate) async fn subscribe(
        &self,
        verb: Verb,
        channel: &str,
        lasting: bool,
    ) -> Result<(), StoreError> {
        let answered = self.post(verb, channel, lasting).ok_or_else(closed_error)?;
        let answered = answered.await;
        answered.unwrap_or_else(|_| Err(StoreError::unknown("the connection ended")))
    }

    /// The same, without waiting: the change is in the queue when this returns. `None` if the node is closed.
    pub(crate) fn post(
        &self,
        verb: Verb,
        channel: &str,
        lasting: bool,
    ) -> Option<oneshot::Receiver<Result<(), StoreError>>> {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            verb,
            channel: channel.to_owned(),
            lasting,
            answer,
        };
        self.requests.send(request).ok()?;
        Some(answered)
    }

    /// Replaces the connection, which gave a caller somebody else's reply.
    pub(crate) fn condemn(&self, connection: &Arc<Connection>) {
        self.current
            .lower(connection, "its replies were out of step");
        connection.condemn();
    }

    /// Closes its connections and waits until they are closed.
    pub(crate) async fn close(&self) {
        self.current.close();
        self.replica_wait_pool.close();
        self.closing.send_replace(true);
        let mut keepers = self.keepers.lock().await;
        while keepers.join_next().await.is_some() {}
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.closing.send_replace(true);
        self.keepers.get_mut().detach_all();
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

async fn keep_scripts(
    dialer: Dialer,
    current: Arc<ConnectionSlot>,
    events: Arc<Events>,
    mut closing: watch::Receiver<bool>,
) {
    let opened = match first(dialer.dial(), &mut closing).await {
        Ok(opened) => {
            current.raise(Arc::clone(&opened.0));
            events.restored(dialer.purpose);
            Some(opened)
        }
        Err(error) => {
            current.give_up_opening(&error.to_string());
            dialer.alarm.notify_one();
            None
        }
    };
    command_connection::keep(dialer, current, events, opened, closing).await;
}

async fn keep_messages(subscriber: Subscriber, mut closing: watch::Receiver<bool>) {
    let opened = first(subscriber.dial(), &mut closing).await.ok();
    subscriber.keep(opened, closing).await;
}

/// The first attempt to connect.
async fn first(
    dial: impl Future<Output = Result<(Arc<Connection>, Lifeline), StoreError>>,
    closing: &mut watch::Receiver<bool>,
) -> Result<(Arc<Connection>, Lifeline), StoreError> {
    tokio::select! {
        biased;
        () = closed(closing) => Err(closed_error()),
        opened = dial => opened,
    }
}
