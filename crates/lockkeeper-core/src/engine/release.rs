//! Releasing: a release is repeated until the server has answered, or until it is of no use any more.

use std::sync::Arc;

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;

use crate::claim::Belief;
use crate::claim::Claim;
use crate::claim::Ending;
use crate::claim::Verdict;
use crate::engine::Engine;
use crate::engine::part::{Part, Unreleased};
use crate::engine::requester::Failed;
use crate::engine::requester::Requester;
use crate::engine::subscriptions::Subscriptions;
use crate::schedule::pause::Pauses;
use crate::seam::clock::sleep_until_some;
use crate::seam::observer::LeaseEvent;
use crate::words::answer::Verb;
use crate::words::ending::LossReason;
use crate::words::ending::Released;
use crate::words::error::Error;
use crate::words::error::Result;
use crate::words::moment::Moment;
use crate::words::store_error::Outcome;
use crate::words::store_error::StoreError;

/// What came of one leave.
pub(crate) enum Attempt {
    /// The server has answered, or repeating is no use.
    Final(Result<Released>),
    /// It may succeed when it is sent again.
    Again(Error),
}

/// How long the rest of the servers is waited for when a majority has confirmed, at least: one that is a little slower than the
/// others is free, too, when the release returns.
const LEAST_GRACE: Duration = Duration::from_millis(10);

/// Whether a release that failed found nothing to release.
pub(crate) const fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Lost { .. })
}

/// Releases all of these claims, sent in the reverse order of acquiring and answered in any: a server that is silent keeps no
/// other waiting. Returns what became of each part when all have answered; or, where fewer are needed, when so many have
/// confirmed and the rest had its time too: `None` for those that had not answered by then.
pub(crate) async fn release_all(
    claims: &[Unreleased],
    needs: usize,
) -> Vec<Option<Result<Released>>> {
    let mut outcomes: Vec<Vec<Option<Result<Released>>>> = Vec::new();
    for it in claims {
        outcomes.push(it.parts.iter().map(|_| None).collect());
    }
    let total = outcomes.iter().map(Vec::len).sum();
    let Some(first) = claims.first() else {
        return Vec::new();
    };
    let clock = &first.engine.requester.clock;
    let began = clock.now();
    let one_by_one = mutant!(ReleaseStopsAtFirstError);
    let release_one =
        async |(at, it): (usize, &Unreleased)| (at, release(&it.engine, &it.parts).await);
    let mut releases = Vec::with_capacity(claims.len());
    for at in claims.iter().enumerate().rev() {
        releases.push(release_one(at));
    }
    let abreast = if one_by_one { 1 } else { claims.len() };
    let mut releases = stream::iter(releases).buffer_unordered(abreast);
    let (mut confirmed, mut patience) = (0, None);
    loop {
        let answered = tokio::select! {
            biased;
            answered = releases.next() => answered,
            () = sleep_until_some(clock, patience) => None,
        };
        let Some((at, results)) = answered else {
            break;
        };
        let is_confirmed = |result: &&Result<Released>| result.as_ref().err().is_none_or(is_gone);
        let here = results.iter().filter(is_confirmed).count();
        if one_by_one && here < results.len() {
            let rest = claims.iter().flat_map(|it| &it.parts);
            for part in rest {
                part.take_departure();
            }
            break;
        }
        outcomes[at] = results.into_iter().map(Some).collect();
        confirmed += here;
        if needs < total && confirmed >= needs {
            let now = clock.now();
            patience.get_or_insert(now.after(LEAST_GRACE.max(now.since(began))));
        }
    }
    outcomes.into_iter().flatten().collect()
}

/// An [`Error::Backend`] that names every server that failed, and why.
pub(crate) fn failed_on(
    name: &str,
    servers: usize,
    doing: &str,
    failed: Vec<(&str, &StoreError)>,
) -> Error {
    let texts: Vec<String> = failed
        .iter()
        .map(|(server, error)| format!("{server}: {error}"))
        .collect();
    let message = texts.join("; ");
    let context = format!(
        "{doing} lock {name:?} by a majority of its {servers} servers, {} of which failed",
        failed.len()
    );
    let refusal = failed
        .iter()
        .find(|(_, error)| error.outcome() == Outcome::Refused && !error.is_transient());
    let passing = failed.iter().any(|(_, error)| error.is_transient());
    let unknown = |(_, error): &(&str, &StoreError)| error.outcome() == Outcome::Unknown;
    let cause = match refusal {
        // Its first word is the code, by which callers know it.
        Some((_, error)) if !passing => {
            StoreError::refused(format!("{} ({message})", error.message()))
        }
        _ if failed.iter().any(unknown) => StoreError::unknown(message),
        _ => StoreError::not_sent(message),
    };
    Error::backend(context, cause)
}

/// Leaves for claims of one client until all are answered, for no longer than a release may take; what became of each. Claims
/// that were acquired together leave together.
pub(crate) async fn release(engine: &Engine, parts: &[Arc<Part>]) -> Vec<Result<Released>> {
    let timeout = engine.settings.release_timeout;
    let silence = |part: &Arc<Part>| {
        let silence = StoreError::unknown(format!("no answer within {timeout:?}"));
        let name = part.protocol.name().as_str();
        Err(Error::backend(format!("release lock {name:?}"), silence))
    };
    let mut results: Vec<Result<Released>> = parts.iter().map(silence).collect();
    let mut open: Vec<usize> = (0..parts.len()).collect();
    let attempts = async {
        let mut pauses = Pauses::new(parts.first().map_or(0, |part| part.number));
        loop {
            let asking: Vec<Arc<Part>> = open.iter().map(|&at| Arc::clone(&parts[at])).collect();
            let attempts = attempt_all(&engine.requester, &engine.subscriptions, &asking).await;
            let mut again = Vec::new();
            for (&at, attempt) in open.iter().zip(attempts) {
                results[at] = match attempt {
                    Attempt::Final(result) => result,
                    Attempt::Again(error) => {
                        again.push(at);
                        Err(error)
                    }
                };
            }
            open = again;
            if open.is_empty() || mutant!(ReleaseStopsAtFirstError) {
                return;
            }
            tokio::time::sleep(pauses.next()).await;
        }
    };
    // Those that are open then have their last error.
    let _ = tokio::time::timeout(timeout, attempts).await;
    results
}

/// Sends one leave for each of several claims whose belief has ended, all by one script if they were acquired so. If the server
/// refuses that as a whole, each leaves by itself.
pub(crate) async fn attempt_all(
    requester: &Requester,
    subscriptions: &Subscriptions,
    parts: &[Arc<Part>],
) -> Vec<Attempt> {
    if let [alone] = parts {
        return vec![attempt(requester, subscriptions, alone).await];
    }
    let outcomes = requester.exchange_together(parts, Verb::Leave).await;
    let refused = |outcome: &std::result::Result<Verdict, Failed>| matches!(outcome, Err(Failed::Store(error)) if error.blames_request());
    if outcomes.iter().all(refused) {
        // By a script that failed half way some have left.
        for part in parts {
            part.change(Claim::may_have_left);
        }
        return join_all(
            parts
                .iter()
                .map(|part| attempt(requester, subscriptions, part)),
        )
        .await;
    }
    let each = parts.iter().zip(outcomes);
    each.map(|(part, outcome)| conclude(subscriptions, part, outcome))
        .collect()
}

/// Sends one leave for a claim whose belief has ended.
pub(crate) async fn attempt(
    requester: &Requester,
    subscriptions: &Subscriptions,
    part: &Part,
) -> Attempt {
    // It has left with the first answer; more is said as long as those behind it are not served.
    let outcome = loop {
        match requester.exchange(part, Verb::Leave).await {
            Ok(Verdict::More) => {}
            outcome => break outcome,
        }
    };
    conclude(subscriptions, part, outcome)
}

/// What came of a leave, told to whom it concerns.
fn conclude(
    subscriptions: &Subscriptions,
    part: &Part,
    outcome: std::result::Result<Verdict, Failed>,
) -> Attempt {
    let name = part.protocol.name();
    let unexpected = |message| {
        let name = name.to_string();
        Attempt::Final(Err(Error::Protocol { name, message }))
    };
    match outcome {
        Ok(Verdict::Left { told, holds }) => {
            tracing::debug!(name = name.as_str(), claim = %part.id, told, holds, "released");
            observe_released(part);
            if holds > 0 {
                return Attempt::Final(Ok(Released::StillHeld(holds)));
            }
            subscriptions.left(&part.protocol.channel(), told);
            Attempt::Final(Ok(Released::Free))
        }
        Ok(Verdict::Kept { told, left }) => {
            tracing::debug!(name = name.as_str(), claim = %part.id, told, ?left, "released, and kept");
            observe_released(part);
            subscriptions.left(&part.protocol.channel(), told);
            Attempt::Final(Ok(Released::Kept(left)))
        }
        Ok(Verdict::WasGone) => Attempt::Final(Err(part.lost(LossReason::Gone).into())),
        Ok(verdict) => unexpected(format!("a leave was answered by {verdict:?}")),
        Err(Failed::Forbidden(reason)) => {
            unexpected(format!("a leave was not allowed: {reason:?}"))
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

/// Tells of the end of a hold, unless it was told as a loss, even if the server still had it.
pub(crate) fn observe_released(part: &Part) {
    let (requester, now) = (&part.requester, part.now());
    let (belief, _) = part.belief();
    let granted = part.claim().granted();
    // Of a grant that nobody has taken nobody was told.
    if let (Belief::Ended(Ending::Released), Some(granted), true) =
        (belief, granted, part.is_taken())
    {
        let held = now.since(granted);
        requester.observed.tell(part, LeaseEvent::Released { held });
    }
}

/// Until when a leave that is posted now is of use: then the claim has ended by itself.
pub(crate) fn of_use_until(requester: &Requester, part: &Part) -> Moment {
    requester.clock.now().after(part.terms.ttl)
}
