//! The duty to release what the server may hold.

use std::sync::Arc;

use crate::claim::Claim;
use crate::engine::Engine;
use crate::engine::part::Part;

/// Claims of one client that the server may hold and that have not been released. They exist before their first
/// request is sent. If there are several, one script acquired them and one script releases them.
///
/// Dropping this ends their validity at once, and posts a release for what the server may hold.
#[derive(Debug)]
pub(crate) struct Unreleased {
    pub(crate) engine: Arc<Engine>,
    pub(crate) parts: Vec<Arc<Part>>,
    /// The server's name in errors, if the lock is on several servers.
    pub(crate) server: Option<Arc<str>>,
}

impl Unreleased {
    /// The only claim, or the first of several.
    pub(crate) fn first(&self) -> Option<&Arc<Part>> {
        self.parts.first()
    }

    /// Ends their validity. From here on only a release is sent for the claims.
    pub(crate) fn end(&self) {
        for part in self.parts.iter().rev() {
            self.engine.end(part);
        }
    }
}

impl Drop for Unreleased {
    fn drop(&mut self) {
        self.end();
        self.parts.retain(|part| part.change(Claim::take_release));
        if !self.parts.is_empty() {
            let parts = std::mem::take(&mut self.parts);
            self.engine.releaser.post(parts);
        }
    }
}
