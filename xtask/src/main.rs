//! The developers' command: `cargo xtask test`, `check`, `examples`, `bench`, `prove`, `simulate`, `soak`, `dist`, `release`,
//! `book`, `pictures`, `real-time`, `lock-scripts`.

mod bench;
mod book;
mod check;
mod deny;
mod dist;
mod examples;
mod house;
mod launch;
mod laws;
mod layers;
mod nextest;
mod oldest;
mod peers;
mod pictures;
mod plots;
mod prove;
mod python_index;
mod real_time;
mod release;
mod scripts;
mod servers;
mod simulate;
mod soak;
mod steps;
mod test;
mod tools;
mod turn;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use steps::Steps;

/// Development tasks of Lockkeeper.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The tests that a contributor runs: format and laws, all behaviour on one server, short searches and histories,
    /// the quickstart.
    ///
    /// As root on Debian or Ubuntu, first installs redis-server if there is no server.
    Test(test::Options),
    /// Format, lints, the laws of the house, the links of the book, the documentation. Runs no tests and needs no server.
    Check,
    /// Every example, inside its own process and on a real server.
    Examples(examples::Options),
    /// Measures how fast the locks are, compared with the same scripts alone. Slowness is no failure.
    Bench(bench::Options),
    /// The tests that take longer than `test`: `check`, long searches and histories, mutants, load, soak, other servers and
    /// features.
    ///
    /// Downloads an older and a newer server from Python's index if python3 and pip are there.
    Prove(prove::Options),
    /// Runs histories of the real engine over a simulated network, each from a seed.
    Simulate(simulate::Options),
    /// Uses locks of all kinds on real servers while clients are killed, and checks memory and keys.
    Soak(soak::Options),
    /// Builds the command for machines without Rust into target/dist: a static program, and a Debian package with it.
    ///
    /// As root on Debian or Ubuntu, first installs musl-tools if there is no musl-gcc.
    Dist,
    /// Tries a release without the registry, and reports what is missing. Tags and publishes nothing.
    Release,
    /// Renders the book into target/book with mdBook.
    Book(book::render::Options),
    /// Redraws the pictures of the book.
    Pictures(pictures::Options),
    /// Lists the tests that may depend on how fast the machine is.
    RealTime,
    /// Rewrites lua/scripts.lock after a script has changed.
    LockScripts,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    let mut steps = Steps::default();
    let outcome = match command {
        Command::Test(options) => test::run(&mut steps, options),
        Command::Check => check::run(&mut steps),
        Command::Examples(options) => examples::run(&mut steps, options),
        Command::Bench(options) => bench::run(&mut steps, options),
        Command::Prove(options) => prove::run(&mut steps, options),
        Command::Simulate(options) => simulate::run(&mut steps, options),
        Command::Soak(options) => soak::run(&mut steps, options),
        Command::Dist => dist::run(&mut steps),
        Command::Release => release::run(&mut steps),
        Command::Book(options) => book::render::run(options),
        Command::Pictures(options) => pictures::run(options),
        Command::RealTime => real_time::list(),
        Command::LockScripts => scripts::lock(),
    };
    steps.print_summary();
    outcome
}
