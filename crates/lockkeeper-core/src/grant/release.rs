//! Releasing all parts of a hold, and waiting for enough answers.

#[cfg(feature = "mutants")]
mod mistaken;

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::engine::Engine;
use crate::engine::part::Part;
use crate::engine::release::{Attempt, attempt_all};
use crate::engine::unreleased::Unreleased;
use crate::quorum::until_the_rest;
use crate::schedule::pause::Pauses;
use crate::seam::clock::sleep_until_some;
use crate::words::ending::Released;
use crate::words::error::{Error, Result};
use crate::words::store_error::{Outcome, StoreError};

/// Whether a release failed because there was nothing to release.
pub(crate) const fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Lost { .. })
}

/// Releases all of these claims. The requests go out in the reverse order of acquiring, and a silent server does not
/// delay the others.
///
/// Returns the outcome of each part when all have answered. If fewer than all are needed, it returns once that many have
/// confirmed and the rest has had some more time; parts without an answer by then have the outcome `None`.
pub(crate) async fn release_all(
    claims: &[Unreleased],
    needs: usize,
) -> Vec<Option<Result<Released>>> {
    #[cfg(feature = "mutants")]
    if mutant!(ReleaseStopsAtFirstError) {
        return Box::pin(mistaken::release_all(claims)).await;
    }
    match claims {
        [] => Vec::new(),
        [alone] => {
            let outcomes = release(&alone.engine, &alone.parts).await;
            outcomes.into_iter().map(Some).collect()
        }
        [first, ..] => Box::pin(release_several(first, claims, needs)).await,
    }
}

async fn release_several(
    first: &Unreleased,
    claims: &[Unreleased],
    needs: usize,
) -> Vec<Option<Result<Released>>> {
    let mut outcomes: Vec<Vec<Option<Result<Released>>>> = Vec::new();
    for it in claims {
        outcomes.push(it.parts.iter().map(|_| None).collect());
    }
    let total = outcomes.iter().map(Vec::len).sum();
    let clock = &first.engine.requester.clock;
    let began = clock.now();
    let release_one =
        async |(at, it): (usize, &Unreleased)| (at, release(&it.engine, &it.parts).await);
    let mut releases = Vec::with_capacity(claims.len());
    for at in claims.iter().enumerate().rev() {
        releases.push(release_one(at));
    }
    let mut releases = stream::iter(releases).buffer_unordered(claims.len());
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
        outcomes[at] = results.into_iter().map(Some).collect();
        confirmed += here;
        if needs < total && confirmed >= needs {
            patience.get_or_insert_with(|| until_the_rest(began, clock.now()));
        }
    }
    outcomes.into_iter().flatten().collect()
}

/// An [`Error::Backend`] that names every server that failed, with the reason.
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
        // The first word is the error code that callers check.
        Some((_, error)) if !passing => {
            StoreError::refused(format!("{} ({message})", error.message()))
        }
        _ if failed.iter().any(unknown) => StoreError::unknown(message),
        _ => StoreError::not_sent(message),
    };
    Error::backend(context, cause)
}

/// Releases claims of one client until all have an answer, for at most the client's release timeout, and no longer once the
/// client can send nothing any more; returns the outcome of each. Claims that were acquired together are released together.
pub(crate) async fn release(engine: &Engine, parts: &[Arc<Part>]) -> Vec<Result<Released>> {
    let timeout = engine.settings.release_timeout;
    let mut results: Vec<Option<Result<Released>>> = parts.iter().map(|_| None).collect();
    let attempts = async {
        let mut pauses = Pauses::new(parts.first().map_or(0, |part| part.number));
        let mut open: Vec<(usize, Arc<Part>)> = parts.iter().cloned().enumerate().collect();
        loop {
            let asking: Vec<Arc<Part>> = open.iter().map(|(_, part)| Arc::clone(part)).collect();
            let mut attempts = attempt_all(&engine.subscriptions, &asking)
                .await
                .into_iter();
            open.retain(|(at, _)| {
                let attempt = attempts.next();
                let again = matches!(attempt, Some(Attempt::Again(_)));
                results[*at] = attempt.map(Attempt::result);
                again
            });
            if open.is_empty() || engine.is_finished() {
                return;
            }
            tokio::time::sleep(pauses.next()).await;
        }
    };
    // A claim without an answer then keeps the error of its last attempt.
    let _ = tokio::time::timeout(timeout, attempts).await;
    let silence = |part: &Part| {
        let silence = StoreError::unknown(format!("no answer within {timeout:?}"));
        Err(Error::backend(
            format!("release lock {:?}", part.name()),
            silence,
        ))
    };
    let results = results.into_iter().zip(parts);
    results
        .map(|(it, part)| it.unwrap_or_else(|| silence(part)))
        .collect()
}
