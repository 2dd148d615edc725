//! The oldest supported Rust, `rust-version`: checks what dependencies require, and builds the published members with it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId};

use crate::house::{House, root};
use crate::nextest::FEATURES;
use crate::steps::execute;
use crate::tools;

/// Fails if a published member needs a dependency that requires a newer Rust. For the standard library, clippy checks that
/// with its lint `incompatible_msrv`.
pub(crate) fn dependencies() -> Result<()> {
    let metadata = MetadataCommand::new()
        .current_dir(root())
        .features(CargoOpt::AllFeatures)
        .exec()
        .context("failed to read the dependencies")?;
    let published = published(&metadata);
    let promised = published
        .iter()
        .find_map(|member| member.rust_version.as_ref());
    let promised = promised.context("no Rust version is promised")?;
    let needed = needed(&metadata, &published)?;
    let newer = metadata.packages.iter().filter_map(|package| {
        let asks = package
            .rust_version
            .as_ref()
            .filter(|asks| *asks > promised)?;
        let (name, version) = (&package.name, &package.version);
        needed
            .contains(&package.id)
            .then(|| format!("{name} {version} asks for {asks}"))
    });
    let newer: Vec<String> = newer.collect();
    ensure!(
        newer.is_empty(),
        "{promised} is promised, {}",
        newer.join(", ")
    );
    println!(
        "{} packages ask for no Rust newer than {promised}",
        needed.len()
    );
    Ok(())
}

/// Checks the published members with that Rust, which rustup installs if needed. Without rustup, prints a note.
pub(crate) fn check() -> Result<()> {
    let house = House::read()?;
    let published = || house.members.iter().filter(|member| member.published);
    let promised = published().find_map(|member| member.rust_version.as_deref());
    let promised = format!("{}.0", promised.context("no Rust version is promised")?);
    let by_it = |program: &str| {
        let mut command = Command::new("rustup");
        command
            .current_dir(root())
            .env_remove("CARGO")
            .args(["run", &promised, program]);
        command
    };
    let there = || tools::output(by_it("rustc").arg("--version"));
    if there().is_err() {
        let mut install = Command::new("rustup");
        install.args(["toolchain", "install", &promised]);
        if let Err(error) = execute(install.args(["--profile", "minimal", "--no-self-update"])) {
            println!("no Rust {promised}, {error}: IT IS CHECKED BY CLIPPY ALONE");
            return Ok(());
        }
    }
    print!("{}", there()?);
    let mut command = by_it("cargo");
    command.args(["check", "--locked", FEATURES]);
    for member in published() {
        command.args(["--package", &member.name]);
    }
    execute(&mut command)
}

fn published(metadata: &Metadata) -> Vec<&Package> {
    let mut members = metadata.workspace_packages();
    members.retain(|member| member.publish.as_ref().is_none_or(|to| !to.is_empty()));
    members
}

/// The dependencies and build dependencies of these packages, on any system.
fn needed<'a>(
    metadata: &'a Metadata,
    published: &[&'a Package],
) -> Result<BTreeSet<&'a PackageId>> {
    let resolve = metadata.resolve.as_ref().context("nothing is resolved")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut open: Vec<&PackageId> = published.iter().map(|member| &member.id).collect();
    let mut needed = BTreeSet::new();
    while let Some(id) = open.pop() {
        if needed.insert(id) {
            let dependencies = &nodes.get(id).context("not resolved")?.deps;
            let built_in = dependencies.iter().filter(|dependency| {
                let mut kinds = dependency.dep_kinds.iter();
                kinds.any(|kind| kind.kind != DependencyKind::Development)
            });
            open.extend(built_in.map(|dependency| &dependency.pkg));
        }
    }
    Ok(needed)
}
