//! The moment between this command and the program: a copy of this command that ties its life to the first one's, and then
//! becomes the program. It exists so that no unsafe code runs between fork and exec.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getppid};

use super::terminal::Terminal;
use crate::exit::{NOT_EXECUTABLE, NOT_FOUND, SYSTEM, USAGE, say};

/// The first word of the command line of a shim.
pub(crate) const SHIM: &str = "@become";

/// How long the terminal may take to be handed over; it takes the time of one system call.
const HAND_OVER: Duration = Duration::from_secs(1);

/// This command once more.
pub(super) fn this() -> std::io::Result<Command> {
    // By this name it is found also after an upgrade has replaced the file.
    #[cfg(target_os = "linux")]
    let this = "/proc/self/exe";
    #[cfg(not(target_os = "linux"))]
    let this = std::env::current_exe()?;
    Ok(Command::new(this))
}

/// A command that becomes `program` in a process group of its own. It dies with this thread, on Linux.
pub(crate) fn command(program: &[OsString], foreground: bool) -> std::io::Result<Command> {
    let mut command = this()?;
    let parent = std::process::id().to_string();
    let place = if foreground {
        "foreground"
    } else {
        "background"
    };
    command.args([SHIM, &*parent, place]).args(program);
    command.process_group(0);
    Ok(command)
}

/// What a shim does with the words behind its name: the parent, where it stands, the program, its arguments.
pub(crate) fn become_program(mut words: impl Iterator<Item = OsString>) -> u8 {
    let mut text = || words.next()?.into_string().ok();
    let parent = text().and_then(|text| text.parse().ok());
    let (Some(parent), Some(place)) = (parent.and_then(Pid::from_raw), text()) else {
        say("a program is started by `lockkeeper run`");
        return USAGE;
    };
    let Some(program) = words.next() else {
        return USAGE;
    };
    if let Err(error) = die_with(parent) {
        say(&format!("could not tie the program to its lock: {error}"));
        return SYSTEM;
    }
    if place == "foreground" {
        await_terminal();
    }
    let error = Command::new(&program).args(words).exec();
    let program = program.to_string_lossy();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            // Somebody thinks of a shell's `-c`.
            let hint = match program.contains(char::is_whitespace) {
                true => "; no shell reads this, so write: -- sh -c '…'",
                false => "",
            };
            say(&format!("{program}: no such program{hint}"));
            NOT_FOUND
        }
        _ => {
            say(&format!("{program}: cannot be executed: {error}"));
            NOT_EXECUTABLE
        }
    }
}

/// Ends this process with its parent, which may have ended already.
fn die_with(parent: Pid) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(std::io::Error::other("its guard has ended"))
    }
}

/// A program that reads the terminal before it may would be stopped.
fn await_terminal() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    let begun = Instant::now();
    while begun.elapsed() < HAND_OVER && !terminal.is_ours() {
        std::thread::sleep(Duration::from_micros(200));
    }
}
