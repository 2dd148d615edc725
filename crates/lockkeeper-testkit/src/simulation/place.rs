//! The names in a history.

use lockkeeper_memory::MemoryStore;

use super::shown::Shown;
use crate::kinds::KindModel;

/// The name of the Redlock.
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

    /// What its server stores for it.
    pub(super) fn on<'a>(&'a self, server: &'a MemoryStore) -> Shown<'a> {
        Shown {
            model: &self.model,
            main: &self.main,
            server,
        }
    }
}
