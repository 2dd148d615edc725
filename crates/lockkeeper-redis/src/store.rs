//! The store: two kept connections behind the engine's seam.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lockkeeper_core::clock::{BootClock, Clock};
use lockkeeper_core::store::{Call, Event, Form, Reply, Store, StoreError};
use lockkeeper_core::{Error, Result};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::connection::{self, Verb};
use crate::dialer::Dialer;
use crate::events::{Events, Line};
use crate::failure;
use crate::options::RedisOptions;
use crate::reply;
use crate::request;
use crate::script_line;
use crate::slot::{self, Slot};
use crate::subscriber::{Request, Subscriber};
use crate::target::Target;

/// One Redis or Valkey server, as the engine of Lockkeeper sees it.
///
/// It holds two connections, reconnects both by itself, and never sends a request twice. Dropping it closes them at
/// once; [`close`](Store::close) first lets finish what is under way.
pub struct RedisStore {
    target: Target,
    slot: Arc<Slot>,
    events: Arc<Events>,
    requests: mpsc::UnboundedSender<Request>,
    closing: watch::Sender<bool>,
    /// Both keepers; dropping the set ends them, and with them the connections they own.
    keepers: Mutex<JoinSet<()>>,
}

impl RedisStore {
    /// Connects to the server at `url` with the default [`RedisOptions`]. When it returns `Ok`, both connections have
    /// answered a `PING`.
    ///
    /// # Errors
    ///
    /// As for [`RedisOptions::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes whatever has been opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lockkeeper_redis::RedisStore;
    ///
    /// # async fn example() -> lockkeeper_core::Result<()> {
    /// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        RedisOptions::new().connect(url).await
    }

    /// Connects; with `later`, in the background if the server is out of reach.
    pub(crate) async fn open(url: &str, options: RedisOptions, later: bool) -> Result<Self> {
        let target = Target::parse(url)?;
        let dialer = |line| Dialer {
            target: target.clone(),
            options: options.clone(),
            line,
        };
        let (scripts, messages) = (dialer(Line::Scripts), dialer(Line::Messages));
        let opened = tokio::try_join!(scripts.dial(), messages.dial());
        let events = Arc::new(Events::default());
        let (slot, scripts_opened, messages_opened) = match opened {
            Ok((scripts, messages)) => {
                let slot = Slot::new(Arc::clone(&scripts.0));
                (Arc::new(slot), Some(scripts), Some(messages))
            }
            Err(error) if later && error.is_transient() => {
                tracing::warn!(server = %target, %error, "not connected yet");
                events.lost(Line::Scripts);
                events.lost(Line::Messages);
                (Arc::new(Slot::down(&error.to_string())), None, None)
            }
            Err(error) => {
                let context = format!("connect to {target}{}", failure::advice(&error));
                return Err(Error::backend(context, error));
            }
        };
        let (requests, received) = mpsc::unbounded_channel();
        let (closing, closed) = watch::channel(false);
        let subscriber = Subscriber::new(messages, Arc::clone(&events), received);
        let mut keepers = JoinSet::new();
        keepers.spawn(script_line::keep(
            scripts,
            Arc::clone(&slot),
            Arc::clone(&events),
            scripts_opened,
            closed.clone(),
        ));
        keepers.spawn(subscriber.keep(messages_opened, closed));
        Ok(Self {
            target,
            slot,
            events,
            requests,
            closing,
            keepers: Mutex::new(keepers),
        })
    }

    async fn ask(&self, verb: Verb, channel: &str) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            verb,
            channel: channel.to_owned(),
            answer,
        };
        self.requests
            .send(request)
            .map_err(|_| slot::closed_error())?;
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::unknown("the connection ended")))
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        // Nothing is awaited before the request is queued, so calls leave in the order of their first polls.
        let connection = self.slot.current()?;
        let script = call.item.script;
        let (name, script) = match call.form {
            Form::Sha => ("EVALSHA", script.sha1),
            Form::Source => ("EVAL", script.source),
            _ => return Err(StoreError::not_sent("unknown form of a call")),
        };
        let command = connection::command(name, request::slot(&call.item));
        let args = request::arguments(script, call.request, &call.item);
        drop(call.item);

        let frame = connection.exchange(command, args, call.timeout).await?;
        if let Some(text) = reply::error_text(&frame) {
            return Err(StoreError::refused(text));
        }
        Reply::read(call.request, reply::value(frame)).map_err(|bad| {
            self.slot.lower(&connection, "its replies were out of step");
            connection.condemn();
            StoreError::unknown(bad.to_string()).with_source(bad)
        })
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.ask(Verb::Subscribe, channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.ask(Verb::Unsubscribe, channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.events.stream()
    }

    fn address(&self) -> String {
        self.target.to_string()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn close(&self) {
        self.slot.close();
        self.closing.send_replace(true);
        let mut keepers = self.keepers.lock().await;
        while keepers.join_next().await.is_some() {}
        self.events.end();
        tracing::info!(server = %self.target, "closed");
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
