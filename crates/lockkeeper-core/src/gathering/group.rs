//! Claims on several names of one group, acquired by one script: all of them or none. Nothing is held while one of them is
//! waited for.

use std::sync::Arc;
use std::time::Duration;

use super::Seat;
use crate::acquisition::{JITTER_MICROS, TRIES, patience};
use crate::claim::{Departure, Verdict};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::exchange::Failed;
use crate::hold::{Armed, Hold, Joined};
use crate::notify::Place;
use crate::observer::LeaseEvent;
use crate::pause::Pauses;
use crate::protocol::{FencingToken, Verb};
use crate::store::StoreError;
use crate::tenure::Tenure;

/// See the module.
pub(super) struct Group {
    engine: Arc<Engine>,
    seats: Vec<Seat>,
    /// A claim for each seat, new ones each time they are spent; none before the first request.
    armed: Joined,
    started: Moment,
    /// For how long the server may be out of reach.
    patience: Duration,
    /// The seat that is waited for.
    awaited: usize,
    /// Why the last request had no answer; `None` if it had.
    trouble: Option<StoreError>,
}

/// What a look at the server found.
enum Found {
    Granted(Vec<Hold>),
    /// These seats are held by other claims, perhaps until then.
    Busy(Vec<(usize, Option<Moment>)>),
}

/// What several answers say together.
enum Said {
    Granted(Vec<FencingToken>),
    Busy(Vec<(usize, Option<Duration>)>),
    /// The claims have lived.
    Spent,
    Silent(StoreError),
    Failed(Error),
}

impl Group {
    /// For whoever would wait so long; `None`: for ever.
    pub(super) fn new(engine: Arc<Engine>, seats: Vec<Seat>, wait: Option<Duration>) -> Self {
        let ttl = seats.iter().map(|seat| seat.terms.ttl).min();
        Self {
            patience: patience(ttl.unwrap_or_default(), wait),
            started: engine.line.clock.now(),
            engine,
            seats,
            armed: Joined::default(),
            awaited: 0,
            trouble: None,
        }
    }

    /// The name that is waited for.
    pub(super) fn awaited(&self) -> String {
        self.name(self.awaited)
    }

    /// Why the last request had no answer; `None` if it had.
    pub(super) const fn trouble(&mut self) -> Option<StoreError> {
        self.trouble.take()
    }

    /// Asks once; `None` if another claim holds one of the names.
    pub(super) async fn once(&mut self) -> Result<Option<Vec<Hold>>> {
        match self.look(Some(TRIES)).await? {
            Found::Granted(holds) => Ok(Some(holds)),
            Found::Busy(busy) => {
                self.awaited = busy.first().map_or(0, |(seat, _)| *seat);
                Ok(None)
            }
        }
    }

    /// Asks; and if one of the names is held, waits among those of this client who wait for that one, and asks again.
    pub(super) async fn until_granted(&mut self) -> Result<Vec<Hold>> {
        let (mut awaited, mut free) = match self.crowded() {
            Some(seat) => (seat, None),
            None => match self.look(None).await? {
                Found::Granted(holds) => return Ok(holds),
                Found::Busy(busy) => busy.first().copied().unwrap_or_default(),
            },
        };
        let mut told = false;
        loop {
            self.awaited = awaited;
            if !std::mem::replace(&mut told, true) {
                self.waits();
            }
            match self.in_line(awaited, free).await? {
                Found::Granted(holds) => return Ok(holds),
                // That one is free now, and another is not.
                Found::Busy(busy) => (awaited, free) = busy.first().copied().unwrap_or_default(),
            }
        }
    }

    /// The first name for which somebody of this client waits who is not to be overtaken.
    fn crowded(&self) -> Option<usize> {
        self.seats.iter().position(|seat| {
            let protocol = &seat.protocol;
            !protocol.reenters() && self.engine.hub.crowded(&protocol.channel())
        })
    }

    /// Waits in the line for one name, and asks for all whenever it is this one's turn, until they are granted or that name
    /// is not what keeps them.
    async fn in_line(&mut self, awaited: usize, free: Option<Moment>) -> Result<Found> {
        let Seat {
            protocol, owner, ..
        } = self.seats[awaited].clone();
        let place = Place::new(&self.engine.hub, &protocol, owner, self.patience, free);
        loop {
            let turn = place.turn().await;
            turn.map_err(|error| self.backend(awaited, "wait for", error))?;
            match self.look(None).await {
                Ok(Found::Granted(holds)) => {
                    if let Some(hold) = holds.get(awaited) {
                        place.granted(self.engine.line.clock.now().after(hold.remaining()));
                    }
                    return Ok(Found::Granted(holds));
                }
                Ok(Found::Busy(busy)) => match busy.iter().find(|(seat, _)| *seat == awaited) {
                    Some((_, free)) => place.busy(*free),
                    None => return Ok(Found::Busy(busy)),
                },
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

    /// Asks until the server answers, for as long as an acquisition of one name would.
    async fn look(&mut self, tries: Option<u32>) -> Result<Found> {
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
                return Err(self.backend(0, "acquire", trouble));
            }
            tracing::debug!(%trouble, ?pause, "asking again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Asks the server once. The inner error may pass when it is asked again.
    async fn ask(&mut self) -> Result<std::result::Result<Found, StoreError>> {
        self.arm();
        let tenures: Vec<Arc<Tenure>> =
            self.armed.iter().map(|it| Arc::clone(&it.tenure)).collect();
        let outcomes = self
            .engine
            .line
            .exchange_together(&tenures, Verb::Acquire)
            .await;
        self.trouble = None;
        match self.said(outcomes) {
            Said::Granted(tokens) => Ok(Ok(Found::Granted(self.hold(tokens)))),
            Said::Busy(busy) => {
                // Of a request that was given up these claims may hold a part, which must not outlast the wait.
                let nothing_there = |it: &Armed| it.tenure.claim().departure() == Departure::None;
                if !self.armed.iter().all(nothing_there) {
                    self.armed = Joined::default();
                }
                let now = self.engine.line.clock.now();
                let jitter = Duration::from_micros(self.engine.random() % JITTER_MICROS);
                let free = |left: Duration| now.after(left).after(jitter);
                let busy = busy.into_iter().map(|(seat, left)| (seat, left.map(free)));
                Ok(Ok(Found::Busy(busy.collect())))
            }
            // The claims lived once; what they may still hold is left for as they are dropped.
            Said::Spent => {
                self.armed = Joined::default();
                let late =
                    "the grant came too late to be believed: the server is too slow for this ttl";
                Ok(Err(StoreError::unknown(late)))
            }
            Said::Silent(error) => {
                self.trouble = Some(error.clone());
                Ok(Err(error))
            }
            Said::Failed(error) => {
                self.armed = Joined::default();
                Err(error)
            }
        }
    }

    /// What the outcomes of one run say together: what forbids to go on first, what has to wait last.
    fn said(&self, outcomes: Vec<std::result::Result<Verdict, Failed>>) -> Said {
        let (mut tokens, mut busy, mut spent) = (Vec::new(), Vec::new(), false);
        for (seat, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(Verdict::Granted(token)) => tokens.push(token),
                Ok(Verdict::Busy(left)) => busy.push((seat, left)),
                Ok(Verdict::Free) => {}
                Ok(Verdict::Spent) => spent = true,
                Ok(Verdict::WrongKind) => return Said::Failed(self.wrong_kind(seat)),
                Ok(verdict) => {
                    return Said::Failed(
                        self.protocol_error(
                            seat,
                            format!("an acquire was answered by {verdict:?}"),
                        ),
                    );
                }
                Err(Failed::Forbidden(reason)) => {
                    return Said::Failed(
                        self.protocol_error(
                            seat,
                            format!("an acquire was not allowed: {reason:?}"),
                        ),
                    );
                }
                Err(Failed::Store(error)) if error.is_transient() => return Said::Silent(error),
                Err(Failed::Store(error)) => {
                    return Said::Failed(self.backend(seat, "acquire", error));
                }
            }
        }
        if spent {
            Said::Spent
        } else if tokens.len() == self.seats.len() {
            Said::Granted(tokens)
        } else if busy.is_empty() || !tokens.is_empty() {
            Said::Failed(self.protocol_error(0, "some of several claims were granted".to_owned()))
        } else {
            Said::Busy(busy)
        }
    }

    fn hold(&mut self, tokens: Vec<FencingToken>) -> Vec<Hold> {
        let granted = self.armed.take().into_iter().zip(tokens);
        let holds = granted.map(|(armed, token)| Hold::begin(armed, token, self.started));
        holds.collect()
    }

    /// The claims and the duty to leave for them exist before anything is sent.
    fn arm(&mut self) {
        if self.armed.is_empty() {
            let arm = |seat: &Seat| {
                self.engine
                    .arm(&seat.protocol, seat.owner, seat.terms, None)
            };
            self.armed = Joined::new(self.seats.iter().map(arm).collect());
        }
    }

    /// Tells that the acquisition waits.
    fn waits(&mut self) {
        self.arm();
        tracing::debug!(name = self.awaited(), "waiting");
        if let Some(armed) = self.armed.get(self.awaited) {
            self.engine
                .line
                .observed
                .tell(&armed.tenure, LeaseEvent::Waiting);
        }
    }

    fn name(&self, seat: usize) -> String {
        let seat = self.seats.get(seat);
        seat.map_or_else(String::new, |seat| seat.protocol.name().to_string())
    }

    fn backend(&self, seat: usize, doing: &str, error: StoreError) -> Error {
        let others = self.seats.len() - 1;
        let name = self.name(seat);
        Error::backend(
            format!("{doing} lock {name:?} and {others} more with it"),
            error,
        )
    }

    fn protocol_error(&self, seat: usize, message: String) -> Error {
        let name = self.name(seat);
        Error::Protocol { name, message }
    }

    fn wrong_kind(&self, seat: usize) -> Error {
        let protocol = &self.seats[seat].protocol;
        Error::WrongKind {
            name: protocol.name().to_string(),
            kind: protocol.kind().as_str(),
            key: protocol.name().main().to_owned(),
        }
    }
}
