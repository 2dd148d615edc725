//! Acquisition under way: ask; if busy, listen, ask again, and wait for the word to look.
//!
//! The claim and the duty to leave for it exist before the first byte is sent, so a future that is dropped at any await
//! holds nothing for longer than one ttl.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::claim::Verdict;
use crate::client::Engine;
use crate::clock::{Moment, sleep_until};
use crate::error::{Error, Result};
use crate::exchange::{Failed, Terms};
use crate::hold::{Armed, Hold};
use crate::notify::Place;
use crate::owner::Owner;
use crate::pause::Pauses;
use crate::protocol::{Protocol, Verb};
use crate::store::StoreError;

/// The longest extra wait, µs, after a holder's lease has ended, so that waiters of many clients do not ask all at once.
const JITTER_MICROS: u64 = 50_000;

/// How many requests `try_acquire` sends at most: one, and one more if it got no answer.
const TRIES: u32 = 2;

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
    started: Moment,
    pauses: Pauses,
    /// Dropped after the claim, which posts its leave: closing waits for both.
    _pass: mpsc::Sender<Infallible>,
}

/// What a look at the server found.
enum Found {
    Granted(Hold),
    /// Held by another claim, perhaps until this moment.
    Busy(Option<Moment>),
}

impl Acquisition {
    pub(crate) fn new(
        engine: Arc<Engine>,
        protocol: Arc<dyn Protocol>,
        terms: Terms,
        owner: Owner,
        wait: Option<Duration>,
    ) -> Result<Self> {
        Ok(Self {
            armed: None,
            started: engine.line.clock.now(),
            pauses: Pauses::new(engine.random()),
            _pass: engine.enter()?,
            engine,
            protocol,
            terms,
            owner,
            wait,
        })
    }

    pub(crate) fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "acquire",
            name = %self.protocol.name(),
            kind = %self.protocol.kind(),
            owner = %self.owner,
            wait = ?self.wait,
        )
    }

    /// Runs `work`, and stops it when the client is closed.
    pub(crate) async fn unless_closed<T>(
        mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let engine = Arc::clone(&self.engine);
        tokio::select! {
            biased;
            () = engine.closed() => Err(Error::Closed),
            result = work(&mut self) => result,
        }
    }

    /// Asks once; `None` if another claim holds.
    pub(crate) async fn once(&mut self) -> Result<Option<Hold>> {
        match self.look(Some(TRIES), None).await? {
            Found::Granted(hold) => Ok(Some(hold)),
            Found::Busy(_) => Ok(None),
        }
    }

    /// Asks until granted, or until the time to wait is over.
    pub(crate) async fn wait(&mut self) -> Result<Hold> {
        let deadline = self.wait.map(|longest| self.started.after(longest));
        let channel = self.protocol.channel();
        // Who waits already has a scout for all: nobody of this client overtakes them.
        if !self.engine.hub.crowded(&channel)
            && let Found::Granted(hold) = self.look(None, deadline).await?
        {
            return Ok(hold);
        }
        let timeout = Error::Timeout {
            name: self.protocol.name().to_string(),
            waited: self.wait.unwrap_or_default(),
        };
        if deadline.is_some_and(|deadline| self.engine.line.clock.now() >= deadline) {
            return Err(timeout);
        }
        let place = self.engine.hub.join(&self.protocol);
        let clock = Arc::clone(&self.engine.line.clock);
        let late = async {
            match deadline {
                Some(deadline) => sleep_until(&clock, deadline).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = self.queue(&place, deadline) => outcome,
            () = late => Err(timeout),
        };
        if let Ok(hold) = &outcome {
            place.granted(clock.now().after(hold.remaining()));
        }
        outcome
    }

    /// Looks whenever it is this waiter's turn.
    async fn queue(&mut self, place: &Place, deadline: Option<Moment>) -> Result<Hold> {
        tracing::debug!("waiting");
        loop {
            place
                .turn()
                .await
                .map_err(|error| self.backend("listen for", error))?;
            match self.look(None, deadline).await? {
                Found::Granted(hold) => return Ok(hold),
                Found::Busy(free) => place.busy(free),
            }
        }
    }

    /// Asks until the server answers. Gives up after `tries` requests, or when the server has been out of reach for one
    /// ttl (no lease of this client would have outlived that), or with the last failure when `deadline` has passed.
    async fn look(&mut self, tries: Option<u32>, deadline: Option<Moment>) -> Result<Found> {
        let clock = Arc::clone(&self.engine.line.clock);
        let patience = clock.now().after(self.terms.ttl);
        let until = deadline.map_or(patience, |deadline| deadline.min(patience));
        for tried in 1.. {
            let armed = self.armed.take().unwrap_or_else(|| self.arm());
            let tenure = Arc::clone(&self.armed.insert(armed).tenure);
            let exchanged = self.engine.line.exchange(&tenure, Verb::Acquire).await;
            let trouble = match exchanged {
                Ok(Verdict::Granted(token)) => {
                    let Some(armed) = self.armed.take() else {
                        break;
                    };
                    self.engine.renewals.add(&tenure);
                    tracing::debug!(claim = %tenure.id, %token, "granted");
                    return Ok(Found::Granted(Hold::new(armed, token)));
                }
                Ok(Verdict::Busy(left)) => {
                    let jitter = Duration::from_micros(self.engine.random() % JITTER_MICROS);
                    return Ok(Found::Busy(
                        left.map(|left| clock.now().after(left + jitter)),
                    ));
                }
                Ok(Verdict::WrongKind) => return Err(self.wrong_kind()),
                Ok(Verdict::Spent) => {
                    // The claim lived once; what it may still hold is left for as it is dropped.
                    self.armed = None;
                    StoreError::unknown(
                        "the grant came too late to be believed: the server is too slow for this ttl",
                    )
                }
                Ok(verdict) => {
                    return Err(
                        self.protocol_error(format!("an acquire was answered by {verdict:?}"))
                    );
                }
                Err(Failed::Forbidden(reason)) => {
                    return Err(
                        self.protocol_error(format!("an acquire was not allowed: {reason:?}"))
                    );
                }
                Err(Failed::Store(error)) if error.is_transient() => error,
                Err(Failed::Store(error)) => return Err(self.backend("acquire", error)),
            };
            let pause = self.pauses.next();
            if tries.is_some_and(|tries| tried >= tries) || clock.now().after(pause) >= until {
                return Err(self.backend("acquire", trouble));
            }
            tracing::debug!(%trouble, ?pause, "asking again");
            tokio::time::sleep(pause).await;
        }
        Err(self.protocol_error("a claim vanished while it was asked for".to_owned()))
    }

    fn arm(&self) -> Armed {
        self.engine.arm(&self.protocol, self.owner, self.terms)
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
