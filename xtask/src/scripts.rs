//! `cargo xtask lock-scripts`: pins the SHA-1 of every script in `lua/scripts.lock`.
//!
//! It reads the descriptions in `lua/lib.rs` as text, because the crate does not compile while the lock file lacks a new
//! script. A test of that crate compares the result with what the compiler has joined.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use sha1_smol::Sha1;

use crate::house::root;

/// Writes the lock file and prints what has changed.
pub(crate) fn lock() -> Result<()> {
    let folder = root().join("lua");
    let descriptions = fs::read_to_string(folder.join("lib.rs"))?;
    let path = folder.join("scripts.lock");
    let before = fs::read_to_string(&path).unwrap_or_default();
    let mut after = String::new();
    for script in described(&descriptions)? {
        let (source, sharded) = (
            script.source(&folder, "shared")?,
            script.source(&folder, "sharded")?,
        );
        let mut lines = vec![format!("{} {}", script.name, Sha1::from(&source).digest())];
        if sharded != source {
            lines.push(format!(
                "sharded/{} {}",
                script.name,
                Sha1::from(&sharded).digest()
            ));
        }
        for line in lines {
            if !before.lines().any(|pinned| pinned == line) {
                println!("{line}");
            }
            after += &line;
            after.push('\n');
        }
    }
    if before == after {
        println!("no script has changed");
        return Ok(());
    }
    fs::write(&path, after).with_context(|| format!("failed to write {}", path.display()))?;
    println!("say so in CHANGELOG under \"Scripts and keys\"");
    Ok(())
}

/// A script as `lua/lib.rs` describes it.
#[derive(Debug, PartialEq, Eq)]
struct Described<'a> {
    name: &'a str,
    fragments: Vec<&'a str>,
    /// The script that follows it in the same text.
    before: Option<Box<Self>>,
}

impl Described<'_> {
    /// The text that the server receives: the fragments, each followed by another line break, then the script, and after
    /// another line break the script that follows it. A fragment comes from the folder `first` if it exists there.
    fn source(&self, folder: &Path, first: &str) -> Result<String> {
        let read = |file: String| {
            fs::read_to_string(folder.join(&file)).with_context(|| format!("failed to read {file}"))
        };
        let mut source = String::new();
        for fragment in &self.fragments {
            let there = folder.join(format!("{first}/{fragment}.lua")).exists();
            let from = if there { first } else { "shared" };
            source += &read(format!("{from}/{fragment}.lua"))?;
            source.push('\n');
        }
        source += &read(format!("{}.lua", self.name))?;
        if let Some(next) = &self.before {
            source.push('\n');
            source += &next.source(folder, first)?;
        }
        Ok(source)
    }
}

/// Every `script!("kind/verb", with ["fragment", …], …)` in a text.
fn described(text: &str) -> Result<Vec<Described<'_>>> {
    let scripts = text.split("script!(").skip(1).map(one);
    let scripts = scripts.collect::<Result<Vec<_>>>()?;
    ensure!(!scripts.is_empty(), "no script is described");
    Ok(scripts)
}

/// Reads `"kind/verb", with ["fragment", …]`, and optionally `before` with the same for another script.
fn one(call: &str) -> Result<Described<'_>> {
    let (head, rest) = call
        .split_once("with [")
        .context("a script without its fragments")?;
    let (fragments, rest) = rest.split_once(']').context("a list without an end")?;
    let before = rest
        .trim_start_matches(',')
        .trim_start()
        .strip_prefix("before ");
    Ok(Described {
        name: quoted(head).first().context("a script without a name")?,
        fragments: quoted(fragments),
        before: before.map(one).transpose()?.map(Box::new),
    })
}

/// The texts between quotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_with_their_fragments() {
        let text = r#"
            macro_rules! script { () => {} }
            pub const ACQUIRE: Script = script!(
                "mutex/acquire",
                with ["fence", "lease"],
                keys ["main"],
            );
            pub const VERIFY: Script = script!("mutex/verify", with [], keys ["main"]);
            pub const ONCE: Script = script!("once/acquire", with ["record"], before "mutex/verify" with ["value"], keys ["main"]);
        "#;
        let script = |name, fragments, before| Described {
            name,
            fragments,
            before,
        };
        let verify = script("mutex/verify", vec!["value"], None);
        let expected = [
            script("mutex/acquire", vec!["fence", "lease"], None),
            script("mutex/verify", vec![], None),
            script("once/acquire", vec!["record"], Some(Box::new(verify))),
        ];
        assert_eq!(described(text).unwrap(), expected);
    }

    #[test]
    fn a_text_without_descriptions_is_an_error() {
        described("fn main() {}").unwrap_err();
        described("script!(\"a/b\", keys [])").unwrap_err();
    }

    #[test]
    fn a_missing_fragment_is_named() {
        let script = Described {
            name: "mutex/acquire",
            fragments: vec!["nonsense"],
            before: None,
        };
        let error = script.source(&root().join("lua"), "shared").unwrap_err();
        assert!(format!("{error:#}").contains("shared/nonsense.lua"));
    }
}
