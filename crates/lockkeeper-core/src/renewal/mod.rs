//! The renewal scheduler, or watchdog: one per client, for all its leases.
//!
//! [`schedule`] decides when; the task here sends. A lease is put into the schedule by whoever was granted it, without
//! waking the task unless it is due before everything else.

pub(crate) mod schedule;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;

use crate::claim::Verdict;
use crate::clock::{Clock, Moment, sleep_until};
use crate::exchange::{Failed, Line, Tenure};
use crate::lease::LossReason;
use crate::protocol::Verb;
use schedule::{LeaseId, Schedule};

/// The leases of one client.
#[derive(Debug)]
pub(crate) struct Renewals {
    state: Mutex<State>,
    bell: Notify,
    line: Arc<Line>,
}

#[derive(Debug, Default)]
struct State {
    schedule: Schedule,
    tenures: BTreeMap<LeaseId, Arc<Tenure>>,
    /// What the task sleeps for; `None`: until the bell rings.
    armed: Option<Moment>,
}

impl Renewals {
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self {
            state: Mutex::default(),
            bell: Notify::new(),
            line,
        }
    }

    /// Keeps a lease that has just been granted.
    pub(crate) fn add(&self, tenure: &Arc<Tenure>) {
        let Some(deadline) = tenure.claim().deadline() else {
            return;
        };
        let terms = tenure.terms;
        let sent = deadline.before(terms.ttl.saturating_sub(terms.margin));
        let earlier = self.with(|state| {
            state
                .schedule
                .add(tenure.number, terms.pace, sent, deadline);
            state.tenures.insert(tenure.number, Arc::clone(tenure));
            state.schedule.next() < state.armed || state.armed.is_none()
        });
        if earlier {
            self.bell.notify_one();
        }
    }

    /// Keeps a lease no longer.
    pub(crate) fn remove(&self, tenure: &Tenure) {
        self.with(|state| {
            state.schedule.remove(tenure.number);
            state.tenures.remove(&tenure.number);
        });
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
            std::mem::take(&mut state.tenures)
        });
        let forsaken = |tenure: &&Arc<Tenure>| tenure.change(|claim| claim.forsake(now));
        let forsaken: Vec<_> = tenures.values().filter(forsaken).collect();
        for tenure in &forsaken {
            report_lost(tenure, LossReason::ClientClosed);
        }
        forsaken.len()
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Renews what is due and ends what has run out, until dropped.
    pub(crate) async fn run(&self) {
        let mut renewals = FuturesUnordered::new();
        loop {
            let now = self.line.clock.now();
            let (overdue, due, armed) = self.with(|state| {
                let overdue: Vec<_> = state.schedule.take_overdue(now);
                let overdue: Vec<_> = overdue
                    .iter()
                    .filter_map(|id| state.tenures.remove(id))
                    .collect();
                let due = state.schedule.take_due(now);
                let due: Vec<_> = due
                    .iter()
                    .filter_map(|id| state.tenures.get(id).cloned())
                    .collect();
                state.armed = state.schedule.next();
                (overdue, due, state.armed)
            });
            for tenure in overdue {
                if tenure.change(|claim| claim.expire(now)) {
                    report_lost(&tenure, LossReason::Expired);
                }
            }
            for tenure in due {
                renewals.push(self.renew(tenure));
            }
            tokio::select! {
                biased;
                () = self.bell.notified() => {}
                Some(()) = renewals.next() => {}
                () = sleep_until_some(&self.line.clock, armed) => {}
            }
        }
    }

    async fn renew(&self, tenure: Arc<Tenure>) {
        let sent = self.line.clock.now();
        let outcome = self.line.exchange(&tenure, Verb::Renew).await;
        match outcome {
            Ok(Verdict::Renewed) => {
                tracing::trace!(name = %tenure.protocol.name(), claim = %tenure.id, "renewed");
                if let Some(deadline) = tenure.claim().deadline() {
                    self.with(|state| state.schedule.renewed(tenure.number, sent, deadline));
                }
            }
            Ok(Verdict::Lost(reason)) => {
                self.remove(&tenure);
                report_lost(&tenure, reason);
            }
            Ok(verdict) => {
                tracing::debug!(name = %tenure.protocol.name(), claim = %tenure.id, ?verdict, "renewal without effect");
                self.with(|state| state.schedule.failed(tenure.number, sent));
            }
            Err(Failed::Forbidden(_)) => self.remove_if_over(&tenure, sent),
            Err(Failed::Store(error)) => {
                tracing::warn!(name = %tenure.protocol.name(), claim = %tenure.id, %error, "uncertain: a renewal failed");
                self.with(|state| state.schedule.failed(tenure.number, sent));
            }
        }
    }

    /// A renewal that may not be sent belongs to a lease that has ended or is about to: its deadline does the rest.
    fn remove_if_over(&self, tenure: &Tenure, sent: Moment) {
        if tenure.claim().deadline().is_none() {
            self.remove(tenure);
        } else {
            self.with(|state| state.schedule.failed(tenure.number, sent));
        }
    }
}

fn report_lost(tenure: &Tenure, reason: LossReason) {
    tracing::warn!(name = %tenure.protocol.name(), claim = %tenure.id, %reason, "lost");
}

async fn sleep_until_some(clock: &Arc<dyn Clock>, moment: Option<Moment>) {
    match moment {
        Some(moment) => sleep_until(clock, moment).await,
        None => std::future::pending().await,
    }
}
