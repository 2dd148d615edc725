//! The renewer, or watchdog: one per client, for all its leases.
//!
//! [`schedule`](crate::schedule) decides when; the task here sends. Whoever has changed a claim lets the schedule [follow](Renewer::follow) it,
//! without waking the task unless something is due before everything else. What is due together goes out as batches: one
//! script renews up to a hundred leases, which fail independently.
//!
//! A grant that a message brings is not renewed until its acquisition has taken it, and a wait that is over is given up, so
//! a future that is never polled again keeps nothing for longer than its first hold.

mod batch;
pub(crate) mod state;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::claim::{Claim, Verdict};
use crate::engine::part::Part;
use crate::engine::posts::Releaser;
use crate::engine::requester::{Failed, Requester};
use crate::schedule::Schedule;
use crate::seam::clock::{LOOK, sleep_until_some};
use crate::seam::observer::LeaseEvent;
use crate::seam::protocol::Grant;
use crate::words::answer::{Answer, Verb};
use crate::words::ending::LossReason;
use crate::words::moment::Moment;
use crate::words::name::Name;
use crate::words::owner::Owner;
use crate::words::store_error::StoreError;
use batch::Batch;
use state::{State, Word};

/// How many batches are on their way to one server at once. More would only queue before it, and take its time from others.
const ABREAST: usize = 32;

/// The leases of one client.
#[derive(Debug)]
pub(crate) struct Renewer {
    state: Mutex<State>,
    bell: Notify,
    pub(crate) requester: Arc<Requester>,
    releaser: Releaser,
}

/// What is to be renewed on one server. Each has its own, so that one that is silent delays no other.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Batch>,
    under_way: usize,
}

impl Renewer {
    pub(crate) fn new(requester: Arc<Requester>, releaser: Releaser) -> Self {
        Self {
            state: Mutex::default(),
            bell: Notify::new(),
            requester,
            releaser,
        }
    }

    /// Keeps a lease that has been granted: somebody is there who uses it, or will once it is confirmed.
    pub(crate) fn add(&self, part: &Arc<Part>) {
        part.set_taken();
        self.schedule(|state, now| {
            state.follow_grant(part, now);
            state.grant_was_late(part);
        });
    }

    fn follow_grant(&self, part: &Arc<Part>) {
        self.schedule(|state, now| state.follow_grant(part, now));
    }

    /// Lets a claim beat that waits in a queue. A grant that a message tells of is found by it.
    pub(crate) fn wait(&self, part: &Arc<Part>) {
        self.expect(part);
        self.schedule(|state, now| state.follow(part, now, now));
    }

    /// Changes what is to be done, and rings if any of it is due before what the task sleeps for.
    fn schedule(&self, change: impl FnOnce(&mut State, Moment)) {
        let now = self.requester.clock.now();
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
    pub(crate) fn expect(&self, part: &Arc<Part>) {
        let claim = part.id.as_str().into();
        self.with(|state| state.expected.insert(claim, Arc::clone(part)));
    }

    /// The claims of `owner` that wait for `name`.
    pub(crate) fn waiting(&self, name: &Name, owner: &Owner) -> Vec<String> {
        self.with(|state| {
            let of_owner =
                |part: &&Arc<Part>| part.id.owner() == *owner && part.protocol.name() == name;
            let waiting = state.expected.values().filter(of_owner);
            waiting.map(|part| part.id.to_string()).collect()
        })
    }

    /// Lets the claim beat now, or as soon as the beat is answered that is on its way.
    pub(crate) fn hurry(&self, part: &Part) {
        let now = self.requester.clock.now();
        part.claim().doubt_place();
        self.with(|state| state.schedule.hurry(part.number, now));
        self.bell.notify_one();
    }

    /// A message has told of a grant.
    pub(crate) fn granted(&self, grant: Grant<'_>) {
        let part = self.with(|state| state.expected.get(grant.claim).cloned());
        let Some(part) = part.filter(|_| !mutant!(DeafToGrants)) else {
            return;
        };
        match self
            .requester
            .granted_by_message(&part, grant.token, grant.request)
        {
            Verdict::Granted(_) => self.follow_grant(&part),
            Verdict::Recheck => self.hurry(&part),
            verdict => {
                tracing::debug!(claim = %part.id, ?verdict, "a message of a grant changes nothing");
            }
        }
    }

    /// Keeps a lease no longer.
    pub(crate) fn remove(&self, part: &Part) {
        self.with(|state| state.forget(part));
    }

    /// Whether there is no lease.
    pub(crate) fn is_empty(&self) -> bool {
        self.with(|state| state.parts.is_empty())
    }

    /// Ends the lease of a claim before its time; `change` says how. If there is none, or the claim still waits, it is
    /// remembered: the word may have overtaken the answer of the grant, for they come by different connections.
    pub(crate) fn end(&self, claim: &str, change: Word) {
        let part = self.with(|state| state.find(claim));
        let holds = |part: &Arc<Part>| part.claim().token().is_some();
        if let Some(part) = part.as_ref().filter(|part| holds(part)) {
            return self.lose(part, change);
        }
        self.with(|state| state.remember(claim, change));
        // Granted meanwhile, after its holder has looked for what was said.
        if let Some(part) = part.filter(holds) {
            self.heed(&part);
        }
    }

    /// Does what was said of a claim before its grant was known here.
    pub(crate) fn heed(&self, part: &Part) {
        let early = self.with(|state| state.remembered(part.id.as_str()));
        if let Some(change) = early {
            self.lose(part, change);
        }
    }

    fn lose(&self, part: &Part, change: Word) {
        if let Some(reason) = part.lose(change) {
            self.remove(part);
            report_lost(part, reason);
        }
    }

    /// Messages may have been missed and the server may be another: renew everything now.
    pub(crate) fn all_due(&self) {
        let now = self.requester.clock.now();
        self.with(|state| state.schedule.all_due(now));
        self.bell.notify_one();
    }

    /// From now on this client hears what is said of the claims of `client`'s owners; before that it may have missed something.
    pub(crate) fn hears(&self, client: Uuid) {
        let now = self.requester.clock.now();
        self.with(|state| state.hears(client, now));
        self.bell.notify_one();
    }

    /// Asks whether a claim holds.
    async fn ask(&self, part: &Part) {
        let answer = self.requester.verify(part).await;
        // Of one whose place another takes, the server may know the other already.
        if !part.claim().is_held_alone() {
            return;
        }
        match answer {
            Ok(Answer::Gone) => self.lose(part, Claim::seen_gone),
            Ok(Answer::Revoked) => self.lose(part, Claim::revoke),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(claim = %part.id, %error, "nobody knows whether it was revoked");
            }
        }
    }

    /// Gives every lease up, to be lost to its holder and to expire on the server; how many those were.
    pub(crate) fn give_up_all(&self) -> usize {
        let now = self.requester.clock.now();
        let parts = self.with(|state| {
            state.schedule = Schedule::default();
            state.expected.clear();
            std::mem::take(&mut state.parts)
        });
        let (taken, untaken): (Vec<_>, Vec<_>) =
            parts.values().partition(|part| !part.end_untaken(now));
        for part in untaken {
            self.leave_for(part);
        }
        // All of them before the first is told of: with one that is lost those that are held with it are let go.
        let given_up = |part: &&Arc<Part>| part.give_up(now);
        let given_up: Vec<_> = taken.into_iter().filter(given_up).collect();
        for part in &given_up {
            report_lost(part, LossReason::ClientClosed);
        }
        given_up.len()
    }

    /// Leaves for a claim that has ended and that nobody else leaves for.
    fn leave_for(&self, part: &Arc<Part>) {
        if part.take_release() {
            self.releaser.post(vec![Arc::clone(part)]);
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
                    let ask = async |part: Arc<Part>| self.ask(&part).await;
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
            let now = self.requester.clock.now();
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
                () = sleep_until_some(&self.requester.clock, armed) => {}
            }
        }
    }

    /// Ends what has run out, and gathers what is due.
    fn take_due(&self) -> impl Iterator<Item = (u32, Batch)> + use<> {
        let now = self.requester.clock.now();
        let (overdue, mut due) = self.with(|state| {
            let overdue = state.schedule.take_overdue(now).into_iter();
            let overdue: Vec<_> = overdue.filter_map(|id| state.parts.remove(&id)).collect();
            let due = state.schedule.take_due(now).into_iter();
            let due: Vec<_> = due.filter_map(|id| state.parts.get(&id).cloned()).collect();
            (overdue, due)
        });
        for part in overdue {
            self.end_overdue(&part, now);
        }
        due.retain(|part| {
            if part.is_remnant() {
                let deadline = part.claim().deadline();
                // It runs out, and that is told.
                self.with(|state| match deadline {
                    Some(deadline) => state.schedule.add(part.number, None, now, deadline),
                    None => state.forget(part),
                });
                false
            } else if part.claim().token().is_some() && !part.is_in_use() {
                // Granted since the beat was scheduled.
                self.follow_grant(part);
                false
            } else {
                true
            }
        });
        batch::gather(&self.requester.store, due)
    }

    /// The time of the claim is over: that of its lease, or that of its wait.
    fn end_overdue(&self, part: &Arc<Part>, now: Moment) {
        if part.end_untaken(now) {
            // Nobody has polled its acquisition, and nobody may ever do so again.
            self.remove(part);
            self.leave_for(part);
            return;
        }
        let lost = part.lose(|claim| {
            claim.expire(now);
        });
        if let Some(reason) = lost {
            report_lost(part, reason);
        }
        // It may have been renewed meanwhile by somebody else than this task.
        self.schedule(|state, now| state.follow(part, now, now));
    }

    /// Does for a batch what it is for. One that the server refuses as a whole is halved until it is clear which claim is to
    /// blame.
    async fn renew(&self, batch: Batch) {
        let Batch { verb, parts } = batch;
        let mut batches = vec![parts];
        while let Some(mut batch) = batches.pop() {
            let sent = self.requester.clock.now();
            let outcomes = match (&batch[..], verb) {
                ([alone], Verb::Acquire) => vec![self.requester.exchange(alone, verb).await],
                _ => self.requester.renew(&batch, verb).await,
            };
            let refused = |outcome: &Result<Verdict, Failed>| matches!(outcome, Err(Failed::Store(error)) if error.blames_request());
            // Those that have ended meanwhile say nothing about the rest.
            let over = |outcome: &Result<Verdict, Failed>| {
                matches!(outcome, Err(Failed::Forbidden(_)) | Ok(Verdict::Ignored))
            };
            let whole = outcomes
                .iter()
                .all(|outcome| refused(outcome) || over(outcome));
            if batch.len() > 1 && whole && outcomes.iter().any(refused) {
                let half = batch.split_off(batch.len() / 2);
                batches.extend([half, batch]);
                continue;
            }
            for (part, outcome) in batch.iter().zip(outcomes) {
                self.settle(part, verb, sent, outcome);
            }
        }
    }

    /// A silent server fails every lease every few seconds: one line for each cause says so, and later ones how often.
    fn log_failure(&self, part: &Part, error: &StoreError) {
        let (name, claim) = (part.protocol.name().as_str(), &part.id);
        let now = self.requester.clock.now();
        if self.with(|state| state.failures.count(&error.to_string(), now)) {
            tracing::warn!(name, %claim, %error, "uncertain: a renewal failed");
        } else {
            tracing::debug!(name, %claim, %error, "uncertain: a renewal failed");
        }
    }

    fn settle(&self, part: &Arc<Part>, verb: Verb, sent: Moment, outcome: Result<Verdict, Failed>) {
        let failed = || self.with(|state| state.schedule.failed(part.number, sent));
        match outcome {
            Ok(Verdict::Renewed) => {
                tracing::trace!(name = part.protocol.name().as_str(), claim = %part.id, "renewed");
                let deadline = part.claim().deadline();
                if !part.is_in_use() {
                    self.follow_grant(part);
                } else if let Some(deadline) = deadline {
                    self.with(|state| state.schedule.renewed(part.number, sent, deadline));
                }
            }
            Ok(Verdict::Lost(reason)) => {
                self.remove(part);
                report_lost(part, reason);
            }
            Ok(Verdict::Granted(_)) => self.follow_grant(part),
            Ok(Verdict::Waiting(_)) => {
                let now = self.requester.clock.now();
                self.with(|state| state.waits_on(part, sent, now));
            }
            // A message has told of the grant meanwhile, and the schedule knows.
            Ok(Verdict::More) | Err(Failed::Forbidden(_))
                if verb == Verb::Heartbeat && part.claim().deadline().is_some() => {}
            Ok(Verdict::More) => {
                failed();
                self.hurry(part);
            }
            // It has lost its place.
            Ok(Verdict::Stale) => self.remove(part),
            Ok(verdict) => {
                tracing::debug!(name = part.protocol.name().as_str(), claim = %part.id, ?verdict, "renewal without effect");
                failed();
            }
            // It belongs to a lease that has ended, or whose deadline is about to end it.
            Err(Failed::Forbidden(_)) => failed(),
            Err(Failed::Store(error)) => {
                self.log_failure(part, &error);
                failed();
            }
        }
    }
}

/// Tells that a lease is lost.
pub(crate) fn report_lost(part: &Part, reason: LossReason) {
    tracing::warn!(name = part.name(), claim = %part.id, %reason, "lost");
    part.tell(LeaseEvent::Lost(reason));
}
