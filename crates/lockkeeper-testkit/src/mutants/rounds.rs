//! Mutants of locks by a majority, which the search of rounds must find.

use anyhow::Result;
use lockkeeper_core::mutants::{Mutant, with};

use crate::rounds::{Bounds, Report, search};

/// A mistake, and how far it is looked for.
#[derive(Debug)]
#[non_exhaustive]
pub struct Mistake {
    /// What it is.
    pub mutant: Mutant,
    /// In which it shows, and without which nothing does.
    pub bounds: Bounds,
}

impl Mistake {
    /// What the search finds.
    ///
    /// # Errors
    ///
    /// As for [`search`].
    pub fn hunt(&self) -> Result<Report> {
        // In the search a round is what the bounds make of it, not the engine.
        if self.mutant == Mutant::ReuseClaim {
            return search(Bounds {
                one_claim: true,
                ..self.bounds
            });
        }
        with(self.mutant, || search(self.bounds))
    }
}

/// Each of them.
pub const MISTAKES: &[Mistake] = &[
    // With a server that two rivals cannot reach each, a majority of those that answered is none.
    Mistake {
        mutant: Mutant::QuorumOfAnswers,
        bounds: Bounds {
            faults: 2,
            ticks: 0,
            ..Bounds::SMALL
        },
    },
    // With a server that loses the claim between its grant and the write-back.
    Mistake {
        mutant: Mutant::GoneWriteBackCounts,
        bounds: Bounds::quick()[0],
    },
    // With a leave of the first round that is executed in the second.
    Mistake {
        mutant: Mutant::ReuseClaim,
        bounds: Bounds::quick()[3],
    },
];
