//! Mistakes of the engine's claim, which the search must find: it drives the very claim that they are in.

use anyhow::Result;
use lockkeeper_core::mutants::{Mutant, with};

use crate::search::{Bounds, Model, Report, search};

/// Those that are about grants by message.
pub const OF_QUEUES: &[Mutant] = &[Mutant::GrantFromLastSend, Mutant::GrantFromMessage];

/// Those that are about conversions.
pub const OF_CONVERSIONS: &[Mutant] = &[
    Mutant::BelieveWhileConverting,
    Mutant::RenewWhileConverting,
    Mutant::BelieveBesideStrayConversion,
];

/// Of what the search finds one of them, and how far it looks.
///
/// # Errors
///
/// If there is no such model.
pub fn place(mutant: Mutant) -> Result<(Model, Bounds)> {
    if OF_CONVERSIONS.contains(&mutant) {
        return Ok((Model::rwlock()?, Bounds::conversions()));
    }
    let bounds = Bounds {
        leases: vec![2],
        ..Bounds::small()
    };
    Ok((Model::fair()?, bounds))
}

/// What the search of a fair lock, or of a read-write lock, finds with this mistake; no violation if it survives.
///
/// # Errors
///
/// As for [`search`].
pub fn hunt(mutant: Mutant) -> Result<Report> {
    let (model, bounds) = place(mutant)?;
    with(mutant, || search(&model, &bounds, None, |_| {}))
}
