//! The `lockkeeper` command: run a program under a lock, see who holds what.
//!
//! `run` is its main purpose: a job runs on one machine only, and is stopped *before* another machine can hold its lock. The
//! other subcommands are for people who look at locks.

#[cfg(not(unix))]
compile_error!("the command needs process groups and signals, so it builds on Unix only");

mod args;
mod demo;
mod doctor;
mod exit;
mod history;
mod kind;
mod live;
mod look;
mod out;
mod paper;
mod run;
mod serve;
mod server;
mod slots;
mod top;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use args::{Arguments, Command};
use exit::Failure;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    match words.nth(1).as_ref().and_then(|word| word.to_str()) {
        Some(run::SHIM) => return run::become_program(words).into(),
        Some(run::WATCHER) => return run::watch_over().into(),
        _ => {}
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let shown = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
            let asked = shown.contains(&error.kind());
            // If the message cannot be printed, the exit code still reports the result.
            if asked {
                let _ = error.print();
                return 0.into();
            }
            use std::io::Write as _;
            let text = server::hushed(error.render().ansi().to_string());
            let _ = write!(anstream::stderr(), "{text}");
            return exit::USAGE.into();
        }
    };
    match execute(arguments) {
        Ok(code) => code.into(),
        Err(failure) => {
            failure.print();
            failure.code.into()
        }
    }
}

/// Everything except writing output runs on this thread, because a program gets its parent-death signal when the thread that
/// started it ends.
fn execute(arguments: Arguments) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("start", &error))?;
    let Arguments {
        server,
        json,
        color,
        command,
    } = arguments;
    color.write_global();
    runtime.block_on(async {
        match command {
            Command::Run(options) => return run::run(&server, &options, json).await,
            Command::Ls { pattern } => look::list(&server, &pattern, json).await?,
            Command::Inspect { name } => look::inspect(&server, &name, json).await?,
            Command::Watch { name, interval } => {
                look::watch(&server, &name, interval, json).await?;
            }
            Command::Top { pattern, interval } => {
                return top::top(&server, &pattern, interval, json).await;
            }
            Command::Serve(options) => serve::serve(&server, &options, json).await?,
            Command::Leader { name, watch } => look::leader(&server, &name, watch, json).await?,
            Command::Limit { name, limit } => look::limit(&server, &name, limit, json).await?,
            Command::History { name } => history::show(&server, &name, json).await?,
            Command::Revoke { name } => look::revoke(&server, &name, json).await?,
            Command::Release(options) => look::release(&server, &options, json).await?,
            Command::Doctor => return doctor::run(&server, json).await,
            Command::Demo => demo::run(&server).await?,
            Command::Completions { shell } => paper::completions(shell)?,
            Command::Manual { folder } => paper::manual(folder.as_deref())?,
        }
        Ok(0)
    })
}
