//! Mutants in random histories: finds the first seed in which one breaks a rule, and checks that the same history without it
//! breaks none.

use std::io::Result;

use lockkeeper_core::mutants::{Mutant, with};

use super::lua;
use crate::simulation::{Options, Outcome, Violation, Workload, run};

/// How many histories of each kind a mistake may survive.
const PATIENCE: u64 = 6_000;

/// The same for a mistake in a script of the read-write lock: one of them shows only when a conversion arrives after both of
/// its claims were given up.
const PATIENCE_OF_MODES: u64 = 10_000;

/// The same for a majority of servers.
const PATIENCE_OF_MAJORITIES: u64 = 3_000;

/// The workload in which a mistake in the engine shows first. All workloads use the engine, so only this one is searched.
const fn workload(mutant: Mutant) -> Workload {
    match mutant {
        Mutant::GrantFromLastSend | Mutant::GrantFromMessage => Workload::Reentrant,
        Mutant::ValidWhileConverting | Mutant::DeadlineFromAnswer | Mutant::RequestsAbreast => {
            Workload::RwLock
        }
        Mutant::DeafToReconnect
        | Mutant::ReleaseWithoutTombstone
        | Mutant::LossOfOneKeepsTheRest
        | Mutant::NoHeartbeatAfterSubscribing
        | Mutant::ReleaseStopsAtFirstError
        | Mutant::ResendAfterRelease
        | Mutant::UnknownIsNo => Workload::Mixed,
        _ => Workload::Mutex,
    }
}

/// A history that breaks a rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Broken {
    /// The workload.
    pub workload: Workload,
    /// The seed of the history.
    pub seed: u64,
    /// The rule, and how it was broken.
    pub violation: Violation,
    /// What the same history breaks without the mistake: nothing, if the mistake is the cause.
    pub without: Option<Violation>,
}

fn history(workload: Workload, seed: u64) -> Result<Outcome> {
    run(workload, seed, Options::default())
}

fn first(
    workload: Workload,
    patience: u64,
    with_mistake: impl Fn(u64) -> Result<Outcome>,
) -> Result<Option<Broken>> {
    for seed in 1..=patience {
        if let Some(violation) = with_mistake(seed)?.violation {
            let without = history(workload, seed)?.violation;
            return Ok(Some(Broken {
                workload,
                seed,
                violation,
                without,
            }));
        }
    }
    Ok(None)
}

/// Finds the first history in which a mistake in the engine shows.
///
/// # Errors
///
/// As for [`run`].
pub fn find(mutant: Mutant) -> Result<Option<Broken>> {
    find_in(workload(mutant), mutant)
}

/// Finds the first history of a workload in which a mistake in the engine shows.
///
/// # Errors
///
/// As for [`run`].
pub fn find_in(workload: Workload, mutant: Mutant) -> Result<Option<Broken>> {
    let patience = match workload {
        Workload::Redlock => PATIENCE_OF_MAJORITIES,
        _ => PATIENCE,
    };
    first(workload, patience, |seed| {
        with(mutant, || history(workload, seed))
    })
}

/// Finds the first history of a workload in which a mistake in a script shows.
///
/// # Errors
///
/// As for [`run`], and if the patch no longer applies.
pub fn find_patched(workload: Workload, mutant: &lua::Mutant) -> anyhow::Result<Option<Broken>> {
    let patch = mutant.patch()?;
    let patience = match workload {
        Workload::RwLock => PATIENCE_OF_MODES,
        _ => PATIENCE,
    };
    let broken = first(workload, patience, |seed| {
        let options = Options {
            patch: Some(patch.clone()),
            ..Options::default()
        };
        run(workload, seed, options)
    });
    Ok(broken?)
}
