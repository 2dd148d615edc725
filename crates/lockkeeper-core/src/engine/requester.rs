//! One request of one claim, from permission to verdict.
//!
//! Everything that changes a claim on a server goes through [`Requester::exchange`], or for several claims through
//! [`Requester::renew`]. So the laws of claims and time are enforced in one place:
//!
//! - Permission and send time are taken before the first byte.
//! - A missing answer is reported to the claim as unknown.
//! - A script that the server does not have is sent again by its text only if no release overtook it.
//!
//! [`Requester::verify`] changes nothing on the server, and may run beside another request.

mod batches;
mod replicas;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_lua::Script;

use crate::claim::{Claim, NotNow, ReleaseNeeded, Verdict};
use crate::engine::claims::Claims;
use crate::engine::floors::Floors;
use crate::engine::part::Part;
use crate::engine::refusals::Refusals;
use crate::engine::sync::Mutex;
use crate::seam::clock::Clock;
use crate::seam::observer::{Audience, LeaseEvent};
use crate::seam::protocol::{RequestContext, ScriptCall};
use crate::seam::store::{Call, Form, Reply, Store};
use crate::words::answer::{Answer, Verb};
use crate::words::moment::Moment;
use crate::words::record::Record;
use crate::words::rules::Rules;
use crate::words::store_error::{Outcome, Request, StoreError};
use crate::words::token::FencingToken;

/// Why an exchange has no verdict.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The laws forbid the request now; nothing was sent.
    Forbidden(NotNow),
    /// The store got no usable answer.
    Store(StoreError),
}

/// An unanswered request. If this is dropped before the answer is reported, the answer stays unknown for ever.
struct Unanswered<'a> {
    part: &'a Arc<Part>,
    request: Request,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        // This has no effect if the claim already has the answer or the failure.
        self.part
            .change(|claim| claim.failed(self.request, Outcome::Unknown));
    }
}

/// Sends the requests of all claims of a client to its server.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) claims: Claims,
    pub(crate) audience: Audience,
    /// The rights that a user needs for this client's namespace.
    pub(crate) rules: Rules,
    requests: AtomicU64,
    /// The name that the store has in every process, if it has one.
    store_name: Option<Arc<str>>,
    pub(crate) floors: Floors,
    pub(crate) refusals: Refusals,
    /// When a claim last held on some of several servers while others kept it from a majority.
    split: Mutex<Option<Moment>>,
}

impl Requester {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        audience: Audience,
        namespace: &str,
        store_name: Option<Arc<str>>,
    ) -> Self {
        let clock = store.clock();
        Self {
            store,
            clock,
            claims: Claims::default(),
            audience,
            rules: Rules::of(namespace),
            store_name,
            requests: AtomicU64::new(1),
            floors: Floors::default(),
            refusals: Refusals::default(),
            split: Mutex::default(),
        }
    }

    /// Notes that a claim held on some of several servers while others kept it from a majority.
    pub(crate) fn was_split(&self) {
        let mut split = self.split.lock();
        *split = Some(self.clock.now());
    }

    /// Whether that happened within this time.
    pub(crate) fn was_split_within(&self, past: Duration) -> bool {
        let split = *self.split.lock();
        split.is_some_and(|split| self.clock.now().since(split) < past)
    }

    /// The server's name or address, if it has one.
    pub(crate) fn server(&self) -> Option<String> {
        let name = self.store_name.as_deref().map(str::to_owned);
        name.or_else(|| Some(self.store.address()).filter(|address| !address.is_empty()))
    }

    /// Sends one request of a claim and reports the outcome to the claim.
    ///
    /// Dropping the future leaves the request unanswered, which the claim records.
    pub(crate) async fn exchange(&self, part: &Arc<Part>, verb: Verb) -> Result<Verdict, Failed> {
        self.exchange_for_record(part, verb).await.0
    }

    /// The same, with the stored outcome of the name's work if the verdict is [`Verdict::Stored`].
    pub(crate) async fn exchange_for_record(
        &self,
        part: &Arc<Part>,
        verb: Verb,
    ) -> (Result<Verdict, Failed>, Option<Record>) {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let overtakes = part.change(|claim| {
            let overtakes = claim.release_needed() == ReleaseNeeded::WithTombstone;
            let sent = claim.send(verb, request, self.clock.now());
            sent.map(|()| overtakes).map_err(Failed::Forbidden)
        });
        let overtakes = match overtakes {
            Ok(overtakes) => overtakes,
            Err(forbidden) => return (Err(forbidden), None),
        };
        let unanswered = Unanswered { part, request };
        let item = || self.item(part, verb, overtakes);
        let may_resend = || part.claim().may_resend(request);
        let answer = self
            .call(request, part.terms.timeout, item, may_resend)
            .await;
        let mut record = None;
        let answer = answer.and_then(|(script, reply)| {
            if let Some(limit) = Answer::limit_of(&reply) {
                part.hears_limit(limit);
            }
            if let (Verb::Acquire, Some(foreign)) = (verb, part.protocol.foreign()) {
                foreign.hears(&reply);
            }
            record = Record::read(&reply);
            let answer = Answer::of_script(script, &reply);
            if let (Verb::Acquire, None, Some(answer)) = (verb, part.predecessor(), answer) {
                self.refusals.note(&*part.protocol, answer);
            }
            let whole = answer.filter(|it| *it != Answer::Stored || record.is_some());
            whole.ok_or_else(|| bad_answer(&reply))
        });
        let verdict = self.told(part, request, answer);
        drop(unanswered);
        (verdict, record)
    }

    /// Replaces the claim of `old` by that of `new`, reports the outcome to both, and returns the verdict of the new
    /// one. The old one's validity ends before the first byte, unless `keeps_validity`.
    ///
    /// Dropping the future leaves the request unanswered, which both claims record.
    pub(crate) async fn convert(
        &self,
        old: &Arc<Part>,
        new: &Arc<Part>,
        keeps_validity: bool,
    ) -> Result<Verdict, Failed> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let begin =
            |claim: &mut Claim| claim.begin_conversion(request, keeps_validity, self.clock.now());
        old.change(begin).map_err(Failed::Forbidden)?;
        let unanswered = Unanswered { part: old, request };
        let outcome = self.exchange(new, Verb::Acquire).await;
        let now = self.clock.now();
        old.change(|claim| match &outcome {
            Ok(Verdict::Granted(_)) => claim.converted(request, now),
            // Without `keeps_validity` a conversion is never refused, so it has happened; only other waiters are not yet
            // served.
            Ok(Verdict::More) if !keeps_validity => claim.converted(request, now),
            Ok(Verdict::Busy(_) | Verdict::More) => claim.conversion_refused(request, now),
            Err(Failed::Store(error)) => claim.failed(request, error.outcome()),
            _ => claim.failed(request, Outcome::Unknown),
        });
        drop(unanswered);
        outcome
    }

    /// Asks the server whether a claim holds. This changes nothing there, so it may run beside other requests.
    pub(crate) async fn verify(&self, part: &Part) -> Result<Answer, StoreError> {
        // First asks with the main key alone, which can be found even while its slot moves key by key.
        let mut inflated = false;
        loop {
            let request = self.requests.fetch_add(1, Ordering::Relaxed);
            let item = || part.protocol.verify(self.ask(part).on_inflated(inflated));
            let (script, reply) = self
                .call(request, part.terms.timeout, item, || true)
                .await?;
            match Answer::of_script(script, &reply) {
                Some(Answer::Inflated) if !inflated => inflated = true,
                answer => return answer.ok_or_else(|| bad_answer(&reply)),
            }
        }
    }

    /// Writes the largest token of a majority back to this server, independently of other requests. If the claim no
    /// longer holds there, it changes nothing, even if the server executes it late.
    pub(crate) async fn raise(
        &self,
        part: &Arc<Part>,
        token: FencingToken,
    ) -> Result<Answer, StoreError> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let Some(member) = part.protocol.majority() else {
            return Err(StoreError::not_sent("the kind writes no token back"));
        };
        let item = || member.raise(self.ask(part), token);
        let (script, reply) = self
            .call(request, part.terms.timeout, item, || true)
            .await?;
        let answer = Answer::of_script(script, &reply).ok_or_else(|| bad_answer(&reply))?;
        if answer == Answer::Raised {
            part.change(|claim| claim.raised(token));
        }
        Ok(answer)
    }

    /// Runs a script that belongs to no claim and may be repeated.
    pub(crate) async fn run(
        &self,
        item: impl Fn() -> ScriptCall,
        timeout: Duration,
    ) -> Result<Reply, StoreError> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let (_, reply) = self.call(request, timeout, item, || true).await?;
        Ok(reply)
    }

    /// Sends what the claim's kind proclaims about a claim that holds, if anything.
    pub(crate) async fn proclaim(&self, part: &Part) -> Result<(), StoreError> {
        match part.protocol.proclamation(self.ask(part)) {
            Some(call) => self
                .run(|| call.clone(), part.terms.timeout)
                .await
                .map(drop),
            None => Ok(()),
        }
    }

    pub(crate) fn ask<'a>(&self, part: &'a Part) -> RequestContext<'a> {
        let (token, drawn, cooldown_until, inflated, leaves) = {
            let claim = part.claim();
            (
                claim.token(),
                claim.drawn(),
                claim.cooldown_until(),
                claim.may_be_inflated(),
                claim.leaves_to_others(),
            )
        };
        let keep = cooldown_until.map_or(Duration::ZERO, |end| end.since(self.clock.now()));
        let floor = self.floors.of(part.protocol.name());
        part.floor.set(floor);
        let terms = &part.terms;
        RequestContext::new(&part.id, terms.ttl, floor, token)
            .granted(drawn)
            .cooling_down(keep)
            .queueing(terms.waiter_ttl, terms.queue_limit.map(u64::from))
            .on_inflated(inflated)
            // Of a name that was lately held by others, somebody probably has to be told.
            .polling(
                part.is_polled() || leaves && self.refusals.expect_others(part.protocol.name()),
            )
            .proposing(terms.proposal)
    }

    fn item(&self, part: &Part, verb: Verb, overtakes: bool) -> ScriptCall {
        Self::item_of(part, verb, overtakes, self.ask(part))
    }

    fn item_of(part: &Part, verb: Verb, overtakes: bool, ask: RequestContext<'_>) -> ScriptCall {
        let protocol = &*part.protocol;
        match verb {
            // A conversion is a request of the new claim.
            Verb::Acquire | Verb::Convert => match (part.predecessor(), protocol.conversion()) {
                (Some((old, in_doubt)), Some(conversion)) if ask.token.is_none() => {
                    conversion.convert(ask, old, in_doubt)
                }
                _ => protocol.acquire(ask),
            },
            Verb::Heartbeat => match protocol.queue() {
                Some(queue) => queue.heartbeat(ask),
                // Claims of this kind do not wait.
                None => protocol.renew(ask),
            },
            Verb::Renew => protocol.renew(ask),
            Verb::Release => protocol.release(ask, overtakes),
        }
    }

    /// Calls the script by its SHA-1. If the server does not have it, calls it by its text, if `may_resend` still
    /// allows that.
    async fn call(
        &self,
        request: Request,
        timeout: Duration,
        item: impl Fn() -> ScriptCall,
        may_resend: impl Fn() -> bool,
    ) -> Result<(&'static Script, Reply), StoreError> {
        let by_sha = item();
        let mut script = by_sha.script;
        let by_sha = self.send(Call::new(by_sha, request, Form::Sha, timeout));
        let reply = match by_sha.await {
            Err(error) if error.is_noscript() && may_resend() => {
                // What is known about the name may have changed, and the script with it.
                let by_text = item();
                script = by_text.script;
                self.send(Call::new(by_text, request, Form::Source, timeout))
                    .await?
            }
            reply => reply?,
        };
        Ok((script, reply))
    }

    /// Sends one request. If the server refuses because a right is missing, the error says which right to give.
    async fn send(&self, call: Call) -> Result<Reply, StoreError> {
        let error = match self.store.call(call).await {
            Ok(reply) => return Ok(reply),
            // Boxed, so that requests do not carry the space for it.
            Err(error) => Box::new(self.rules.advise(error)),
        };
        if error.outcome() == Outcome::NotSent {
            // Without a connection a request fails at once. A caller that repeats it without end would never let the task
            // run that connects again.
            tokio::task::yield_now().await;
        }
        Err(*error)
    }

    /// Subscribes to a channel. If the server refuses because a right is missing, the error says which right to give.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        let done = self.store.subscribe(channel).await;
        done.map_err(|error| self.rules.advise(error))
    }

    /// Reports to the claim a grant that came by message.
    pub(crate) fn granted_by_message(
        &self,
        part: &Arc<Part>,
        token: FencingToken,
        request: Request,
    ) -> Verdict {
        // Anyone who may publish can send this. What a script would not draw is at most a hint.
        if token.is_of_the_future() || part.trusts(token).is_err() {
            return Verdict::Recheck;
        }
        let now = self.clock.now();
        let verdict = part.change(|claim| claim.granted_by_message(token, request, now));
        if let Verdict::Granted(token) = verdict {
            self.floors.saw(part.protocol.name(), token);
        }
        verdict
    }

    /// Reports to the claim the outcome of its request.
    pub(super) fn told(
        &self,
        part: &Arc<Part>,
        request: Request,
        answer: Result<Answer, StoreError>,
    ) -> Result<Verdict, Failed> {
        let answer = answer.map(|answer| answer.polling_every(part.terms.poll_every));
        let now = self.clock.now();
        let (outcome, happened) = part.change(|claim| {
            let deadline = claim.deadline();
            let trusted = match answer {
                Ok(Answer::Granted(token)) if deadline.is_none() => part.trusts(token),
                _ => Ok(()),
            };
            let outcome = match trusted.and(answer) {
                Err(error) if error.is_distrust() => {
                    claim.refuses_grant(request);
                    Err(Failed::Store(error))
                }
                Ok(answer) => Ok(claim.answered(request, answer, now)),
                Err(error) => {
                    claim.failed(request, error.outcome());
                    Err(Failed::Store(error))
                }
            };
            // The acquisition may not know of the grant yet if it came by message.
            let told = deadline.filter(|_| claim.is_told());
            let happened = match (&outcome, told) {
                (Ok(Verdict::Renewed), Some(deadline)) => Some(LeaseEvent::Renewed {
                    slack: deadline.since(now),
                }),
                (Err(_), Some(deadline)) if now < deadline => Some(LeaseEvent::Uncertain),
                _ => None,
            };
            (outcome, happened)
        });
        if let Some(event) = happened {
            part.tell(event);
        }
        match outcome {
            Ok(Verdict::Busy(_)) => part.was_refused(),
            Ok(Verdict::Waiting(place)) => part.stands_at(place),
            _ => {}
        }
        // Only what was accepted: a token that no script draws would be sent to every server.
        if let Ok(Verdict::Granted(token)) = outcome {
            self.floors.saw(part.protocol.name(), token);
        }
        outcome
    }
}

fn bad_answer(reply: &Reply) -> StoreError {
    StoreError::unknown(format!(
        "a reply with status {} that the script cannot give",
        reply.status().as_str()
    ))
}
