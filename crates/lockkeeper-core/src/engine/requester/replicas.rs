//! A renewal that counts only once replicas have it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::claim::Verdict;
use crate::engine::part::Part;
use crate::engine::requester::{Failed, Requester, Unanswered, bad_answer};
use crate::seam::store::{Call, Form, Replicated};
use crate::words::answer::Answer;
use crate::words::store_error::StoreError;

/// An answered renewal, and how many replicas have it.
pub(crate) type Confirmed = (Verdict, Result<u64, StoreError>);

impl Requester {
    /// Renews a claim that holds, and waits for replicas to confirm the renewal. A replica that confirms has everything
    /// that was written before, and so also the grant and its token, whichever request wrote them.
    ///
    /// If a renewal changes nothing, the server sends its replicas nothing. So the lease is set `extra` longer than the
    /// claim assumes: then the renewal changes something even within the millisecond of the grant. Each repeat needs a
    /// larger `extra`.
    ///
    /// Dropping the future leaves the request unanswered, which the claim records.
    pub(crate) async fn confirm(
        &self,
        part: &Arc<Part>,
        replicas: u32,
        extra: Duration,
    ) -> Result<Confirmed, Failed> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let verb = part.change(|claim| {
            let verb = claim.renewal();
            let sent = claim.send(verb, request, self.clock.now());
            sent.map(|()| verb).map_err(Failed::Forbidden)
        })?;
        let unanswered = Unanswered { part, request };
        let timeout = part.terms.timeout;
        let call = |form| {
            let mut ask = self.ask(part);
            ask.ttl += extra;
            let item = Self::item_of(part, verb, false, ask);
            let call = Call::new(item, request, form, timeout);
            self.store.call_replicated(call, replicas, timeout)
        };
        let script = self.item(part, verb, false).script;
        let outcome = match call(Form::Sha).await {
            Err(error) if error.is_noscript() && part.claim().may_resend(request) => {
                call(Form::Source).await
            }
            outcome => outcome,
        };
        let (answer, reached) = match outcome {
            Ok(Replicated { reply, reached }) => {
                let answer = if script.batch {
                    reply.field(0).and_then(Answer::of_item)
                } else {
                    Answer::of_script(script, &reply)
                };
                (answer.ok_or_else(|| bad_answer(&reply)), reached)
            }
            Err(error) => (Err(self.rules.advise(error)), Ok(0)),
        };
        let verdict = self.told(part, request, answer);
        drop(unanswered);
        verdict.map(|verdict| (verdict, reached))
    }
}
