//! `cargo xtask test`: everything.

use anyhow::Result;

use crate::check;
use crate::examples;
use crate::servers;
use crate::steps::{Steps, cargo, execute};
use crate::tools;

/// Tests to repeat on each other server: the contract of all kinds, the scripts' vectors, what a server refuses, a failover.
const OF_A_SERVER: [&str; 5] = [
    "on_a_server",
    "scripts::",
    "input::",
    "rights::",
    "sentinel::",
];

/// Stops at the first step that fails.
pub(crate) fn run(steps: &mut Steps) -> Result<()> {
    steps.run("a C compiler", tools::require_c_compiler)?;
    steps.run("a server to test against", tools::require_server)?;
    steps.run("tmux to test in", tools::offer_tmux)?;
    let mut others = Vec::new();
    steps.run("other servers to test against", || {
        servers::offer(&mut others)
    })?;
    check::run(steps)?;
    steps.run("cargo test --workspace", || {
        let mut command = cargo();
        command.args(["test", "--workspace"]);
        execute(command.env(servers::VARIABLE, servers::joined(&others)?))
    })?;
    steps.cargo("test --package lockkeeper-redis --features tls --test store tls::")?;
    for other in &others {
        let name = format!("what a server must do, on {}", other.display());
        steps.run(&name, || {
            let mut command = cargo();
            command.args(["test", "--package", "lockkeeper-tests", "--"]);
            command.args(OF_A_SERVER);
            execute(command.env(tools::SERVER_VARIABLE, other))
        })?;
    }
    examples::run(steps, &examples::Options::default())?;
    steps.run("cargo doc --workspace --no-deps", || {
        let mut command = cargo();
        command.args(["doc", "--workspace", "--no-deps"]);
        execute(command.env("RUSTDOCFLAGS", "-D warnings"))
    })
}
