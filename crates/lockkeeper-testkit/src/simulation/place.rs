//! The names that a history is about.

use std::sync::Arc;

use super::species::Model;

/// A name on one server. What holds of it is its kind's model.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) server: usize,
    pub(super) name: String,
    /// Its main key.
    pub(super) main: String,
    pub(super) model: Arc<dyn Model>,
}

impl Place {
    pub(super) fn new(server: usize, name: String, model: Arc<dyn Model>) -> Self {
        Self {
            main: format!("lockkeeper:{name}"),
            server,
            name,
            model,
        }
    }
}
