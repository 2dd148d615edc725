//! The defect [`ReleaseStopsAtFirstError`](crate::mutants::Mutant::ReleaseStopsAtFirstError), for tests only.

use super::is_gone;
use crate::claim::Claim;
use crate::engine::release::attempt_all;
use crate::engine::unreleased::Unreleased;
use crate::words::ending::Released;
use crate::words::error::Result;

/// Releases the claims one after the other, each once and for no longer than a request may take, and forgets the rest
/// after the first failure.
pub(super) async fn release_all(claims: &[Unreleased]) -> Vec<Option<Result<Released>>> {
    let mut outcomes = Vec::new();
    let parts = || claims.iter().flat_map(|it| &it.parts);
    for it in claims.iter().rev() {
        let attempts = attempt_all(&it.engine.subscriptions, &it.parts).await;
        let here = outcomes.len();
        outcomes.extend(attempts.into_iter().rev().map(|it| Some(it.result())));
        let failed =
            |it: &Option<Result<Released>>| matches!(it, Some(Err(error)) if !is_gone(error));
        if outcomes[here..].iter().any(failed) {
            for part in parts() {
                part.change(Claim::take_release);
            }
            break;
        }
    }
    outcomes.resize_with(parts().count(), || None);
    outcomes.reverse();
    outcomes
}
