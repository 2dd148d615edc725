//! The developer's one entry: `cargo xtask test`, `check`, `examples`, `bench`, `prove`, `simulate`, `soak`,
//! `dist`, `release`, `book`, `pictures`, `lock-scripts`.

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
mod oldest;
mod peers;
mod pictures;
mod plots;
mod programs;
mod prove;
mod python_index;
mod release;
mod scripts;
mod servers;
mod simulate;
mod soak;
mod steps;
mod suite;
mod test;
mod timing;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use steps::Steps;

/// Works on Lockkeeper itself.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What a contributor waits for: format and laws, all behaviour on one server, short searches and histories, examples.
    ///
    /// Installs Debian's redis-server first if there is no server and this is Debian or Ubuntu, as root.
    Test(test::Options),
    /// Format, lints, the laws of the house, the links of the book, the documentation: no tests, no server.
    Check,
    /// Every example, inside its own process and on a real server.
    Examples(examples::Options),
    /// How fast the locks are, beside the same scripts called bare. Slow is no failure.
    Bench(bench::Options),
    /// What takes longer than `test` and must hold as well: `check`, long searches and histories, mutants, load, soak, other
    /// servers and features.
    ///
    /// Gets an older and a newer server from Python's index, where python3 and pip are there.
    Prove(prove::Options),
    /// The real engine over a simulated network, history after history, each from a seed.
    Simulate(simulate::Options),
    /// Locks of all kinds on real servers while clients are killed, and what that does to memory and keys.
    Soak(soak::Options),
    /// The command for machines without Rust, into target/dist: a static program, and a Debian package with it.
    ///
    /// Installs Debian's musl-tools first if there is no musl-gcc and this is Debian or Ubuntu, as root.
    Dist,
    /// A release as far as it can be tried: what it lacks, and the publishing without the registry. Tags and publishes nothing.
    Release,
    /// Renders the book into target/book, by mdBook.
    Book(book::render::Options),
    /// Draws the pictures of the book anew.
    Pictures(pictures::Options),
    /// Writes lua/scripts.lock anew after a script has changed.
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
        Command::LockScripts => scripts::lock(),
    };
    steps.print_summary();
    outcome
}
