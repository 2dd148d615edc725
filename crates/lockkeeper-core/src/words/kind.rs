//! Names of lock kinds.

use std::fmt;

/// A kind of lock, named by the word that appears in logs and on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(&'static str);

impl Kind {
    /// The kind called `word`.
    pub const fn new(word: &'static str) -> Self {
        Self(word)
    }

    /// Returns that word.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
