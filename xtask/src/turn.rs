//! What one run of `prove` does of all that there is to prove: a third of the long searches and histories and of what takes
//! longest besides, a different one for each commit, and everything that the last change touches.

use std::fmt;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result};

use crate::house::root;
use crate::tools::output;

/// As in the testkit: the number of a third.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_TEST_THIRD";

/// Commits this much older than the last one, in hours, belong to an earlier change.
const RECENT: u64 = 6;

/// Where a change to one kind makes which long tests run whole: beginnings of paths, and patterns of the tests' names. What all
/// kinds share is not here: the engine, claims and the fragments of scripts are in every search, for which `--all` is meant.
const TOUCHES: [(&[&str], &[&str]); 7] = [
    (
        &[
            "lua/redlock",
            "crates/lockkeeper-redlock",
            "crates/lockkeeper-core/src/quorum",
            "tests/proofs/rounds",
        ],
        &["^proofs::rounds::", "redlock"],
    ),
    (
        &["lua/multi", "crates/lockkeeper-multi", "tests/proofs/sets"],
        &["^proofs::sets::"],
    ),
    (
        &[
            "lua/redisson",
            "crates/lockkeeper-redisson",
            "tests/redisson",
        ],
        &["(^|fair_|rwlock_|permits_)search::"],
    ),
    (&["lua/once", "crates/lockkeeper-once"], &["done_once"]),
    (&["lua/latch", "crates/lockkeeper-latch"], &["latch"]),
    (
        &["lua/election", "crates/lockkeeper-election"],
        &["election"],
    ),
    (
        &[
            "crates/lockkeeper-mutex",
            "crates/lockkeeper-reentrant",
            "crates/lockkeeper-fair",
            "crates/lockkeeper-rwlock",
            "crates/lockkeeper-semaphore",
        ],
        &["^proofs::search::"],
    ),
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
    /// The turn that the environment names or else that of the last commit: the number of commits on the main line tells.
    /// Where git or a part of its history is missing, everything; in CI, whose time is limited, the turn of the day.
    pub(crate) fn of_commit() -> Result<Self> {
        if let Ok(named) = std::env::var(VARIABLE) {
            let third = named.parse().ok().filter(|third| *third < 3);
            let third = third.with_context(|| format!("{VARIABLE} is 0, 1 or 2, not {named:?}"))?;
            return Ok(Self::Third(third));
        }
        match git("rev-parse --is-shallow-repository") {
            Ok(shallow) if shallow.trim() == "false" => {
                let count = git("rev-list --first-parent --count HEAD")?;
                Ok(Self::Third(count.trim().parse::<u64>()? % 3))
            }
            _ if std::env::var_os("CI").is_none() => Ok(Self::All),
            _ => {
                let days = SystemTime::UNIX_EPOCH.elapsed()?.as_secs() / 86_400;
                Ok(Self::Third(days % 3))
            }
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

/// Patterns of the names of long tests that the last change, committed or not, requires whole. None without git.
pub(crate) fn touched() -> Result<Vec<&'static str>> {
    if git("rev-parse HEAD").is_err() {
        return Ok(Vec::new());
    }
    let last: u64 = git("log -1 --format=%ct")?.trim().parse()?;
    let until = last.saturating_sub(RECENT * 3600);
    let base = git(&format!("rev-list -1 --before={until} HEAD"))?;
    let files = match base.trim() {
        "" => git("ls-files")?,
        base => git(&format!("diff --name-only {base}"))?,
    };
    Ok(patterns(&files))
}

fn patterns(files: &str) -> Vec<&'static str> {
    let touched = |starts: &[&str]| {
        files
            .lines()
            .any(|file| starts.iter().any(|start| file.starts_with(start)))
    };
    let mut patterns: Vec<_> = TOUCHES
        .iter()
        .filter(|(starts, _)| touched(starts))
        .flat_map(|(_, patterns)| patterns.iter().copied())
        .collect();
    patterns.sort_unstable();
    patterns.dedup();
    patterns
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
            patterns("README.md\ncrates/lockkeeper-cli/src/lib.rs"),
            [""; 0]
        );
        assert_eq!(patterns("crates/lockkeeper-once/src/lib.rs"), ["done_once"]);
        let shared = "crates/lockkeeper-core/src/claim/mod.rs\nlua/redlock/raise.lua";
        assert_eq!(patterns(shared), ["^proofs::rounds::", "redlock"]);
    }

    #[test]
    fn a_turn_has_its_own_third_and_everything_has_all() {
        let has = |turn: Turn| [0, 1, 2].map(|third| turn.has(third));
        assert_eq!(has(Turn::Third(1)), [false, true, false]);
        assert_eq!(has(Turn::All), [true; 3]);
    }
}
