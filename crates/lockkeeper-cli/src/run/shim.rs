//! The moment between this command and the program: a copy of this command that ties its life to the first one's, waits for
//! its word, and then becomes the program. It exists so that no unsafe code runs between fork and exec, and so that nothing
//! of the program runs before everything is ready for it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Pid, getppid, kill_process};

use crate::exit::{NOT_EXECUTABLE, NOT_FOUND, SYSTEM, USAGE, say};

/// The first word of the command line of a shim.
pub(crate) const SHIM: &str = "@become";

/// This command once more.
pub(super) fn this() -> std::io::Result<Command> {
    // By this name it is found also after an upgrade has replaced the file.
    #[cfg(target_os = "linux")]
    let this = "/proc/self/exe";
    #[cfg(not(target_os = "linux"))]
    let this = std::env::current_exe()?;
    Ok(Command::new(this))
}

/// A command that becomes `program` in a process group of its own. It dies with this thread, on Linux. To be started by
/// [`start`].
pub(crate) fn command(program: &[OsString]) -> std::io::Result<Command> {
    let mut command = this()?;
    let parent = std::process::id().to_string();
    command.args([SHIM, &*parent]).args(program);
    command.process_group(0);
    Ok(command)
}

/// Starts a shim, which becomes its program at the word of [`release`] and not before.
pub(crate) fn start(shim: &mut Command) -> std::io::Result<Child> {
    // It inherits that the word is blocked: one that comes before it listens is kept for it.
    let before = word().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let child = shim.spawn();
    let _ = before.thread_set_mask();
    child
}

/// Lets a shim become its program.
pub(crate) fn release(shim: Pid) {
    // One that has ended meanwhile is found when it is buried.
    let _ = kill_process(shim, rustix::process::Signal::CONT);
}

/// What a shim waits for. Whoever sends it by chance ends nobody.
fn word() -> SigSet {
    SigSet::from(Signal::SIGCONT)
}

/// What a shim does with the words behind its name: the parent, the program, its arguments.
pub(crate) fn become_program(mut words: impl Iterator<Item = OsString>) -> u8 {
    let parent = words.next().and_then(|word| word.into_string().ok());
    let parent = parent.and_then(|word| word.parse().ok());
    let Some(parent) = parent.and_then(Pid::from_raw) else {
        say("a program is started by `lockkeeper run`");
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

/// Where nothing tells a process of its parent's end, this may be waited for in vain; nothing of the program runs then.
fn await_word() -> std::io::Result<()> {
    word().wait()?;
    // The program is to hear it again.
    Ok(word().thread_unblock()?)
}
