//! Mutants in random histories: the first seed in which one breaks a rule, and that the same history without it breaks none.

use std::io::Result;

use lockkeeper_core::mutants::{Mutant, with};

use super::lua;
use crate::majority;
use crate::simulation::{
    FAMILY, Fairs, Mutexes, Outcome, Reentrants, RwLocks, Species, Violation, run, run_family,
    run_patched,
};

/// How many histories of each kind a defect may stay hidden in.
const PATIENCE: u64 = 6_000;

/// The same of a mistake in a script of the read-write lock: one of them shows only where a conversion arrives after both of
/// its claims were given up.
const PATIENCE_OF_MODES: u64 = 10_000;

/// The same of a majority of servers.
const PATIENCE_OF_MAJORITIES: u64 = 3_000;

/// What histories a majority of servers has are called.
const REDLOCK: &str = "redlock";

/// Kinds of histories, in the order in which each seed is tried.
const KINDS: [&str; 5] = [
    Mutexes::NAME,
    Reentrants::NAME,
    Fairs::NAME,
    RwLocks::NAME,
    FAMILY,
];

/// A history that breaks a rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Broken {
    /// Of what.
    pub kind: &'static str,
    /// From which it follows.
    pub seed: u64,
    /// Which rule, and how.
    pub violation: Violation,
    /// What the same history breaks without the mistake: nothing, if it is the mistake's fault.
    pub without: Option<Violation>,
}

fn history(kind: &str, seed: u64) -> Result<Outcome> {
    match kind {
        Mutexes::NAME => run::<Mutexes>(seed, false),
        Reentrants::NAME => run::<Reentrants>(seed, false),
        Fairs::NAME => run::<Fairs>(seed, false),
        RwLocks::NAME => run::<RwLocks>(seed, false),
        REDLOCK => majority::run(seed, false),
        _ => run_family(seed, false),
    }
}

fn first(
    kinds: &[&'static str],
    patience: u64,
    with_mistake: impl Fn(&'static str, u64) -> Result<Outcome>,
) -> Result<Option<Broken>> {
    for seed in 1..=patience {
        for &kind in kinds {
            if let Some(violation) = with_mistake(kind, seed)?.violation {
                let without = history(kind, seed)?.violation;
                return Ok(Some(Broken {
                    kind,
                    seed,
                    violation,
                    without,
                }));
            }
        }
    }
    Ok(None)
}

/// The first history, of any kind, in which a defect of the engine shows.
///
/// # Errors
///
/// As for [`run`].
pub fn find(mutant: Mutant) -> Result<Option<Broken>> {
    first(&KINDS, PATIENCE, |kind, seed| {
        with(mutant, || history(kind, seed))
    })
}

/// The first history of a majority of servers in which it does.
///
/// # Errors
///
/// As for [`run`].
pub fn find_in_majority(mutant: Mutant) -> Result<Option<Broken>> {
    first(&[REDLOCK], PATIENCE_OF_MAJORITIES, |kind, seed| {
        with(mutant, || history(kind, seed))
    })
}

/// The first history of its kind in which a mistake in a script shows.
///
/// # Errors
///
/// As for [`run`], and if the patch no longer applies.
pub fn find_patched<S: Species>(mutant: &lua::Mutant) -> anyhow::Result<Option<Broken>> {
    let patch = mutant.patch()?;
    let patience = match S::NAME {
        RwLocks::NAME => PATIENCE_OF_MODES,
        _ => PATIENCE,
    };
    let broken = first(&[S::NAME], patience, |_, seed| {
        run_patched::<S>(seed, false, Some(patch.clone()))
    });
    Ok(broken?)
}
