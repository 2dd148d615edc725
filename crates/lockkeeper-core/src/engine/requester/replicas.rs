//! One renewal whose answer counts only with replicas behind it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::claim::Verdict;
use crate::engine::part::Part;
use crate::engine::requester::{Failed, Requester, Unanswered, bad_answer};
use crate::seam::store::{Call, Form, Replicated};
use crate::words::answer::Answer;
use crate::words::store_error::StoreError;

/// A renewal that was answered, and how many replicas have it.
pub(crate) type Confirmed = (Verdict, Result<u64, StoreError>);

impl Requester {
    /// Renews a claim that holds and waits for replicas to confirm that they have the renewal: a replica has everything
    /// that was written before what it confirms, so also the grant and its token, whoever wrote them.
    ///
    /// A server that has nothing to change tells its replicas nothing. So the lease is armed for `extra` more than the
    /// claim believes in, which makes a change of it also within the millisecond of the grant; each repeat needs more.
    ///
    /// Dropping the future leaves the request unanswered, which the claim remembers.
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
