//! What a claim that waits in a queue must remember: which of its requests a grant by message may name, and when each was
//! sent. From there the deadline counts, not from the last request that was *sent*: that one may never have arrived.

use std::time::Duration;

use crate::clock::Moment;
use crate::protocol::FencingToken;
use crate::store::Request;

/// How many requests are remembered. Between two answers there are few; a message that names an older one changes nothing,
/// and the next beat finds the grant.
const REMEMBERED: usize = 16;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    /// How long after the send of the named request a grant may be believed in: the waiter's ttl less a margin.
    pub(super) trust: Duration,
    /// With less than this left, a grant by message is believed in only after an answer.
    pub(super) least: Duration,
    /// When the last request was sent that has been answered.
    pub(super) heard: Option<Moment>,
    /// Requests that the server may have noted as the last one, the oldest first.
    sent: Vec<(Request, Moment)>,
    /// A grant whose message came before the answer that says that the claim waits.
    early: Option<(FencingToken, Request)>,
    /// The answer that is on its way, or has come last, may be older than what only an answer can tell.
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

    /// An acquire or a beat goes out.
    pub(super) fn sent(&mut self, request: Request, now: Moment) {
        if self.sent.len() == REMEMBERED {
            self.sent.remove(0);
        }
        self.sent.push((request, now));
    }

    /// The claim waits, as of `request`: what was sent before is named no more, but by a copy that comes late, and then
    /// the next beat tells. Gives the grant that was told too early, if there was one.
    pub(super) fn answered(
        &mut self,
        request: Request,
        sent: Moment,
    ) -> Option<(FencingToken, Request)> {
        self.heard = self.heard.max(Some(sent));
        self.sent.retain(|(other, _)| *other >= request);
        self.early.take()
    }

    /// A grant was told before it is known that the claim waits.
    pub(super) const fn overtaken_by(&mut self, token: FencingToken, request: Request) {
        self.early = Some((token, request));
    }

    /// When the last request was sent, whatever became of it.
    pub(super) fn last_sent(&self) -> Option<Moment> {
        self.sent.last().map(|(_, moment)| *moment)
    }

    /// When `request` was sent; `None` if it is none of those that count.
    pub(super) fn when_sent(&self, request: Request) -> Option<Moment> {
        let found = self.sent.iter().find(|(other, _)| *other == request);
        found.map(|(_, moment)| *moment)
    }
}
