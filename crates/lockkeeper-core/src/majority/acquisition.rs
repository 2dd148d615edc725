//! An acquisition from several servers under way: a round, and the next one when there is reason for it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::QuorumLock;
use super::hold::QuorumHold;
use super::wait::Watch;
use crate::acquisition::patience;
use crate::clock::{Moment, sleep_until};
use crate::error::{Error, Result};
use crate::owner::Owner;
use crate::pass::Pass;
use crate::pause::Pauses;
use crate::quorum::Failure;
use crate::tenure::Terms;

/// How many rounds `try_acquire` makes at most: one, and one more if no majority answered.
const TRIES: u32 = 2;

/// The longest extra wait after a name was said to be free, so that rivals do not ask all at once. A round of theirs is over
/// in less than that, unless the servers are far away: then it is as long as two rounds.
const JITTER: Duration = Duration::from_millis(20);

/// One acquisition under way.
pub(super) struct Acquisition {
    pub(super) lock: QuorumLock,
    /// What each server's claim is to have.
    pub(super) terms: Vec<Terms>,
    pub(super) ttl: Duration,
    /// How much faster than this machine's a server's clock may run within one ttl.
    pub(super) drift: Duration,
    pub(super) owner: Owner,
    /// `None`: for ever.
    wait: Option<Duration>,
    pub(super) started: Moment,
    /// How long the last round took.
    pub(super) took: Duration,
    /// Why the last round failed, if that was not for others who hold.
    trouble: Option<Error>,
    /// Closing waits for what this acquisition leaves behind.
    _passes: Vec<Pass>,
}

/// What is to be done after a round that granted nothing.
enum Next {
    /// Others hold, perhaps until this moment.
    Wait(Option<Moment>),
    /// Nobody may hold: another round, soon.
    Again,
}

impl Acquisition {
    pub(super) fn new(
        lock: QuorumLock,
        terms: Vec<Terms>,
        owner: Owner,
        wait: Option<Duration>,
    ) -> Result<Self> {
        let passes = lock.nodes.iter().map(|node| node.engine.enter());
        let passes: Vec<Pass> = passes.filter_map(Result::ok).collect();
        if !lock.quorum.is_reached(passes.len()) {
            return Err(Error::Closed);
        }
        let drifts = terms.iter().map(|terms| terms.margin);
        Ok(Self {
            ttl: terms[0].ttl,
            drift: drifts.max().unwrap_or_default(),
            started: lock.first().now(),
            took: Duration::ZERO,
            trouble: None,
            _passes: passes,
            lock,
            terms,
            owner,
            wait,
        })
    }

    pub(super) fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "acquire",
            name = self.lock.name(),
            kind = %self.lock.first().protocol.kind(),
            owner = %self.owner,
            wait = ?self.wait,
        )
    }

    /// Takes the lock now, or not at all.
    pub(super) async fn once(&mut self) -> Result<Option<QuorumHold>> {
        let closed = mostly_closed(self.lock.clone());
        tokio::select! {
            biased;
            () = closed => Err(Error::Closed),
            hold = self.tries() => hold,
        }
    }

    async fn tries(&mut self) -> Result<Option<QuorumHold>> {
        self.departed().await;
        let mut pauses = Pauses::new(self.random());
        let mut tried = 0;
        loop {
            let missed = match self.round().await {
                Ok(hold) => return Ok(Some(hold)),
                Err(missed) => missed,
            };
            tried += 1;
            match missed.failure {
                Failure::Contended(_) => return Ok(None),
                // Servers that have just been started will not have run for long a moment later.
                Failure::Unreachable(Some(_)) => return Err(self.error(&missed)),
                _ if tried >= TRIES => return Err(self.error(&missed)),
                _ => tokio::time::sleep(pauses.next()).await,
            }
        }
    }

    /// Takes the lock, or waits until the time for that is over.
    pub(super) async fn wait(&mut self) -> Result<QuorumHold> {
        let name = self.lock.name().to_owned();
        if let Some(Duration::ZERO) = self.wait {
            let waited = Duration::ZERO;
            return self.once().await?.ok_or(Error::Timeout { name, waited });
        }
        let closed = mostly_closed(self.lock.clone());
        let clock = Arc::clone(self.lock.first().clock());
        let deadline = self.wait.map(|waited| self.started.after(waited));
        let granted = tokio::select! {
            biased;
            () = closed => return Err(Error::Closed),
            outcome = self.until_granted() => Some(outcome),
            () = crate::clock::sleep_until_some(&clock, deadline) => None,
        };
        match (granted, self.trouble.take()) {
            (Some(outcome), _) => outcome,
            // Nobody may hold it: the servers have not said so for some time.
            (None, Some(trouble)) => Err(trouble),
            (None, None) => Err(Error::Timeout {
                name,
                waited: self.wait.unwrap_or_default(),
            }),
        }
    }

    /// Waits until what these clients have given up of the name has left a majority of the servers, for no longer than one
    /// request may take.
    async fn departed(&self) {
        let names: Vec<_> = self
            .lock
            .nodes
            .iter()
            .map(|node| [node.protocol.name()])
            .collect();
        let departing = FuturesUnordered::new();
        for ((node, terms), name) in self.lock.nodes.iter().zip(&self.terms).zip(&names) {
            departing.push(node.engine.departed(name, terms.timeout));
        }
        let mut departing = departing;
        let mut free = 0;
        while !self.lock.quorum.is_reached(free) && departing.next().await.is_some() {
            free += 1;
        }
    }

    async fn until_granted(&mut self) -> Result<QuorumHold> {
        self.departed().await;
        let clock = Arc::clone(self.lock.first().clock());
        let mut pauses = Pauses::new(self.random());
        // Until when a majority may fail to answer, counted from when it first did. Servers that were started again are waited
        // for as long as they take.
        let mut patience = None;
        // Who waits already asks for all of this client: nobody overtakes them.
        let mut watch = Watch::crowded(&self.lock).then(|| self.watch());
        loop {
            if let Some(watch) = &mut watch {
                watch.turn().await?;
            }
            let missed = match self.round().await {
                Ok(hold) => {
                    if let Some(watch) = watch {
                        watch.granted(hold.remaining());
                    }
                    return Ok(hold);
                }
                Err(missed) => missed,
            };
            let now = clock.now();
            let next = match missed.failure {
                // Rivals stood in each other's way; else somebody holds, and the servers know until when.
                Failure::Contended(Some(free)) if free <= now => Next::Again,
                Failure::Contended(free) => {
                    pauses = Pauses::new(self.random());
                    Next::Wait(free)
                }
                Failure::Unreachable(Some(free)) => Next::Wait(Some(free)),
                _ => Next::Again,
            };
            let silent = matches!(missed.failure, Failure::Unreachable(None));
            let ends = silent && now >= *patience.get_or_insert(now.after(self.patience()));
            if !silent {
                patience = None;
            }
            self.trouble = match missed.failure {
                Failure::Contended(_) => None,
                _ => Some(self.error(&missed)),
            };
            let over = |error: &mut Error| ends || !error.is_transient();
            if let Some(error) = self.trouble.take_if(over) {
                return Err(error);
            }
            let watch = watch.get_or_insert_with(|| self.watch());
            match next {
                Next::Again => {
                    watch.looked(None, missed.shut);
                    let pause = pauses.next() + self.jitter();
                    tracing::debug!(?pause, "another round");
                    sleep_until(&clock, clock.now().after(pause)).await;
                    watch.look_now();
                }
                Next::Wait(free) => {
                    let free = free.map(|free| free.since(now) + self.jitter());
                    watch.looked(free, missed.shut);
                }
            }
        }
    }

    /// Waits in the line of every server's client.
    fn watch(&self) -> Watch {
        tracing::debug!("waiting");
        Watch::new(&self.lock, self.owner, self.patience(), self.random())
    }

    /// For how long a majority may fail to answer.
    fn patience(&self) -> Duration {
        patience(self.ttl, self.wait)
    }

    fn random(&self) -> u64 {
        self.lock.first().engine.random()
    }

    fn jitter(&self) -> Duration {
        let most = JITTER.max(self.took * 2).as_micros();
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        Duration::from_micros(self.random() % most)
    }
}

/// Resolves when so many clients are closed that no majority is left.
async fn mostly_closed(lock: QuorumLock) {
    let closing = lock.nodes.iter().map(|node| node.engine.closed());
    let mut closing: FuturesUnordered<_> = closing.collect();
    let mut closed = 0;
    while closing.next().await.is_some() {
        closed += 1;
        if lock.quorum.is_prevented(closed) {
            return;
        }
    }
}
