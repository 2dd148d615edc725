//! The one loop in which every acquisition waits: ask, wait for the turn to ask again, ask again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::acquire::acquisition::Acquisition;
use crate::acquire::stage::{Asked, Busy, Read, Stage};
use crate::acquire::turn::Turn;
use crate::claim::{ReleaseNeeded, Verdict};
use crate::engine::part::Part;
use crate::engine::unreleased::Unreleased;
use crate::grant::hold::Hold;
use crate::schedule::pause::Pauses;
use crate::seam::clock::sleep_until;
use crate::words::answer::Verb;
use crate::words::chance::Purpose;
use crate::words::error::{Error, Result};

/// The longest extra wait after a holder's lease has ended, so that waiters of many clients do not all ask at
/// once.
const JITTER: Duration = Duration::from_millis(50);

impl Acquisition {
    /// Asks, and waits for its turn to ask again, until everything in the stage is held.
    pub(super) async fn until_granted(&mut self) -> Result<Hold> {
        let stage = self.stage();
        let mut told = false;
        if let Some(hold) = self.in_local_queue(&stage, &mut told).await {
            return Ok(hold);
        }
        // If other acquisitions of this client already wait, one of them polls for all. No other may overtake them,
        // except one whose owner already holds.
        let mut turn = Turn::behind_others(&stage, self.chance);
        loop {
            if stage.queues() && self.is_too_late(&stage) {
                // The caller has the same time limit and reports the timeout.
                std::future::pending::<()>().await;
            }
            if let Some(turn) = &mut turn {
                stage.contended.store(true, Ordering::Relaxed);
                self.tell_waiting(&stage, &mut told);
                turn.come(&stage).await?;
            }
            let subscription = Self::expect_grant(&stage);
            match self.look(None, turn.as_ref()).await {
                Ok(Asked::Granted(hold)) => {
                    if let Some(turn) = turn {
                        turn.granted(&stage, &hold);
                    }
                    return Ok(hold);
                }
                Ok(Asked::Busy(busy)) => turn = Some(Turn::after(turn, &stage, self.chance, &busy)),
                Ok(Asked::Apart) => {
                    let message = "the server asks to acquire a single name apart".to_owned();
                    return Err(stage.protocol_error(0, message));
                }
                Ok(Asked::Waiting) => {
                    // The place in the queue is the turn.
                    turn = None;
                    self.tell_waiting(&stage, &mut told);
                    if let Some(hold) = self.in_queue(&stage, subscription).await? {
                        return Ok(hold);
                    }
                }
                Ok(Asked::Done(record)) => {
                    if let Some(turn) = &turn {
                        turn.done(&record);
                    }
                    return Err(stage.done(record));
                }
                Ok(Asked::Again { error, .. }) | Err(error) => {
                    if let (Some(turn), Error::Backend { cause, .. }) = (&turn, &error)
                        && cause.is_transient()
                    {
                        turn.unreachable(cause);
                    }
                    return Err(error);
                }
            }
        }
    }

    fn is_too_late(&self, stage: &Stage) -> bool {
        let end = stage.first().terms.wait_until;
        end.is_some_and(|end| stage.clock().now() >= end)
    }

    /// Reports, once, that the acquisition waits.
    pub(super) fn tell_waiting(&mut self, stage: &Stage, told: &mut bool) {
        if std::mem::replace(told, true) {
            return;
        }
        tracing::debug!(name = stage.name(self.awaited), "waiting");
        if let Some(spec) = stage.specs.get(self.awaited) {
            self.told.waits(spec);
        }
        for spec in &stage.specs {
            spec.engine.subscriptions.introduce();
        }
    }

    /// Makes the claims of the stage if there are none.
    fn arm(&mut self, stage: &Stage) {
        if self.claims.is_empty() {
            // A vector that grows by itself has room for four, and a guard would keep it.
            self.claims = vec![stage.arm()];
        }
    }

    /// The claim of a stage with one part; makes one if there is none.
    pub(super) fn only_claim(&mut self, stage: &Stage) -> Option<Arc<Part>> {
        self.arm(stage);
        self.claims.first().and_then(Unreleased::first).cloned()
    }

    /// Asks until there is an answer. Gives up after `tries` requests, or when the servers have been silent for as long as
    /// the stage's patience. The others that wait for this `turn` are told of each request without an answer.
    ///
    /// Boxed, so that an acquisition needs no memory for a request while it waits.
    pub(super) fn look<'a>(
        &'a mut self,
        tries: Option<u32>,
        turn: Option<&'a Turn>,
    ) -> BoxFuture<'a, Result<Asked>> {
        Box::pin(self.ask_until_answered(tries, turn))
    }

    async fn ask_until_answered(
        &mut self,
        tries: Option<u32>,
        turn: Option<&Turn>,
    ) -> Result<Asked> {
        let stage = self.stage();
        let clock = Arc::clone(stage.clock());
        // When patience ends. With one server it counts from the first request; with several, from when too few answer.
        let mut patience = stage
            .quorum
            .is_none()
            .then(|| clock.now().after(stage.patience));
        let mut pauses = Pauses::new(self.chance.draw(Purpose::Pauses, self.asked));
        let mut tried = 0;
        loop {
            self.asked += 1;
            let asked = match stage.quorum {
                Some(quorum) => self.ask_servers(&stage, quorum, tries.is_some()).await?,
                None => self.ask_server(&stage).await?,
            };
            let (error, silent) = match asked {
                Asked::Again { error, silent } => (Some(error), silent),
                Asked::Busy(Busy {
                    contended: true, ..
                }) if tries.is_none() => (None, false),
                answer => return Ok(answer),
            };
            tried += 1;
            let pause = pauses.next();
            let now = clock.now();
            let end = now.after(stage.patience);
            patience = silent.then(|| patience.unwrap_or(end));
            let last = tries.is_some_and(|tries| tried >= tries);
            // Another request would come too late.
            let too_late = patience.filter(|end| now.after(pause) >= *end);
            if let Some(error) = error {
                if last {
                    return Err(error);
                }
                if let Some(end) = too_late {
                    // Do not fail before the caller's time limit.
                    if tries.is_none() {
                        sleep_until(&clock, end).await;
                    }
                    return Err(error);
                }
                tracing::debug!(%error, ?pause, "asking again");
                self.trouble = Some(error);
                turn.inspect(|turn| turn.silent());
            }
            let jitter = match tries {
                Some(_) => Duration::ZERO,
                None => self.jitter(&stage),
            };
            if tries.is_some() && stage.quorum.is_none() && self.claims.is_empty() {
                // A claim that was granted too late to be used would be in the way of the next.
                Box::pin(self.departed(None)).await;
            }
            tokio::time::sleep(pause + jitter).await;
        }
    }

    /// Asks the one server once, for all parts, with one script.
    async fn ask_server(&mut self, stage: &Stage) -> Result<Asked> {
        if !stage.can_be_asked_for_together() {
            return Ok(Asked::Apart);
        }
        let engine = Arc::clone(&stage.first().engine);
        // If this future is dropped, these are dropped too, and so released.
        self.arm(stage);
        let requester = &engine.requester;
        let parts = self.claims.first().map_or(&[][..], |it| &it.parts);
        let (outcomes, record) = match parts {
            [alone] => loop {
                match requester.exchange_for_record(alone, Verb::Acquire).await {
                    (Ok(Verdict::More), _) => {}
                    (outcome, record) => break (vec![outcome], record),
                }
            },
            all => (requester.exchange_together(all, Verb::Acquire).await, None),
        };
        let needs = parts.len();
        self.trouble = None;
        if let ([Ok(Verdict::Stored)], Some(record)) = (&outcomes[..], record) {
            // A copy of the abandoned request may still be executed.
            self.drop_claims();
            return Ok(Asked::Done(Arc::new(record)));
        }
        let read = stage.read(outcomes).inspect_err(|_| self.drop_claims())?;
        Ok(match read {
            Read::Granted(tokens) => {
                let claims = std::mem::take(&mut self.claims);
                Asked::Granted(Hold::begin(claims, tokens, needs, self.waited()))
            }
            Read::Busy(busy) => {
                stage.contended.store(true, Ordering::Relaxed);
                let mut parts = self.claims.iter().flat_map(|it| &it.parts);
                let nothing_there =
                    parts.all(|part| part.claim().release_needed() == ReleaseNeeded::None);
                if needs > 1 && !nothing_there {
                    // An earlier request without an answer may have acquired some of these claims; they must not outlive the
                    // wait.
                    self.drop_claims();
                }
                let now = stage.clock().now();
                let jitter = self.chance.within(JITTER, Purpose::Jitter, self.asked);
                let until = |left: Duration| now.after(left).after(jitter);
                let busy = busy.into_iter().map(|(spec, left)| (spec, left.map(until)));
                let specs: Vec<_> = busy.collect();
                let until = specs.first().and_then(|(_, until)| *until);
                let contended = false;
                Asked::Busy(Busy {
                    specs,
                    until,
                    contended,
                })
            }
            Read::Apart => {
                self.drop_claims();
                Asked::Apart
            }
            Read::Waiting => Asked::Waiting,
            Read::Spent(error) => {
                self.drop_claims();
                let silent = true;
                Asked::Again { error, silent }
            }
            Read::Silent(error) => {
                let silent = true;
                Asked::Again { error, silent }
            }
        })
    }
}

/// The size of the future of a request, which is boxed. For development only: the tests' ratchet records it.
#[cfg(feature = "mutants")]
pub fn size_of_request() -> usize {
    fn size<'a, F: Future>(_: impl FnOnce(&'a mut Acquisition) -> F) -> usize {
        size_of::<F>()
    }
    size(|acquisition| acquisition.ask_until_answered(None, None))
}
