//! What one run of `prove` does of all that there is to prove: a third of the long searches and histories and of what takes
//! longest besides, a different one for each commit, and everything that the last change touches.

use std::fmt;
use std::process::Command;

use anyhow::Result;

use crate::house::root;
use crate::tools::output;

/// As in the testkit: the number of a third.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_TEST_THIRD";

/// Commits this much older than the last one, in hours, belong to an earlier change.
const RECENT: u64 = 6;

/// Where a change makes which long tests run whole: beginnings of paths, and words of the tests' names.
const TOUCHES: [(&[&str], &[&str]); 12] = [
    (
        &["lua/lock", "lua/shared", "crates/lockkeeper-core/src/claim"],
        &["proofs::search", "proofs::sets"],
    ),
    (
        &[
            "crates/lockkeeper-core/src",
            "crates/lockkeeper-testkit/src/simulation",
        ],
        &["proofs::simulation"],
    ),
    (
        &["crates/lockkeeper-testkit/src/search"],
        &["proofs::search", "proofs::sets", "proofs::rounds"],
    ),
    (
        &[
            "lua/redlock",
            "crates/lockkeeper-redlock",
            "crates/lockkeeper-core/src/quorum",
        ],
        &["proofs::rounds", "redlock"],
    ),
    (&["lua/multi", "crates/lockkeeper-multi"], &["proofs::sets"]),
    (&["lua/once", "crates/lockkeeper-once"], &["done_once"]),
    (&["lua/latch", "crates/lockkeeper-latch"], &["latch"]),
    (
        &["lua/election", "crates/lockkeeper-election"],
        &["election"],
    ),
    (&["crates/lockkeeper-mutex"], &["mutex"]),
    (
        &["crates/lockkeeper-reentrant"],
        &["reentrant", "re_entrant"],
    ),
    (&["crates/lockkeeper-rwlock"], &["read_write"]),
    (&["crates/lockkeeper-semaphore"], &["semaphore"]),
];

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Everything.
    All,
    /// This third.
    Third(u64),
}

impl Turn {
    /// The turn of the last commit: the number of commits on the main line tells. Everything where git is missing.
    pub(crate) fn of_commit() -> Self {
        match git("rev-list --first-parent --count HEAD") {
            Ok(count) => count
                .trim()
                .parse()
                .map_or(Self::All, |count: u64| Self::Third(count % 3)),
            Err(_) => Self::All,
        }
    }

    /// Whether what runs once in three turns runs in this one.
    pub(crate) fn has(self, third: u64) -> bool {
        self == Self::All || self == Self::Third(third)
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("everything"),
            Self::Third(third) => write!(
                f,
                "third {third} of 0 to 2, which {VARIABLE}={third} repeats; `cargo xtask prove --all` runs everything"
            ),
        }
    }
}

/// Words of the names of long tests that the last change requires whole.
pub(crate) fn touched() -> Result<Vec<&'static str>> {
    let last: u64 = git("log -1 --format=%ct")?.trim().parse()?;
    let until = last.saturating_sub(RECENT * 3600);
    let base = git(&format!("rev-list -1 --before={until} HEAD"))?;
    let files = match base.trim() {
        "" => git("ls-files")?,
        base => git(&format!("diff --name-only {base} HEAD"))?,
    };
    Ok(words(&files))
}

fn words(files: &str) -> Vec<&'static str> {
    let touched = |starts: &[&str]| {
        files
            .lines()
            .any(|file| starts.iter().any(|start| file.starts_with(start)))
    };
    let mut words: Vec<_> = TOUCHES
        .iter()
        .filter(|(starts, _)| touched(starts))
        .flat_map(|(_, words)| words.iter().copied())
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

fn git(words: &str) -> Result<String> {
    let mut command = Command::new("git");
    output(command.args(words.split(' ')).current_dir(root()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_touches_the_long_tests_of_its_parts() {
        assert_eq!(
            words("README.md\ncrates/lockkeeper-cli/src/lib.rs"),
            [""; 0]
        );
        assert_eq!(words("lua/once/store.lua"), ["done_once"]);
        let claim = words("crates/lockkeeper-core/src/claim/mod.rs");
        assert_eq!(
            claim,
            ["proofs::search", "proofs::sets", "proofs::simulation"]
        );
    }

    #[test]
    fn a_turn_has_its_own_third_and_everything_has_all() {
        let has = |turn: Turn| [0, 1, 2].map(|third| turn.has(third));
        assert_eq!(has(Turn::Third(1)), [false, true, false]);
        assert_eq!(has(Turn::All), [true; 3]);
    }
}
