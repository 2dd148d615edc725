//! `cargo xtask test`: everything.

use anyhow::Result;

use crate::check;
use crate::examples;
use crate::steps::{Steps, cargo, execute};
use crate::tools;

/// Stops at the first step that fails.
pub(crate) fn run(steps: &mut Steps) -> Result<()> {
    steps.run("a C compiler", tools::require_c_compiler)?;
    steps.run("a server to test against", tools::require_server)?;
    steps.run("tmux to test in", tools::offer_tmux)?;
    check::run(steps)?;
    steps.cargo("test --workspace")?;
    steps.cargo("test --package lockkeeper-redis --features tls --test store tls::")?;
    examples::run(steps, &examples::Options::default())?;
    steps.run("cargo doc --workspace --no-deps", || {
        let mut command = cargo();
        command.args(["doc", "--workspace", "--no-deps"]);
        execute(command.env("RUSTDOCFLAGS", "-D warnings"))
    })
}
