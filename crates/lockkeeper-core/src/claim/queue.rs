//! What a claim remembers while it waits in a queue: which of its requests the message of a grant may name, and when
//! each was sent. The deadline counts from the send of the named request, not from the last request *sent*, which may
//! never have arrived.

use std::time::Duration;

use super::{Claim, Pending, Phase, Verdict};
use crate::words::answer::Verb;
use crate::words::moment::Moment;
use crate::words::store_error::Request;
use crate::words::token::FencingToken;

/// How many requests are remembered. There are few between two answers. A message that names an older one changes
/// nothing, and the next heartbeat finds the grant.
const REMEMBERED: usize = 16;

/// See the module documentation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    /// How long a grant is valid after the send of the named request: the waiter ttl less a margin.
    pub(super) trust: Duration,
    /// If less than this is left of a grant by message, only an answer counts.
    pub(super) least: Duration,
    /// When the last answered request was sent.
    pub(super) heard: Option<Moment>,
    /// Requests that the server may have recorded as the last one, oldest first.
    sent: Vec<(Request, Moment)>,
    /// A grant whose message came before the answer that the claim waits.
    early: Option<(FencingToken, Request)>,
    /// Something has happened that no heartbeat sent so far can report.
    pub(super) doubtful: bool,
}

impl Queue {
    pub(super) const fn new(trust: Duration, least: Duration) -> Self {
        Self {
            trust,
            least,
            heard: None,
            sent: Vec::new(),
            early: None,
            doubtful: false,
        }
    }

    /// Notes that an acquire or a heartbeat is sent.
    pub(super) fn sent(&mut self, request: Request, now: Moment) {
        if self.sent.len() == REMEMBERED {
            self.sent.remove(0);
        }
        self.sent.push((request, now));
        self.doubtful = false;
    }

    /// Notes that the server has answered `request`, and that the claim waits. From now on a message cannot name an
    /// earlier request, unless it is a late copy, which the next heartbeat resolves. Returns a grant that was reported
    /// too early, if there was one.
    pub(super) fn answered(
        &mut self,
        request: Request,
        sent: Moment,
    ) -> Option<(FencingToken, Request)> {
        self.heard = self.heard.max(Some(sent));
        self.sent.retain(|(other, _)| *other >= request);
        self.early.take()
    }

    /// Notes a grant that was reported before it is known that the claim waits.
    pub(super) const fn overtaken_by(&mut self, token: FencingToken, request: Request) {
        self.early = Some((token, request));
    }

    /// Forgets what makes no difference from `now` on: requests whose grants would no longer be valid, and what only
    /// the engine needs.
    pub(super) fn fold(&mut self, now: Moment, max_hold: Option<Duration>) {
        let trust = max_hold.map_or(self.trust, |longest| longest.min(self.trust));
        let (trusted, least) = (self.trust, self.least);
        self.sent
            .retain(|(_, sent)| sent.after(trust).since(now) >= least);
        self.sent.dedup();
        self.early = self
            .early
            .filter(|(_, request)| self.sent.iter().any(|(other, _)| other == request));
        self.heard = self.heard.filter(|heard| heard.after(trusted) > now);
        self.doubtful = false;
    }

    /// When the last request was sent, whatever its outcome.
    pub(super) fn last_sent(&self) -> Option<Moment> {
        self.sent.last().map(|(_, moment)| *moment)
    }

    /// When `request` was sent; `None` if it is not remembered.
    pub(super) fn when_sent(&self, request: Request) -> Option<Moment> {
        let found = self.sent.iter().find(|(other, _)| *other == request);
        found.map(|(_, moment)| *moment)
    }
}

impl Claim {
    /// Lets the claim wait in a queue. A grant by message is valid for `trust`, the waiter ttl less a margin, counted
    /// from the send of the request that the message names. If less than `least` of that is left, the grant counts only
    /// after an answer.
    #[must_use]
    pub fn with_queue(mut self, trust: Duration, least: Duration) -> Self {
        self.queue = Some(Box::new(Queue::new(trust, least)));
        self
    }

    /// Records a message that the claim was granted with `token`, and that `request` was the last of its requests that
    /// the server had executed. A repeated message changes nothing. A message that is late or names an unknown request
    /// is only a hint.
    pub fn granted_by_message(
        &mut self,
        token: FencingToken,
        request: Request,
        now: Moment,
    ) -> Verdict {
        let Some(queue) = self.queue.as_mut().filter(|_| !mutant!(DeafToGrants)) else {
            return Verdict::Ignored;
        };
        if self.phase == Phase::Asking {
            // The message arrived before the answer that the claim waits.
            if !mutant!(EarlyGrantLost) {
                queue.overtaken_by(token, request);
            }
            return Verdict::Ignored;
        }
        if self.phase != Phase::Waiting {
            return Verdict::Ignored;
        }
        // A late copy, about a request that is no longer remembered. A heartbeat will show whether it is true.
        let Some(sent) = queue.when_sent(request) else {
            return Verdict::Recheck;
        };
        let (trust, least, last_sent) = (queue.trust, queue.least, queue.last_sent());
        let sent = match last_sent {
            _ if mutant!(GrantFromMessage) => now,
            Some(last) if mutant!(GrantFromLastSend) => last,
            _ => sent,
        };
        let deadline = self.deadline_of_grant(sent, trust);
        if deadline.since(now) < least {
            return Verdict::Recheck;
        }
        self.hold(token, sent, deadline, now)
    }

    /// Records an answer that the claim waits in the queue.
    pub(super) fn placed(&mut self, pending: Pending, place: u64, now: Moment) -> Verdict {
        let Some(queue) = &mut self.queue else {
            return Verdict::Unexpected;
        };
        self.phase = Phase::Waiting;
        if let Some((token, request)) = queue.answered(pending.request, pending.sent) {
            let verdict = self.granted_by_message(token, request, now);
            if let Verdict::Granted(_) = verdict {
                self.upkeep_granted_in_time();
                return verdict;
            }
            // The message may be true. Only another answer can show that.
            self.doubt_place();
        }
        Verdict::Waiting(place)
    }

    /// Records that the server has more to do before it can answer. It has recorded the heartbeat nevertheless.
    pub(super) fn must_ask_again(&mut self, pending: Pending) -> Verdict {
        if let (Verb::Heartbeat, Some(queue)) = (pending.verb, &mut self.queue) {
            queue.answered(pending.request, pending.sent);
        }
        Verdict::More
    }

    /// Notes that something has happened that only a heartbeat sent from now on can report. An outstanding answer
    /// cannot.
    pub(crate) fn doubt_place(&mut self) {
        let lost = self.pending.is_some() && mutant!(HintBehindHeartbeatLost);
        if let Some(queue) = self.queue.as_mut().filter(|_| !lost) {
            queue.doubtful = true;
        }
    }

    /// Returns when the last answered request of a waiting claim was sent; `None` before it waits.
    pub fn heard(&self) -> Option<Moment> {
        self.queue.as_ref().and_then(|queue| queue.heard)
    }
}
