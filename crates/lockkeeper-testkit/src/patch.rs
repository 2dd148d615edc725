//! A script with a mistake, which a search or a history runs in place of the shipped one.

use anyhow::{Result, ensure};
use lockkeeper_lua::Script;

/// One script with one mistake.
#[derive(Debug, Clone)]
pub struct Patch {
    script: &'static str,
    source: String,
}

impl Patch {
    /// Patches `script`: `replacement` in place of `text`.
    ///
    /// # Errors
    ///
    /// If `text` does not occur in the script exactly once: the script has changed, and the patch must follow.
    pub fn new(script: &'static Script, text: &str, replacement: &str) -> Result<Self> {
        let times = script.source.matches(text).count();
        ensure!(
            times == 1,
            "{text:?} stands {times} times in {}, not once",
            script.name
        );
        Ok(Self {
            script: script.name,
            source: script.source.replace(text, replacement),
        })
    }

    /// The patched text, if `script` is the one that is patched.
    pub(crate) fn source(&self, script: &Script) -> Option<&str> {
        (script.name == self.script).then_some(self.source.as_str())
    }
}
