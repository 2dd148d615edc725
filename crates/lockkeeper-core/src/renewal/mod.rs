//! The renewal scheduler, or watchdog: one per client, for all its leases.
//!
//! [`schedule`] decides when; the task here sends. A lease is put into the schedule by whoever was granted it, without
//! waking the task unless it is due before everything else. What is due together goes out as batches: one script renews
//! up to a hundred leases, and what one of them meets is nothing to the others.

pub(crate) mod schedule;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;

use crate::claim::{Claim, Verdict};
use crate::clock::{LOOK, Moment, sleep_until_some};
use crate::exchange::{Failed, Line};
use crate::lease::LossReason;
use crate::name::Name;
use crate::observer::LeaseEvent;
use crate::owner::Owner;
use crate::protocol::{Grant, Verb};
use crate::tenure::Tenure;
use schedule::{LeaseId, Schedule};

/// How many leases one script renews at most: some 50 µs on the server, which others wait for.
const BATCH: usize = 100;

/// How many batches are on their way to one server at once. More would only queue before it, and take its time from others.
const ABREAST: usize = 32;

/// How many words about claims without a lease are remembered. Between an answer and the word that overtook it there is
/// seldom another one.
const EARLY: usize = 64;

/// The leases of one client.
#[derive(Debug)]
pub(crate) struct Renewals {
    state: Mutex<State>,
    bell: Notify,
    pub(crate) line: Arc<Line>,
}

#[derive(Debug, Default)]
struct State {
    schedule: Schedule,
    tenures: BTreeMap<LeaseId, Arc<Tenure>>,
    /// Claims of kinds with a queue whose grant a message may tell of.
    expected: BTreeMap<Box<str>, Arc<Tenure>>,
    /// What was said lately of claims that had no lease here, the last first.
    early: VecDeque<(String, Word)>,
    /// What the task sleeps for; `None`: until the bell rings.
    armed: Option<Moment>,
    /// There was no lease when the task last looked, and none has come since.
    idle: bool,
}

/// What becomes of a claim of which something was said.
type Word = fn(&mut Claim);

/// The deadline of a claim that waits: its place ends on the server alone.
const NEVER: Moment = Moment::from_elapsed(Duration::MAX);

/// Leases that one script renews.
type Batch = Vec<Arc<Tenure>>;

/// What is to be renewed on one server. Each has its own, so that one that is silent delays no other.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Batch>,
    under_way: usize,
}

impl Renewals {
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self {
            state: Mutex::default(),
            bell: Notify::new(),
            line,
        }
    }

    /// Keeps a lease that has just been granted by an answer.
    pub(crate) fn add(&self, tenure: &Arc<Tenure>) {
        let granted = tenure.claim().granted();
        if let Some(sent) = granted {
            self.add_from(tenure, sent);
        }
    }

    /// Keeps a lease, to be renewed in good time counted from `sent`.
    fn add_from(&self, tenure: &Arc<Tenure>, sent: Moment) {
        let Some(deadline) = tenure.claim().deadline() else {
            return;
        };
        let earlier = self.with(|state| {
            if tenure.protocol.queues() {
                state.expected.remove(tenure.id.as_str());
            }
            state
                .schedule
                .add(tenure.number, tenure.terms.pace, sent, deadline);
            state.tenures.insert(tenure.number, Arc::clone(tenure));
            state.idle = false;
            state.schedule.next() < state.armed || state.armed.is_none()
        });
        if earlier {
            self.bell.notify_one();
        }
    }

    /// Lets a claim beat that waits in a queue. A grant that a message tells of is found by it.
    pub(crate) fn wait(&self, tenure: &Arc<Tenure>) {
        self.expect(tenure);
        if mutant!(WaiterNeverBeats) {
            return;
        }
        let now = self.line.clock.now();
        let earlier = self.with(|state| {
            let beats = Some(tenure.terms.beats);
            state.schedule.add(tenure.number, beats, now, NEVER);
            state.tenures.insert(tenure.number, Arc::clone(tenure));
            state.idle = false;
            state.schedule.next() < state.armed || state.armed.is_none()
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
        tenure.claim().doubt_answer();
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
            Verdict::Granted(_) => self.add_from(&tenure, self.line.clock.now()),
            Verdict::Hint => self.hurry(&tenure),
            verdict => {
                tracing::debug!(claim = %tenure.id, ?verdict, "a message of a grant changes nothing");
            }
        }
    }

    /// Keeps a lease no longer.
    pub(crate) fn remove(&self, tenure: &Tenure) {
        self.with(|state| {
            state.schedule.remove(tenure.number);
            state.tenures.remove(&tenure.number);
            if tenure.protocol.queues() {
                state.expected.remove(tenure.id.as_str());
            }
        });
    }

    /// Whether there is no lease.
    pub(crate) fn is_empty(&self) -> bool {
        self.with(|state| state.tenures.is_empty())
    }

    /// Ends the lease of a claim before its time; `change` says how. If there is none, or the claim still waits, it is
    /// remembered: the word may have overtaken the answer of the grant, for they come by different connections.
    pub(crate) fn end(&self, claim: &str, change: Word) {
        let tenure = self.with(|state| {
            let mut tenures = state.tenures.values();
            tenures.find(|tenure| tenure.id.as_str() == claim).cloned()
        });
        let holds = |tenure: &Arc<Tenure>| tenure.claim().token().is_some();
        if let Some(tenure) = tenure.as_ref().filter(|tenure| holds(tenure)) {
            return self.lose(tenure, change);
        }
        self.with(|state| {
            state.early.truncate(EARLY - 1);
            state.early.push_front((claim.to_owned(), change));
        });
        // Granted meanwhile, after its holder has looked for what was said.
        if let Some(tenure) = tenure.filter(holds) {
            self.heed(&tenure);
        }
    }

    /// Does what was said of a claim before its grant was known here.
    pub(crate) fn heed(&self, tenure: &Tenure) {
        let early = self.with(|state| {
            let mut early = state.early.iter();
            let place = early.position(|(claim, _)| claim == tenure.id.as_str())?;
            state.early.remove(place)
        });
        if let Some((_, change)) = early {
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

    /// Gives every lease up, to be lost to its holder and to expire on the server; how many those were.
    pub(crate) fn forsake_all(&self) -> usize {
        let now = self.line.clock.now();
        let tenures = self.with(|state| {
            state.schedule = Schedule::default();
            state.expected.clear();
            std::mem::take(&mut state.tenures)
        });
        let forsaken = |tenure: &&Arc<Tenure>| tenure.forsake(now);
        let forsaken: Vec<_> = tenures.values().filter(forsaken).collect();
        for tenure in &forsaken {
            report_lost(&self.line, tenure, LossReason::ClientClosed);
        }
        forsaken.len()
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Renews what is due and ends what has run out, until dropped.
    pub(crate) async fn run(&self) {
        let mut lanes: BTreeMap<u32, Lane> = BTreeMap::new();
        let mut under_way: FuturesUnordered<BoxFuture<'_, u32>> = FuturesUnordered::new();
        loop {
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
                        server
                    }));
                }
            }
            lanes.retain(|_, lane| lane.under_way > 0);
            let now = self.line.clock.now();
            let armed = self.with(|state| {
                // If leases have come since the last look, it looks again soon even with none left: locks that are taken
                // and let go in quick succession would else wake the task each time.
                let soon = (!state.idle).then(|| now.after(LOOK));
                let next = state.schedule.next();
                state.idle = next.is_none();
                state.armed = next.or(soon);
                state.armed
            });
            tokio::select! {
                biased;
                () = self.bell.notified() => {}
                Some(server) = under_way.next() => {
                    if let Some(lane) = lanes.get_mut(&server) {
                        lane.under_way -= 1;
                    }
                }
                () = sleep_until_some(&self.line.clock, armed) => {}
            }
        }
    }

    /// Ends what has run out and gathers what is due into batches, each of one script and one group of keys and with the
    /// server that has them, the most urgent leases first.
    fn take_due(&self) -> impl Iterator<Item = (u32, Batch)> + use<> {
        let now = self.line.clock.now();
        let (overdue, due) = self.with(|state| {
            let overdue = state.schedule.take_overdue(now);
            let overdue: Batch = overdue
                .iter()
                .filter_map(|id| state.tenures.remove(id))
                .collect();
            let due = state.schedule.take_due(now);
            let due: Batch = due
                .iter()
                .filter_map(|id| state.tenures.get(id).cloned())
                .collect();
            (overdue, due)
        });
        for tenure in overdue {
            let lost = tenure.lose(|claim| {
                claim.expire(now);
            });
            if let Some(reason) = lost {
                report_lost(&self.line, &tenure, reason);
            }
            // Renewed meanwhile by somebody else than this task.
            if let (_, Some(deadline)) = tenure.belief(now) {
                self.with(|state| {
                    state
                        .schedule
                        .add(tenure.number, tenure.terms.pace, now, deadline);
                    state.tenures.insert(tenure.number, Arc::clone(&tenure));
                });
            }
        }
        let mut alone = Vec::new();
        // Of one timeout too, or the leases that can wait for an answer would depend on those that cannot.
        let mut batches: BTreeMap<(&'static str, bool, u32, Duration), Vec<Batch>> =
            BTreeMap::new();
        for tenure in due {
            if tenure.is_remnant() {
                self.remove(&tenure);
                continue;
            }
            let verb = tenure.claim().renewal();
            let group = self.line.store.group(tenure.protocol.name().main());
            if verb == Verb::Acquire {
                alone.push((self.line.store.server_of(group), vec![tenure]));
                continue;
            }
            let word = tenure.protocol.batch();
            let batches = batches
                .entry((word, verb == Verb::Beat, group, tenure.terms.timeout))
                .or_default();
            match batches.last_mut() {
                Some(batch) if batch.len() < BATCH => batch.push(tenure),
                _ => batches.push(vec![tenure]),
            }
        }
        let store = Arc::clone(&self.line.store);
        let batches = batches.into_iter().flat_map(move |(of, batches)| {
            let server = store.server_of(of.2);
            batches.into_iter().map(move |batch| (server, batch))
        });
        alone.into_iter().chain(batches)
    }

    /// Renews a batch. One that the server refuses as a whole is halved until it is clear which lease is to blame.
    async fn renew(&self, batch: Batch) {
        let Some(verb) = batch.first().map(|first| first.claim().renewal()) else {
            return;
        };
        let mut batches = vec![batch];
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
                if let Some(deadline) = deadline {
                    self.with(|state| state.schedule.renewed(tenure.number, sent, deadline));
                }
            }
            Ok(Verdict::Lost(reason)) => {
                self.remove(tenure);
                report_lost(&self.line, tenure, reason);
            }
            Ok(Verdict::Granted(_)) => self.add(tenure),
            // A message has told of the grant meanwhile, and the schedule knows.
            Ok(Verdict::Waiting(_) | Verdict::More) | Err(Failed::Forbidden(_))
                if verb == Verb::Beat && tenure.claim().deadline().is_some() => {}
            Ok(Verdict::Waiting(_)) => {
                self.with(|state| state.schedule.renewed(tenure.number, sent, NEVER));
                if tenure.claim().take_doubt() {
                    self.hurry(tenure);
                }
            }
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
                tracing::warn!(name = tenure.protocol.name().as_str(), claim = %tenure.id, %error, "uncertain: a renewal failed");
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
