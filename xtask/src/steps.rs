//! Steps that run one after the other until one fails, and their summary.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::house::root;

/// The steps so far.
#[derive(Debug)]
pub(crate) struct Steps {
    began: Instant,
    done: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: String,
    time: Duration,
    passed: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            done: Vec::new(),
        }
    }
}

impl Steps {
    /// Runs a step of this program. Its heading has the time since the first, so that a run that is cut short shows where its
    /// time went.
    pub(crate) fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("\n== {:.0} s: {name}", self.began.elapsed().as_secs_f64());
        let start = Instant::now();
        let outcome = step();
        self.done.push(Step {
            name: name.to_owned(),
            time: start.elapsed(),
            passed: outcome.is_ok(),
        });
        outcome.with_context(|| format!("{name} failed"))
    }

    /// Runs cargo as a step that is named after the arguments.
    pub(crate) fn cargo(&mut self, arguments: &str) -> Result<()> {
        self.run(&format!("cargo {arguments}"), || {
            execute(cargo().args(arguments.split_whitespace()))
        })
    }

    /// Prints one line per step; nothing if there was none.
    pub(crate) fn print_summary(&self) {
        if self.done.is_empty() {
            return;
        }
        println!("\n== summary");
        for step in &self.done {
            let outcome = if step.passed { "ok" } else { "FAILED" };
            let seconds = step.time.as_secs_f64();
            println!("{outcome:>6} {seconds:>7.1} s  {}", step.name);
        }
    }
}

/// The cargo that runs this program, in the top folder: in a member's folder it would see only that member.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    // Remove cargo's variables about this package: build scripts that read them, such as ring's, would run again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if OF_A_PACKAGE.iter().any(|start| name.starts_with(start)) {
            command.env_remove(&*name);
        }
    }
    command
}

/// The prefixes of the variables in which `cargo run` describes the program.
const OF_A_PACKAGE: [&str; 5] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_PRIMARY_",
];

/// Runs a command to its end with this program's output and without input, because no step may ask questions.
pub(crate) fn execute(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("failed to start {program}"))?;
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_a_step_that_fails() {
        let mut steps = Steps::default();
        steps
            .run("good", || execute(&mut Command::new("true")))
            .unwrap();
        steps
            .run("bad", || execute(&mut Command::new("false")))
            .unwrap_err();
        steps
            .run("none", || execute(&mut Command::new("/no/such/program")))
            .unwrap_err();
        let passed: Vec<bool> = steps.done.iter().map(|step| step.passed).collect();
        assert_eq!(passed, [true, false, false]);
    }
}
