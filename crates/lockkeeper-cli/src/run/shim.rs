//! The shim: a copy of this command that ties its life to that of the command, waits for the command's signal, and then becomes
//! the program. So no unsafe code runs between fork and exec, and no part of the program runs before everything is ready for it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Pid, getppid, kill_process};

use crate::exit::{NOT_EXECUTABLE, NOT_FOUND, SYSTEM, USAGE, say};

/// The first argument of a shim.
pub(crate) const SHIM: &str = "@become";

/// The executable of this command.
pub(super) fn this() -> std::io::Result<Command> {
    // This path works even after an upgrade has replaced the file.
    #[cfg(target_os = "linux")]
    let this = "/proc/self/exe";
    #[cfg(not(target_os = "linux"))]
    let this = std::env::current_exe()?;
    Ok(Command::new(this))
}

/// A command that becomes `program`, in a process group of its own. On Linux it dies with this thread. Start it with
/// [`start`].
pub(crate) fn command(program: &[OsString]) -> std::io::Result<Command> {
    let mut command = this()?;
    let parent = std::process::id().to_string();
    command.args([SHIM, &*parent]).args(program);
    command.process_group(0);
    Ok(command)
}

/// Starts a shim. It becomes its program after [`release`], not before.
pub(crate) fn start(shim: &mut Command) -> std::io::Result<Child> {
    // The shim inherits the blocked signal, so a signal that comes before the shim listens stays pending.
    let before = word().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let child = shim.spawn();
    let _ = before.thread_set_mask();
    child
}

/// Lets a shim become its program.
pub(crate) fn release(shim: Pid) {
    // The error is ignored: if the shim has already ended, that is noticed when it is reaped.
    let _ = kill_process(shim, rustix::process::Signal::CONT);
}

/// The signal that a shim waits for. It is harmless if another process receives it by mistake.
fn word() -> SigSet {
    SigSet::from(Signal::SIGCONT)
}

/// Runs a shim. Its arguments are the parent, the program, and the program's arguments.
pub(crate) fn become_program(mut words: impl Iterator<Item = OsString>) -> u8 {
    let parent = words.next().and_then(|word| word.into_string().ok());
    let parent = parent.and_then(|word| word.parse().ok());
    let Some(parent) = parent.and_then(Pid::from_raw) else {
        say("this is internal: start programs with `lockkeeper run`");
        return USAGE;
    };
    let Some(program) = words.next() else {
        return USAGE;
    };
    if let Err(error) = die_with(parent).and_then(|()| await_word()) {
        say(&format!("could not tie the program to its lock: {error}"));
        return SYSTEM;
    }
    let error = Command::new(&program).args(words).exec();
    let program = program.to_string_lossy();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            // The user may have expected a shell, as with `-c`.
            let hint = match program.contains(char::is_whitespace) {
                true => "; no shell is involved: to use one, write -- sh -c '…'",
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

/// Makes this process die with its parent, which may have ended already.
fn die_with(parent: Pid) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(std::io::Error::other(
            "the command that started it has ended",
        ))
    }
}

/// Waits for the signal. On systems that do not report the end of the parent, the wait may never end, and the program does not
/// run.
fn await_word() -> std::io::Result<()> {
    word().wait()?;
    // The program must be able to receive it again.
    Ok(word().thread_unblock()?)
}
