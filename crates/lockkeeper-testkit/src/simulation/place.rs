//! The names that a history is about.

use super::kind::KindModel;

/// What the Redlock is called.
pub(super) const REDLOCK: &str = "quorum";

/// A name on one server.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) server: usize,
    pub(super) name: String,
    /// Its main key.
    pub(super) main: String,
    pub(super) model: KindModel,
}

impl Place {
    pub(super) fn new(server: usize, name: String, model: KindModel) -> Self {
        Self {
            main: format!("lockkeeper:{name}"),
            server,
            name,
            model,
        }
    }
}
