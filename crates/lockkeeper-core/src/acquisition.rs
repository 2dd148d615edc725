//! Acquisition under way: ask; if busy, listen, ask again, and wait for the word to look.
//!
//! The claim and the duty to leave for it exist before the first byte is sent, so a future that is dropped at any await
//! holds nothing for longer than one ttl.

mod queue;
mod replicas;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::claim::Verdict;
use crate::clock::{Moment, sleep_until_some};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::exchange::Failed;
use crate::hold::{Armed, Hold};
use crate::notify::Place;
use crate::observer::LeaseEvent;
use crate::owner::Owner;
use crate::pass::Pass;
use crate::pause::Pauses;
use crate::protocol::{Protocol, Verb};
use crate::store::StoreError;
use crate::tenure::Terms;

/// The longest extra wait, µs, after a holder's lease has ended, so that waiters of many clients do not ask all at once.
pub(crate) const JITTER_MICROS: u64 = 50_000;

/// How many requests `try_acquire` sends at most: one, and one more if it got no answer.
pub(crate) const TRIES: u32 = 2;

/// For how long an acquisition that has waited in vain waits for its place in the queue to be gone before it says so: whoever
/// is told of the timeout shall not see the place be granted. Long against a healthy round trip, short against a wait.
pub(crate) const WITHDRAWAL: Duration = Duration::from_millis(100);

/// For how long an acquisition bears with a server that is out of reach: for one ttl, because no lease of this client would
/// have outlived that, and in any case for as long as the caller would wait.
pub(crate) fn patience(ttl: Duration, wait: Option<Duration>) -> Duration {
    ttl.max(wait.unwrap_or_default())
}

/// One acquisition under way.
pub(crate) struct Acquisition {
    /// The claim that is asked for; a new one each time one is spent.
    armed: Option<Armed>,
    engine: Arc<Engine>,
    protocol: Arc<dyn Protocol>,
    terms: Terms,
    owner: Owner,
    /// `None`: for ever.
    wait: Option<Duration>,
    /// For how long the server may be out of reach.
    patience: Duration,
    /// How many replicas are to have the grant, and how long nobody else may hold from then on.
    replicas: u32,
    min_hold: Option<Duration>,
    started: Moment,
    /// Why the last request had no answer; `None` if it had.
    trouble: Option<StoreError>,
    /// Dropped after the claim, which posts its leave: closing waits for both.
    _pass: Pass,
}

/// What a look at the server found.
enum Found {
    Granted(Hold),
    /// Held by another claim, perhaps until this moment.
    Busy(Option<Moment>),
    /// The claim stands in the queue.
    Waiting,
}

impl Acquisition {
    pub(crate) fn new(
        engine: Arc<Engine>,
        protocol: Arc<dyn Protocol>,
        terms: Terms,
        owner: Owner,
        wait: Option<Duration>,
    ) -> Result<Self> {
        let started = engine.line.clock.now();
        let wait_until = wait.map(|wait| started.after(wait)).or(terms.wait_until);
        Ok(Self {
            armed: None,
            started,
            trouble: None,
            _pass: engine.enter()?,
            patience: patience(terms.ttl, wait),
            engine,
            protocol,
            terms: Terms {
                wait_until,
                ..terms
            },
            owner,
            wait,
            replicas: 0,
            min_hold: None,
        })
    }

    /// Bears with a server that is out of reach for as long as whoever waits for this and more would wait.
    pub(crate) fn patient_for(mut self, wait: Option<Duration>) -> Self {
        self.patience = patience(self.terms.ttl, wait);
        self
    }

    pub(crate) fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "acquire",
            name = self.protocol.name().as_str(),
            kind = %self.protocol.kind(),
            owner = %self.owner,
            wait = ?self.wait,
        )
    }

    /// Runs `work`, and stops it when the client is closed.
    pub(crate) async fn unless_closed<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let engine = Arc::clone(&self.engine);
        tokio::select! {
            biased;
            () = engine.closed() => Err(Error::Closed),
            result = work(self) => result,
        }
    }

    /// Asks once; `None` if another claim holds.
    pub(crate) async fn once(&mut self) -> Result<Option<Hold>> {
        self.terms.queue_limit = Some(0);
        self.departed(self.terms.timeout).await;
        match self.look(Some(TRIES)).await? {
            Found::Granted(hold) => Ok(Some(hold)),
            Found::Busy(_) => Ok(None),
            Found::Waiting => Err(self.protocol_error("a try was put into the queue".to_owned())),
        }
    }

    /// The name that is asked for.
    pub(crate) fn name(&self) -> String {
        self.protocol.name().to_string()
    }

    /// Why the last request had no answer; `None` if it had.
    pub(crate) const fn trouble(&mut self) -> Option<StoreError> {
        self.trouble.take()
    }

    /// Asks until granted, or until the time to wait is over.
    pub(crate) async fn wait(&mut self) -> Result<Hold> {
        let Some(waited) = self.wait else {
            return self.begin().await;
        };
        let name = self.protocol.name().to_string();
        if waited.is_zero() {
            return self.once().await?.ok_or(Error::Timeout { name, waited });
        }
        let clock = Arc::clone(&self.engine.line.clock);
        let deadline = self.terms.wait_until;
        let granted = tokio::select! {
            biased;
            outcome = self.begin() => Some(outcome),
            () = sleep_until_some(&clock, deadline) => None,
        };
        if granted.is_none() {
            self.armed = None;
            // A server that is silent will not say so either.
            if self.trouble.is_none() {
                self.departed(WITHDRAWAL).await;
            }
        }
        match (granted, self.trouble.take()) {
            (Some(outcome), _) => outcome,
            // Nobody may hold it: the server has not said so for some time.
            (None, Some(trouble)) => Err(self.backend("acquire", trouble)),
            (None, None) => Err(Error::Timeout { name, waited }),
        }
    }

    async fn begin(&mut self) -> Result<Hold> {
        self.departed(self.terms.timeout).await;
        self.until_granted().await
    }

    /// Waits until what this client has given up of the name has left it, so that nothing of its own is in the way. What does
    /// not leave within `longest`, of a server that is silent for example, is left to the acquisition itself.
    async fn departed(&self, longest: Duration) {
        self.engine.departed(&[self.protocol.name()], longest).await;
    }

    pub(crate) async fn until_granted(&mut self) -> Result<Hold> {
        if self.protocol.queues() {
            return self.queue_up().await;
        }
        let hub = Arc::clone(&self.engine.hub);
        let mut free = None;
        // Who waits already has a scout for all: nobody of this client overtakes them, unless they may wait for it.
        if self.protocol.reenters() || !hub.crowded(&self.protocol.channel()) {
            match self.look(None).await? {
                Found::Granted(hold) => return Ok(hold),
                Found::Busy(until) => free = until,
                Found::Waiting => {}
            }
        }
        self.waits();
        let place = Place::new(&hub, &self.protocol, self.owner, self.patience, free);
        loop {
            place
                .turn()
                .await
                .map_err(|error| self.backend("wait for", error))?;
            match self.look(None).await {
                Ok(Found::Granted(hold)) => {
                    place.granted(self.engine.line.clock.now().after(hold.remaining()));
                    return Ok(hold);
                }
                Ok(Found::Busy(free)) => place.busy(free),
                Ok(Found::Waiting) => place.busy(None),
                Err(error) => {
                    if let Error::Backend { cause, .. } = &error
                        && cause.is_transient()
                    {
                        place.unreachable(cause);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Asks until the server answers. Gives up after `tries` requests, or when patience with the server has run out.
    ///
    /// In a box of its own: a waiter need not carry the room for a request as long as it waits.
    fn look(&mut self, tries: Option<u32>) -> BoxFuture<'_, Result<Found>> {
        Box::pin(self.ask_until_answered(tries))
    }

    async fn ask_until_answered(&mut self, tries: Option<u32>) -> Result<Found> {
        let clock = Arc::clone(&self.engine.line.clock);
        let patience = clock.now().after(self.patience);
        let mut pauses = Pauses::new(self.engine.random());
        let mut tried = 0;
        loop {
            let trouble = match self.ask().await? {
                Ok(found) => return Ok(found),
                Err(trouble) => trouble,
            };
            tried += 1;
            let pause = pauses.next();
            if tries.is_some_and(|tries| tried >= tries) || clock.now().after(pause) >= patience {
                return Err(self.backend("acquire", trouble));
            }
            tracing::debug!(%trouble, ?pause, "asking again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Asks the server once. The inner error may pass when it is asked again.
    async fn ask(&mut self) -> Result<Result<Found, StoreError>> {
        let armed = self.armed.take().unwrap_or_else(|| self.arm());
        let tenure = Arc::clone(&armed.tenure);
        // Kept where it is dropped, and leaves, if this future is.
        self.armed = Some(armed);
        let outcome = loop {
            match self.engine.line.exchange(&tenure, Verb::Acquire).await {
                Ok(Verdict::More) => {}
                outcome => break outcome,
            }
        };
        self.trouble = match &outcome {
            Err(Failed::Store(error)) => Some(error.clone()),
            _ => None,
        };
        match (outcome, self.armed.take()) {
            (Ok(Verdict::Granted(token)), Some(armed)) => {
                Ok(Ok(Found::Granted(Hold::begin(armed, token, self.started))))
            }
            (Ok(Verdict::Waiting(place)), armed) => {
                tracing::debug!(claim = %tenure.id, place, "in the queue");
                self.armed = armed;
                Ok(Ok(Found::Waiting))
            }
            (Ok(Verdict::QueueFull(length)), _) => {
                let name = self.protocol.name().to_string();
                Err(Error::QueueFull { name, length })
            }
            (Ok(Verdict::Busy(left)), armed) => {
                self.armed = armed;
                let jitter = Duration::from_micros(self.engine.random() % JITTER_MICROS);
                let now = self.engine.line.clock.now();
                Ok(Ok(Found::Busy(
                    left.map(|left| now.after(left).after(jitter)),
                )))
            }
            (Ok(Verdict::WrongKind), _) => Err(self.wrong_kind()),
            (Ok(Verdict::WouldDeadlock), _) => Err(Error::WouldDeadlock {
                name: self.protocol.name().to_string(),
            }),
            // The claim lived once; what it may still hold is left for as it is dropped.
            (Ok(Verdict::Spent), _) => Ok(Err(StoreError::unknown(
                "the grant came too late to be believed: the server is too slow for this ttl",
            ))),
            (Ok(verdict), _) => {
                Err(self.protocol_error(format!("an acquire was answered by {verdict:?}")))
            }
            (Err(Failed::Forbidden(reason)), _) => {
                Err(self.protocol_error(format!("an acquire was not allowed: {reason:?}")))
            }
            (Err(Failed::Store(error)), armed) if error.is_transient() => {
                self.armed = armed;
                Ok(Err(error))
            }
            (Err(Failed::Store(error)), _) => Err(self.backend("acquire", error)),
        }
    }

    /// Tells that the acquisition waits.
    fn waits(&mut self) {
        tracing::debug!("waiting");
        let armed = self.armed.take().unwrap_or_else(|| self.arm());
        let tenure = &self.armed.insert(armed).tenure;
        self.engine.line.observed.tell(tenure, LeaseEvent::Waiting);
    }

    fn arm(&self) -> Armed {
        self.engine
            .arm(&self.protocol, self.owner, self.terms, None)
    }

    fn backend(&self, doing: &str, error: StoreError) -> Error {
        Error::backend(
            format!("{doing} lock {:?}", self.protocol.name().as_str()),
            error,
        )
    }

    fn protocol_error(&self, message: String) -> Error {
        Error::Protocol {
            name: self.protocol.name().to_string(),
            message,
        }
    }

    fn wrong_kind(&self) -> Error {
        let name = self.protocol.name();
        Error::WrongKind {
            name: name.to_string(),
            kind: self.protocol.kind().as_str(),
            key: name.main().to_owned(),
        }
    }
}
