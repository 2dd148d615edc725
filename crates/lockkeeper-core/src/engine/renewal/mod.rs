//! The renewer, or watchdog: one per client, for all its leases.
//!
//! The agenda of each claim says [when](crate::engine::claims) something must be done for it; this task does it: when a
//! third of the ttl has passed, or a sixth after a renewal without an answer. Requests that are due together, or within
//! the next twentieth of their period (500 ms at most), are sent in batches: one script renews up to a hundred leases of any
//! kinds, which fail independently; leases of inflated names have their own script. Each hundred leases granted in a row
//! share a phase, by which they are renewed earlier, a tenth of the period at most, so thousands that were due at once
//! drift apart. If the server refuses a whole batch, it is halved until the claim to blame is found.
//!
//! A renewal without an answer makes a lease uncertain, which is still held. At its deadline it is lost, whatever the
//! network does. A message on the client's channel, or an answer that the claim is revoked or gone, ends it earlier.
//! Heartbeats of waiting claims go the same way.

mod batch;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered};

use crate::claim::{Claim, Passed, Verdict};
use crate::engine::part::Part;
use crate::engine::posts::Releaser;
use crate::engine::requester::{Failed, Requester};
use crate::engine::sync::Mutex;
use crate::schedule::tally::Tally;
use crate::seam::clock::{LOOK, sleep_until_some};
use crate::seam::observer::{ClientEvent, Work};
use crate::words::agenda::Notice;
use crate::words::answer::{Answer, Verb};
use crate::words::moment::Moment;
use batch::Batch;

/// How many batches may be unanswered on one server at once. More would only queue there and delay the requests of
/// others.
const ABREAST: usize = 32;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Renewer {
    requester: Arc<Requester>,
    releaser: Releaser,
    /// Renewals that failed, for the log.
    failures: Mutex<Tally>,
    /// How many leases closing has given up.
    given_up: AtomicUsize,
}

/// What must be sent now.
pub(super) struct Due {
    /// The batches, each with its server.
    batches: Vec<(u32, Batch)>,
    to_ask: Vec<Arc<Part>>,
}

/// What must be renewed on one server. Each server has its own lane, so a silent server does not delay the others.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Batch>,
    under_way: usize,
}

impl Renewer {
    pub(crate) fn new(requester: Arc<Requester>, releaser: Releaser) -> Self {
        Self {
            requester,
            releaser,
            failures: Mutex::default(),
            given_up: AtomicUsize::new(0),
        }
    }

    /// Asks the server whether a claim holds.
    async fn ask(&self, part: &Arc<Part>) {
        let answer = self.requester.verify(part).await;
        // If another claim is replacing this one, the server may already know only the new one.
        let told = |claim: &mut Claim, notice| {
            if claim.is_held_alone() {
                claim.notice(notice);
            }
        };
        match answer {
            Ok(Answer::Gone) => part.change(|claim| told(claim, Notice::Gone)),
            Ok(Answer::Revoked) => part.change(|claim| told(claim, Notice::Revoked)),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(claim = %part.id, %error, "could not ask whether the claim was revoked");
            }
        }
    }

    /// Gives up every lease, so that it is lost to its holder and expires on the server, and counts these. Grants that no
    /// acquisition has taken are released.
    pub(crate) fn close(&self) {
        let closed = self.requester.claims.close();
        for (part, changed) in &closed {
            if changed.result == Passed::Abandoned {
                self.release(part);
            }
            changed.effects.tell(part);
        }
        let lost = closed.iter().filter(|(_, it)| it.result == Passed::Lost);
        self.given_up.fetch_add(lost.count(), Ordering::Relaxed);
    }

    /// How many leases it has given up since this was last asked.
    pub(crate) fn take_given_up(&self) -> usize {
        self.given_up.swap(0, Ordering::Relaxed)
    }

    /// Releases in the background a claim that has ended and that nothing else will release.
    pub(super) fn release(&self, part: &Arc<Part>) {
        if part.change(Claim::take_release) {
            self.releaser.post(vec![Arc::clone(part)]);
        }
    }

    /// Renews what is due and ends what has expired, until the future is dropped.
    pub(crate) async fn run(&self) {
        let (claims, clock) = (&self.requester.claims, &self.requester.clock);
        let mut lanes: BTreeMap<u32, Lane> = BTreeMap::new();
        let mut under_way: FuturesUnordered<BoxFuture<'_, Option<u32>>> = FuturesUnordered::new();
        loop {
            let Due { batches, to_ask } = self.take_due();
            if !to_ask.is_empty() {
                under_way.push(Box::pin(async move {
                    let ask = async |part: Arc<Part>| self.ask(&part).await;
                    let asked = stream::iter(to_ask);
                    asked.for_each_concurrent(ABREAST, ask).await;
                    None
                }));
            }
            for (server, batch) in batches {
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
            let now = clock.now();
            for (error, renewals) in self.failures.lock().take_due(now) {
                tracing::warn!(renewals, error, "renewals failed; the leases are uncertain");
            }
            let failures = self.failures.lock().next();
            let armed = claims.arm(now.after(LOOK), failures);
            tokio::select! {
                biased;
                () = claims.bell.notified() => {}
                Some(server) = under_way.next() => {
                    if let Some(lane) = server.and_then(|server| lanes.get_mut(&server)) {
                        lane.under_way -= 1;
                    }
                }
                () = sleep_until_some(clock, armed) => {}
            }
        }
    }

    /// Ends what has expired, and takes what must be sent now: renewals that are most urgent first, heartbeats by name.
    pub(super) fn take_due(&self) -> Due {
        let now = self.requester.clock.now();
        let work = self.requester.claims.work(now);
        for part in &work.overdue {
            if part.change(|claim| claim.run_out(now)) == Passed::Abandoned {
                // Its acquisition was not polled in time, and may never be polled again.
                self.release(part);
            }
        }
        let mut due = Vec::with_capacity(work.due.len());
        for part in work.due {
            if part.is_remnant() {
                // It is no longer renewed. When it expires, that is reported.
                part.change(Claim::let_run_out);
            } else if let Some((verb, planned)) = part.change(Claim::pick) {
                let deadline = part.claim().deadline();
                due.push((deadline, part.number, verb, planned, part));
            }
        }
        due.sort_unstable_by_key(|(deadline, number, ..)| (*deadline, *number));
        let due = due
            .into_iter()
            .map(|(_, _, verb, planned, part)| (verb, planned, part));
        let mut to_ask = work.to_verify;
        to_ask.retain(|part| part.change(Claim::take_question));
        Due {
            batches: batch::gather(&*self.requester.store, due),
            to_ask,
        }
    }

    /// Sends the request of a batch. If the server refuses the request as a whole, the batch is halved until the claim
    /// that is to blame is found.
    async fn renew(&self, batch: Batch) {
        let Batch { verb, parts, due } = batch;
        let mut batches = vec![parts];
        while let Some(mut batch) = batches.pop() {
            self.tell(verb, batch.len(), due);
            let outcomes = match (&batch[..], verb) {
                ([alone], Verb::Acquire) => vec![self.requester.exchange(alone, verb).await],
                _ => self.requester.renew(&batch, verb).await,
            };
            let refused = |outcome: &Result<Verdict, Failed>| matches!(outcome, Err(Failed::Store(error)) if error.blames_request());
            // Claims that have ended meanwhile do not show whether the server refuses the rest.
            let over = |outcome: &Result<Verdict, Failed>| {
                matches!(outcome, Err(Failed::Forbidden(_)) | Ok(Verdict::Ignored))
            };
            let whole = outcomes
                .iter()
                .all(|outcome| refused(outcome) || over(outcome));
            if batch.len() > 1 && whole && outcomes.iter().any(refused) {
                // These claims are about to be sent again.
                for part in &batch {
                    part.change(Claim::pick);
                }
                let half = batch.split_off(batch.len() / 2);
                batches.extend([half, batch]);
                continue;
            }
            for (part, outcome) in batch.iter().zip(outcomes) {
                self.settle(part, outcome);
            }
        }
    }

    /// Reports to the observer what is about to be sent.
    fn tell(&self, verb: Verb, claims: usize, due: Moment) {
        let work = match verb {
            Verb::Renew => Work::Renewal,
            Verb::Heartbeat => Work::Heartbeat,
            Verb::Acquire | Verb::Convert | Verb::Release => return,
        };
        let late = self.requester.clock.now().since(due);
        let batch = ClientEvent::Batch { work, claims, late };
        self.requester.audience.on_client(batch);
    }

    /// Logs the outcome of a request, which the claim already knows.
    fn settle(&self, part: &Arc<Part>, outcome: Result<Verdict, Failed>) {
        let (name, claim) = (part.name(), &part.id);
        match outcome {
            Ok(Verdict::Renewed) => tracing::trace!(name, %claim, "renewed"),
            Ok(verdict) => tracing::debug!(name, %claim, ?verdict, "not renewed"),
            // The lease has ended, or another of its requests is unanswered.
            Err(Failed::Forbidden(_)) => {
                let now = part.now();
                part.change(|claim| claim.unsent(now));
            }
            // A silent server fails every lease every few seconds. So one line is logged for each cause, and later
            // lines count the repeats.
            Err(Failed::Store(error)) => {
                if self.failures.lock().count(&error.to_string(), part.now()) {
                    tracing::warn!(name, %claim, %error, "a renewal failed; the lease is uncertain");
                } else {
                    tracing::debug!(name, %claim, %error, "a renewal failed; the lease is uncertain");
                }
            }
        }
    }
}
