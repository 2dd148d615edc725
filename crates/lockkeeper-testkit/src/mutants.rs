//! Deliberate mistakes, each of which a check must catch by name.

pub mod histories;
pub mod hunt;
pub mod lua;
pub mod searched;

/// Mistakes in the engine, switched on for one thread.
pub use lockkeeper_core::mutants as engine;

pub use crate::patch::Patch;

/// A deliberate mistake.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_enums, reason = "there are no others")]
pub enum Mistake {
    /// In a script.
    Script(&'static lua::Mutant),
    /// In the engine.
    Engine(engine::Mutant),
}

impl Mistake {
    /// The name.
    pub fn name(self) -> String {
        match self {
            Self::Script(mutant) => mutant.name.to_owned(),
            Self::Engine(defect) => format!("{defect:?}"),
        }
    }

    /// What it does wrong.
    pub fn what(self) -> String {
        match self {
            Self::Script(mutant) => format!("in {}: {}", mutant.script.name, mutant.what()),
            Self::Engine(defect) => defect.what().to_owned(),
        }
    }
}
