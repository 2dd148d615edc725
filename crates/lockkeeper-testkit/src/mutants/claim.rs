//! Mistakes of the engine's claim, which the search must find: it drives the very claim that they are in.

use anyhow::Result;
use lockkeeper_core::mutants::{Mutant, with};

use crate::search::{Bounds, Found, Model, search};

/// Those that are about grants by message.
pub const OF_QUEUES: &[Mutant] = &[Mutant::GrantFromLastSend, Mutant::GrantFromMessage];

/// What the search of a fair lock finds with this mistake; `None` if it survives.
///
/// # Errors
///
/// As for [`search`].
pub fn hunt(mutant: Mutant) -> Result<Option<Found>> {
    let bounds = Bounds {
        leases: vec![2],
        ..Bounds::small()
    };
    let model = Model::fair()?;
    with(mutant, || {
        Ok(search(&model, &bounds, None, |_| {})?.violation)
    })
}
