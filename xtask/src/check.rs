//! `cargo xtask check`: what can be said without running the code.

use anyhow::{Result, bail};

use crate::book;
use crate::house::House;
use crate::laws::LAWS;
use crate::pictures;
use crate::programs::FEATURES;
use crate::steps::{Steps, cargo, execute};

/// The transports of the store of servers, with TLS or without.
const TRANSPORTS: [&str; 5] = [
    "redis-rs",
    "fred",
    "redis-rs,fred",
    "redis-rs,tls",
    "fred,tls",
];

/// Format, lints, laws, the book, the documentation.
pub(crate) fn run(steps: &mut Steps) -> Result<()> {
    without_compiling(steps)?;
    steps.cargo(&format!(
        "clippy --workspace {FEATURES} --all-targets -- -D warnings"
    ))?;
    for features in TRANSPORTS {
        let package = "clippy --package lockkeeper-redis --no-default-features --features";
        steps.cargo(&format!("{package}={features} -- -D warnings"))?;
    }
    steps.run("cargo doc", || {
        let mut command = cargo();
        command.args(["doc", "--workspace", FEATURES, "--no-deps"]);
        execute(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    steps.run("cargo package of the published members", package)
}

/// The part of it that takes a moment.
pub(crate) fn without_compiling(steps: &mut Steps) -> Result<()> {
    steps.cargo("fmt --all --check")?;
    steps.run("the laws of the house", laws)?;
    steps.run("the pictures of the book", pictures::check)?;
    steps.run("the book: summary, links, pictures, Rust", book::check)
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

/// Finds files that a package would lack and dependencies that a registry would refuse. Offline and without a build: the
/// clippy step has fetched everything, and built it.
fn package() -> Result<()> {
    let house = House::read()?;
    let mut command = cargo();
    command.args("package --workspace --no-verify --allow-dirty --offline --quiet".split(' '));
    for member in house.members.iter().filter(|member| !member.published) {
        command.args(["--exclude", &member.name]);
    }
    execute(&mut command)
}
