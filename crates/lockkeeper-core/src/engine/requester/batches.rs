//! Requests of several claims in one script.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::claim::{NotNow, ReleaseNeeded, Verdict};
use crate::engine::part::Part;
use crate::engine::requester::{Failed, Requester, Unanswered, bad_answer};
use crate::seam::protocol::{ScriptCall, Together};
use crate::seam::store::{Call, Form, Reply};
use crate::words::answer::{Answer, Verb};
use crate::words::store_error::{Request, StoreError};

impl Requester {
    /// Sends the renewals, or the heartbeats, of claims of one kind and group in one script, and reports to each claim
    /// its outcome. Returns the outcomes in the order of the claims.
    ///
    /// Dropping the future leaves all of them unanswered.
    pub(crate) async fn renew(
        &self,
        batch: &[Arc<Part>],
        verb: Verb,
    ) -> Vec<Result<Verdict, Failed>> {
        let item = |part: &Part| Some(self.item(part, verb, false));
        self.exchange_all(batch, verb, item).await
    }

    /// Acquires claims on several names of one group in one script, all or none, or releases them in one script.
    /// Otherwise like [`renew`](Self::renew).
    pub(crate) async fn exchange_together(
        &self,
        group: &[Arc<Part>],
        verb: Verb,
    ) -> Vec<Result<Verdict, Failed>> {
        let item = |part: &Part| {
            let overtakes = part.claim().release_needed() == ReleaseNeeded::WithTombstone;
            let together = match verb {
                Verb::Release => Together::Release { overtakes },
                _ => Together::Acquire,
            };
            Some(part.protocol.joint()?.item(self.ask(part), together))
        };
        self.exchange_all(group, verb, item).await
    }

    async fn exchange_all(
        &self,
        batch: &[Arc<Part>],
        verb: Verb,
        item: impl Fn(&Part) -> Option<ScriptCall>,
    ) -> Vec<Result<Verdict, Failed>> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now();
        let permits: Vec<Result<(), NotNow>> = batch
            .iter()
            .map(|part| part.change(|claim| claim.send(verb, request, now)))
            .collect();
        let sent = |index: &usize| permits[*index].is_ok();
        let mut sent: Vec<usize> = (0..batch.len()).filter(sent).collect();
        let _unanswered: Vec<Unanswered<'_>> = sent
            .iter()
            .map(|&index| Unanswered {
                part: &batch[index],
                request,
            })
            .collect();
        let reply = if verb == Verb::Acquire && sent.len() < batch.len() {
            Err(StoreError::not_sent("one of several claims has ended"))
        } else {
            self.call_all(batch, verb, &mut sent, request, item).await
        };
        let mut outcomes: Vec<Result<Verdict, Failed>> = permits
            .into_iter()
            .map(|permit| permit.map(|()| Verdict::Ignored).map_err(Failed::Forbidden))
            .collect();
        for (place, &index) in sent.iter().enumerate() {
            let part = &batch[index];
            let answer = reply.as_ref().map_err(Clone::clone).and_then(|reply| {
                let answer = reply.field(place).and_then(Answer::of_item);
                answer.ok_or_else(|| bad_answer(reply))
            });
            outcomes[index] = self.told(part, request, answer);
        }
        outcomes
    }

    /// Sends one request for all of `sent`. If the server does not have the script, the script is sent again by its
    /// text, without claims that have ended since: they are removed from `sent`, because nothing may follow their
    /// releases. If the claims are to be acquired all or none, nothing is sent again once one of them has ended.
    async fn call_all(
        &self,
        batch: &[Arc<Part>],
        verb: Verb,
        sent: &mut Vec<usize>,
        request: Request,
        item: impl Fn(&Part) -> Option<ScriptCall>,
    ) -> Result<Reply, StoreError> {
        let joined = |sent: &[usize]| {
            let items: Option<Vec<ScriptCall>> =
                sent.iter().map(|&index| item(&batch[index])).collect();
            let joined = items.and_then(ScriptCall::batch);
            joined.ok_or_else(|| StoreError::not_sent("nothing to ask for"))
        };
        let timeout = sent
            .iter()
            .map(|&index| batch[index].terms.timeout)
            .min()
            .unwrap_or_default();
        let by_sha = Call::new(joined(sent)?, request, Form::Sha, timeout);
        match self.send(by_sha).await {
            Err(error) if error.is_noscript() => {
                let all = sent.len();
                sent.retain(|&index| batch[index].claim().may_resend(request));
                if verb == Verb::Acquire && sent.len() < all {
                    return Err(error);
                }
                let by_text = Call::new(joined(sent)?, request, Form::Source, timeout);
                self.send(by_text).await
            }
            reply => reply,
        }
    }
}
