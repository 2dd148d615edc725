//! Mutants in random histories: the first seed in which one breaks a rule, and that the same history without it breaks none.

use std::io::Result;

use lockkeeper_core::mutants::{Mutant, with};

use super::lua;
use crate::simulation::{Options, Outcome, Violation, Workload, run};

/// How many histories of each kind a defect may stay hidden in.
const PATIENCE: u64 = 6_000;

/// The same of a mistake in a script of the read-write lock: one of them shows only where a conversion arrives after both of
/// its claims were given up.
const PATIENCE_OF_MODES: u64 = 10_000;

/// The same of a majority of servers.
const PATIENCE_OF_MAJORITIES: u64 = 3_000;

/// The histories in which a defect of the engine shows first. All have the engine in common, so it is looked for in these alone.
const fn workload(mutant: Mutant) -> Workload {
    match mutant {
        Mutant::GrantFromLastSend | Mutant::GrantFromMessage => Workload::Reentrant,
        Mutant::BelieveWhileConverting | Mutant::DeadlineFromAnswer | Mutant::RequestsAbreast => {
            Workload::RwLock
        }
        Mutant::DeafToReconnect
        | Mutant::LeaveUnmarked
        | Mutant::LossOfOneKeepsTheRest
        | Mutant::NoHeartbeatAfterSubscribing
        | Mutant::ReleaseStopsAtFirstError
        | Mutant::ResendAfterLeave
        | Mutant::UnknownIsNo => Workload::Mixed,
        _ => Workload::Mutex,
    }
}

/// A history that breaks a rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Broken {
    /// Of what.
    pub workload: Workload,
    /// From which it follows.
    pub seed: u64,
    /// Which rule, and how.
    pub violation: Violation,
    /// What the same history breaks without the mistake: nothing, if it is the mistake's fault.
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

/// The first history in which a defect of the engine shows.
///
/// # Errors
///
/// As for [`run`].
pub fn find(mutant: Mutant) -> Result<Option<Broken>> {
    find_in(workload(mutant), mutant)
}

/// The first history of a workload in which it does.
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

/// The first history of its kind in which a mistake in a script shows.
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
