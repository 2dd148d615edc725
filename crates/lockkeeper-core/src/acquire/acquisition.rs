//! An acquisition in progress. It acquires its stages one after the other, and holds the earlier ones meanwhile. Most
//! acquisitions have one stage with one claim. A stage of several names first asks for all of them together; if that
//! fails, it acquires them one after the other, like stages of their own.
//!
//! If a stage is lost while the rest is acquired, the acquisition starts again with new claims. The claims, and the
//! duty to release them, exist before the first byte is sent. So if the future is dropped, at whatever await point, its
//! claims hold nothing for longer than one ttl.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join, join_all, select_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

use crate::acquire::options::{Options, check_note};
use crate::acquire::plan::Plan;
use crate::acquire::stage::{Asked, Stage, TRIES};
use crate::acquire::told::Told;
use crate::admin::inspection;
use crate::engine::part::Part;
use crate::engine::pass::Pass;
use crate::engine::unreleased::Unreleased;
use crate::grant::hold::Hold;
use crate::seam::clock::{Clock, sleep_until, sleep_until_some};
use crate::seam::observer::AcquisitionOutcome;
use crate::words::chance::Chance;
use crate::words::error::{Error, Result};
use crate::words::holder::Holder;
use crate::words::moment::Moment;
use crate::words::owner::ClaimId;

/// How long an acquisition that has timed out waits for the withdrawal of its claim before it returns the error. Without
/// this wait, the claim could be granted after the caller has seen the timeout. Long compared with a healthy round
/// trip, short compared with a wait.
const WITHDRAWAL: Duration = Duration::from_millis(100);

/// See the module documentation.
pub(super) struct Acquisition {
    pub(super) stages: Vec<Arc<Stage>>,
    /// The current stage, or the one of its names that is being acquired by itself.
    under_way: Arc<Stage>,
    /// Its claims: replaced by new ones when they are used up, empty before the first request.
    pub(super) claims: Vec<Unreleased>,
    /// When the current stage began, by its own clock.
    pub(super) stage_began: Moment,
    /// The index of the name that it waits for.
    pub(super) awaited: usize,
    /// Why the last request did not show who holds; `None` if it did.
    pub(super) trouble: Option<Error>,
    /// How long the last round took, for a lock on several servers.
    pub(super) took: Duration,
    /// What the earlier stages hold.
    held: Vec<Hold>,
    /// How long the names stay unavailable to others once everything is held; and how many replicas must have the grant.
    pub(super) min_hold: Option<Duration>,
    pub(super) replicas: u32,
    /// `None`: without limit.
    pub(super) wait: Option<Duration>,
    started: Moment,
    pub(super) chance: Chance,
    /// How many requests, or rounds of requests, it has made.
    pub(super) asked: u64,
    pub(super) told: Told,
    /// Dropped after the claims, which post their releases: closing waits for both.
    _passes: Vec<Pass>,
}

impl Acquisition {
    /// Checks the plan and its options before anything is sent. An acquisition that does not wait joins no queue.
    pub(super) fn new(
        plan: &Plan,
        options: Options,
        note: Option<Arc<str>>,
        waits: bool,
    ) -> Result<Self> {
        let note = note.filter(|note| !note.is_empty());
        if let Some(note) = &note {
            check_note(note)?;
        }
        let wait = options.wait.longest();
        let waits = waits && wait.is_none_or(|wait| !wait.is_zero());
        let (stages, min_hold) = Stage::of_plan(plan, &options, note.as_ref(), wait, waits)?;
        let mut passes = Vec::new();
        for stage in &stages {
            passes.extend(stage.enter()?);
        }
        let Some(first) = stages.first().cloned() else {
            return Err(Error::config("there is no lock to acquire"));
        };
        let started = first.clock().now();
        let told = Told::begin(&stages);
        let chance = first.first().engine.new_chance();
        Ok(Self {
            stages,
            under_way: first,
            claims: Vec::new(),
            stage_began: started,
            awaited: 0,
            trouble: None,
            took: Duration::ZERO,
            held: Vec::new(),
            min_hold,
            replicas: options.min_replicas,
            wait: if waits { wait } else { Some(Duration::ZERO) },
            started,
            chance,
            asked: 0,
            told,
            _passes: passes,
        })
    }

    pub(super) fn span(&self) -> tracing::Span {
        let wait = self.wait;
        match &self.stages[..] {
            [stage] if stage.is_of_one_name() => {
                let spec = stage.first();
                let (protocol, owner) = (&spec.protocol, spec.owner);
                let (name, kind) = (protocol.name().as_str(), protocol.kind());
                tracing::info_span!("acquire", name, %kind, %owner, ?wait)
            }
            stages => {
                let names: Vec<&str> = stages.iter().flat_map(|it| it.names()).collect();
                tracing::info_span!("acquire_all", ?names, ?wait)
            }
        }
    }

    pub(super) fn stage(&self) -> Arc<Stage> {
        Arc::clone(&self.under_way)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(self.stages[0].clock())
    }

    /// How long the acquisition has taken so far.
    pub(super) fn waited(&self) -> Duration {
        self.stages[0].clock().now().since(self.started)
    }

    /// Reports how the acquisition ended. Only the first end is reported.
    pub(super) fn is_over(&mut self, outcome: AcquisitionOutcome) {
        if self.told.is_heard() {
            self.told.end(outcome, self.waited());
        }
    }

    /// Asks for each stage once. Returns `None` if another claim holds one of the names, after sending releases of the
    /// earlier stages.
    pub(super) async fn once(&mut self) -> Result<Option<Hold>> {
        let closed = until_closed(&self.stages);
        tokio::select! {
            biased;
            () = closed => Err(Error::Closed),
            hold = async {
                match self.ask_once().await? {
                    Some(hold) => self.confirmed(hold).await.map(Some),
                    None => Ok(None),
                }
            } => hold,
        }
    }

    async fn ask_once(&mut self) -> Result<Option<Hold>> {
        self.departed(None).await;
        let mut stages: VecDeque<Arc<Stage>> = self.stages.iter().cloned().collect();
        while let Some(stage) = stages.pop_front() {
            self.begin(Arc::clone(&stage));
            let renewed = renewed_while_polled(&self.held);
            let asked = tokio::select! {
                biased;
                never = renewed => match never {},
                asked = self.look(Some(TRIES), None) => asked?,
            };
            match asked {
                Asked::Granted(hold) => self.held.push(hold),
                Asked::Waiting => {
                    let message = "the server queued a request that must not wait".to_owned();
                    return Err(stage.protocol_error(0, message));
                }
                Asked::Apart => stage.apart().rev().for_each(|it| stages.push_front(it)),
                Asked::Busy(busy) => {
                    self.awaited = busy.first();
                    self.give_back().await;
                    return Ok(None);
                }
                Asked::Done(record) => return Err(stage.done(record)),
                Asked::Again { error, .. } => return Err(error),
            }
        }
        self.complete().map(Some)
    }

    /// Waits until everything is held, or until the time to wait is over.
    pub(super) async fn wait(&mut self) -> Result<Hold> {
        let Some(waited) = self.wait else {
            let closed = until_closed(&self.stages);
            return tokio::select! {
                biased;
                () = closed => Err(Error::Closed),
                hold = async {
                    let hold = self.until_complete().await?;
                    self.confirmed(hold).await
                } => hold,
            };
        };
        if waited.is_zero() {
            let hold = self.once().await?;
            return hold.ok_or_else(|| self.timeout(waited, None, None));
        }
        let (clock, deadline) = (self.clock(), self.started.after(waited));
        let closed = until_closed(&self.stages);
        let complete = tokio::select! {
            biased;
            () = closed => Some(Err(Error::Closed)),
            outcome = self.until_complete() => Some(outcome),
            () = sleep_until_some(&clock, Some(deadline)) => None,
        };
        match complete {
            // The confirmation by replicas may take longer than the time to wait: the lock is already held.
            Some(Ok(hold)) => {
                let closed = until_closed(&self.stages);
                tokio::select! {
                    biased;
                    () = closed => Err(Error::Closed),
                    hold = self.confirmed(hold) => hold,
                }
            }
            Some(Err(error)) => Err(error),
            None => {
                // A silent server cannot say who holds the lock, and would not confirm the withdrawal in time.
                let silent = self.trouble.is_some();
                let own = self.claims.iter().flat_map(|it| &it.parts);
                let own: Vec<ClaimId> = own.map(|part| part.id.clone()).collect();
                let place = self.claims.first().and_then(|it| it.first()?.place());
                self.let_go();
                let holder = match silent {
                    true => None,
                    // Boxed, so that an acquisition needs no memory for this while it waits.
                    false => {
                        let asked = Box::pin(self.in_the_way(&own));
                        join(asked, self.departed(Some(WITHDRAWAL))).await.0
                    }
                };
                Err(self.timeout(waited, holder, place))
            }
        }
    }

    /// Acquires stage after stage. A loss on the way starts again with new claims.
    async fn until_complete(&mut self) -> Result<Hold> {
        self.departed(None).await;
        loop {
            if !self.all_stages().await? {
                self.let_go();
                continue;
            }
            match self.complete() {
                Err(error @ Error::Lost { .. }) => {
                    tracing::debug!(%error, "lost a member while acquiring the others; starting again");
                }
                outcome => return outcome,
            }
        }
    }

    /// Acquires stage after stage; returns false if a loss stopped it.
    async fn all_stages(&mut self) -> Result<bool> {
        let mut stages: VecDeque<Arc<Stage>> = self.stages.iter().cloned().collect();
        while let Some(stage) = stages.pop_front() {
            self.begin(Arc::clone(&stage));
            let (lost, renewed) = (first_ended(&self.held), renewed_while_polled(&self.held));
            let granted = tokio::select! {
                biased;
                () = lost => return Ok(false),
                never = renewed => match never {},
                granted = self.until_granted_or_apart(&stage) => granted?,
            };
            match granted {
                Some(hold) => self.held.push(hold),
                None => stage.apart().rev().for_each(|it| stages.push_front(it)),
            }
        }
        Ok(true)
    }

    /// Waits until the stage is held; `None` if it has several names and one script cannot acquire all of them now.
    async fn until_granted_or_apart(&mut self, stage: &Stage) -> Result<Option<Hold>> {
        if !stage.is_of_several() {
            return self.until_granted().await.map(Some);
        }
        if stage.is_crowded() {
            // Do not overtake waiters of this client that poll one of the names.
            return Ok(None);
        }
        match self.look(None, None).await? {
            Asked::Granted(hold) => Ok(Some(hold)),
            Asked::Again { error, .. } => Err(error),
            Asked::Done(record) => Err(stage.done(record)),
            Asked::Busy(_) | Asked::Apart | Asked::Waiting => Ok(None),
        }
    }

    fn begin(&mut self, stage: Arc<Stage>) {
        self.drop_claims();
        self.trouble = None;
        self.awaited = 0;
        self.stage_began = stage.clock().now();
        self.under_way = stage;
    }

    /// Drops the claims of the stage, and so releases them.
    pub(super) fn drop_claims(&mut self) {
        let dropped = std::mem::take(&mut self.claims);
        self.keep_floors(dropped.iter().flat_map(|it| &it.parts));
    }

    /// The claims that hold so far.
    fn held_parts(&self) -> impl Iterator<Item = &Arc<Part>> {
        let parts = self.held.iter().flat_map(Hold::parts_and_engines);
        parts.map(|(part, _)| part)
    }

    /// Keeps the floors of the first claims of the acquisition. A later claim of the same owner may be granted beside one of these that is not
    /// released yet; then it has that one's token, which this client has seen.
    fn keep_floors<'a>(&self, parts: impl Iterator<Item = &'a Arc<Part>>) {
        for part in parts {
            let stages = self.stages.iter().chain([&self.under_way]);
            let specs = stages.flat_map(|stage| &stage.specs);
            for spec in specs.filter(|spec| spec.asked_by(part)) {
                if let Some(floor) = part.floor.get() {
                    spec.floor.set(floor);
                }
            }
        }
    }

    /// Joins everything that is held into one hold.
    fn complete(&mut self) -> Result<Hold> {
        let several = self.held.len() > 1 || self.stages[0].is_of_several();
        if several {
            // One of them may have been lost, and then all are asked for again.
            self.keep_floors(self.held_parts());
        }
        let mut held = std::mem::take(&mut self.held);
        for (part, _) in held.iter().flat_map(Hold::parts_and_engines) {
            part.change(|claim| claim.renew_until(None));
        }
        match held.pop() {
            Some(hold) if !several => Ok(hold),
            last => {
                held.extend(last);
                Hold::join(held, self.min_hold.filter(|_| self.replicas == 0))
            }
        }
    }

    /// Releases what the earlier stages hold, and waits for the servers to confirm it, for no longer than a release
    /// may take.
    async fn give_back(&mut self) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty()
            && let Ok(held) = Hold::join(held, None)
            && let Err(error) = Box::pin(held.release()).await
        {
            tracing::debug!(%error, "a partly acquired lock was not released; it is released in the background");
        }
    }

    /// Gives up everything, in the background.
    fn let_go(&mut self) {
        self.drop_claims();
        self.keep_floors(self.held_parts());
        while let Some(last) = self.held.pop() {
            drop(last);
        }
    }

    /// Waits until this client's own pending releases of the names are done, so that it does not compete with itself:
    /// for `longest` each, or for one request's timeout. It does not wait for releases that take longer, for example on
    /// a silent server.
    pub(super) async fn departed(&self, longest: Option<Duration>) {
        let left: Vec<_> = self.stages.iter().filter(|it| it.is_being_left()).collect();
        if !left.is_empty() {
            Box::pin(join_all(left.iter().map(|it| it.departed(longest)))).await;
        }
    }

    /// Builds the error for an acquisition whose time to wait is over: what it waited for, or why that is unknown.
    fn timeout(&mut self, waited: Duration, holder: Option<Holder>, place: Option<u64>) -> Error {
        self.trouble.take().unwrap_or_else(|| Error::Timeout {
            name: self.under_way.name(self.awaited),
            waited,
            holder: holder.map(Box::new),
            place,
        })
    }

    /// Who holds the awaited lock, apart from these claims. `None` if the server does not answer soon, if this client
    /// already asks too many such questions, and for a lock on several servers, where no single server knows.
    async fn in_the_way(&self, own: &[ClaimId]) -> Option<Holder> {
        let stage = &self.under_way;
        if stage.quorum.is_some() {
            return None;
        }
        let spec = stage
            .specs
            .get(self.awaited)
            .unwrap_or_else(|| stage.first());
        let _one_of_few = spec.engine.looks.try_acquire().ok()?;
        inspection::in_the_way(&spec.engine, &*spec.protocol, own, WITHDRAWAL).await
    }
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        self.let_go();
        self.is_over(AcquisitionOutcome::Abandoned);
    }
}

/// Resolves when too many clients are closed to acquire one of the stages.
fn until_closed(stages: &[Arc<Stage>]) -> impl Future<Output = ()> + Send + use<> {
    match stages {
        [stage] if stage.quorum.is_none() => stage.first().engine.until_closed().left_future(),
        stages => {
            let closed: Vec<_> = stages
                .iter()
                .map(|it| is_closed(Arc::clone(it)).boxed())
                .collect();
            select_all(closed).map(drop).right_future()
        }
    }
}

async fn is_closed(stage: Arc<Stage>) {
    let mut closing: FuturesUnordered<_> = stage.engines().map(|it| it.closed()).collect();
    let mut closed = 0;
    while closed <= stage.may_be_closed() && closing.next().await.is_some() {
        closed += 1;
    }
}

/// Resolves when one of the holds has ended; never if there is none. Boxed, like
/// [`renewed_while_polled`], so that a wait for one name needs no memory for it.
fn first_ended(held: &[Hold]) -> BoxFuture<'static, ()> {
    if held.is_empty() {
        return pending().boxed();
    }
    let ended: Vec<_> = held.iter().map(|hold| hold.ended()).collect();
    select_all(ended).map(drop).boxed()
}

/// Keeps the earlier stages for one waiter ttl after the last poll, because a future that is not polled again must not hold
/// them for ever and keep all others out. Never resolves.
fn renewed_while_polled(held: &[Hold]) -> BoxFuture<'static, Infallible> {
    let parts = held.iter().flat_map(Hold::parts_and_engines);
    let parts: Vec<_> = parts.map(|(part, _)| Arc::clone(part)).collect();
    let shortest = parts.iter().map(|part| part.terms.waiter_ttl).min();
    let clock = parts.first().map(|part| Arc::clone(&part.requester.clock));
    let (Some(clock), Some(shortest)) = (clock, shortest) else {
        return pending().boxed();
    };
    let renewed = async move {
        loop {
            for part in &parts {
                let end = part.now().after(part.terms.waiter_ttl);
                part.change(|claim| claim.renew_until(Some(end)));
            }
            sleep_until(&clock, clock.now().after(shortest / 3)).await;
        }
    };
    renewed.boxed()
}
