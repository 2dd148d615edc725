//! Releasing: a release is repeated until the server answers, or until repeating is pointless.
//!
//! A claim that was granted at once is released by a compare-and-delete of the main key. If another value stands there
//! meanwhile, another script follows, which knows of queues, cooldowns and pollers. A claim of a cohort whose local queue is not empty
//! hands over instead. The script wakes the pollers of a name without a queue; if the server refused to publish, or this
//! client does not listen there, the release wakes the poller of its own client.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::claim::{Claim, Ending, Validity, Verdict};
use crate::engine::part::Part;
use crate::engine::requester::Failed;
use crate::engine::subscriptions::Subscriptions;
use crate::seam::observer::LeaseEvent;
use crate::words::answer::Verb;
use crate::words::ending::{LossReason, Released};
use crate::words::error::{Error, Result};

/// The outcome of one release request.
pub(crate) enum Attempt {
    /// The server has answered, or repeating is pointless.
    Final(Result<Released>),
    /// It may succeed if it is sent again.
    Again(Error),
}

impl Attempt {
    /// The result, if it is not repeated.
    pub(crate) fn result(self) -> Result<Released> {
        match self {
            Self::Final(result) => result,
            Self::Again(error) => Err(error),
        }
    }
}

/// Sends one release for each of several claims that have ended, all in one script if they were acquired in one. A
/// claim whose name others wait for is released by itself, and so is each claim if the server refuses the whole
/// script.
pub(crate) async fn attempt_all(
    subscriptions: &Subscriptions,
    parts: &[Arc<Part>],
) -> Vec<Attempt> {
    if let [alone] = parts {
        return vec![attempt(subscriptions, alone).await];
    }
    let Some(first) = parts.first() else {
        return Vec::new();
    };
    let outcomes = first
        .requester
        .exchange_together(parts, Verb::Release)
        .await;
    let refused = |outcome: &std::result::Result<Verdict, Failed>| matches!(outcome, Err(Failed::Store(error)) if error.blames_request());
    if outcomes.iter().all(refused) {
        // A script that failed half way has released some of them.
        for part in parts {
            part.change(Claim::may_be_released);
        }
        return join_all(parts.iter().map(|part| attempt(subscriptions, part))).await;
    }
    let each = parts
        .iter()
        .zip(outcomes)
        .map(async |(part, outcome)| match outcome {
            Ok(Verdict::More) => attempt(subscriptions, part).await,
            outcome => conclude(subscriptions, part, outcome),
        });
    join_all(each).await
}

/// Sends one release for a claim that has ended, or hands over to the next claim of its cohort.
pub(crate) async fn attempt(subscriptions: &Subscriptions, part: &Arc<Part>) -> Attempt {
    if hand_over(part).await {
        observe_released(part);
        return Attempt::Final(Ok(Released::Free));
    }
    // After the first answer the claim is released; `More` only means that the waiters behind it are not yet served.
    let outcome = loop {
        match part.requester.exchange(part, Verb::Release).await {
            Ok(Verdict::More) => {}
            outcome => break outcome,
        }
    };
    conclude(subscriptions, part, outcome)
}

/// A handover in progress. Dropping this ends it, and the next claim then checks its outcome.
struct Handover<'a>(&'a Part);

impl Drop for Handover<'_> {
    fn drop(&mut self) {
        self.0.requester.claims.end_handover(self.0);
    }
}

/// Hands the name over to the next claim of the cohort, if there is one; returns whether it did.
async fn hand_over(part: &Arc<Part>) -> bool {
    let Some(next) = part.requester.claims.begin_handover(part) else {
        return false;
    };
    let _handover = Handover(part);
    next.follow(part);
    let outcome = part.requester.convert(part, &next, false).await;
    tracing::debug!(name = part.name(), claim = %part.id, next = %next.id, ?outcome, "handover to the next claim of this client");
    matches!(outcome, Ok(Verdict::Granted(_)))
}

/// Reports the outcome of a release to everybody it concerns.
fn conclude(
    subscriptions: &Subscriptions,
    part: &Part,
    outcome: std::result::Result<Verdict, Failed>,
) -> Attempt {
    let name = part.protocol.name();
    let unexpected = |message: String| Attempt::Final(Err(Error::protocol(name.as_str(), message)));
    match outcome {
        Ok(Verdict::Released { told, holds }) => {
            tracing::debug!(name = name.as_str(), claim = %part.id, told, holds, "released");
            observe_released(part);
            if holds > 0 {
                return Attempt::Final(Ok(Released::StillHeld(holds)));
            }
            has_left(subscriptions, part, told);
            Attempt::Final(Ok(Released::Free))
        }
        Ok(Verdict::Dropped) => {
            tracing::debug!(name = name.as_str(), claim = %part.id, "released, and nobody was told");
            observe_released(part);
            if part.protocol.queue().is_none() {
                has_left(subscriptions, part, false);
            }
            Attempt::Final(Ok(Released::Free))
        }
        Ok(Verdict::Cooldown { told, left }) => {
            tracing::debug!(name = name.as_str(), claim = %part.id, told, ?left, "released; in its cooldown");
            observe_released(part);
            has_left(subscriptions, part, told);
            Attempt::Final(Ok(Released::Kept(left)))
        }
        Ok(Verdict::WasGone) => {
            let reason = LossReason::Gone;
            part.tell_end(|held| LeaseEvent::Lost { reason, held });
            Attempt::Final(Err(part.lost(reason).into()))
        }
        Ok(verdict) => unexpected(format!("unexpected answer to a release: {verdict:?}")),
        Err(Failed::Forbidden(reason)) => {
            unexpected(format!("the claim may not be released now: {reason:?}"))
        }
        Err(Failed::Store(error)) => {
            let transient = error.is_transient();
            let error = Error::backend(format!("release lock {:?}", name.as_str()), error);
            if transient {
                Attempt::Again(error)
            } else {
                Attempt::Final(Err(error))
            }
        }
    }
}

/// Notes that others may acquire the name now; `told` says whether the server published the wake.
fn has_left(subscriptions: &Subscriptions, part: &Part, told: bool) {
    match part.protocol.queue() {
        None => subscriptions.left(&part.protocol.channel(), told),
        Some(_) if !told => part.requester.claims.may_be_granted(part.protocol.name()),
        Some(_) => {}
    }
}

/// Reports a release to the observer. A loss that was reported is not followed by a release, even if the server still
/// had the claim.
pub(crate) fn observe_released(part: &Part) {
    if let Validity::Ended(Ending::Released) = part.validity().0 {
        part.tell_end(|held| LeaseEvent::Released { held });
    }
}
