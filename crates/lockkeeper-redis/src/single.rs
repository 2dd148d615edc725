//! One server: the store over two connections that are kept open, one for scripts and one for messages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::clock::{BootClock, Clock};
use lockkeeper_core::store::{Call, Event, Replicated, Reply, Store, StoreError};
use lockkeeper_core::{Error, Result};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::command_connection;
use crate::connection::Verb;
use crate::connection_slot::{self, ConnectionSlot};
use crate::dialer::Dialer;
use crate::events::{Events, Purpose};
use crate::failure;
use crate::locator::Locator;
use crate::options::RedisOptions;
use crate::replica_wait_pool::ReplicaWaitPool;
use crate::request::Outgoing;
use crate::subscriber::{Request, Subscriber};
use crate::wire::Answer;

/// One server that holds every key: always the same one, or the one that sentinels name.
pub(crate) struct Single {
    locator: Locator,
    current: Arc<ConnectionSlot>,
    replica_wait_pool: ReplicaWaitPool,
    events: Arc<Events>,
    requests: mpsc::UnboundedSender<Request>,
    closing: watch::Sender<bool>,
    /// The tasks that keep the two connections; dropping the set ends them and their connections.
    keepers: Mutex<JoinSet<()>>,
    /// The tasks that listen to sentinels.
    listeners: Mutex<JoinSet<()>>,
}

impl Single {
    /// Connects; with `later`, in the background if the server is out of reach.
    pub(crate) async fn open(
        locator: Locator,
        listeners: JoinSet<()>,
        options: RedisOptions,
        later: bool,
    ) -> Result<Self> {
        let dialer = |purpose| Dialer {
            locator: locator.clone(),
            options: options.clone(),
            purpose,
            alarm: Arc::default(),
            listener: None,
            troubles: Arc::default(),
        };
        let (scripts, messages) = (dialer(Purpose::Scripts), dialer(Purpose::Messages));
        let replica_wait_pool = ReplicaWaitPool::new(dialer(Purpose::Scripts));
        let events = Arc::new(Events::default());
        let (requests, received) = mpsc::unbounded_channel();
        let subscriber = Subscriber::new(messages, Arc::clone(&events), received);
        let opened = tokio::try_join!(scripts.dial(), subscriber.dial());
        let (current, scripts_opened, messages_opened) = match opened {
            Ok((scripts, messages)) => {
                let current = ConnectionSlot::new(Arc::clone(&scripts.0));
                (Arc::new(current), Some(scripts), Some(messages))
            }
            Err(error) if later && error.is_transient() => {
                tracing::warn!(server = %locator, %error, "not connected yet");
                events.lost(Purpose::Scripts);
                events.lost(Purpose::Messages);
                (
                    Arc::new(ConnectionSlot::down(&error.to_string())),
                    None,
                    None,
                )
            }
            Err(error) => {
                let advice = failure::advice(&error, locator.login());
                let hint = failure::hint(&error, locator.speaks_tls());
                let context = format!("connect to {locator}{advice}{hint}");
                return Err(Error::backend(context, error));
            }
        };
        let (closing, closed) = watch::channel(false);
        let mut keepers = JoinSet::new();
        keepers.spawn(command_connection::keep(
            scripts,
            Arc::clone(&current),
            Arc::clone(&events),
            scripts_opened,
            closed.clone(),
        ));
        keepers.spawn(subscriber.keep(messages_opened, closed));
        Ok(Self {
            locator,
            current,
            replica_wait_pool,
            events,
            requests,
            closing,
            keepers: Mutex::new(keepers),
            listeners: Mutex::new(listeners),
        })
    }

    /// Passes an answer on. A server that refuses writes may no longer be the primary.
    fn doubting(&self, answer: Answer) -> Answer {
        answer.inspect_err(|error| {
            if error.code() == Some("READONLY") {
                self.locator.doubt();
            }
        })
    }

    async fn ask(&self, verb: Verb, channel: &str) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            verb,
            channel: channel.to_owned(),
            lasting: false,
            answer,
        };
        self.requests
            .send(request)
            .map_err(|_| connection_slot::closed_error())?;
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::unknown("the connection ended")))
    }
}

#[async_trait]
impl Store for Single {
    async fn call(&self, mut call: Call) -> Result<Reply, StoreError> {
        // Nothing is awaited before the request is queued, so calls leave in the order of their first polls.
        let connection = self.current.connection()?;
        let request = Outgoing::of(&mut call)?;
        let answer = connection.send(&request, call.timeout).await;
        Reply::read(call.request, self.doubting(answer)?).map_err(|bad| {
            self.current
                .lower(&connection, "its replies were out of step");
            connection.condemn();
            StoreError::unknown(bad.to_string()).with_source(bad)
        })
    }

    async fn call_replicated(
        &self,
        mut call: Call,
        replicas: u32,
        patience: Duration,
    ) -> Result<Replicated, StoreError> {
        let deadline = Instant::now() + call.timeout;
        let request = Outgoing::of(&mut call)?;
        let (connection, answer) = self
            .replica_wait_pool
            .send(&request, false, deadline)
            .await?;
        let value = match self.doubting(answer) {
            Ok(value) => value,
            Err(refused) => {
                connection.give_back();
                return Err(refused);
            }
        };
        let reply = Reply::read(call.request, value);
        let reply = reply.map_err(|bad| StoreError::unknown(bad.to_string()).with_source(bad))?;
        Ok(Replicated::new(
            reply,
            connection.wait(replicas, patience).await,
        ))
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.ask(Verb::Subscribe, channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.ask(Verb::Unsubscribe, channel).await
    }

    fn keyspace_channel(&self, key: &str) -> Option<String> {
        let database = self.locator.database();
        Some(format!("__keyspace@{database}__:{key}"))
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.events.stream()
    }

    fn address(&self) -> String {
        self.locator.to_string()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn close(&self) {
        self.current.close();
        self.replica_wait_pool.close();
        self.closing.send_replace(true);
        let mut keepers = self.keepers.lock().await;
        while keepers.join_next().await.is_some() {}
        self.listeners.lock().await.shutdown().await;
        self.events.end();
        tracing::info!(server = %self.locator, "closed");
    }
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single")
            .field("locator", &self.locator)
            .finish_non_exhaustive()
    }
}
