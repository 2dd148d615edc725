//! The index of a client's claims, by their [agendas](Agenda): those that messages may be about, and those for which
//! something must be done. It also applies the messages.
//!
//! A claim and its entry here change together: code that [changes](Part::change) a claim updates the index while the
//! claim is locked. So the lock order is claim before index, and nothing here locks a claim while the index is locked.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use uuid::Uuid;

use crate::claim::{Claim, Passed, Verdict};
use crate::engine::part::{Changed, Part};
use crate::engine::sync::{Mutex, MutexGuard};
use crate::registry::cohort::{Cohorts, Patience};
use crate::schedule::Schedule;
use crate::seam::protocol::Grant;
use crate::words::agenda::{Agenda, Notice};
use crate::words::moment::Moment;
use crate::words::name::Name;
use crate::words::owner::Owner;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    index: Mutex<Index>,
    /// Notified when something must be done sooner than anything else.
    pub(super) bell: Notify,
}

#[derive(Debug, Default)]
struct Index {
    known: BTreeMap<Arc<str>, Arc<Part>>,
    schedule: Schedule<Arc<Part>>,
    cohorts: Cohorts<Arc<Part>>,
    /// When the renewer will wake up; `None`: only when it is notified.
    armed: Option<Moment>,
    /// There was nothing to do when the renewer last looked, and nothing has been added since.
    idle: bool,
}

/// What must be done now.
pub(super) struct Work {
    pub(super) overdue: Vec<Arc<Part>>,
    pub(super) due: Vec<Arc<Part>>,
    pub(super) to_verify: Vec<Arc<Part>>,
}

impl Claims {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    /// Updates the index after the agenda of this claim has changed; the claim is still locked. `can_hand_over` says
    /// that it has just ended and another claim of its cohort may take its place. Returns the claim of its cohort to
    /// notify that it must ask.
    pub(super) fn follow(
        &self,
        part: &Arc<Part>,
        before: Agenda,
        after: Agenda,
        can_hand_over: bool,
    ) -> Option<Arc<Part>> {
        let soonest = after.due.into_iter().chain(after.deadline).min();
        let mut called = None;
        let sooner = {
            let mut index = self.index();
            match (before.known, after.known) {
                (false, true) => {
                    index.known.insert(part.id.text(), Arc::clone(part));
                    if part.terms.in_cohort {
                        index.cohorts.enter(part.protocol.name().main_text());
                    }
                }
                (true, false) => {
                    index.known.remove(part.id.as_str());
                    if part.terms.in_cohort {
                        let (main, now) = (part.main(), part.now());
                        let waits =
                            |it: &Arc<Part>| it.terms.wait_until.is_none_or(|end| now < end);
                        let cohorts = &mut index.cohorts;
                        called = cohorts.leave(main, part.number, can_hand_over, now, waits);
                    }
                }
                _ => {}
            }
            index.schedule.follow(part.number, part, before, after);
            index.idle &= soonest.is_none();
            let sooner = |moment| index.armed.is_none_or(|armed| moment < armed);
            after.verify || soonest.is_some_and(sooner)
        };
        if sooner {
            self.bell.notify_one();
        }
        called
    }

    /// Puts a claim that has not asked yet into the local queue of its cohort, if another claim of the cohort asks,
    /// waits or holds. Returns whether it did.
    pub(crate) fn arrive(&self, part: &Arc<Part>) -> bool {
        let mut index = self.index();
        let cohorts = &mut index.cohorts;
        cohorts.arrive(part.main(), part.number, Arc::clone(part))
    }

    /// Returns `None` if a claim has left its local queue. It must then ask the server, unless it was granted something.
    /// Otherwise it must look again at the returned moment, or when it changes.
    pub(crate) fn may_ask(&self, part: &Part, patience: Patience, now: Moment) -> Option<Moment> {
        let mut index = self.index();
        let cohorts = &mut index.cohorts;
        cohorts.may_ask(part.main(), part.number, patience, now)
    }

    /// Removes a claim that gives up from its local queue.
    pub(crate) fn give_up(&self, part: &Part) {
        let called = {
            let mut index = self.index();
            index.cohorts.give_up(part.main(), part.number)
        };
        tell(called);
    }

    /// Begins the handover of a claim that has ended. Returns the claim that it hands over to.
    pub(super) fn begin_handover(&self, part: &Part) -> Option<Arc<Part>> {
        let mut index = self.index();
        let cohorts = &mut index.cohorts;
        cohorts.begin(part.main(), part.number)
    }

    /// Ends the handover of the claim.
    pub(super) fn end_handover(&self, part: &Part) {
        let called = {
            let mut index = self.index();
            index.cohorts.end(part.main(), part.number)
        };
        tell(called);
    }

    /// What must be done at `now`. The index changes as the work is done.
    pub(super) fn work(&self, now: Moment) -> Work {
        let index = self.index();
        Work {
            overdue: index.schedule.overdue(now),
            due: index.schedule.due(now),
            to_verify: index.schedule.to_verify(),
        }
    }

    /// Notes and returns when the renewer, which is about to sleep, wakes up: `also` at the latest. If claims have come
    /// since it last looked, it looks again `soon` even if none are left: otherwise locks that are acquired and
    /// released in quick succession would wake it each time.
    pub(super) fn arm(&self, soon: Moment, also: Option<Moment>) -> Option<Moment> {
        let mut index = self.index();
        let next = index.schedule.next();
        let soon = (!index.idle).then_some(soon);
        index.idle = next.is_none();
        index.armed = next.or(soon).into_iter().chain(also).min();
        index.armed
    }

    /// Every claim, in the order of creation.
    fn all(&self) -> Vec<Arc<Part>> {
        let mut all: Vec<_> = self.index().known.values().cloned().collect();
        all.sort_unstable_by_key(|part| part.number);
        all
    }

    fn find(&self, claim: &str) -> Option<Arc<Part>> {
        self.index().known.get(claim).cloned()
    }

    /// Whether the index agrees with the agenda of this claim.
    #[cfg(feature = "shuttle")]
    pub(super) fn is_in_step(&self, part: &Part) -> bool {
        let agenda = part.claim().agenda();
        let index = self.index();
        let known = index.known.contains_key(part.id.as_str());
        known == agenda.known && index.schedule.has(part.number, agenda)
    }

    /// Whether there is no claim.
    pub(crate) fn is_empty(&self) -> bool {
        self.index().known.is_empty()
    }

    /// The claims of `owner` that wait for `name`, or have asked for it and may come to wait.
    pub(crate) fn waiting(&self, name: &Name, owner: &Owner) -> Vec<String> {
        let mut all = self.all();
        all.retain(|part| {
            part.protocol.name() == name && part.id.owner() == *owner && part.claim().may_wait()
        });
        all.iter().map(|part| part.id.to_string()).collect()
    }

    /// Lets the claims of this client that wait for the name ask again: a claim has been released, and no message says
    /// who was granted the name.
    pub(super) fn may_be_granted(&self, name: &Name) {
        let of_name = |part: &&Arc<Part>| part.protocol.name() == name;
        let mut parts: Vec<_> = self
            .index()
            .known
            .values()
            .filter(of_name)
            .cloned()
            .collect();
        parts.sort_unstable_by_key(|part| part.number);
        for part in parts {
            if part.claim().may_wait() {
                let now = part.now();
                part.change(|claim| claim.hurry(now));
            }
        }
    }

    /// Applies a message that reports a grant.
    pub(crate) fn granted(&self, grant: Grant<'_>) {
        let Some(part) = self.find(grant.claim) else {
            return;
        };
        match part
            .requester
            .granted_by_message(&part, grant.token, grant.request)
        {
            Verdict::Granted(_) => {}
            Verdict::Recheck => {
                let now = part.now();
                part.change(|claim| claim.hurry(now));
            }
            verdict => {
                tracing::debug!(claim = %part.id, ?verdict, "ignored a message about a grant");
            }
        }
    }

    /// Applies a notice that a message reports about a claim.
    pub(crate) fn notice(&self, claim: &str, notice: Notice) {
        if let Some(part) = self.find(claim) {
            part.change(|claim| claim.notice(notice));
        }
    }

    /// Notes that from now on this client receives messages about claims of `client`'s owners. It may have missed
    /// earlier ones.
    pub(crate) fn hears(&self, client: Uuid) {
        for part in self.all() {
            if part.id.owner().client() == client {
                part.change(Claim::may_have_missed_notices);
            }
        }
    }

    /// Makes every request that keeps a claim alive due now, because messages may have been missed or the server may be
    /// another one.
    pub(crate) fn all_due(&self) {
        for part in self.all() {
            let now = part.now();
            part.change(|claim| claim.keep_now(now));
        }
    }

    /// Ends or gives up every claim, because the client closes. Observers and grants are not notified yet, because the
    /// loss of one claim also ends those that are held with it.
    pub(super) fn close(&self) -> Vec<(Arc<Part>, Changed<Passed>)> {
        let all = self.all().into_iter();
        all.map(|part| {
            let now = part.now();
            let changed = part.change_silently(|claim| claim.close(now));
            (part, changed)
        })
        .collect()
    }
}

/// Notifies a claim in a local queue to check again.
fn tell(part: Option<Arc<Part>>) {
    if let Some(part) = part {
        part.changed().notify_waiters();
    }
}
