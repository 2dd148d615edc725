//! Mistakes of the engine's claim, which the search must find: it drives the very claim that they are in.

use anyhow::Result;
use lockkeeper_core::mutants::{Mutant, with};

use crate::search::{Bounds, Found, Model, search};

/// Those that are about grants by message.
pub const OF_QUEUES: &[Mutant] = &[Mutant::GrantFromLastSend, Mutant::GrantFromMessage];

/// Those that are about swaps.
pub const OF_SWAPS: &[Mutant] = &[
    Mutant::BelieveWhileSwapping,
    Mutant::RenewWhileSwapping,
    Mutant::BelieveBesideStraySwap,
];

/// What the search of a fair lock, or of a read-write lock, finds with this mistake; `None` if it survives.
///
/// # Errors
///
/// As for [`search`].
pub fn hunt(mutant: Mutant) -> Result<Option<Found>> {
    let (model, bounds) = if OF_SWAPS.contains(&mutant) {
        (Model::rwlock()?, Bounds::swaps())
    } else {
        let bounds = Bounds {
            leases: vec![2],
            ..Bounds::small()
        };
        (Model::fair()?, bounds)
    };
    with(mutant, || {
        Ok(search(&model, &bounds, None, |_| {})?.violation)
    })
}
