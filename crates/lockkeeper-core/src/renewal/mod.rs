//! The renewal scheduler, or watchdog: one per client, for all its leases.
//!
//! [`schedule`] decides when; the task here sends. Whoever has changed a claim lets the schedule [follow](Renewals::follow) it,
//! without waking the task unless something is due before everything else. What is due together goes out as batches: one
//! script renews up to a hundred leases, which fail independently.
//!
//! A grant that a message brings is not renewed until its acquisition has taken it, and a wait that is over is given up, so
//! a future that is never polled again keeps nothing for longer than its first hold.

mod batch;
pub(crate) mod schedule;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::claim::{Claim, Verdict};
use crate::clock::{LOOK, Moment, sleep_until_some};
use crate::exchange::{Failed, Line};
use crate::lease::LossReason;
use crate::name::Name;
use crate::observer::LeaseEvent;
use crate::owner::Owner;
use crate::protocol::{Answer, Grant, Verb};
use crate::reaper;
use crate::store::StoreError;
use crate::tenure::Tenure;
use batch::Batch;
use schedule::Schedule;
use state::{State, Word};

/// How many batches are on their way to one server at once. More would only queue before it, and take its time from others.
const ABREAST: usize = 32;

/// The leases of one client.
#[derive(Debug)]
pub(crate) struct Renewals {
    state: Mutex<State>,
    bell: Notify,
    pub(crate) line: Arc<Line>,
    reaper: reaper::Handle,
}

/// What is to be renewed on one server. Each has its own, so that one that is silent delays no other.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Batch>,
    under_way: usize,
}

impl Renewals {
    pub(crate) fn new(line: Arc<Line>, reaper: reaper::Handle) -> Self {
        Self {
            state: Mutex::default(),
            bell: Notify::new(),
            line,
            reaper,
        }
    }

    /// Keeps a lease that has been granted: somebody is there who uses it, or will once it is confirmed.
    pub(crate) fn add(&self, tenure: &Arc<Tenure>) {
        tenure.set_taken();
        self.schedule(|state, now| {
            state.follow_grant(tenure, now);
            state.grant_was_late(tenure);
        });
    }

    fn follow_grant(&self, tenure: &Arc<Tenure>) {
        self.schedule(|state, now| state.follow_grant(tenure, now));
    }

    /// Lets a claim beat that waits in a queue. A grant that a message tells of is found by it.
    pub(crate) fn wait(&self, tenure: &Arc<Tenure>) {
        self.expect(tenure);
        self.schedule(|state, now| state.follow(tenure, now, now));
    }

    /// Changes what is to be done, and rings if any of it is due before what the task sleeps for.
    fn schedule(&self, change: impl FnOnce(&mut State, Moment)) {
        let now = self.line.clock.now();
        let earlier = self.with(|state| {
            change(state, now);
            let asks = !state.questions.is_empty();
            asks || state.schedule.next() < state.armed || state.armed.is_none()
        });
        if earlier {
            self.bell.notify_one();
        }
    }

    /// Expects a message that tells of the claim's grant. It may come before the answer that says that the claim waits.
    pub(crate) fn expect(&self, tenure: &Arc<Tenure>) {
        let claim = tenure.id.as_str().into();
        self.with(|state| state.expected.insert(claim, Arc::clone(tenure)));
    }

    /// The claims of `owner` that wait for `name`.
    pub(crate) fn waiting(&self, name: &Name, owner: &Owner) -> Vec<String> {
        self.with(|state| {
            let of_owner = |tenure: &&Arc<Tenure>| {
                tenure.id.owner() == *owner && tenure.protocol.name() == name
            };
            let waiting = state.expected.values().filter(of_owner);
            waiting.map(|tenure| tenure.id.to_string()).collect()
        })
    }

    /// Lets the claim beat now, or as soon as the beat is answered that is on its way.
    pub(crate) fn hurry(&self, tenure: &Tenure) {
        let now = self.line.clock.now();
        tenure.claim().doubt_place();
        self.with(|state| state.schedule.hurry(tenure.number, now));
        self.bell.notify_one();
    }

    /// A message has told of a grant.
    pub(crate) fn granted(&self, grant: Grant<'_>) {
        let tenure = self.with(|state| state.expected.get(grant.claim).cloned());
        let Some(tenure) = tenure.filter(|_| !mutant!(DeafToGrants)) else {
            return;
        };
        match self
            .line
            .granted_by_message(&tenure, grant.token, grant.request)
        {
            Verdict::Granted(_) => self.follow_grant(&tenure),
            Verdict::Hint => self.hurry(&tenure),
            verdict => {
                tracing::debug!(claim = %tenure.id, ?verdict, "a message of a grant changes nothing");
            }
        }
    }

    /// Keeps a lease no longer.
    pub(crate) fn remove(&self, tenure: &Tenure) {
        self.with(|state| state.forget(tenure));
    }

    /// Whether there is no lease.
    pub(crate) fn is_empty(&self) -> bool {
        self.with(|state| state.tenures.is_empty())
    }

    /// Ends the lease of a claim before its time; `change` says how. If there is none, or the claim still waits, it is
    /// remembered: the word may have overtaken the answer of the grant, for they come by different connections.
    pub(crate) fn end(&self, claim: &str, change: Word) {
        let tenure = self.with(|state| state.find(claim));
        let holds = |tenure: &Arc<Tenure>| tenure.claim().token().is_some();
        if let Some(tenure) = tenure.as_ref().filter(|tenure| holds(tenure)) {
            return self.lose(tenure, change);
        }
        self.with(|state| state.remember(claim, change));
        // Granted meanwhile, after its holder has looked for what was said.
        if let Some(tenure) = tenure.filter(holds) {
            self.heed(&tenure);
        }
    }

    /// Does what was said of a claim before its grant was known here.
    pub(crate) fn heed(&self, tenure: &Tenure) {
        let early = self.with(|state| state.remembered(tenure.id.as_str()));
        if let Some(change) = early {
            self.lose(tenure, change);
        }
    }

    fn lose(&self, tenure: &Tenure, change: Word) {
        if let Some(reason) = tenure.lose(change) {
            self.remove(tenure);
            report_lost(&self.line, tenure, reason);
        }
    }

    /// Messages may have been missed and the server may be another: renew everything now.
    pub(crate) fn all_due(&self) {
        let now = self.line.clock.now();
        self.with(|state| state.schedule.all_due(now));
        self.bell.notify_one();
    }

    /// From now on this client hears what is said of the claims of `client`'s owners; before that it may have missed something.
    pub(crate) fn hears(&self, client: Uuid) {
        let now = self.line.clock.now();
        self.with(|state| state.hears(client, now));
        self.bell.notify_one();
    }

    /// Asks whether a claim holds.
    async fn ask(&self, tenure: &Tenure) {
        let answer = self.line.verify(tenure).await;
        // Of one whose place another takes, the server may know the other already.
        if !tenure.claim().is_held_alone() {
            return;
        }
        match answer {
            Ok(Answer::Gone) => self.lose(tenure, Claim::seen_gone),
            Ok(Answer::Revoked) => self.lose(tenure, Claim::revoke),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(claim = %tenure.id, %error, "nobody knows whether it was revoked");
            }
        }
    }

    /// Gives every lease up, to be lost to its holder and to expire on the server; how many those were.
    pub(crate) fn forsake_all(&self) -> usize {
        let now = self.line.clock.now();
        let tenures = self.with(|state| {
            state.schedule = Schedule::default();
            state.expected.clear();
            std::mem::take(&mut state.tenures)
        });
        let (taken, untaken): (Vec<_>, Vec<_>) = tenures
            .values()
            .partition(|tenure| !tenure.end_untaken(now));
        for tenure in untaken {
            self.leave_for(tenure);
        }
        // All of them before the first is told of: with one that is lost those that are held with it are let go.
        let forsaken = |tenure: &&Arc<Tenure>| tenure.forsake(now);
        let forsaken: Vec<_> = taken.into_iter().filter(forsaken).collect();
        for tenure in &forsaken {
            report_lost(&self.line, tenure, LossReason::ClientClosed);
        }
        forsaken.len()
    }

    /// Leaves for a claim that has ended and that nobody else leaves for.
    fn leave_for(&self, tenure: &Arc<Tenure>) {
        if tenure.take_departure() {
            self.reaper.post(&self.line, vec![Arc::clone(tenure)]);
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Renews what is due and ends what has run out, until dropped.
    pub(crate) async fn run(&self) {
        let mut lanes: BTreeMap<u32, Lane> = BTreeMap::new();
        let mut under_way: FuturesUnordered<BoxFuture<'_, Option<u32>>> = FuturesUnordered::new();
        loop {
            let questions = self.with(|state| std::mem::take(&mut state.questions));
            if !questions.is_empty() {
                under_way.push(Box::pin(async move {
                    let ask = async |tenure: Arc<Tenure>| self.ask(&tenure).await;
                    let asked = stream::iter(questions);
                    asked.for_each_concurrent(ABREAST, ask).await;
                    None
                }));
            }
            for (server, batch) in self.take_due() {
                lanes.entry(server).or_default().waiting.push_back(batch);
            }
            for (&server, lane) in &mut lanes {
                while lane.under_way < ABREAST
                    && let Some(batch) = lane.waiting.pop_front()
                {
                    lane.under_way += 1;
                    under_way.push(Box::pin(async move {
                        self.renew(batch).await;
                        Some(server)
                    }));
                }
            }
            lanes.retain(|_, lane| lane.under_way > 0);
            let now = self.line.clock.now();
            let (armed, failures) = self.with(|state| {
                let failures = state.failures.take_due(now);
                // If leases have come since the last look, it looks again soon even with none left: locks that are taken
                // and let go in quick succession would else wake the task each time.
                let soon = (!state.idle).then(|| now.after(LOOK));
                let next = state.schedule.next();
                state.idle = next.is_none();
                let next = next.or(soon).into_iter();
                state.armed = next.chain(state.failures.next()).min();
                (state.armed, failures)
            });
            for (error, renewals) in failures {
                tracing::warn!(renewals, error, "uncertain: renewals failed");
            }
            tokio::select! {
                biased;
                () = self.bell.notified() => {}
                Some(server) = under_way.next() => {
                    if let Some(lane) = server.and_then(|server| lanes.get_mut(&server)) {
                        lane.under_way -= 1;
                    }
                }
                () = sleep_until_some(&self.line.clock, armed) => {}
            }
        }
    }

    /// Ends what has run out, and gathers what is due.
    fn take_due(&self) -> impl Iterator<Item = (u32, Batch)> + use<> {
        let now = self.line.clock.now();
        let (overdue, mut due) = self.with(|state| {
            let overdue = state.schedule.take_overdue(now).into_iter();
            let overdue: Vec<_> = overdue.filter_map(|id| state.tenures.remove(&id)).collect();
            let due = state.schedule.take_due(now).into_iter();
            let due: Vec<_> = due
                .filter_map(|id| state.tenures.get(&id).cloned())
                .collect();
            (overdue, due)
        });
        for tenure in overdue {
            self.end_overdue(&tenure, now);
        }
        due.retain(|tenure| {
            if tenure.is_remnant() {
                self.remove(tenure);
                false
            } else if tenure.claim().token().is_some() && !tenure.is_in_use() {
                // Granted since the beat was scheduled.
                self.follow_grant(tenure);
                false
            } else {
                true
            }
        });
        batch::gather(&self.line.store, due)
    }

    /// The time of the claim is over: that of its lease, or that of its wait.
    fn end_overdue(&self, tenure: &Arc<Tenure>, now: Moment) {
        if tenure.end_untaken(now) {
            // Nobody has polled its acquisition, and nobody may ever do so again.
            self.remove(tenure);
            self.leave_for(tenure);
            return;
        }
        let lost = tenure.lose(|claim| {
            claim.expire(now);
        });
        if let Some(reason) = lost {
            report_lost(&self.line, tenure, reason);
        }
        // It may have been renewed meanwhile by somebody else than this task.
        self.schedule(|state, now| state.follow(tenure, now, now));
    }

    /// Does for a batch what it is for. One that the server refuses as a whole is halved until it is clear which claim is to
    /// blame.
    async fn renew(&self, batch: Batch) {
        let Batch { verb, tenures } = batch;
        let mut batches = vec![tenures];
        while let Some(mut batch) = batches.pop() {
            let sent = self.line.clock.now();
            let outcomes = match (&batch[..], verb) {
                ([alone], Verb::Acquire) => vec![self.line.exchange(alone, verb).await],
                _ => self.line.renew(&batch, verb).await,
            };
            let refused = |outcome: &Result<Verdict, Failed>| matches!(outcome, Err(Failed::Store(error)) if error.blames_request());
            // Those that have ended meanwhile say nothing about the rest.
            let over = |outcome: &Result<Verdict, Failed>| {
                matches!(outcome, Err(Failed::Forbidden(_)) | Ok(Verdict::Stale))
            };
            let whole = outcomes
                .iter()
                .all(|outcome| refused(outcome) || over(outcome));
            if batch.len() > 1 && whole && outcomes.iter().any(refused) {
                let half = batch.split_off(batch.len() / 2);
                batches.extend([half, batch]);
                continue;
            }
            for (tenure, outcome) in batch.iter().zip(outcomes) {
                self.settle(tenure, verb, sent, outcome);
            }
        }
    }

    /// A silent server fails every lease every few seconds: one line for each cause says so, and later ones how often.
    fn log_failure(&self, tenure: &Tenure, error: &StoreError) {
        let (name, claim) = (tenure.protocol.name().as_str(), &tenure.id);
        let now = self.line.clock.now();
        if self.with(|state| state.failures.count(&error.to_string(), now)) {
            tracing::warn!(name, %claim, %error, "uncertain: a renewal failed");
        } else {
            tracing::debug!(name, %claim, %error, "uncertain: a renewal failed");
        }
    }

    fn settle(
        &self,
        tenure: &Arc<Tenure>,
        verb: Verb,
        sent: Moment,
        outcome: Result<Verdict, Failed>,
    ) {
        let failed = || self.with(|state| state.schedule.failed(tenure.number, sent));
        match outcome {
            Ok(Verdict::Renewed) => {
                tracing::trace!(name = tenure.protocol.name().as_str(), claim = %tenure.id, "renewed");
                let deadline = tenure.claim().deadline();
                if !tenure.is_in_use() {
                    self.follow_grant(tenure);
                } else if let Some(deadline) = deadline {
                    self.with(|state| state.schedule.renewed(tenure.number, sent, deadline));
                }
            }
            Ok(Verdict::Lost(reason)) => {
                self.remove(tenure);
                report_lost(&self.line, tenure, reason);
            }
            Ok(Verdict::Granted(_)) => self.follow_grant(tenure),
            Ok(Verdict::Waiting(_)) => {
                let now = self.line.clock.now();
                self.with(|state| state.waits_on(tenure, sent, now));
            }
            // A message has told of the grant meanwhile, and the schedule knows.
            Ok(Verdict::More) | Err(Failed::Forbidden(_))
                if verb == Verb::Beat && tenure.claim().deadline().is_some() => {}
            Ok(Verdict::More) => {
                failed();
                self.hurry(tenure);
            }
            // It has lost its place.
            Ok(Verdict::Spent) => self.remove(tenure),
            Ok(verdict) => {
                tracing::debug!(name = tenure.protocol.name().as_str(), claim = %tenure.id, ?verdict, "renewal without effect");
                failed();
            }
            // It belongs to a lease that has ended, or whose deadline is about to end it.
            Err(Failed::Forbidden(_)) => failed(),
            Err(Failed::Store(error)) => {
                self.log_failure(tenure, &error);
                failed();
            }
        }
    }
}

/// Tells that a lease is lost, and ends belief in what it held together with.
pub(crate) fn report_lost(line: &Line, tenure: &Tenure, reason: LossReason) {
    tracing::warn!(name = tenure.protocol.name().as_str(), claim = %tenure.id, %reason, "lost");
    line.observed.tell(tenure, LeaseEvent::Lost(reason));
    if let Some(whole) = tenure.whole() {
        whole.break_up();
    }
}
