//! `cargo xtask check`: everything that can be checked without running the tests.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Result, bail};
use tempfile::TempDir;

use crate::book;
use crate::house::{House, Member, root};
use crate::laws::LAWS;
use crate::nextest::FEATURES;
use crate::oldest;
use crate::pictures;
use crate::steps::{Steps, cargo, execute};

/// Format, lints, laws, the book, the documentation.
pub(crate) fn run(steps: &mut Steps) -> Result<()> {
    without_compiling(steps)?;
    by_compiling(steps)
}

/// The checks that compile everything.
pub(crate) fn by_compiling(steps: &mut Steps) -> Result<()> {
    steps.cargo(&format!(
        "clippy --workspace {FEATURES} --all-targets -- -D warnings"
    ))?;
    steps.run("cargo doc", || {
        let mut command = cargo();
        command.args(["doc", "--workspace", FEATURES, "--no-deps"]);
        execute(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    steps.run("the Rust that dependencies ask for", oldest::dependencies)?;
    // Offline and without verification: the clippy step has already fetched and built everything.
    steps.run("cargo package of the published members", || {
        packages("package --no-verify --offline --quiet").map(drop)
    })
}

/// The checks that take only a moment.
pub(crate) fn without_compiling(steps: &mut Steps) -> Result<()> {
    steps.cargo("fmt --all --check")?;
    steps.run("the laws of the house", laws)?;
    steps.run("the pictures of the book", pictures::check)?;
    steps.run("the links of all pages", book::check_links)?;
    steps.run("the book: summary, pictures, Rust", book::check)
}

fn laws() -> Result<()> {
    let house = House::read()?;
    let mut broken = 0;
    for (name, law) in LAWS {
        let offences = law(&house);
        let outcome = if offences.is_empty() { "ok" } else { "BROKEN" };
        println!("{outcome:>6}  {name}");
        for offence in &offences {
            println!("        - {offence}");
        }
        broken += usize::from(!offences.is_empty());
    }
    if broken > 0 {
        bail!("{broken} of {} laws broken", LAWS.len());
    }
    Ok(())
}

/// Packages the published members with these words of cargo's command line. That finds missing files in a package and
/// dependencies that a registry would refuse.
///
/// Uses a new folder each time, because cargo never rereads a packaged version.
pub(crate) fn packages(words: &str) -> Result<TempDir> {
    let house = House::read()?;
    let target = root().join("target");
    fs::create_dir_all(&target)?;
    let target = tempfile::Builder::new()
        .prefix("packages-")
        .tempdir_in(target)?;
    let mut command = cargo();
    command.env("CARGO_TARGET_DIR", target.path());
    command
        .args(words.split(' '))
        .args(["--workspace", "--allow-dirty"]);
    for member in house.members.iter().filter(|member| !member.published) {
        command.args(["--exclude", &member.name]);
    }
    execute(&mut command)?;
    Ok(target)
}

/// Checks that each published member compiles alone, with the features that it enables itself, from the files of the packages. Cargo's
/// own verification builds them instead, which takes three times as long; `cargo xtask release` does that.
pub(crate) fn unpacked() -> Result<()> {
    let house = House::read()?;
    let packages = packages("package --no-verify --offline --quiet")?;
    let folder = packages.path().join("package");
    let (mut members, mut patches) = (String::new(), String::new());
    for Member { name, version, .. } in house.members.iter().filter(|member| member.published) {
        let package = format!("{name}-{version}");
        let mut unpack = Command::new("tar");
        unpack.args(["-xzf", &format!("{package}.crate")]);
        execute(unpack.current_dir(&folder))?;
        writeln!(members, "    {package:?},")?;
        writeln!(patches, "{name} = {{ path = {package:?} }}")?;
    }
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\n{members}]\n\n[patch.crates-io]\n{patches}"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    for member in house.members.iter().filter(|member| member.published) {
        let mut command = cargo();
        command.args(["check", "--quiet", "--offline", "--package", &member.name]);
        execute(command.current_dir(&folder))?;
    }
    Ok(())
}
