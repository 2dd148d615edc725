//! The replica-wait pool: connections beside the shared one, for calls that wait for replicas. `WAIT` blocks every later request on
//! its connection, and counts only what that connection wrote.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::connection::Connection;
use crate::dialer::Dialer;
use crate::options::RedisOptions;
use crate::request::Outgoing;
use crate::wire::{self, Answer, Lifeline};

/// How many calls wait for the replicas of one server at once, each on its own connection. Further calls wait for their turn.
const MOST: usize = 16;

/// How long an unused connection is kept. No heartbeat checks it meanwhile.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// A connection that waits for replicas is silent for as long as that takes, and each request has its own timeout.
const SILENCE: Duration = Duration::from_secs(60 * 60);

/// See the module.
pub(crate) struct ReplicaWaitPool {
    dialer: Dialer,
    kept: Arc<Mutex<Kept>>,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct Kept {
    idle: Vec<Opened>,
    closed: bool,
}

struct Opened {
    connection: Arc<Connection>,
    lifeline: Lifeline,
    used: Instant,
}

/// A connection from the pool, used only by its owner. Dropping it closes it.
pub(crate) struct ReplicaWaitConnection {
    opened: Opened,
    home: Arc<Mutex<Kept>>,
    _place: OwnedSemaphorePermit,
}

impl ReplicaWaitPool {
    /// Opens no connection before it is needed.
    pub(crate) fn new(dialer: Dialer) -> Self {
        let options = RedisOptions {
            silence_timeout: SILENCE,
            ..dialer.options
        };
        Self {
            dialer: Dialer { options, ..dialer },
            kept: Arc::default(),
            places: Arc::new(Semaphore::new(MOST)),
        }
    }

    /// Sends one request and waits for its answer; with `asking`, after an `ASKING`.
    pub(crate) async fn send(
        &self,
        request: &Outgoing,
        asking: bool,
        deadline: Instant,
    ) -> Result<(ReplicaWaitConnection, Answer), StoreError> {
        let pooled = timeout_at(deadline, self.connection()).await;
        let late = |_| StoreError::not_sent("no connection to wait for replicas in time");
        let pooled = pooled.map_err(late)??;
        let connection = &pooled.opened.connection;
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = match asking {
            true => connection.send_asking(request, left).await,
            false => connection.send(request, left).await,
        };
        match answer {
            Err(error) if !wire::is_refusal(&error) => Err(error),
            answer => Ok((pooled, answer)),
        }
    }

    /// A kept connection to the server in use now, or a new one.
    async fn connection(&self) -> Result<ReplicaWaitConnection, StoreError> {
        let places = Arc::clone(&self.places);
        let closed = |_| crate::connection_slot::closed_error();
        let place = places.acquire_owned().await.map_err(closed)?;
        let target = self.dialer.locator.find().await?;
        let fresh = |it: &Opened| it.is_good() && *it.connection.target() == target;
        let opened = {
            let mut kept = lock(&self.kept);
            kept.idle.retain(fresh);
            kept.idle.pop()
        };
        let opened = match opened {
            Some(opened) => opened,
            None => {
                let (connection, lifeline) = self.dialer.dial().await?;
                Opened {
                    connection,
                    lifeline,
                    used: Instant::now(),
                }
            }
        };
        Ok(ReplicaWaitConnection {
            opened,
            home: Arc::clone(&self.kept),
            _place: place,
        })
    }

    /// Ends the kept connections; no more are opened.
    pub(crate) fn close(&self) {
        self.places.close();
        let mut kept = lock(&self.kept);
        kept.closed = true;
        kept.idle.clear();
    }
}

impl ReplicaWaitConnection {
    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.opened.connection)
    }

    /// Returns how many replicas have confirmed everything that the server had written by the last answer. Returns as soon as there
    /// are `replicas`, or some time before `patience` is over.
    pub(crate) async fn wait(self, replicas: u32, patience: Duration) -> Result<u64, StoreError> {
        // The rest of the time is for the answer to arrive. Zero would mean "forever".
        let asked = (patience - patience / 4).as_millis().max(1);
        let args = [replicas.to_string(), asked.to_string()];
        let wait = Outgoing::plain("WAIT", args.iter().map(String::as_str));
        let answer = self.opened.connection.send(&wait, patience).await;
        if answer.as_ref().is_err_and(wire::is_refusal) {
            self.give_back();
            return answer.map(|_| 0);
        }
        let reached = answer?.as_i64();
        let reached = reached.and_then(|reached| reached.try_into().ok());
        let reached = reached.ok_or_else(|| StoreError::unknown("WAIT was answered by no number"));
        if reached.is_ok() {
            self.give_back();
        }
        reached
    }

    /// Keeps the connection for the next call.
    pub(crate) fn give_back(self) {
        let mut opened = self.opened;
        opened.used = Instant::now();
        let mut kept = lock(&self.home);
        if !kept.closed {
            kept.idle.retain(Opened::is_good);
            kept.idle.push(opened);
        }
    }
}

impl Opened {
    fn is_good(&self) -> bool {
        !self.lifeline.has_ended()
            && self.used.elapsed() < KEPT_FOR
            && !self.connection.is_outdated()
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
