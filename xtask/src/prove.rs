//! `cargo xtask prove`: the tests that take longer than a contributor should wait, and the exhaustive searches by hand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::check;
use crate::deny;
use crate::dist;
use crate::examples;
use crate::house::{root, target};
use crate::nextest::{self, Nextest, Proved};
use crate::oldest;
use crate::peers;
use crate::servers;
use crate::steps::{Steps, cargo, execute};
use crate::tools;
use crate::turn::{self, Turn};

/// Tests to repeat on each other server: the contract of all kinds, the scripts' vectors, refusals, a failover.
const OF_A_SERVER: &str = "binary_id(/^lockkeeper-tests::(locks|servers)$/) and \
                           test(/on_a_server|scripts::|input::|rights::|sentinel::/)";

/// The tests of the promises of the server store.
const STORE: &str = "binary_id(lockkeeper-redis::store)";

/// The promises of all kinds, on everything that a client library reaches.
const CONTRACT: &str = "binary_id(lockkeeper-tests::locks) and \
                        test(/kinds::contract::(on_a_server|on_a_cluster|by_sentinels)/)";

/// The test program that compares the embedded engine with all available servers.
const DIFFERENTIAL: &str = "binary_id(lockkeeper-memory::differential)";

/// Ignored tests that are not long: another test starts them.
const STARTED: &str = "test(/connects_to_a_server_that_means_harm|start_a_server_and_wait/)";

/// The hunts of mutants, which always run.
const HUNTS: &str = "test(/mistake|mutant|(is|are)_found/)";

/// Beside programs of other libraries.
const BESIDE: &str = "test(/beside_java::|^others::/)";

/// The page of the command in a browser.
const BROWSING: &str = "binary_id(lockkeeper-cli::command) and test(/browsing::/)";

/// The tests under load.
const UNDER_LOAD: &str = "binary_id(lockkeeper-tests::servers) and \
                          test(/recorded::|topologies::cluster::nobody/)";

/// Selects the client library for the tests; everything else uses the default, redis-rs.
const TRANSPORT: &str = "LOCKKEEPER_TEST_TRANSPORT";

/// As in the testkit: lists the programs of other libraries.
const PEERS: &str = "LOCKKEEPER_TEST_PEERS";

/// How long each test under load works, in seconds: longer than the 5 to 20 s of `cargo xtask test`.
const LOAD: &str = "60";

/// How many of them run at a time. They mostly wait for servers.
const UNDER_LOAD_AT_ONCE: usize = 4;

/// How many long tests run at a time: few of them wait, and some use both cores by themselves.
const LONG_AT_ONCE: usize = 4;

/// Features of the facade: none, each one and every pair are built; the tests have all of them together.
const FACADE: [&str; 7] = [
    "redis", "fred", "memory", "tls", "serde", "metrics", "redisson",
];

/// The most crates, ours included, that a service with locks on servers may need.
const MOST_CRATES: usize = 100;

/// How long the soak takes, in minutes: long enough to kill some hundred processes.
const SOAK: &str = "3";

/// The thirds in which these run, so that each takes about as long.
const PEERS_IN: u64 = 0;
const LOAD_IN: u64 = 0;
const CHECK_IN: u64 = 1;
const FRED_IN: u64 = 1;
const BROWSER_IN: u64 = 1;
const BUILDS_IN: u64 = 2;

/// What to prove.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Runs everything. Without it, what takes longest runs by thirds, and what the last change touches runs whole.
    #[arg(long)]
    all: bool,
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
    let turn = match options.all {
        true => Turn::All,
        false => Turn::of_commit()?,
    };
    println!("{turn}");
    steps.run("a C compiler", tools::require_c_compiler)?;
    steps.run("a server to test against", tools::require_server)?;
    let tests = steps.run("a test runner", Nextest::find)?;
    let others = steps.run("other servers to test against", servers::offer)?;
    // Built beside the checks: much of it waits for downloads.
    let peers = turn.has(PEERS_IN).then(|| std::thread::spawn(peers::offer));
    check::without_compiling(steps)?;
    if turn.has(CHECK_IN) {
        check::by_compiling(steps)?;
        steps.run(
            "licences, versions and sources of dependencies",
            deny::check,
        )?;
    }
    steps.run("build all tests", || tests.build())?;
    let mut proved = Proved::new();
    steps.run("long searches, histories and mutants", || {
        proved = long(&tests, turn)?;
        Ok(())
    })?;
    if let Some(peers) = peers {
        steps.run("beside other libraries", || {
            let built = peers.join();
            let built = built.map_err(|_| anyhow!("building them has panicked"))??;
            let built: std::collections::BTreeMap<_, _> = built.into_iter().collect();
            let beside = tests.with(&["--run-ignored", "only"]).only(BESIDE);
            beside.set(PEERS, serde_json::to_string(&built)?).run()
        })?;
    }
    on_other_servers(steps, &tests, &others, turn)?;
    if turn.has(BROWSER_IN) {
        in_a_browser(steps, &tests)?;
    }
    // These wait for servers more than they compute.
    std::thread::scope(|scope| {
        let beside = turn.has(LOAD_IN).then(|| {
            let (loaded, soaked) = (scope.spawn(|| under_load(&tests)), scope.spawn(soak));
            [("under load, a minute each", loaded), ("the soak", soaked)]
        });
        if turn.has(BUILDS_IN) {
            other_builds(steps)?;
        }
        for (name, beside) in beside.into_iter().flatten() {
            steps.run(name, || {
                let outcome = beside.join();
                outcome.map_err(|_| anyhow!("its run has panicked"))?
            })?;
        }
        anyhow::Ok(())
    })?;
    println!("\n== proved, {turn}");
    for (what, number) in proved {
        println!("{number:>12}  {what}");
    }
    Ok(())
}

/// Runs the tests that `cargo xtask test` ignores: the hunts of mutants and what the last change touches whole, of the rest a
/// third.
fn long(tests: &Nextest, turn: Turn) -> Result<Proved> {
    let long = tests.with(&["--run-ignored", "only"]).at_once(LONG_AT_ONCE);
    let all = format!("all() - ({STARTED}) - ({BESIDE}) - ({BROWSING})");
    let Turn::Third(third) = turn else {
        return long.only(&all).prove();
    };
    let touched = turn::touched()?;
    println!("whole, because the last change touches them: {touched:?}");
    let touched = touched
        .iter()
        .map(|pattern| format!(" + test(/{pattern}/)"));
    let whole = format!("({HUNTS}{})", touched.collect::<String>());
    let mut proved = long.only(&format!("{all} & {whole}")).prove()?;
    let rest = long.only(&format!("{all} - {whole}"));
    for (what, number) in rest.set(turn::VARIABLE, third.to_string()).prove()? {
        *proved.entry(what).or_default() += number;
    }
    Ok(proved)
}

fn on_other_servers(
    steps: &mut Steps,
    tests: &Nextest,
    others: &[PathBuf],
    turn: Turn,
) -> Result<()> {
    let joined = servers::joined(others)?;
    steps.run("the embedded engine beside all servers", || {
        tests
            .only(DIFFERENTIAL)
            .set(servers::VARIABLE, joined)
            .run()
    })?;
    for other in others {
        let name = format!("what a server must do, on {}", other.display());
        steps.run(&name, || {
            let tests = tests.only(OF_A_SERVER);
            tests.set(tools::SERVER_VARIABLE, other).run()
        })?;
    }
    if turn.has(FRED_IN) {
        steps.run("the store and the contract over fred", || {
            let tests = tests.only(&format!("({STORE}) or ({CONTRACT})"));
            tests.set(TRANSPORT, "fred").run()
        })?;
    }
    Ok(())
}

fn in_a_browser(steps: &mut Steps, tests: &Nextest) -> Result<()> {
    let mut browser = false;
    steps.run("Chromium to test the page in", || {
        tools::offer_chromium(&mut browser)
    })?;
    if browser {
        steps.run("the page in a browser", || {
            tests.with(&["--run-ignored", "only"]).only(BROWSING).run()
        })?;
    }
    Ok(())
}

fn under_load(tests: &Nextest) -> Result<()> {
    let loaded = tests.only(UNDER_LOAD).set("LOCKKEEPER_LOAD_SECONDS", LOAD);
    loaded.at_once(UNDER_LOAD_AT_ONCE).run()
}

/// Builds that the tests do not need: of documentation and examples, of few features, with the oldest Rust, for machines
/// without Rust.
fn other_builds(steps: &mut Steps) -> Result<()> {
    steps.run("examples in the documentation", nextest::documentation)?;
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
    steps.run("the oldest Rust that is promised", oldest::check)?;
    examples::run(steps, &examples::Options::default())?;
    dist::prove(steps, &program("lockkeeper")?)
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

fn soak() -> Result<()> {
    let mut command = Command::new(program("soak")?);
    execute(command.current_dir(root()).args(["--minutes", SOAK]))
}

/// A program that was built with the tests.
fn program(name: &str) -> Result<PathBuf> {
    let path = target()?.join("debug").join(name);
    anyhow::ensure!(Path::new(&path).exists(), "no program is called {name}");
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
