//! What the renewer knows, behind one lock: the claims and what is done for each of them next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

use crate::claim::{Claim, Course};
use crate::engine::part::Part;
use crate::schedule::tally::Tally;
use crate::schedule::{LeaseId, Schedule};
use crate::words::moment::Moment;

/// How many words about claims without a lease are remembered. Between an answer and the word that overtook it there is
/// seldom another one.
const EARLY: usize = 64;

/// The deadline of a claim that waits for ever: its place ends on the server alone.
const NEVER: Moment = Moment::from_elapsed(std::time::Duration::MAX);

/// What becomes of a claim of which something was said.
pub(super) type Word = fn(&mut Claim);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) schedule: Schedule,
    pub(super) parts: BTreeMap<LeaseId, Arc<Part>>,
    /// Claims of kinds with a queue whose grant a message may tell of.
    pub(super) expected: BTreeMap<Box<str>, Arc<Part>>,
    /// What was said lately of claims that had no lease here, the last first.
    early: VecDeque<(String, Word)>,
    /// Leases whose holders may have missed what was said of them.
    pub(super) questions: Vec<Arc<Part>>,
    /// Of whose claims' owners this client began last to hear what is said, and when.
    heard: Option<(Uuid, Moment)>,
    /// Renewals that failed, for the log.
    pub(super) failures: Tally,
    /// What the task sleeps for; `None`: until the bell rings.
    pub(super) armed: Option<Moment>,
    /// There was no lease when the task last looked, and none has come since.
    pub(super) idle: bool,
}

impl State {
    /// Puts the claim into the schedule as it stands now, counted from `sent`. It is read under the lock of the schedule, so that
    /// of several tasks which have changed it the last one puts in what is true.
    pub(super) fn follow(&mut self, part: &Arc<Part>, sent: Moment, now: Moment) {
        let course = part.claim().course();
        match course {
            Course::Rests => return self.forget(part),
            Course::Waits { .. } if mutant!(WaiterNeverBeats) => return,
            Course::Waits { beats_now } => {
                let until = end_of_wait(part);
                self.schedule
                    .wait(part.number, part.terms.beats, sent, until);
                if beats_now {
                    self.schedule.hurry(part.number, now);
                }
            }
            Course::Holds(deadline) => {
                if part.protocol.queues() {
                    self.expected.remove(part.id.as_str());
                }
                let (pace, until) = if part.is_in_use() {
                    (part.terms.pace, deadline)
                } else if part.is_taken() {
                    (None, deadline)
                } else {
                    // However long the grant is good for: nobody may ever come for it.
                    (None, deadline.min(sent.after(part.terms.waiter_ttl)))
                };
                self.schedule.add(part.number, pace, sent, until);
            }
        }
        self.parts.insert(part.number, Arc::clone(part));
        self.idle = false;
    }

    /// The claim was granted. The time of a lease counts from the request that was answered; that of a claim which waited counts
    /// from now on, for its request was sent long ago.
    pub(super) fn follow_grant(&mut self, part: &Arc<Part>, now: Moment) {
        let granted = part.claim().granted();
        if let Some(sent) = granted {
            let waited = self.parts.contains_key(&part.number);
            self.follow(part, if waited { now } else { sent }, now);
        }
    }

    /// A beat of the claim that was sent at `sent` has been answered: it waits. If a message has told of its grant meanwhile,
    /// the schedule knows already.
    pub(super) fn waits_on(&mut self, part: &Part, sent: Moment, now: Moment) {
        let course = part.claim().course();
        if let Course::Waits { beats_now } = course {
            let until = end_of_wait(part);
            self.schedule.renewed(part.number, sent, until);
            if beats_now {
                self.schedule.hurry(part.number, now);
            }
        }
    }

    /// Does nothing more for the claim.
    pub(super) fn forget(&mut self, part: &Part) {
        self.schedule.remove(part.number);
        self.parts.remove(&part.number);
        if part.protocol.queues() {
            self.expected.remove(part.id.as_str());
        }
    }

    /// The lease of this claim, if there is one.
    pub(super) fn find(&self, claim: &str) -> Option<Arc<Part>> {
        let mut parts = self.parts.values();
        parts.find(|part| part.id.as_str() == claim).cloned()
    }

    /// Something was said of a claim that holds nothing here yet.
    pub(super) fn remember(&mut self, claim: &str, change: Word) {
        self.early.truncate(EARLY - 1);
        self.early.push_front((claim.to_owned(), change));
    }

    /// What was said of a claim before its grant was known here. Says so once.
    pub(super) fn remembered(&mut self, claim: &str) -> Option<Word> {
        let place = self.early.iter().position(|(other, _)| other == claim)?;
        self.early.remove(place).map(|(_, change)| change)
    }

    /// From now on this client hears what is said of the claims of that client's owners. What was said before was told to
    /// nobody, so these claims are asked for.
    pub(super) fn hears(&mut self, client: Uuid, now: Moment) {
        self.heard = Some((client, now));
        let missed =
            |part: &&Arc<Part>| part.id.owner().client() == client && part.claim().is_held_alone();
        let missed = self.parts.values().filter(missed).cloned();
        self.questions.extend(missed);
    }

    /// The same for a claim whose grant was asked for before that and told behind it.
    pub(super) fn grant_was_late(&mut self, part: &Arc<Part>) {
        let client = part.id.owner().client();
        let granted = part.claim().granted();
        let missed = |(other, since)| other == client && granted.is_some_and(|sent| sent <= since);
        if self.heard.is_some_and(missed) {
            self.questions.push(Arc::clone(part));
        }
    }
}

fn end_of_wait(part: &Part) -> Moment {
    part.terms.wait_until.unwrap_or(NEVER)
}
