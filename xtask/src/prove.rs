//! `cargo xtask prove`: the tests that take longer than a contributor should wait, and the exhaustive searches by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::check;
use crate::deny;
use crate::dist;
use crate::examples;
use crate::house::root;
use crate::oldest;
use crate::peers;
use crate::programs::{self, Built, Program, WITH_DATABASE, WITHOUT_DATABASE};
use crate::servers;
use crate::steps::{Steps, cargo, execute};
use crate::suite::Suite;
use crate::tools;

/// Tests to repeat on each other server: the contract of all kinds, the scripts' vectors, refusals, a failover.
const OF_A_SERVER: [&str; 5] = [
    "on_a_server",
    "scripts::",
    "input::",
    "rights::",
    "sentinel::",
];

/// The test program that contains them.
const BEHAVIOUR: &str = "tests lockkeeper";

/// The tests with Redisson, and of the format shared with it.
const REDISSON: &str = "tests redisson";

/// The tests of the promises of the server store.
const STORE: &str = "lockkeeper-redis store";

/// The promises of all kinds, on everything that a client library reaches.
const CONTRACT: [&str; 3] = [
    "kinds::contract::on_a_server",
    "kinds::contract::on_a_cluster",
    "kinds::contract::by_sentinels",
];

/// Selects the client library for the tests; everything else uses the default, redis-rs.
const TRANSPORT: &str = "LOCKKEEPER_TEST_TRANSPORT";

/// As in the testkit: lists the programs of other libraries.
const PEERS: &str = "LOCKKEEPER_TEST_PEERS";

/// The test program that tries interleavings of the engine's threads.
const THREADS: &str = "threads threads";

/// The tests of the command, and those in a browser.
const COMMAND: &str = "lockkeeper-cli command";
const BROWSING: &str = "browsing::";

/// The test program that compares the embedded engine with all available servers.
const DIFFERENTIAL: &str = "lockkeeper-memory differential";

/// How long each test under load works, in seconds: longer than the 5 to 20 s of `cargo xtask test`.
const LOAD: &str = "60";

/// How many of them run at a time. They mostly wait for servers.
const UNDER_LOAD_AT_ONCE: usize = 4;

/// The tests under load.
const UNDER_LOAD: [&str; 2] = ["recorded::", "topologies::cluster::nobody"];

/// Features of the facade: none, each one and every pair are built; the tests have all of them together.
const FACADE: [&str; 7] = [
    "redis", "fred", "memory", "tls", "serde", "metrics", "redisson",
];

/// The most crates, ours included, that a service with locks on servers may need.
const MOST_CRATES: usize = 100;

/// How long the soak takes, in minutes: long enough to kill some hundred processes.
const SOAK: &str = "3";

/// The options of a search by hand; see `cargo xtask prove --help`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Bounds and choices of one search, as `--help` lists them: `--thorough` for those that take hours, `--quick` for those
    /// that this command runs, `--mutants` to hunt every mutant of the scripts and of the engine.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Fails if a rule is broken, a mutant survives, or a search is unfinished.
pub(crate) fn run(steps: &mut Steps, options: &Options) -> Result<()> {
    if !options.arguments.is_empty() {
        let mut command = cargo();
        command.args("run --release --package lockkeeper-tests --bin prove --".split(' '));
        command.args(&options.arguments);
        return steps.run("cargo run --bin prove", || execute(&mut command));
    }
    steps.run("a C compiler", tools::require_c_compiler)?;
    steps.run("a server to test against", tools::require_server)?;
    let mut others = Vec::new();
    steps.run("other servers to test against", || {
        servers::offer(&mut others)
    })?;
    // Built beside the checks: much of it waits for downloads.
    let peers = std::thread::spawn(peers::offer);
    let mut browser = false;
    steps.run("Chromium to test the page in", || {
        tools::offer_chromium(&mut browser)
    })?;
    check::run(steps)?;
    steps.run(
        "licences, versions and sources of dependencies",
        deny::check,
    )?;
    let peers = steps.run("other libraries to test beside", || {
        let peers = peers.join();
        peers.map_err(|_| anyhow::anyhow!("building them has panicked"))?
    })?;
    let built = steps.run("build all tests", || programs::build(&WITHOUT_DATABASE))?;
    let with_database = steps.run("build the example with a database", || {
        programs::build(&["--package", WITH_DATABASE])
    })?;
    examples::run_built(steps, &with_database, &[], None)?;
    let proved = steps.run("long searches, histories and mutants", || {
        long(&built, &peers)
    })?;
    let joined = servers::joined(&others)?;
    steps.run("the embedded engine beside all servers", || {
        let mut suite = Suite::all();
        suite.set(servers::VARIABLE, joined);
        suite.run(&named(&built, DIFFERENTIAL))
    })?;
    steps.run("the store and the contract over fred", || {
        for (program, tests) in [(STORE, &[][..]), (BEHAVIOUR, &CONTRACT)] {
            let mut suite = Suite::new(tests);
            suite.set(TRANSPORT, "fred");
            suite.run(&named(&built, program))?;
        }
        Ok(())
    })?;
    if browser {
        steps.run("the page in a browser", || {
            let mut suite = Suite::new(&["--ignored", BROWSING]);
            suite.run(&named(&built, COMMAND))?;
            anyhow::ensure!(suite.ran() > 0, "the test of the page has another name now");
            Ok(())
        })?;
    }
    for other in &others {
        let name = format!("what a server must do, on {}", other.display());
        steps.run(&name, || {
            let mut suite = Suite::new(&OF_A_SERVER);
            suite.set(tools::SERVER_VARIABLE, other);
            suite.run(&named(&built, BEHAVIOUR))
        })?;
    }
    // These wait for servers more than they compute, and a busy machine must not matter to them.
    std::thread::scope(|scope| {
        let loaded = scope.spawn(|| under_load(&built));
        let soaked = scope.spawn(|| soak(&built));
        other_builds(steps)?;
        for (name, beside) in [("under load, a minute each", loaded), ("the soak", soaked)] {
            steps.run(name, || {
                let outcome = beside.join();
                outcome.map_err(|_| anyhow::anyhow!("its run has panicked"))?
            })?;
        }
        anyhow::Ok(())
    })?;
    dist::prove(steps, program(&built, "lockkeeper")?)?;
    print(&proved);
    Ok(())
}

fn under_load(built: &Built) -> Result<()> {
    let mut suite = Suite::new(&UNDER_LOAD);
    suite.set("LOCKKEEPER_LOAD_SECONDS", LOAD);
    suite.threads(UNDER_LOAD_AT_ONCE);
    suite.run(&named(built, BEHAVIOUR))
}

/// All other steps build with every feature, and with the newest Rust.
fn other_builds(steps: &mut Steps) -> Result<()> {
    for features in ["", "redis"] {
        let package = "test --package lockkeeper --test features --no-default-features --features";
        steps.cargo(&format!("{package}={features}"))?;
    }
    steps.run(
        "the packages, compiled of what would be published",
        check::unpacked,
    )?;
    steps.run("the facade with few of its features", few_features)?;
    steps.run("what a service builds", count_of_a_service)?;
    steps.run("the oldest Rust that is promised", oldest::check)
}

/// Features only add: none needs a third one to be present or absent. Clippy also examines the members that they are passed on
/// to, so each transport of the server store, with and without TLS.
fn few_features() -> Result<()> {
    let mut combinations = vec![String::new()];
    for (at, feature) in FACADE.iter().enumerate() {
        combinations.push((*feature).to_owned());
        let others = FACADE[..at].iter();
        combinations.extend(others.map(|other| format!("{other},{feature}")));
    }
    for features in &combinations {
        let words = "clippy --package lockkeeper --no-default-features --features";
        let mut command = cargo();
        command.args(words.split(' ')).arg(features);
        command.args(["--", "-D", "warnings"]);
        execute(&mut command).with_context(|| format!("with the features {features:?}"))?;
    }
    println!("{} combinations", combinations.len());
    Ok(())
}

/// Runs the tests that `cargo xtask test` ignores. In other programs, an ignored test is one that another test starts in its
/// own process.
fn long(built: &Built, peers: &[peers::Built]) -> Result<BTreeMap<String, u64>> {
    let peers: BTreeMap<_, _> = peers.iter().cloned().collect();
    let mut suite = Suite::new(&["--ignored", "--show-output"]);
    suite.set(PEERS, serde_json::to_string(&peers)?);
    // Few of them wait, and some use both cores by themselves.
    suite.threads(3);
    suite.side_by_side(1);
    let programs = [THREADS, BEHAVIOUR, REDISSON].map(|name| named(built, name));
    let programs = programs.concat();
    anyhow::ensure!(
        programs.len() == 3,
        "a program of tests has another name now"
    );
    let outcome = suite.run(&programs);
    suite.print_slowest();
    outcome?;
    Ok(suite.proved().clone())
}

fn named(built: &Built, name: &str) -> Vec<Program> {
    let programs = built.tests.iter();
    programs.filter(|it| it.name == name).cloned().collect()
}

fn soak(built: &Built) -> Result<()> {
    let mut command = Command::new(program(built, "soak")?);
    execute(command.current_dir(root()).args(["--minutes", SOAK]))
}

fn program<'a>(built: &'a Built, name: &str) -> Result<&'a Path> {
    let program = built.bins.iter().find(|(its, _)| its == name);
    let (_, path) = program.with_context(|| format!("no program is called {name}"))?;
    Ok(path)
}

/// Counts and limits the crates that a service needs if it uses servers alone.
fn count_of_a_service() -> Result<()> {
    let mut command = cargo();
    command.args("tree --package lockkeeper --no-default-features --features redis".split(' '));
    command.args("--edges normal,build --prefix none --format {p}".split(' '));
    let tree = command.output().context("failed to run cargo tree")?;
    anyhow::ensure!(tree.status.success(), "cargo tree failed");
    let tree = String::from_utf8(tree.stdout)?;
    let crates = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    let crates: BTreeSet<&str> = crates.filter(|line| !line.is_empty()).collect();
    let own = crates.iter().filter(|it| it.starts_with("lockkeeper"));
    let own = own.count();
    let others = crates.len() - own;
    println!("{others} crates of others and {own} of this workspace");
    anyhow::ensure!(
        crates.len() <= MOST_CRATES,
        "more than {MOST_CRATES} crates for a service are too many"
    );
    let needs_c = crates
        .iter()
        .any(|it| it.starts_with("mlua") || it.starts_with("cc "));
    anyhow::ensure!(
        !needs_c,
        "a service without `memory` must not need a C compiler"
    );
    Ok(())
}

fn print(proved: &BTreeMap<String, u64>) {
    println!("\n== proved");
    for (what, number) in proved {
        println!("{number:>12}  {what}");
    }
}
